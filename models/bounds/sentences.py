"""Sentences that say what a certificate proves, one for each kind of proof."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from tutti.models.bounds.bottleneck_cut import exit_bandwidth
from tutti.topologies.exact import json_number
from tutti.topologies.graphs.grid_structure import runs
from tutti.topologies.topology import Topology
from tutti.topologies.units import GIGA, MICRO, duration, format_time, short, throughput

Words = Mapping[str, Any]
"""A certificate."""


class MostShown(NamedTuple):
    """Limits on the length of a sentence. Larger values make longer lines."""

    value: int
    """Largest number of characters of a value in a certificate of a kind without a sentence."""
    path: int
    """Largest number of nodes of a path that is written out."""


MOST = MostShown(value=40, path=8)


def sentence(kind: str, certificate: Words, topology: Topology) -> str:
    """Return the sentence for a certificate; `kind` is that of `models.bounds.Bound`.

    Examples
    --------
    >>> from tutti.topologies.text import parse_topology
    >>> rank = {"node": 0, "direction": "in", "share": "3/4", "bandwidth": 200_000_000_000}
    >>> sentence("degree", rank, parse_topology("ring:4"))
    '3/4 of M must enter rank 0, whose links in carry 200 GB/s'
    """
    if kind in SENTENCES:
        return SENTENCES[kind](certificate, topology)
    texts = {name: str(value) for name, value in certificate.items()}
    cut = {name: text[: MOST.value] + "..." * (len(text) > MOST.value) for name, text in texts.items()}
    return ", ".join(f"{name} {text}" for name, text in cut.items())


def _crossing(what: Words, topology: Topology) -> str:
    """Return what must leave a set of nodes, or enter the others if those are fewer."""
    bandwidth = what.get("exit_bandwidth", what.get("bandwidth"))
    if "ranks" not in what:
        side, inward = [what["node"]], what["direction"] == "in"
    else:
        inside = [*what["ranks"], *what["switches"]]
        outside = sorted(set(range(topology.num_nodes)) - set(inside))
        inward = len(outside) < len(inside)
        side = outside if inward else inside
    verb, way = ("enter", "in") if inward else ("leave", "out")
    exact = Fraction(what["share"])
    share = "all of M" if exact == 1 else f"{exact} M" if exact > 1 else f"{exact} of M"
    return f"{share} must {verb} {_nodes(side, topology)}, whose links {way} carry {_rate(bandwidth)}"


def _far(what: Words) -> str:
    """Return how far the data that a combined bound counts has to go."""
    alpha = format_time(Fraction(what["h"]))
    if "node" not in what:
        return f"; every path across has {alpha} of alpha or more"
    inward, over_cut = what["direction"] == "in", "ranks" in what
    ends = f" {'for' if inward else 'from'} rank {what['node']}" if over_cut else ""
    return f",{ends} {'from' if inward else 'to'} {alpha} of alpha or more away"


def _distance(what: Words, topology: Topology) -> str:
    path: Sequence[int] = what["path"]
    shown = "-".join(map(str, path)) if len(path) <= MOST.path else f"of {len(path) - 1} links"
    ends = f"from rank {what['from']} to {what['to']}"
    return f"{ends} no path has less alpha than {shown}: {format_time(Fraction(what['alpha']))}"


def _message_count(what: Words, topology: Topology) -> str:
    needs = "needs can't all have arrived" if _in(what) else "starts with can't all have been delivered"
    which = "some rank can't have data of all others" if what["heard"] else f"what some rank {needs}"
    return f"{which} before {_time(what)}, as a message costs alpha and holds only what its sender had"


def _partition(what: Words, topology: Topology) -> str:
    parts: Sequence[Sequence[int]] = what["parts"]
    single = all(len(part) == 1 for part in parts)
    between = f"the {len(parts)} ranks" if single else f"{len(parts)} parts like {_nodes(parts[0], topology)}"
    carry = f"whose links {what['direction']} together carry {_rate(what['capacity'])}"
    return f"2(k - 1) transfers between {between}, {Fraction(what['transfers'])} M in all, {carry}"


def _lengths(what: Words, topology: Topology) -> str:
    """Return which links are the bottleneck of a flow: those of a cut, or those with a length."""
    count, every = len(what["links"]), topology.num_links
    if "cut" in what:
        inside = [*what["cut"]["ranks"], *what["cut"]["switches"]]
        members = np.isin(np.arange(topology.num_nodes), inside)
        rate = _rate(json_number(exit_bandwidth(topology, members)))
        return f"the links out of {_nodes(inside, topology)} are the bottleneck; they carry {rate}"
    which = f"all {every} links are" if count == every else f"{count} of {every} links are"
    distance, capacity = (Fraction(what[name]) / max(what["lengths"]) for name in ("distance", "capacity"))
    need = f"routes need {short(float(distance))} M of them, and they carry {_rate(capacity)}"
    return f"{which} the bottleneck: weighed by length, {need}"


def _weights(what: Words, topology: Topology) -> str:
    """Return what proves the bound of the allreduce LP."""
    unit = max(cut["weight"] for cut in what["cuts"])
    crossed, capacity = (Fraction(what[name]) / unit for name in ("crossed", "capacity"))
    across = f"all data crosses {short(float(crossed))} M, and the links across carry {_rate(capacity)}"
    attained = "attained" if what["attained"] else "not known to be attained"
    everyone = "; the partition bound is as large" if "partition" in what else ""
    return f"of {len(what['cuts'])} weighted cuts {across}; {attained}{everyone}"


SENTENCES: Mapping[str, Callable[[Words, Topology], str]] = {
    "cut": _crossing,
    "degree": _crossing,
    "combined": lambda what, topology: _crossing(what, topology) + _far(what),
    "distance": _distance,
    "partition": _partition,
    "mcf": _lengths,
    "lp": _weights,
    "message_count": _message_count,
    "broadcast_growth": lambda what, _: (
        f"rank {what['node']} can't have {'data of' if _in(what) else 'its data at'} all "
        f"{what['needed']} before {format_time(what['ticks'] * Fraction(what['tick']))}, "
        "as a message holds each link for its alpha"
    ),
    "cut_gossip": lambda what, topology: (
        f"{_nodes([*what['ranks'], *what['switches']], topology)} can't have all they need before "
        f"{_time(what)}, as a message holds only what its sender had"
    ),
    "first_hop": lambda what, topology: (
        f"{_nodes([what['node']], topology)} can't have {'' if _in(what) else 'sent '}all before "
        f"{_time(what)}, as a link with more than a neighbour's own pays alpha twice"
    ),
    "unicast_price": lambda what, _: (
        f"not all data can have arrived before {_time(what)}, "
        "as a link that relays data waits for it or pays alpha again"
    ),
    "multicast_price": lambda what, _: (
        f"not all data can have been {'received' if _in(what) else 'reduced'} before {_time(what)}, "
        "by dual prices of a linear program over time"
    ),
    "path_price": lambda what, _: (
        f"no schedule can serve {len(what['pairs'])} pairs of ranks before {_time(what)}, "
        "by dual prices of messages over their whole routes"
    ),
    "partition_latency": lambda what, _: (
        f"transfers between {len(what['parts'])} parts take {_time(what)}, "
        "as a link pays alpha again where these wait"
    ),
}
"""The sentence for a certificate, by the kind of its bound. For any other kind, such as one of a plug-in, the
names and values of the certificate are written out."""


def _in(what: Words) -> bool:
    return what["direction"] == "in"


def _time(what: Words) -> str:
    """Return the time that a certificate proves, which it gives in seconds or in ticks."""
    if "time" in what:
        exact = Fraction(what["time"])
    else:
        exact = Fraction(int(what["ticks"]), int(what.get("parts", 1))) * Fraction(what["tick"])
    return duration(float(exact * MICRO))


def _nodes(nodes: Sequence[int], topology: Topology) -> str:
    ranks = sorted(node for node in nodes if node < topology.num_ranks)
    switches = sorted(node for node in nodes if node >= topology.num_ranks)
    return " and ".join(
        f"{one} {group[0]}" if len(group) == 1 else f"the {len(group)} {many} [{runs(group)}]"
        for group, one, many in ((ranks, "rank", "ranks"), (switches, "switch", "switches"))
        if group
    )


def _rate(bandwidth: str | int | Fraction) -> str:
    return throughput(float(Fraction(bandwidth) / GIGA))
