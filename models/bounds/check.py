"""The check of any certificate: what it proves is recomputed from the network and the items alone.

The short proofs are in this file. Each longer one has a module ``check_*`` beside its finder, which shares no
code with it. The page ``docs/proofs.md`` states what each kind claims and proves it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from tutti.models.bounds.certificate import (
    MOST_TICKS,
    Certificate,
    Item,
    Reachability,
    all_distances,
    bandwidth_out,
    check_one_to_one,
    dijkstra,
    exact,
    inside_of,
    inward,
    items_of,
    links_of,
    share_out,
    shortest_path,
    strengthened,
)
from tutti.models.bounds.check_cut_gossip import prove_cut_gossip
from tutti.models.bounds.check_message_count import prove_message_count
from tutti.models.bounds.check_multicast_price import prove_multicast_price
from tutti.models.bounds.check_path_price import prove_path_price
from tutti.models.bounds.check_unicast_price import prove_unicast_price
from tutti.schedules.collective import Collective
from tutti.topologies.errors import InputError
from tutti.topologies.exact import INT64_MAX, IntArray
from tutti.topologies.topology import Topology

Proof = Callable[[Certificate, Topology, Collective], Fraction]
"""Recomputes a bound from its certificate, the network and the collective alone."""

_STARTS_AT_ONCE = 64
"""Number of rows of distances that the check of `mcf` holds at a time."""
_SINGLE, _WAITING = 4, 10
"""Largest number of single transfers of a byte, and from which T on, in units of α, the proof of
`partition_latency` may count so."""


def prove_cut(certificate: Certificate, topology: Topology, collective: Collective) -> Fraction:
    """Return the bound that a certificate of the kind ``cut`` or ``degree`` proves.

    T ≥ M · (shares out of a set of nodes) / (its bandwidth out). A rank alone, or everything but it, is the
    set of a ``degree`` certificate.
    """
    inside = inside_of(certificate, topology)
    share = share_out(collective, inside)
    return share / bandwidth_out(topology, inside) if share else Fraction(0)


def prove_partition(certificate: Certificate, topology: Topology, collective: Collective) -> Fraction:
    """Return the bound that a certificate of the kind ``partition`` proves.

    An allreduce needs 2(k - 1) transfers between k parts for each byte.
    """
    shares: defaultdict[tuple[frozenset[int], bool], Fraction] = defaultdict(Fraction)
    for item in items_of(collective):
        shares[item.starts | item.ends, _is_sum(item)] += item.share
    if not any(twice for _, twice in shares):
        raise InputError(f"partition bound: it holds for allreduce, not for {collective}")
    parts, capacity, _ = _partition(certificate, topology)
    transfers = Fraction(0)
    for (ranks, twice), share in shares.items():
        transfers += share * (1 + twice) * (sum(not part.isdisjoint(ranks) for part in parts) - 1)
    return transfers / capacity


def prove_partition_latency(certificate: Certificate, topology: Topology, collective: Collective) -> Fraction:
    """Return the bound that a certificate of the kind ``partition_latency`` proves.

    Nearly all transfers between parts in an allreduce wait for another, or another waits for them.
    """
    size, time = exact(certificate, "size_bytes", "time")
    parts, capacity, alpha = _partition(certificate, topology)
    single = every = Fraction(0)
    for item in filter(_is_sum, items_of(collective)):
        count = 2 * (sum(not part.isdisjoint(item.starts) for part in parts) - 1)
        every += size * item.share * count
        single += size * item.share * min(_SINGLE, count)
    plain = every / capacity + alpha
    if not every or not alpha or size <= 0:
        raise InputError(
            f"partition_latency bound: it holds for allreduce and where messages cost, not for {collective}"
        )
    if time > plain:
        if plain < _WAITING * alpha:
            raise InputError(f"partition_latency bound: all transfers may end before {_WAITING} α")
        if (every - single) / (time - 2 * alpha) + single / (time - alpha) < capacity:
            raise InputError("partition_latency bound: the transfers do not take so long")
    return time


def _is_sum(item: Item) -> bool:
    """Whether all ranks of a group add to the item, and all need it."""
    return item.starts == item.ends and len(item.starts) > 1


def _partition(
    certificate: Certificate, topology: Topology
) -> tuple[list[frozenset[int]], Fraction, Fraction]:
    """Return the parts, the bandwidth out of (or into) them, and the least α of a link between them."""
    parts = [frozenset(part) for part in certificate["parts"]]
    nodes = [node for part in parts for node in part]
    left = set(range(topology.num_nodes)) - set(nodes)
    able = (topology.multicast | topology.aggregate) & left
    if len(nodes) != len(set(nodes)) or any(node < topology.num_ranks for node in left) or able:
        raise InputError("partition bound: parts must be disjoint and hold all ranks and all able switches")
    part_of = {node: index for index, part in enumerate(parts) for node in part}
    capacity, alphas = Fraction(0), set[Fraction]()
    for link in links_of(topology):
        if part_of.get(link.source) != part_of.get(link.target):
            alphas.add(link.alpha)
            if (link.source if certificate["direction"] == "out" else link.target) in part_of:
                capacity += link.bandwidth
    return parts, capacity, min(alphas)


def prove_mcf(certificate: Certificate, topology: Topology, collective: Collective) -> Fraction:
    """Return the bound that a certificate of the kind ``mcf`` proves, by the dual of linear program (A.1).

    T ≥ M · Σ share · distance / Σ length · bandwidth, for any lengths of links, where each item goes from one
    rank to one rank.
    """
    lengths: list[int] = certificate["lengths"]
    whole = all(isinstance(length, int) and length >= 0 for length in lengths)
    if len(lengths) != topology.num_links or not whole or not any(lengths):
        raise InputError("mcf bound: lengths must be whole numbers, one a link, not negative, nor all 0")
    check_one_to_one("mcf", collective)
    items, moved = collective.items, 0
    for starts in np.array_split(np.unique(items.start), -(-topology.num_ranks // _STARTS_AT_ONCE)):
        rows = np.flatnonzero(np.isin(items.start, starts))
        relaxed = _relaxed(topology, lengths, starts)
        distance = relaxed[np.searchsorted(starts, items.start[rows]), items.end[rows]]
        for share in np.unique(items.share.numerators[rows]).tolist():
            alike = distance[items.share.numerators[rows] == share]
            small = len(alike) * sum(lengths) < INT64_MAX
            moved += share * (int(alike.sum()) if small else sum(alike.tolist()))
    offered = sum(b * length for b, length in zip(topology.bandwidth, lengths, strict=True))
    return Fraction(moved, items.share.denominator) / offered


def _relaxed(topology: Topology, lengths: Sequence[int], starts: IntArray) -> npt.NDArray[Any]:
    """Return numbers d (starts, nodes), 0 at its start, with d(v) ≤ d(u) + l for every link (u, v).

    So d(v) is at most the length of any path to v, added up along it: that is all the bound needs.
    """
    fits = sum(lengths) < INT64_MAX // 4
    order = np.argsort(topology.target, kind="stable")
    heads, first = np.unique(topology.target[order], return_index=True)
    tails, ways = topology.source[order], np.array(lengths, dtype=np.int64 if fits else object)[order, None]
    d = np.full((topology.num_nodes, len(starts)), sum(lengths) + 1, dtype=ways.dtype)
    d[starts, np.arange(len(starts))] = 0
    while True:
        known, through = d[heads], np.minimum.reduceat(d[tails] + ways, first)
        if (known <= through).all():
            return d.T
        d[heads] = np.minimum(known, through)


def prove_lp(certificate: Certificate, topology: Topology, collective: Collective) -> Fraction:
    """Return the bound that a certificate of the kind ``lp`` proves, by the dual of linear program (B.5).

    These are weighted cuts that an allreduce over trees must cross, over what links offer.
    """
    everyone = frozenset(range(topology.num_ranks))
    if any(item.starts != everyone or item.ends != everyone for item in items_of(collective)):
        raise InputError(f"lp bound: it is for an allreduce of all ranks, not for {collective}")
    lengths: list[int] = certificate["lengths"]
    sides = [(cut["direction"], cut["weight"], frozenset(cut["ranks"])) for cut in certificate["cuts"]]
    numbers = [*lengths, *(weight for _, weight, _ in sides)]
    if len(lengths) != topology.num_links or any(not isinstance(n, int) or n < 0 for n in numbers):
        raise InputError("lp bound: lengths, one a link, and weights must be whole numbers, none negative")
    if any(not side < everyone for _, _, side in sides):
        raise InputError("lp bound: each cut must hold some of the ranks, but not all")
    for rank in everyone:
        distance = dijkstra(topology, rank, lengths=lengths)[0]
        for other in everyone - {rank}:
            out = sum(w for way, w, side in sides if way == "out" and rank in side and other not in side)
            into = sum(w for way, w, side in sides if way == "in" and other in side and rank not in side)
            if max(out, into) > distance[other]:
                raise InputError(f"lp bound: cuts between {rank} and {other} weigh more than the distance")
    least = min(sum(weight for _, weight, side in sides if rank in side) for rank in everyone)
    value = least / sum(b * length for b, length in zip(topology.bandwidth, lengths, strict=True))
    anyone = certificate["scope"] == "any schedule"
    if anyone and prove_partition(certificate["partition"], topology, collective) < value:
        raise InputError("lp bound: the partition does not prove it for any schedule")
    return value


def prove_distance(certificate: Certificate, topology: Topology, collective: Collective) -> Fraction:
    """Return the bound that a certificate of the kind ``distance`` proves: the α's of a path."""
    origin, goal = certificate["from"], certificate["to"]
    if not any(origin in item.starts and goal in item.ends for item in items_of(collective) if item.share):
        raise InputError(f"distance bound: no item of {collective} goes from {origin} to {goal}")
    return shortest_path(topology, origin, goal)[0]


def prove_combined(certificate: Certificate, topology: Topology, collective: Collective) -> Fraction:
    """Return the bound that a certificate of the kind ``combined`` proves.

    It is the α's of a path, and what leaves a set in the rest of the time.
    """
    inside, (size, h) = inside_of(certificate, topology), exact(certificate, "size_bytes", "h")
    outside = frozenset(range(topology.num_ranks)) - inside
    least = h * topology.alpha.denominator
    if "node" in certificate:
        node, into = certificate["node"], certificate["direction"] == "in"
        if (node in inside) == into:
            raise InputError(f"combined bound: node {node} is on the wrong side of its cut")
        ways, items = inward(certificate, topology, collective)
        distance = dijkstra(ways, node, backwards=True)[0]
        far = frozenset(v for v in (inside if into else outside) if distance[v] >= least)
        counted = (item for item in items if node in item.ends and not item.starts.isdisjoint(far))
        share = sum((item.share for item in counted), Fraction(0))
    else:  # every path from a rank inside to one outside must be that long
        rows = (dijkstra(topology, rank)[0] for rank in inside if rank < topology.num_ranks)
        near = any(row[end] < least for row in rows for end in outside)
        share = Fraction(0) if near else share_out(collective, inside)
    if not share:
        raise InputError(f"combined bound: no item of {collective} crosses at a distance of {h} s or more")
    return h + size * share / bandwidth_out(topology, inside)


def prove_first_hop(certificate: Certificate, topology: Topology, collective: Collective) -> Fraction:
    """Return the bound that a certificate of the kind ``first_hop`` proves.

    A link brings what its sender has itself, or pays α twice.
    """
    ways, items = inward(certificate, topology, collective)
    node, (size, time) = certificate["node"], exact(certificate, "size_bytes", "time")
    starts: defaultdict[int, Fraction] = defaultdict(Fraction)
    for item in items:
        if len(item.starts) == 1 and node in item.ends - item.starts:
            starts[min(item.starts)] += size * item.share
    brought, rises, links = Fraction(0), False, links_of(ways)
    for link in links:
        if link.target == node:
            first, own = link.bandwidth * (time - link.alpha), starts[link.source]
            before = min([other.alpha for other in links if other.target == link.source], default=link.alpha)
            most = max(min(own, first), first - link.bandwidth * min(link.alpha, before), Fraction(0))
            brought += most
            rises |= most > (own if first > own else 0)  # just before `time` the link may bring less
    needed = sum(starts.values(), Fraction(0))
    if brought > needed or (brought == needed and not rises):
        raise InputError(f"first_hop bound: rank {node} may have all before {time} s, or needs nothing")
    return time


def prove_broadcast_growth(certificate: Certificate, topology: Topology, collective: Collective) -> Fraction:
    """Return the bound that a certificate of the kind ``broadcast_growth`` proves."""
    node, outward, ticks = certificate["node"], certificate["direction"] == "out", int(certificate["ticks"])
    (tick,) = exact(certificate, "tick")
    if tick <= 0 or ticks > MOST_TICKS:
        raise InputError(
            f"broadcast_growth bound: {ticks} ticks of {tick} s; at most {MOST_TICKS} positive ones"
        )
    if type(node) is not int or not 0 <= node < topology.num_ranks:
        raise InputError(f"broadcast_growth bound: node {node} is not a rank")
    counted = {node}
    for item in items_of(collective):
        near, far = (item.starts, item.ends) if outward else (item.ends, item.starts)
        if item.share and node in near:
            counted |= far
    distances = all_distances(topology, backwards=not outward)
    reachable = Reachability(topology, distances, counted, tick, outward)
    # X never falls: it is too large at the end if it is so anywhere before
    if any(reachable.until(before)[node] >= len(counted) for before in range(1, ticks + 1)):
        raise InputError(
            f"broadcast_growth bound: all {len(counted)} may be reached before {ticks} ticks of {tick} s"
        )
    return ticks * tick


PROOFS: dict[str, Proof] = {
    "cut": prove_cut,
    "degree": prove_cut,
    "partition": prove_partition,
    "partition_latency": prove_partition_latency,
    "first_hop": prove_first_hop,
    "mcf": prove_mcf,
    "lp": prove_lp,
    "distance": prove_distance,
    "combined": prove_combined,
    "broadcast_growth": prove_broadcast_growth,
    "cut_gossip": prove_cut_gossip,
    "message_count": prove_message_count,
    "unicast_price": prove_unicast_price,
    "multicast_price": prove_multicast_price,
    "path_price": prove_path_price,
}
"""The proof of each kind of bound; `models.bounds.report.add_kind` adds those of plug-ins."""


REMOVED = {"chains": "0.2"}
"""Kinds of bounds that were removed, and the first version without each."""

OLD_NAMES = {
    "crossings": "cut_gossip",
    "deliveries": "multicast_price",
    "growth": "broadcast_growth",
    "itineraries": "path_price",
    "messages": "message_count",
    "neighbours": "first_hop",
    "relays": "unicast_price",
    "transfers": "partition_latency",
}
"""Names that kinds have in certificates from before version 0.2, and their names today."""


def current_kind(kind: str) -> str:
    """Return today's name of a kind of bounds, unless a plug-in's kind has the old name."""
    return kind if kind in PROOFS else OLD_NAMES.get(kind, kind)


def proven(kind: str, certificate: Certificate, topology: Topology, collective: Collective) -> Fraction:
    """Return what the certificate proves: s per byte of M, or s where the kind's bound has α's.

    Raises
    ------
    InputError
        If there is no such kind, or the certificate does not fit this problem.
    """
    kind = current_kind(kind)
    if kind not in PROOFS and kind in REMOVED:
        raise InputError(f"{kind} bound: no longer checked, since version {REMOVED[kind]}")
    if kind not in PROOFS:
        raise InputError(f"unknown kind of bound '{kind}'; allowed: {', '.join(PROOFS)}")
    # "able" lists switches that the finder let multicast and add: that only weakens a bound.
    return PROOFS[kind](certificate, strengthened(topology, certificate.get("able", ())), collective)
