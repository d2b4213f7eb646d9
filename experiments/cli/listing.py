"""``tutti list``: the methods, networks and solvers that there are. ``tutti topology``: one network.

A network is described by its hosts, declared or inferred (`topologies.graphs.grid_structure`), and by its
*tiers*, the links of one bandwidth and α. Then follow the links of each rank, the ranks that automorphisms
take to each other, and the proven bounds at a few sizes.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import accumulate, product
from typing import Any

import numpy as np

from tutti.experiments.cli.commands import ListCommand, TopologyCommand
from tutti.experiments.cli.output import SHOWN, console, print_fields, print_json, print_table
from tutti.experiments.cli.parser import make_parser
from tutti.experiments.printable import remark, say
from tutti.experiments.registry import METHODS
from tutti.models.bounds import best_bound
from tutti.schedules.collective import KINDS, Kind, collective
from tutti.schedules.method import Problem
from tutti.topologies.errors import InputError, NoSchedule
from tutti.topologies.exact import Int64Array, json_number
from tutti.topologies.graphs.grid_structure import Hosts, UnevenHosts, grid_of, hosts_of, runs, uneven_hosts
from tutti.topologies.graphs.symmetry import automorphisms
from tutti.topologies.importing.formats import FORMATS
from tutti.topologies.options import describe_options
from tutti.topologies.text import FAMILIES, parse_topology
from tutti.topologies.topology import Topology
from tutti.topologies.units import (
    GIGA,
    MICRO,
    duration,
    format_bandwidth,
    format_size,
    format_time,
    parse_size,
    throughput,
)

BOUNDED = (Kind.ALLGATHER, Kind.ALLREDUCE, Kind.ALL_TO_ALL)
"""Collectives whose bounds ``tutti topology`` shows."""


COLUMN = 20
"""The least width of a column but the first, in characters. With a larger value, fewer columns fit."""


def do_list(arguments: ListCommand) -> None:
    """Print what there is of it; without a word, the words."""
    if arguments.what is None:
        make_parser().commands["list"].print_help()
        return
    chosen = [name for name in ("collective", "network") if getattr(arguments, name) is not None]
    if chosen and arguments.what != "methods":
        raise InputError(f"--{chosen[0]} goes with tutti list methods, not {arguments.what}")
    found = {"methods": _methods, "topologies": _topologies, "solvers": _solvers}[arguments.what]
    if not (documents := list(found(arguments))):
        raise NoSchedule(f"no method does {arguments.collective or 'any collective'} on {arguments.network}")
    if arguments.json:
        print_json(*documents)
        return
    columns = [*zip(documents[0], *(map(_cell, document.values()) for document in documents), strict=True)]
    widths = [max(len(str(text)) for text in column) for column in columns]
    ends = accumulate(1 + min(width, COLUMN if number else width) for number, width in enumerate(widths))
    fit = max(1, bisect_left([*ends], console().width))
    head, *rows = zip(*columns[:fit], strict=True)
    print_table("", head, rows)
    if fit < len(columns):
        remark(f"a wider screen also shows {', '.join([*documents[0]][fit:])}; --json shows all")


def _methods(arguments: ListCommand) -> Iterator[dict[str, Any]]:
    """Yield what there is to say of each method that does the collective asked for on the network."""
    network = parse_topology(arguments.network or "complete:2")
    kinds = KINDS if arguments.collective is None else (arguments.collective,)
    problems = [Problem(network, collective(kind, network.num_ranks)) for kind in kinds]
    for method in METHODS.values():
        able, options, anywhere = method.capabilities, method.options(), arguments.network is None
        does = (
            p.collective.kind in able.collectives if anywhere else not method.refusal(p, options)
            for p in problems
        )
        if not any(does):
            continue
        yield {
            "name": method.name,
            "summary": method.summary,
            "collectives": [str(kind) for kind in KINDS if kind in able.collectives],
            "networks": [f"needs {need}" for need in able.needs] or ["any"],
            "data": [
                able.groups.value,
                f"{'uneven' if able.uneven_shards else 'equal'} shards",
                *(["several kinds at once"] if Kind.MIXED in able.collectives else []),
            ],
            "exact_for": method.exactness(options),
            "kind": method.kind,
            "options": describe_options(method),
            "seeded": method.seeded,
        }


def _topologies(_: ListCommand) -> Iterator[dict[str, Any]]:
    every: list[Any] = [*FAMILIES.values(), *FORMATS.values()]
    for one in every:
        form = ":".join(filter(None, (one.name, getattr(one, "form", "FILE"))))
        yield {"name": one.name, "summary": one.summary, "example": one.example, "form": form}


def _solvers(_: ListCommand) -> Iterator[dict[str, Any]]:
    from tutti.models.solvers import known_solvers

    for solver in known_solvers():
        lacking = [] if solver.installed else [f"{solver.name}: {solver.install}"]
        yield {
            "name": solver.name,
            "installed": solver.installed,
            "version": solver.version,
            "features": sorted(map(str, solver.features_here)),
            "missing": lacking + [f"{extra.feature}: {extra.install}" for extra in solver.missing],
        }


def _cell(value: object) -> object:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return " ".join(f"{name}={text}" for name, text in value.items())
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(map(str, value))
    return value


def do_topology(arguments: TopologyCommand) -> None:
    """Print what there is to say of a network."""
    sizes = [parse_size(word.strip()) for word in arguments.sizes.split(",")]
    topology = parse_topology(arguments.topology)
    bounds: list[dict[str, Any]] = []
    for kind, size in product(BOUNDED, sizes if topology.num_ranks <= SHOWN.bounded else []):
        bound = best_bound(topology, collective(kind, topology.num_ranks), size)
        known = {"collective": str(kind), "size_bytes": json_number(size)}
        bounds.append(known | {"time_s": float(bound.time(size)), "kind": bound.kind})
    (print_json if arguments.json else _print_network)({**description(topology), "bounds": bounds})


def description(topology: Topology) -> dict[str, Any]:
    """Return hosts, tiers of links, classes and orbits of ranks, ready for JSON.

    Bandwidths are in bytes/s and α in seconds, exact. The keys are those of ``tutti topology --json``.
    """
    equal = hosts_of(topology, infer=True)
    grid = grid_of(topology, equal)
    hosts = uneven_hosts(topology) or equal
    members = () if isinstance(hosts, str) else hosts.ranks if isinstance(hosts, Hosts) else hosts.members
    tier, tiers = _tiers(topology, hosts)
    orbits = automorphisms(topology).node_orbits[: topology.num_ranks]
    return {
        "topology": topology.name,
        "ranks": topology.num_ranks,
        "switches": topology.num_switches,
        "links": topology.num_links,
        "multicast": sorted(topology.multicast),
        "aggregate": sorted(topology.aggregate),
        "dimensions": None if grid is None or grid.hosts is not None else str(grid),
        "notation": None if topology.expression is None else str(topology.expression),
        "hosts": [ranks.tolist() for ranks in members] or None,
        "hosts_inferred": isinstance(hosts, Hosts) and hosts.inferred,
        "no_hosts": hosts if isinstance(hosts, str) else None,
        "tiers": tiers,
        "ranks_by_links": _by_links(topology, tier),
        "orbits": [np.flatnonzero(orbits == least).tolist() for least in np.unique(orbits)],
        "notes": list(topology.notes),
    }


def _tiers(topology: Topology, hosts: Hosts | UnevenHosts | str) -> tuple[Int64Array, list[dict[str, Any]]]:
    """Return the tier of each link, and the list of tiers, the fastest first."""
    values = np.stack([-topology.bandwidth.numerators, topology.alpha.numerators])
    _, first, tier = np.unique(values, axis=1, return_index=True, return_inverse=True)
    tier = tier.reshape(-1)
    home = np.full(topology.num_nodes, -1) if isinstance(hosts, str) else hosts.of
    inside = (home[topology.source] == home[topology.target]) & (home[topology.source] >= 0)
    switched = np.maximum(topology.source, topology.target) >= topology.num_ranks
    return tier, [
        {
            "bandwidth": json_number(topology.bandwidth[link]),
            "alpha": json_number(topology.alpha[link]),
            "links": int((tier == number).sum()),
            "between_ranks": int(((tier == number) & ~switched).sum()),
            "inside_hosts": int(((tier == number) & inside).sum()),
        }
        for number, link in enumerate(first)
    ]


def _by_links(topology: Topology, tier: Int64Array) -> list[dict[str, Any]]:
    """Return the classes of ranks with equal numbers of links of each tier, end kind and direction."""
    ranks, count = topology.num_ranks, int(tier.max()) + 1
    ways = []
    for own, far in ((topology.source, topology.target), (topology.target, topology.source)):
        kind = (own.astype(np.int64) * 2 + (far >= ranks)) * count + tier
        ways.append(np.bincount(kind[own < ranks], minlength=ranks * 2 * count).reshape(ranks, 2, count))
    table = np.stack(ways, axis=1)  # axes: rank; out, in; to a rank, to a switch; tier
    _, first, which = np.unique(table.reshape(ranks, -1), axis=0, return_index=True, return_inverse=True)
    return [
        {
            "ranks": np.flatnonzero(which.reshape(-1) == kind).tolist(),
            "out": _entries(table[first[kind], 0]),
            "in": _entries(table[first[kind], 1]),
            "egress": json_number(topology.egress[first[kind]]),
            "ingress": json_number(topology.ingress[first[kind]]),
        }
        for kind in np.argsort(first)
    ]


def _entries(table: Int64Array) -> list[dict[str, Any]]:
    """Return a table (to a rank, to a switch; tier) of numbers of links as a list of its entries."""
    return [
        {"tier": int(tier), "to": ("rank", "switch")[where], "links": int(table[where, tier])}
        for tier, where in np.argwhere(table.T)
    ]


def _print_network(document: Mapping[str, Any]) -> None:
    tiers, ranks, switches = document["tiers"], document["ranks"], document["switches"]
    joined = f", {switches} switch{'es' * (switches > 1)}" if switches else ""
    words = [word for word in ("multicast", "aggregate") if document[word]]
    able = [f", {len(document[word])} that can {word}" for word in words]
    print_fields(
        {
            "network": document["topology"],
            "nodes": f"{ranks} ranks{joined}{''.join(able)}",
            "links": f"{document['links']}, one way each",
            "dimensions": document["dimensions"],
            "notation": document["notation"],
            "hosts": _hosts(document),
            "equivalent": _orbits(document),
        }
    )
    rows: list[list[object]] = []
    for number, tier in enumerate(tiers, start=1):
        rate, alpha = format_bandwidth(Fraction(tier["bandwidth"])), format_time(Fraction(tier["alpha"]))
        inside = tier["inside_hosts"] if document["hosts"] else None
        rows.append([number, rate, alpha, tier["links"], tier["between_ranks"], inside])
    print_table("", ["tier", "bandwidth", "alpha", "links", "between ranks", "inside hosts"], rows)
    classes, most = document["ranks_by_links"], SHOWN.members
    rows = [
        [runs(one["ranks"]), *(_has(one, side, tiers) for side in ("out", "in"))] for one in classes[:most]
    ]
    if len(classes) > most:
        rows.append([f"{len(classes) - most} kinds more", "--json has them", ""])
    print_table("", ["rank", "links out", "links in"], rows)
    rows = []
    for name in dict.fromkeys(bound["collective"] for bound in document["bounds"]):
        own = [bound for bound in document["bounds"] if bound["collective"] == name]
        rows.append([name, *(f"{duration(one['time_s'] * MICRO)} ({one['kind']})" for one in own)])
    if rows:
        sizes = dict.fromkeys(format_size(Fraction(bound["size_bytes"])) for bound in document["bounds"])
        print_table("", ["at least", *sizes], rows)
    else:
        say(f"bounds: left out, for over {SHOWN.bounded} ranks; tutti bound finds those of a collective")
    for note in document["notes"]:
        console().print(f"note: {note}", soft_wrap=True)


def _hosts(document: Mapping[str, Any]) -> str:
    if (hosts := document["hosts"]) is None:
        return f"none: the network {document['no_hosts']}"
    inferred = "; inferred from the links" if document["hosts_inferred"] else ""
    each = "; ".join(map(runs, hosts[: SHOWN.members])) + "; ..." * (len(hosts) > SHOWN.members)
    if len(sizes := sorted({len(ranks) for ranks in hosts})) > 1:
        return f"{len(hosts)} of unequal size, {sizes[0]} to {sizes[-1]} ranks ({each})"
    return f"{len(hosts)} of {len(hosts[0])} ranks each ({each}){inferred}"


def _orbits(document: Mapping[str, Any]) -> str:
    """Return which ranks automorphisms take to each other."""
    if len(orbits := document["orbits"]) == 1:
        return "all ranks: some automorphism takes any rank to any other"
    if len(orbits) == document["ranks"]:
        return "no two ranks"
    each = "; ".join(map(runs, orbits[: SHOWN.members])) + "; ..." * (len(orbits) > SHOWN.members)
    return f"{len(orbits)} orbits: {each}"


def _has(kind: Mapping[str, Any], side: str, tiers: list[Mapping[str, Any]]) -> str:
    """Return the links that leave the ranks of a class, or enter them, and their total bandwidth."""
    if side == "in" and kind["in"] == kind["out"]:
        return "the same"
    words = [
        f"{one['links']} x {format_bandwidth(Fraction(tiers[one['tier']]['bandwidth']))} "
        f"{'to' if side == 'out' else 'from'} {one['to']}{'es' if one['to'] == 'switch' else 's'}"
        for one in kind[side]
    ]
    total = Fraction(kind["egress" if side == "out" else "ingress"])
    return f"{', '.join(words)}: {throughput(float(total / GIGA))}"
