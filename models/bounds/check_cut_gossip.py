"""The check of ``cut_gossip``: the most pairs of ranks that messages over a cut can serve by a time.

A message into a set of nodes has data of no more ranks than have reached its sender. `Crossing` counts tick
by tick. Proof: ``docs/proofs.md``, *cut_gossip*.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from functools import cached_property
from itertools import product
from math import ceil, lcm

import numpy as np

from tutti.models.bounds.certificate import (
    MOST_TICKS,
    Certificate,
    Item,
    Reachability,
    all_distances,
    entering_links,
    exact,
    inside_of,
    items_of,
)
from tutti.schedules.collective import Collective
from tutti.topologies.errors import InputError
from tutti.topologies.exact import Int64Array
from tutti.topologies.topology import Topology

PARTS = 2**42
"""Number of parts into which M is cut: what can be served is rounded up, what is needed down."""
MOST_RANKS = 1024
"""Largest number of ranks, so that sums fit 64 bits."""


class Crossing:
    """I and O of ``docs/proofs.md``, and the data that links serve.

    Parameters
    ----------
    topology
        The network.
    inside
        S.
    items
        The items that are moved.
    tick
        Seconds.

    Attributes
    ----------
    holders
        Ranks, and switches that copy or add.
    distance
        α-distances over α's denominator, from each node to each, -1 for none.
    needed
        The data of all pairs that S separates, in parts of M.
    sources, receivers
        The ranks whose data a node can have, and the ranks that can have its data.
    share
        The largest share of a pair, in parts of M.
    of_start, for_end
        Whether the data of a start is its own, and that of an end.
    own, due
        The data that each rank starts with, and ends with, if it is its own, in parts of M.
    """

    def __init__(
        self, topology: Topology, inside: frozenset[int], items: Sequence[Item], tick: Fraction
    ) -> None:
        self.topology, self.inside, self.tick = topology, inside, tick
        self.holders = frozenset(np.flatnonzero(topology.holders).tolist())
        shares: defaultdict[tuple[int, int], Fraction] = defaultdict(Fraction)
        for item in items:
            for pair in product(item.starts - inside, item.ends & inside):
                shares[pair] += item.share
        if not shares:
            raise InputError("cut_gossip bound: no item goes into the set")
        self.needed, self.share = sum(shares.values(), Fraction(0)), max(shares.values())
        self.distance = all_distances(topology)
        outer = frozenset[int]().union(*(item.starts for item in items)) - inside
        inner = frozenset[int]().union(*(item.ends for item in items)) & inside
        towards = list(zip(*self.distance, strict=True))
        self.sources = Reachability(topology, towards, outer, tick, outward=False)
        self.receivers = Reachability(topology, self.distance, inner, tick, outward=True)
        self.of_start = all(len(item.starts) == 1 for item in items)
        self.for_end = all(len(item.ends) == 1 for item in items)
        self.own = _alone(shares, 0, summed=self.for_end) if self.of_start else {}
        self.due = _alone(shares, 1, summed=self.of_start) if self.for_end else {}

    def serve(self, size: Fraction, parts: int, ticks: int) -> bool:
        """Return whether links can serve all pairs in that many ticks, each of which is cut in parts."""
        most, left = -(-PARTS * self.share.numerator // self.share.denominator), int(PARTS * self.needed)
        total, known, tick = 0, dict[object, int](), self.tick
        before = [(moment + 1) * tick / parts for moment in range(ticks + 1)]
        after = [(ticks - moment) * tick / parts for moment in range(ticks + 1)]
        came, goes = _Ports(self, size, before, into=True), _Ports(self, size, after, into=False)
        for link, count in Counter(entering_links(self.topology, self.inside)).items():
            before_tail = {node: self._ticks(node, link.source) for node in self.holders - self.inside}
            behind_head = {node: self._ticks(link.target, node) for node in self.holders}
            depend = [_largest(self.sources, before_tail, whole) for whole in range(ticks // parts + 1)]
            hear = [_largest(self.receivers, behind_head, whole) for whole in range(ticks // parts + 1)]
            starts = [depend[moment // parts] for moment in range(ticks + 1)]
            ends = [hear[(ticks - moment) // parts] for moment in range(ticks + 1)]
            brought = came.most(self.holders - self.inside, link.source, self.own)
            passed = goes.most(self.holders, link.target, self.due)
            moments = np.array(
                [starts, ends, *([min(part, left) for part in each] for each in (brought, passed))]
            )
            key = moments.tobytes(), link.alpha, link.bandwidth
            if key not in known:
                rate = link.bandwidth * PARTS / size
                lasting = [(number * tick / parts - link.alpha) * rate for number in range(1, ticks + 2)]
                room = np.array([max(0, min(left, -(-n.numerator // n.denominator))) for n in lasting])
                known[key] = self._most(moments, room, most, left)
            total += count * known[key]
        return total >= left

    def _most(self, moments: Int64Array, room: Int64Array, most: int, left: int) -> int:
        """Return what messages on a link serve, from the last moment at which one begins to the first."""
        ticks, (sources, receivers, brought, passed) = len(room), moments
        served = np.zeros(ticks + 1, dtype=np.int64)
        for begin in range(ticks - 1, -1, -1):
            i, o, had, later = int(sources[begin]), receivers[begin:], int(brought[begin]), passed[begin:]
            limit = most * (i if self.of_start else 1) * (o if self.for_end else np.int64(1))
            n = np.minimum(room[: ticks - begin], limit)
            n = np.minimum(n, had) if self.of_start else n
            n = np.minimum(n, later) if self.for_end else n
            first, last = np.minimum(n, had), np.minimum(n, later)
            # bytes of others and for others, of others alone, for others alone, and neither
            both = np.minimum(first, last)
            kinds = both, first - both, last - both, n - np.maximum(first, last)
            of, to = np.array(1 if self.of_start else i), np.array(1) if self.for_end else o
            values = of * to, of, to, np.array(1)
            each = [kind * value for kind, value in zip(kinds, values, strict=True)]
            worth = np.where((i > 0) & (o > 0), np.sum(each, axis=0), 0)
            together = np.where(worth > 0, np.minimum(left, worth + served[begin:ticks]), 0)
            served[begin] = max(served[begin + 1], int(together.max()))
        return int(served[0])

    def _ticks(self, tail: int, head: int) -> int:
        """Return the whole ticks of the path from node to node; -1 if there is none."""
        away = self.distance[tail][head]
        return int(away / (self.tick * self.topology.alpha.denominator)) if away >= 0 else -1


def _largest(reached: Reachability, away: Mapping[int, int], ticks: int) -> int:
    """Return the largest count of nodes (I or O), each as many ticks before `ticks` as it is away."""
    counts = [reached.until(ticks - d + 1)[node] for node, d in away.items() if 0 <= d <= ticks]
    return max(counts, default=0)


class _Ports:
    """The data that nodes can have received, or (if not `into`) pass on, by some moments."""

    def __init__(self, crossing: Crossing, size: Fraction, moments: Sequence[Fraction], into: bool) -> None:
        self.topology, self.holders = crossing.topology, crossing.holders
        self.distance, self.size, self.into = crossing.distance, size, into
        # a fraction of a second of which α and moments are whole multiples, and the moments in it
        parts = lcm(self.topology.alpha.denominator, *(moment.denominator for moment in moments))
        self._unit, times = Fraction(1, parts), [int(moment * parts) for moment in moments]
        self._times = np.array(times, dtype=object)

    def most(self, nodes: Iterable[int], end: int, own: Mapping[int, Fraction]) -> Sequence[int]:
        """Return the most parts that one of the nodes can have for a link at `end`, by moments."""
        unit, times, known = self._unit, self._times, set[object]()
        most = np.zeros(len(times), dtype=object)  # as they may be larger than 64 bits
        for node in nodes:
            away, links = self._apart(node, end), self._links.get(node, [])
            key = away, own.get(node), *links
            if away is None or key in known:
                continue
            known.add(key)
            moved = np.full(len(times), PARTS * own.get(node, Fraction(0)), dtype=object)
            for lag, bandwidth in links:
                late = int((away + lag) / unit)
                moved = moved + np.maximum(times - late, 0) * (bandwidth * unit * PARTS / self.size)
            there = times >= int(away / unit)
            most = np.maximum(
                most, [ceil(part) if here else 0 for part, here in zip(moved, there, strict=True)]
            )
        found: list[int] = most.tolist()
        return found

    def _apart(self, first: int, last: int) -> Fraction | None:
        """Return α from node to node, or back if not `into`, in seconds; None if there is no path."""
        away = self.distance[first][last] if self.into else self.distance[last][first]
        return Fraction(away, self.topology.alpha.denominator) if away >= 0 else None

    @cached_property
    def _links(self) -> Mapping[int, Sequence[tuple[Fraction, Fraction]]]:
        """For each node and each of its links: the least α over it to another holder, and its bandwidth."""
        source, target = self.topology.source.tolist(), self.topology.target.tolist()
        ends = zip(*((target, source) if self.into else (source, target)), strict=True)
        found: defaultdict[int, list[tuple[Fraction, Fraction]]] = defaultdict(list)
        for link, (own, far) in enumerate(ends):
            ways = [self._apart(other, far) for other in self.holders - {own}]
            reached = [way for way in ways if way is not None]
            if reached:
                found[own].append((self.topology.alpha[link] + min(reached), self.topology.bandwidth[link]))
        return {node: sorted(links) for node, links in found.items()}


def prove_cut_gossip(certificate: Certificate, topology: Topology, collective: Collective) -> Fraction:
    """Return the bound that a certificate of the kind ``cut_gossip`` proves."""
    inside, (size, tick) = inside_of(certificate, topology), exact(certificate, "size_bytes", "tick")
    ticks, parts = certificate["ticks"], certificate["parts"]
    if type(ticks) is not int or type(parts) is not int or not 0 < ticks <= MOST_TICKS or parts < 1:
        raise InputError(f"cut_gossip bound: {ticks} ticks in {parts} parts; 1 to {MOST_TICKS} whole ones")
    if tick <= 0 or size <= 0 or topology.num_ranks > MOST_RANKS:
        raise InputError(f"cut_gossip bound: ticks of {tick} s, {size} bytes, at most {MOST_RANKS} ranks")
    all_items = (item for item in items_of(collective) if item.share)
    items = [item for item in all_items if item.starts != item.ends or len(item.ends) > 1]
    entering = [link.alpha for link in entering_links(topology, inside)]
    if not entering or min(entering) * parts < tick:
        raise InputError("cut_gossip bound: α of a link into the set is less than a part of a tick")
    if len({(len(item.starts) > 1, len(item.ends) > 1) for item in items}) != 1:
        raise InputError("cut_gossip bound: all items must have one start or many, and one end or many")
    if Crossing(topology, inside, items, tick).serve(size, parts, ticks):
        raise InputError(f"cut_gossip bound: all may be served after {ticks} ticks of {tick} / {parts} s")
    return ticks * tick / parts


def _alone(shares: Mapping[tuple[int, int], Fraction], side: int, *, summed: bool) -> dict[int, Fraction]:
    """Return each rank's data as a start (side 0) or end: the sum of its pairs' if `summed`, else one's."""
    found: defaultdict[int, list[Fraction]] = defaultdict(list)
    for pair, share in shares.items():
        found[pair[side]].append(share)
    return {rank: sum(each, Fraction(0)) if summed else max(each) for rank, each in found.items()}
