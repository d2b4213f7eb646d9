r"""The bound that allreduces at the largest distance D leave no time for long messages on any chain.

If an allreduce takes D + x, and x is small, the data of ranks s and r at distance D goes over shortest paths,
and a message that brings it over link e = (u, v) holds e from about τ = dist(s, u) on: of each *slot* (e, τ)
there is one. The times σ that its bytes take add up to x at most: over the messages of a chain, and over two
slots of a link that follow each other. Of a message from (u, τ) to (w, τ'), over one link or more, a byte
serves pairs of weight Y at most. With weights ω of pairs, a rent c for each slot and a price k for each two
slots (κ(e, τ): of both that it is in, over its bandwidth b), in bytes and seconds of M,

    (Σ ω + Σ k) x  ≥  Σ_pairs ω · least over its chains of Σ_messages (2 √(C / Y) + K / Y)  -  Σ_slots c b

where C and K are the least sums of c and of κ over paths from (u, τ) to (w, τ'). The proof is in
`models.bounds.check`.

The right side is concave in c and k. They are found in rounds: each is raised where more passes than it asks
for, √(C / Y) being the σ of a message at the optimum; ω where a chain takes more than x.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple

import numpy as np

from models.bounds.bound import SECONDS, Bound
from models.bounds.chaining import UNIT
from models.bounds.latency import AlphaDistances
from models.bounds.traffic import Traffic
from topologies.exact import BoolArray, FloatArray, Int64Array, json_number
from topologies.topology import Topology

MOST_NODES, MOST_MOMENTS, MOST_STATES, MOST_SLOTS = 256, 64, 512, 4096
WORK = 2**23
"""Cells in all rounds: about a second."""
MOST_ROUNDS, PATIENCE, WORTHWHILE = 60, 10, 2e-4
"""Of the search, and of these in a row without a bound that is better by so much, relatively."""
FINEST = 2**16
"""The largest weight of a pair."""
STEP, MOST_RAISED = 0.5, 100.0
"""How prices change: the power of what they are off, and at most by so much, which is taken to the power."""
BLUR, FADING = 0.05, 0.3
"""Ways so near the best share with it, and how fast this falls from round to round."""
LOST = 0.5
"""Of the best value: where prices go back to the best."""
SLACK = 1e-4
"""Of x: what rounding may cost."""
TINY = 1e-100


def chains_bound(
    topology: Topology, traffic: Traffic, distances: AlphaDistances, size: Fraction, least: Fraction
) -> Bound | None:
    """Return the bound of allreduces; None where it is no larger than the others, or the network too large.

    The certificate has the time, weights of pairs of ranks ``[s, r, ω]``, rents of slots ``[link, τ, c]``,
    and prices of two slots of a link, ``[link, τ, next τ, k]``.

    Parameters
    ----------
    topology, traffic, distances
        The problem.
    size
        M, bytes.
    least
        Seconds: the largest of the other bounds.
    """
    groups = np.flatnonzero(traffic.both)
    if topology.num_nodes > MOST_NODES or not len(groups):
        return None
    ranks = topology.num_ranks
    asked = np.zeros((ranks, ranks), dtype=bool)
    for group in groups.tolist():
        asked[np.ix_(traffic.members[group], traffic.members[group])] = True
    apart = distances.nodes
    farthest = int(apart[:ranks, :ranks][asked].max())
    if not farthest:
        return None
    ways = _Ways.of(topology, apart, asked & (apart[:ranks, :ranks] == farthest), farthest)
    distance = Fraction(farthest, topology.alpha.denominator)
    if ways is None or ways.work > WORK or distance + ways.limit <= least:
        return None
    share = Fraction(int(traffic.both[groups].min()), traffic.denominator)
    rate = size * share / max(topology.bandwidth)
    value, prices = _search(ways, float(ways.limit / rate) * (1 + 2 * SLACK))
    x = rate * Fraction(int(max(value, 0.0) * (1 - SLACK) * FINEST**2), FINEST**2)
    time = distance + min(ways.limit, x)
    if time <= least:
        return None
    certificate = {"size_bytes": json_number(size), "time": json_number(time), **ways.rows(prices)}
    return Bound("chains", time, SECONDS, certificate)


class _Prices(NamedTuple):
    """Weights ω of pairs; rents c of slots; prices k of two slots of a link."""

    weights: FloatArray
    rents: FloatArray
    holds: FloatArray


class _Step(NamedTuple):
    """States of one moment, and the slots that end at them: in order of these, which start where."""

    states: Int64Array
    slots: Int64Array
    first: Int64Array


class _Leg(NamedTuple):
    """Messages that end at one moment, in order of where chains of one start are then: from where to where.

    `origin` and `goal` are places (a start and a state), `goal` once each, from `first` on; `begin` and `end`
    the states of each message.
    """

    origin: Int64Array
    goal: Int64Array
    begin: Int64Array
    end: Int64Array
    first: Int64Array


class _Places(NamedTuple):
    """Where chains may be: places of each start, messages by moments, where the chains of each pair end."""

    start: Int64Array
    legs: list[_Leg]
    ends: Int64Array


@dataclass(frozen=True, eq=False)
class _Ways:
    """Shortest paths in time: a state is a moment and a node, a slot leads from one to another.

    Parameters
    ----------
    topology
        The network.
    pairs
        bool, shape (ranks, ranks): those at the largest distance.
    limit
        Seconds, up to which x is bounded.
    moment, node
        Of each state, in order of moments.
    begins, ends
        Shape (states, ranks): pairs of which start may be there, or of which end, on time.
    link, tail, head
        Of each slot: its link, and states; in order of heads.
    speed
        Its bandwidth over the largest.
    twos
        Shape (2, twos): slots of one link, of which the second begins no later than the first's α has passed.
    """

    topology: Topology
    pairs: BoolArray
    limit: Fraction
    moment: Int64Array
    node: Int64Array
    begins: FloatArray
    ends: FloatArray
    link: Int64Array
    tail: Int64Array
    head: Int64Array
    speed: FloatArray
    twos: Int64Array

    @classmethod
    def of(cls, topology: Topology, apart: Int64Array, pairs: BoolArray, farthest: int) -> _Ways | None:
        """Return them; None for too many, or where messages may cost no α."""
        ranks, alpha = topology.num_ranks, topology.alpha.numerators
        moments = np.unique(apart[:ranks][pairs.any(axis=1)])
        moments = moments[(moments >= 0) & (moments <= farthest)]
        if len(moments) > MOST_MOMENTS:
            return None
        begun = np.swapaxes(apart[:ranks] == moments[:, None, None], 1, 2).astype(np.float64)
        left = (apart[:, :ranks] == farthest - moments[:, None, None]).astype(np.float64)
        when, node = np.nonzero(((begun @ pairs) * left).any(axis=2))
        if len(node) > MOST_STATES:
            return None
        begins, ends, moment = begun[when, node], left[when, node], moments[when]
        state = np.full((len(moments), topology.num_nodes), -1)
        state[when, node] = np.arange(len(node))
        later = moments[:, None] + alpha
        place = np.minimum(np.searchsorted(moments, later), len(moments) - 1)
        tails = state[:, topology.source]
        heads = np.where(moments[place] == later, state[place, topology.target], -1)
        serves = begins @ pairs @ ends.T > 0
        used = np.nonzero((tails >= 0) & (heads >= 0) & serves[tails, heads])
        if len(used[0]) > MOST_SLOTS:
            return None
        order = np.argsort(heads[used], kind="stable")
        link, tail, head = used[1][order], tails[used][order], heads[used][order]
        by_link = np.lexsort((moment[tail], link))
        some = [(by_link[:-ahead], by_link[ahead:]) for ahead in range(1, min(len(moments), len(link)))]
        one, two = np.concatenate([np.zeros((2, 0), dtype=np.int64), *map(np.array, some)], axis=1)
        one, two = one[link[one] == link[two]], two[link[one] == link[two]]
        gap = moment[tail[two]] - moment[tail[one]]
        known = apart[topology.target][:, :ranks]
        left_to = np.where(known >= 0, known + alpha[:, None], -farthest)
        beyond = (apart[start, topology.source, None] + left_to[:, row] for start, row in enumerate(pairs))
        longer = (each[each > farthest].min(initial=2 * farthest) - farthest for each in beyond)
        limit = min(alpha[link].min(), gap.min(initial=farthest), *longer)
        if not limit:
            return None
        floats = topology.bandwidth.floats
        return cls(
            *(topology, pairs, Fraction(int(limit), topology.alpha.denominator)),
            *(moment, node, begins, ends, link, tail, head, floats[link] / floats.max()),
            twos=np.stack([one, two])[:, gap <= alpha[link[one]]],
        )

    @cached_property
    def hubs(self) -> BoolArray:
        """Whether a message may end at a state: at ranks, and switches that copy or add."""
        return self.topology.holders[self.node]

    @cached_property
    def steps(self) -> list[_Step]:
        """All but the first moment."""
        found = []
        for moment in np.unique(self.moment)[1:]:
            slots = np.flatnonzero(self.moment[self.head] == moment)
            states, first = np.unique(self.head[slots], return_index=True)
            found.append(_Step(states, slots, first))
        return found

    @cached_property
    def messages(self) -> BoolArray:
        """Whether a message may lead from state to state; shape (states, states)."""
        reached = np.isfinite(self.least(np.ones(len(self.link))))
        reached &= self.begins @ self.pairs @ self.ends.T > 0
        np.fill_diagonal(reached, False)
        return reached & self.hubs & self.hubs[:, None]

    @cached_property
    def places(self) -> _Places:
        """Where chains of each start may be."""
        on_time = (self.begins > 0) & (self.ends @ self.pairs.T > 0)
        start, state = np.nonzero(on_time.T)
        place = np.full(on_time.T.shape, -1)
        place[start, state] = np.arange(len(start))
        rows = [
            np.stack([np.full(len(begin), each), here[begin], here[end]])
            for each in np.flatnonzero(on_time.any(axis=0)).tolist()
            for here in [np.flatnonzero(on_time[:, each])]
            for begin, end in [np.nonzero(self.messages[np.ix_(here, here)])]
        ]
        origin, begin, end = np.concatenate(rows, axis=1)
        goal = place[origin, end]
        order = np.lexsort((goal, self.moment[end]))
        legs = []
        for moment in np.unique(self.moment[end]):
            these = order[self.moment[end[order]] == moment]
            goals, first = np.unique(goal[these], return_index=True)
            legs.append(_Leg(place[origin, begin][these], goals, begin[these], end[these], first))
        last = np.full(self.topology.num_nodes, -1)
        final = np.flatnonzero(self.moment == self.moment[-1])
        last[self.node[final]] = final
        starts, ends = np.nonzero(self.pairs)
        return _Places(start, legs, place[starts, last[ends]])

    @property
    def work(self) -> int:
        """About the most cells of a round."""
        return len(self.node) * len(self.link) + int((self.begins.sum(axis=0) ** 2).sum())

    def least(self, lengths: FloatArray) -> FloatArray:
        """Return the least sum of slots' lengths from state to state; shape (states, states)."""
        sums = np.full((len(self.node), len(self.node)), np.inf)
        np.fill_diagonal(sums, 0.0)
        for states, slots, first in self.steps:
            ways = sums[:, self.tail[slots]] + lengths[slots]
            sums[:, states] = np.minimum(sums[:, states], np.minimum.reduceat(ways, first, axis=1))
        return sums

    def passing(self, lengths: FloatArray, sums: FloatArray, flow: FloatArray, blur: float) -> FloatArray:
        """Return what passes each slot of what goes from state to state, over about the shortest ways."""
        flow, passes = flow.copy(), np.zeros(len(self.link))
        for states, slots, first in reversed(self.steps):
            tail, head = self.tail[slots], self.head[slots]
            some = np.flatnonzero(flow[:, states].any(axis=1))
            near = _nearness(sums[np.ix_(some, tail)] + lengths[slots], sums[np.ix_(some, head)], blur)
            count = np.diff(np.append(first, len(slots)))
            near /= np.maximum(np.repeat(np.add.reduceat(near, first, axis=1), count, axis=1), TINY)
            moved = near * flow[np.ix_(some, head)]
            passes[slots] = moved.sum(axis=0)
            moved[some[:, None] == tail] = 0.0
            np.add.at(flow, (some[:, None], tail), moved)
        return passes

    def rows(self, prices: _Prices) -> dict[str, list[list[int | str]]]:
        """Return the prices of a certificate."""
        weights, rents, holds = (list(map(int, array.tolist())) for array in prices)
        moment = [json_number(Fraction(int(m), self.topology.alpha.denominator)) for m in self.moment]
        begin = [moment[tail] for tail in self.tail.tolist()]
        link, pairs = self.link.tolist(), np.argwhere(self.pairs).tolist()
        twos = zip(*self.twos.tolist(), holds, strict=True)
        return {
            "pairs": [[*pair, w] for pair, w in zip(pairs, weights, strict=True) if w],
            "rents": [[link[slot], begin[slot], rent] for slot, rent in enumerate(rents) if rent],
            "holds": [[link[one], begin[one], begin[two], hold] for one, two, hold in twos if hold],
        }


def _nearness(values: FloatArray, least: FloatArray, blur: float) -> FloatArray:
    """Return 1 for the least values, less for those that are near, so that they can share."""
    reached = np.isfinite(values) & np.isfinite(least)
    with np.errstate(invalid="ignore"):
        beyond = (values - least) / (blur * np.maximum(least, TINY))
    return np.where(reached, np.exp(-np.where(reached, np.maximum(beyond, 0.0), 0.0)), 0.0)


def _search(ways: _Ways, enough: float) -> tuple[float, _Prices]:
    """Return the largest bound found on x, in seconds of M at the largest bandwidth, and its prices, rounded.

    It ends at `enough`.
    """
    weights = np.ones(np.count_nonzero(ways.pairs))
    holds = np.full(ways.twos.shape[1], weights.sum() / max(1, 2 * ways.twos.shape[1]))
    prices = _Prices(weights, np.ones(len(ways.link)), holds)
    first = _Chains.of(ways, prices, BLUR)
    scale = (first.rents @ ways.speed / ways.speed.sum()) ** 2
    best = _Chains.of(ways, prices._replace(rents=prices.rents * scale), BLUR)
    chains, since = best, 0
    for turn in range(min(MOST_ROUNDS, WORK // ways.work)):
        if best.value > enough or since > PATIENCE:
            break
        blur = BLUR / (1 + FADING * turn)
        chains = _Chains.of(ways, (chains if chains.value > LOST * best.value else best).better(), blur)
        since = 0 if chains.value > best.value * (1 + WORTHWHILE) else since + 1
        best = max(best, chains, key=lambda each: each.value)
    found = best.prices
    unit = FINEST / found.weights.max()
    rounded = _Prices(
        np.rint(found.weights * unit), np.floor(found.rents * unit * UNIT), np.floor(found.holds * unit)
    )
    exact = rounded._replace(rents=rounded.rents / UNIT)
    return _Chains.of(ways, exact, BLUR).value, rounded


@dataclass(frozen=True, eq=False)
class _Chains:
    """What prices prove, and where they are too low.

    Parameters
    ----------
    ways, prices
        The slots and their prices.
    value
        The bound on x.
    rents, holds
        What passes each slot, as they see it: 1 at the optimum for rents, σ for holds.
    long
        Σ σ of each pair's chain.
    """

    ways: _Ways
    prices: _Prices
    value: float
    rents: FloatArray
    holds: FloatArray
    long: FloatArray

    @classmethod
    def of(cls, ways: _Ways, prices: _Prices, blur: float) -> _Chains:
        weights, rents, holds = prices
        asked = np.zeros(len(ways.link))
        np.add.at(asked, ways.twos[0], holds)
        np.add.at(asked, ways.twos[1], holds)
        asked /= ways.speed
        of_pair = np.zeros(ways.pairs.shape)
        of_pair[ways.pairs] = weights
        serves = ways.begins @ of_pair @ ways.ends.T
        rent, hold = ways.least(rents), ways.least(asked)
        served = np.where(ways.messages, np.maximum(serves, TINY), 1.0)
        sigma = np.sqrt(np.where(ways.messages, rent, 0.0) / served)
        price = np.where(ways.messages, 2 * sigma + np.where(ways.messages, hold, 0.0) / served, np.inf)
        cost, long, flow = _cheapest(ways, price, sigma, weights, blur)
        total = float(weights @ cost)
        value = (total - float(rents @ ways.speed)) / float(weights.sum() + holds.sum())
        through = np.where(flow > 0, flow / np.maximum(served * sigma, TINY), 0.0)
        return cls(
            *(ways, prices, value),
            rents=ways.passing(rents, rent, through, blur) / ways.speed,
            holds=ways.passing(asked, hold, np.where(flow > 0, flow / served, 0.0), blur) / ways.speed,
            long=long,
        )

    def better(self) -> _Prices:
        """Return prices that are raised where too much passes, lowered where too little does."""
        weights, rents, holds = self.prices
        x = max(self.value, TINY)
        both = self.holds[self.ways.twos[0]] + self.holds[self.ways.twos[1]]
        return _Prices(weights * _power(self.long / x), rents * _power(self.rents), holds * _power(both / x))


def _power(off: FloatArray) -> FloatArray:
    return np.clip(off, 1 / MOST_RAISED, MOST_RAISED) ** STEP


def _cheapest(
    ways: _Ways, price: FloatArray, sigma: FloatArray, weights: FloatArray, blur: float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return what the cheapest chain of each pair costs, its Σ σ, and the weights that pass each message.

    Shapes (pairs,), twice, and (states, states).
    """
    places = ways.places
    cost, long, weight = np.zeros((3, len(places.start)))
    shares = []
    for origin, goal, begin, end, first in places.legs:
        values = cost[origin] + price[begin, end]
        cost[goal] = np.minimum.reduceat(values, first)
        count = np.diff(np.append(first, len(values)))
        near = _nearness(values, np.repeat(cost[goal], count), blur)
        near /= np.repeat(np.maximum(np.add.reduceat(near, first), TINY), count)
        long[goal] = np.add.reduceat(near * (long[origin] + sigma[begin, end]), first)
        shares.append((near, count))
    weight[places.ends] = weights
    flow = np.zeros_like(price)
    for leg, (near, count) in zip(reversed(places.legs), reversed(shares), strict=True):
        origin, goal, begin, end, _ = leg
        moved = near * np.repeat(weight[goal], count)
        np.add.at(weight, origin, moved)
        np.add.at(flow, (begin, end), moved)
    return cost[places.ends], long[places.ends], flow
