r"""The bound that counts pairs over a cut: a message has data only of ranks that have reached its sender.

Let S be a set of nodes, A the ranks outside and C those inside. Over a link e into S let I(e, t) be the most
ranks of A that a message entering e at t can depend on. Let O(e, t) be the most ranks of C that can receive,
within t, data that has left e. Both are counted as in `broadcast_growth`. A message from s to q brings
n ≤ b(e) (q - s - α(e)) bytes. Its sender has received f(s) bytes at most by then, and its end can pass on
g(T - q). With i = I(e, s), o = O(e, T - q) and m the bytes of a pair, the message serves at most

    all-to-all       n                      where n ≤ i o m, f + the sender's own, g + what is for the end.
    allgather        n + min(n, g) (o - 1)  where n ≤ i m, f + the sender's own.
    reduce-scatter   n + min(n, f) (i - 1)  where n ≤ o m, g + what is for the end.
    allreduce        n + min(n, f) (i - 1) + min(n, g) (o - 1) + min(n, f, g) (i - 1) (o - 1)  where n ≤ m.

bytes of pairs: only what is passed on is for others than the end, and only what came is of others than the
sender. The most that disjoint messages on e serve until T is a recursion over s and q. If all links together
serve less than all pairs of a rank in A and one in C need, T is a bound. A message that leaves early carries
data of few ranks, and one that arrives late reaches few. Proof: ``docs/proofs.md``.

Time is in ticks; a message may be up to a tick longer, so that no sum is too small.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from tutti.models.bounds.bottleneck_cut import cut_nodes
from tutti.models.bounds.bound import SECONDS, Bound
from tutti.models.bounds.spreading import MOST_TICKS as MOST_WHOLE  # then all have data of all
from tutti.models.bounds.spreading import AlphaDistances, Growth, forwarding, tick_of
from tutti.models.bounds.traffic import Traffic
from tutti.topologies.exact import BoolArray, Int32Array, Int64Array, json_number
from tutti.topologies.kernels import kernel
from tutti.topologies.topology import Topology
from tutti.topologies.transforms import transpose

UNITS = 2**40
"""Number of units of M in which bytes are counted: what is served is rounded up, what is needed down."""
MOST_TICKS = 2048
"""Largest number of ticks of a time."""
TICKS_AN_ALPHA = 200
"""Finest time resolution: 200 ticks in the least α. Rounding costs each message at most one tick."""
SHORTEST = 4
"""Least number of ticks in the least α; with fewer, messages can't be distinguished, and there is no
bound."""
REACH = 2
"""The ticks must reach to this multiple of the other bounds."""
MOST_RANKS = 1024
"""Largest number of ranks, so that the sums fit 64 bits."""
MOST_CUTS = 8
MOST_MOVED = 2**50
"""Upper limit for data in parts of M; no message has as much."""


def cut_gossip_bound(
    topology: Topology,
    least: Fraction,
    traffic: Traffic,
    distances: AlphaDistances,
    size: Fraction,
    cuts: Sequence[BoolArray],
) -> Bound | None:
    """Return the longest time in which messages can't serve all pairs that a cut separates, or None.

    None where it is no larger than the others, where no switch only forwards, for several groups, for mixed
    collectives, and where α is too little to matter. The certificate has the size, the nodes of the cut, the
    tick of `broadcast_growth`, the number of parts into which that is cut, and the bound as a number of
    parts.

    Parameters
    ----------
    topology, traffic, distances, size
        The problem; M in bytes.
    least
        Seconds: the largest of the other bounds.
    cuts
        Masks over nodes: the sets S.
    """
    share = _Share.of(traffic)
    if share is None or topology.num_ranks > MOST_RANKS or not forwarding(topology).any():
        return None
    whole = tick_of(distances)
    parts = _parts(topology, whole, least)
    if parts is None:
        return None
    tick, found = Fraction(whole, topology.alpha.denominator), None
    ticks = int(least * parts / tick)
    for inside in list(cuts)[:MOST_CUTS]:
        cut = _Cut.of(topology, distances, share, inside, parts, size)
        longer = cut.until(ticks) if cut else ticks
        if longer > ticks:
            ticks, found = longer, inside
    if found is None or ticks * tick <= least * parts:
        return None
    certificate = {
        "size_bytes": json_number(size),
        **cut_nodes(topology, found),
        "tick": json_number(tick),
        "parts": parts,
        "ticks": ticks,
    }
    return Bound("cut_gossip", ticks * tick / parts, SECONDS, certificate)


def _parts(topology: Topology, whole: int, least: Fraction) -> int | None:
    """Return the number of parts into which a tick of `broadcast_growth` is cut.

    None if parts are too long to tell messages apart.
    """
    alpha = topology.alpha.numerators
    if not alpha.any():
        return None
    finest = int(alpha[alpha > 0].min())
    reach = int(REACH * least * topology.alpha.denominator) + 1
    parts = min(TICKS_AN_ALPHA * whole // finest, MOST_TICKS * whole // reach)
    return parts if parts > 0 and parts * finest >= SHORTEST * whole else None


class _Share(NamedTuple):
    """The data that each pair of a start and an end has.

    Parameters
    ----------
    members
        The ranks that start and end.
    most
        The largest share of M that a pair has.
    pairs
        int64, shape (ranks, ranks): the share of each pair over the denominator.
    denominator
        Denominator of `pairs`.
    of_start, for_end
        Whether the data of a start is its own, not a sum with others; and the same for an end.
    """

    members: Int32Array
    most: Fraction
    pairs: Int64Array
    denominator: int
    of_start: bool
    for_end: bool

    @classmethod
    def of(cls, traffic: Traffic) -> _Share | None:
        """Return the shares, or None for several groups and for mixed collectives."""
        if len(traffic.members) > 1:
            return None
        members, ranks = traffic.members[0], traffic.num_ranks
        several = (bool(each.any()) for each in (traffic.spread, traffic.collect, traffic.both))
        kinds = single, spread, collect, _ = bool(len(traffic.pairs.start)), *several
        if sum(kinds) != 1:
            return None
        share = np.zeros((ranks, ranks), dtype=np.int64)
        if single:
            np.add.at(share, (traffic.pairs.start, traffic.pairs.end), traffic.pairs.share)
        else:
            each = traffic.spread[:, None] if spread else traffic.collect if collect else traffic.both[0]
            share[np.ix_(members, members)] = each
        np.fill_diagonal(share, 0)
        most = Fraction(int(share.max()), traffic.denominator)
        return cls(members, most, share, traffic.denominator, single or spread, single or collect)

    @property
    def turned(self) -> _Share:
        """The shares with starts and ends exchanged."""
        return self._replace(pairs=self.pairs.T, of_start=self.for_end, for_end=self.of_start)

    def alone(self, starts: Int32Array, ends: Int32Array) -> list[int]:
        """Return the data that each rank has for others, in parts of M, if it is its own; 0 elsewhere."""
        found = [0] * len(self.pairs)
        for start in starts.tolist() if self.of_start else ():
            pairs = self.pairs[start, ends].tolist()
            moved = sum(pairs) if self.for_end else max(pairs)
            found[start] = -(-moved * UNITS // self.denominator)
        return found


class _EqualLinks(NamedTuple):
    """Links of a cut with equal counts, α and bandwidth.

    Parameters
    ----------
    sources, receivers
        int64, shape (whole ticks,): I and O.
    had, passed
        int64, shape (ticks,): the data that a sender can have received in that many ticks, with its own where
        that counts, and the data that an end can pass on, with what is for it.
    room
        int64, shape (ticks,): the data in a message that holds the link for that many ticks, or one more.
    number
        The number of links.
    """

    sources: Int64Array
    receivers: Int64Array
    had: Int64Array
    passed: Int64Array
    room: Int64Array
    number: int


@dataclass(frozen=True, eq=False)
class _Cut:
    """A cut, and the data that its links can serve in a time.

    Parameters
    ----------
    classes
        The classes of the links into it.
    share
        The data of pairs.
    needed
        The data that all pairs across it need, in parts of M.
    parts
        Number of parts of a tick of `broadcast_growth`.
    """

    classes: Sequence[_EqualLinks]
    share: _Share
    needed: int
    parts: int

    @classmethod
    def of(
        cls,
        topology: Topology,
        distances: AlphaDistances,
        share: _Share,
        inside: BoolArray,
        parts: int,
        size: Fraction,
    ) -> _Cut | None:
        """Return a set of nodes as a cut; None if it separates no pair, or a link into it has no α."""
        whole = tick_of(distances)
        outer, inner = share.members[~inside[share.members]], share.members[inside[share.members]]
        needed = int(share.pairs[np.ix_(outer, inner)].sum(dtype=object)) * UNITS // share.denominator
        entering = np.flatnonzero(~inside[topology.source] & inside[topology.target])
        # Messages without α may follow each other within a tick.
        if not needed or not len(entering) or not topology.alpha.numerators[entering].all():
            return None
        away = np.where(distances.nodes < 0, MOST_WHOLE * whole, distances.nodes) // whole
        sources = _counts(topology, distances, outer, outward=False)
        receivers = _counts(topology, distances, inner, outward=True)
        senders, ends = np.flatnonzero(topology.holders & ~inside), np.flatnonzero(topology.holders)
        tick = Fraction(whole, topology.alpha.denominator * parts)
        ticks = np.where(distances.nodes < 0, MOST_TICKS + 2, distances.nodes * parts // whole)
        came = _moved(topology, ticks, tick, size, share.alone(outer, inner))
        goes = _moved(transpose(topology), ticks.T, tick, size, share.turned.alone(inner, outer))
        known: dict[bytes, _EqualLinks] = {}
        for link in entering.tolist():
            tail, head = int(topology.source[link]), int(topology.target[link])
            i = _nearest(sources[:, senders], away[senders, tail])
            o = _nearest(receivers[:, ends], away[head, ends])
            alpha, bandwidth = topology.alpha[link], topology.bandwidth[link]
            had = _nearest(came[:, senders], ticks[senders, tail])
            passed = _nearest(goes[:, ends], ticks[head, ends])
            key = b"".join(each.tobytes() for each in (i, o, had, passed)) + f"{alpha} {bandwidth}".encode()
            if key not in known:
                known[key] = _EqualLinks(i, o, had, passed, _room(alpha, bandwidth, tick, size, needed), 0)
            known[key] = known[key]._replace(number=known[key].number + 1)
        return cls(list(known.values()), share, needed, parts)

    def until(self, ticks: int) -> int:
        """Return the longest time, at least `ticks`, in which not all pairs can be served."""
        if self._served(ticks) >= self.needed:
            return ticks
        low, high = ticks, MOST_TICKS
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if self._served(middle) < self.needed else (low, middle - 1)
        return low

    def _served(self, ticks: int) -> int:
        """Return what all links can serve in that time, or as much as is needed."""
        share, moment = self.share, np.minimum(np.arange(ticks + 1) // self.parts, MOST_WHOLE - 1)
        most = -(-share.most.numerator * UNITS // share.most.denominator)
        of, served = (most, share.of_start, share.for_end), 0
        for links in self.classes:
            counts = links.sources[moment], links.receivers[moment], links.had[1:], links.passed
            served += links.number * int(_most_served(counts, links.room, of, self.needed))
        return served


def _moved(
    topology: Topology, ticks: Int64Array, tick: Fraction, size: Fraction, own: Sequence[int]
) -> Int64Array:
    """Return the most data that nodes can have received over their links, in parts of M, by ticks.

    Shape (`MOST_TICKS` + 2, nodes). `ticks` are from each node to each, and `own` what each rank has before.
    """
    moments = np.arange(MOST_TICKS + 2)
    most = np.zeros((len(moments), topology.num_nodes), dtype=np.int64)
    most[:, : topology.num_ranks] = np.minimum(own, MOST_MOVED)
    for link, (tail, head) in enumerate(zip(topology.source, topology.target, strict=True)):
        others = topology.holders.copy()
        others[head] = False
        lag = int(ticks[others, tail].min(initial=MOST_TICKS)) + int(topology.alpha[link] / tick)
        each = min(math.ceil(topology.bandwidth[link] * tick / size * UNITS), MOST_MOVED)
        since = np.clip(moments - lag, 0, MOST_MOVED // each + 1)  # in longer times all of it comes
        most[:, head] += np.minimum(since * each, MOST_MOVED)
    return np.minimum(most, MOST_MOVED)


def _counts(topology: Topology, distances: AlphaDistances, members: Int32Array, outward: bool) -> Int64Array:
    """Return X of `broadcast_growth`, of shape (whole ticks, nodes)."""
    found = np.full((MOST_WHOLE, topology.num_nodes), len(members), dtype=np.int64)
    for tick, row in enumerate(Growth(topology, distances, members, outward).rows()):
        found[tick] = row
        # From here on, all nodes that ever reach all members do so.
        if tick and row[members].min() >= len(members) and np.array_equal(row, found[tick - 1]):
            break
    return found


def _nearest(counts: Int64Array, away: Int64Array) -> Int64Array:
    """Return for each whole tick the largest count, each taken `away` ticks before."""
    at = np.arange(len(counts))[:, None] - away
    before = np.where(at >= 0, np.take_along_axis(counts, np.maximum(at, 0), 0), 0)
    found: Int64Array = before.max(axis=1, initial=0)
    return found


def _room(alpha: Fraction, bandwidth: Fraction, tick: Fraction, size: Fraction, most: int) -> Int64Array:
    """Return the data in a message that takes less than 1, 2, ... ticks, in parts of M, `most` at most."""
    unit = bandwidth / size * UNITS
    whole = math.lcm((tick * unit).denominator, (alpha * unit).denominator)
    each, lost = int(tick * unit * whole), int(alpha * unit * whole)
    return np.array([min(most, max(0, -((lost - t * each) // whole))) for t in range(1, MOST_TICKS + 2)])


@kernel
def _most_served(counts: Any, room: Int64Array, share: Any, needed: int) -> int:
    """Return the most that disjoint messages on a link can serve.

    `counts` are the first four fields of `_EqualLinks`. `share` has the most that a pair has, and whether the
    data of a start, and of an end, is its own.
    """
    (sources, receivers, had, passed), (most, of_start, for_end) = counts, share
    ticks = len(sources)
    served = np.zeros(ticks, dtype=np.int64)
    shortest = int(np.argmax(room > 0))
    for end in range(shortest, ticks):
        best = served[end - 1] if end else 0
        served[end] = best
        o = receivers[ticks - 1 - end]
        if o == 0:
            continue
        g = passed[ticks - 1 - end]
        # Dynamic program over the end of the last message: the best before it starts, plus what it serves.
        for start in range(end - shortest + 1):
            i, f = sources[start], had[start]
            n = min(room[end - start], most * (i if of_start else 1) * (o if for_end else 1))
            n = min(n, f if of_start else n, g if for_end else n)
            more, further = 0 if of_start else i - 1, 0 if for_end else o - 1
            value = n + min(n, f) * more + min(n, g) * further + min(n, f, g) * more * further
            value = value if i else 0
            best = max(best, min(needed, served[start] + value))
        served[end] = best
    return int(served[-1])
