"""The bound ``unicast_price``: prices of data on links that depend on how far the data have come and must go.

The best prices for a time T are a linear program on the orbits of the network's symmetries. Distances are
rounded down to K_0 = 0 < K_1 < .... The price of a byte on a link of orbit o is w(o, i, j), if the link is
K_i from the byte's sender and K_j from its end:

    maximize    sum over sources s and ends t of weight_s demand(s, t) π_s(t, 0).

    subject to  π_s(v, j) ≤ π_s(u, h) + w(o, i, j)          Link (u, v) of o, K_i from s to u, K_h = K_j + α.
                V_o(q) ≥ V_o(p) + b (q - p - α) w(o, i, j)  Messages from p to q, K_i ≤ p, K_j ≤ T - q.
                sum over o of links_o V_o(T) = 1

π is the least cost of a byte of s at v with K_j to go, and V the most that a link of the orbit can earn by a
moment. (A message from before K_1 to after T - K_1 brings only what goes from u to v, in a row for these two
moments.) If the maximum exceeds 1, T is too little. The maximum is about proportional to 1 / (T - c), so
secants of its reciprocal soon lead to where it is 1. Proof: ``docs/proofs.md``, *unicast_price*.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from tutti.models.all_to_all.demand import Demand
from tutti.models.all_to_all.orbits import SHORT_SEARCH
from tutti.models.all_to_all.reduction import ReducedProblem, symmetries
from tutti.models.bounds.bound import SECONDS, Bound, secant
from tutti.models.solvers import CompiledModel, HighsOptions, solve
from tutti.models.solvers.compiled import Rows, normalized
from tutti.models.solvers.outcome import SAME
from tutti.schedules.collective import EVERYONE, Collective, Items
from tutti.topologies.errors import InputError
from tutti.topologies.exact import INT64_MAX, NONE, FloatArray, Int64Array, json_number
from tutti.topologies.graphs.shortest_paths import alpha_distances
from tutti.topologies.topology import Topology

MOST_ROWS = 20_000
"""Most sources times links times distances; a program takes about a second. A larger value allows larger
ones."""

WORTHWHILE = 1e-4
"""Least relative increase over the other bounds for which this one is searched for. Secants end at twice it.
With a larger value bounds are found sooner, but fewer of them."""

GREATEST_PRICE = 2**40
"""Largest integer price. Prices are then as fine as the rounding errors of doubles in a solver's answer."""


def unicast_price_bound(
    topology: Topology, collective: Collective, size: Fraction, least: Fraction
) -> Bound | None:
    """Return the bound by the prices that the linear programs find.

    The certificate has the size, the time, the distances K, tables of prices and the table of each link.

    Parameters
    ----------
    topology, collective
        The problem.
    size
        M, bytes.
    least
        Seconds: the largest of the other bounds.

    Returns
    -------
    Bound or None
        None where it is no larger than the others, if an item starts or ends at several ranks, where α is 0,
        where each item has a link of its own, and on large networks with little symmetry.
    """
    items, alpha = collective.items, topology.alpha.numerators
    if (items.start == EVERYONE).any() or (items.end == EVERYONE).any() or not least or not alpha.any():
        return None
    if topology.num_links > MOST_ROWS or _direct(topology, items):
        return None
    try:
        demand = Demand.of(topology, collective)
    except InputError:  # too much for 64 bits: the other bounds must suffice
        return None
    relaying = _Relaying(ReducedProblem(symmetries(demand, SHORT_SEARCH), demand), size, least)
    prices = relaying.best_prices() if len(relaying.known) > 1 else None
    if prices is None:
        return None
    time = Fraction(relaying.time_of(prices) * (1 - SAME)) * least
    if time <= least:
        return None
    certificate = {
        "size_bytes": json_number(size),
        "time": json_number(time),
        "distances": [json_number(Fraction(k, topology.alpha.denominator)) for k in relaying.known.tolist()],
        "prices": prices.tolist(),
        "rows": relaying.problem.orbit.tolist(),
    }
    return Bound("unicast_price", time, SECONDS, certificate)


def _direct(topology: Topology, items: Items) -> bool:
    """Whether every item has a link from its start to its end."""
    joined = topology.source.astype(np.int64) * topology.num_nodes + topology.target
    moved = items.start.astype(np.int64) * topology.num_nodes + items.end
    return bool(np.isin(moved[items.start != items.end], joined).all())


class _Relaying:
    """The problem on orbits, in units of the time that is known to be too little, and of M.

    Parameters
    ----------
    problem
        The demands.
    size
        M, bytes.
    least
        The time that is known to be too little, in seconds.

    Attributes
    ----------
    known
        int64: the distances K, over α's denominator; as many as the program's size allows.
    come
        int64, shape (sources, links): the K by which each link's tail is away from each source.
    left
        int64, shape (links, K): the K that is left before the link, by the one that is left after it.
    distance, alpha, rate
        The distances K; α and the bytes that pass in a unit of time, one an orbit.
    own
        The data from the link's tail to its head, one an orbit; None where an α is less than K_1.
    reach
        Shape (orbits, K, K): the least time of a message of each class from its source to its end, without
        its bytes.
    """

    def __init__(self, problem: ReducedProblem, size: Fraction, least: Fraction) -> None:
        self.problem, topology, alpha = problem, problem.topology, problem.topology.alpha
        # More than 5 distances make no bound larger by 1 %.
        count = min(5, MOST_ROWS // (len(problem.sources) * topology.num_links))
        away = alpha_distances(topology, problem.sources)
        least_alpha = alpha.numerators.min()
        self.known = np.unique(np.append(away[away > 0], [0, least_alpha]))[:count]
        self.come = np.searchsorted(self.known, away[:, topology.source], side="right") - 1
        after = self.known + alpha.numerators[:, None]
        self.left = np.searchsorted(self.known, after, side="right") - 1
        first = np.unique(problem.orbit, return_index=True)[1]
        unit = float(1 / (alpha.denominator * least))
        self.distance, self.alpha = self.known * unit, alpha.numerators[first].astype(np.float64) * unit
        moved = float(least / (topology.bandwidth.denominator * size))
        self.rate = topology.bandwidth.numerators[first].astype(np.float64) * moved
        own = np.zeros((topology.num_nodes,) * 2)
        own[: topology.num_ranks, : topology.num_ranks] = problem.whole.amounts / problem.whole.denominator
        self.own = own[topology.source[first], topology.target[first]] if least_alpha else None
        self.reach = self.distance[:, None] + self.distance + self.alpha[:, None, None]

    def best_prices(self) -> Int64Array | None:
        """Return the best integer prices found, (orbits, K, K); None if the first program has none."""
        times, reciprocals, apart = [1 + WORTHWHILE], list[float](), np.inf
        prices = list[Int64Array | None]()
        while len(reciprocals) < 8 and apart > 2 * WORTHWHILE:
            reciprocal, found = self._solved(times[-1])
            reciprocals.append(reciprocal)
            prices.append(found)
            if reciprocals[0] >= 1:
                return None
            times.append(secant(times, reciprocals))
            apart = abs(times[-2] - times[-1]) / times[-1]
        return prices[int(np.argmin(np.abs(1 - np.array(reciprocals))))]

    def _solved(self, time: float) -> tuple[float, Int64Array | None]:
        """Return the reciprocal of the program's maximum, 0 if it has none, and its prices as integers.

        Classes for whose messages the time is too short cost more than any chain of others.
        """
        result = solve(self._program(time), "highs", HighsOptions(method="ipm", crossover=False))
        reach = self.reach
        if result.values is None or not result.objective:
            return 0.0, None
        values = np.where(reach < time, np.maximum(result.values[: reach.size].reshape(reach.shape), 0), 0)
        prices = np.rint(values * (GREATEST_PRICE / (values.max() or 1))).astype(np.int64)
        steps = self.problem.topology.num_nodes * len(self.known)
        return 1 / result.objective, np.where(reach < time, prices, GREATEST_PRICE * steps)

    def _program(self, time: float) -> CompiledModel:
        """Return the linear program: columns w, V and π."""
        problem, topology = self.problem, self.problem.topology
        orbits, sources, count = problem.num_orbits, len(problem.sources), len(self.known)
        moments, messages = self._messages(time)
        shapes = (orbits, count, count), (orbits, moments), (sources, topology.num_nodes, count)
        ends = np.cumsum([math.prod(shape) for shape in shapes])
        w, V, pi = (
            np.arange(end - math.prod(shape), end).reshape(shape)
            for shape, end in zip(shapes, ends, strict=True)
        )
        value = np.zeros(ends[-1])
        value[pi[:, :, 0]] = problem.weights[:, None] * problem.demand / problem.whole.denominator
        V[:, 0] = pi[np.arange(sources), problem.sources] = NONE
        rows = Rows()
        rows.add((1, w[:, 1:]), (-1, w[:, :-1]))  # a message that may have farther data may have nearer data
        rows.add((1, w[:, :, 1:]), (-1, w[:, :, :-1]))
        rows.add((1, V[:, 1:]), (-1, V[:, :-1]))
        for p, q, come, left, passed in messages:
            o = np.flatnonzero(passed > 0)
            rows.add((1, V[o, q]), (-1, V[o, p]), (-passed[o], w[o, come, left]))
        s, e, j = np.nonzero(self.reach[problem.orbit, self.come] < time)
        before, price = pi[s, topology.source[e], self.left[e, j]], w[problem.orbit[e], self.come[s, e], j]
        rows.add((1, before), (1, price), (-1, pi[s, topology.target[e], j]))
        rows.add(*zip(np.bincount(problem.orbit), V[:, -1:], strict=True))
        return normalized("unicast_price", rows.matrix(len(value)), value)

    def _messages(self, time: float) -> tuple[int, list[tuple[int, int, int, int, FloatArray]]]:
        """Return how many moments K and T - K there are, and what may pass between two of them.

        That is the two moments, the farthest class that may be there then, and the bytes of each orbit.
        """
        there = self.distance[self.distance <= time]
        moments = np.unique([*there, *(time - there)])
        come, left = (
            np.searchsorted(self.distance, side + SAME, side="right") - 1
            for side in (moments, time - moments)
        )
        begin, end = int(np.searchsorted(come, 1)), int(np.count_nonzero(left)) - 1
        scarce = None
        if begin < end and self.own is not None:
            scarce = np.minimum(self.own, self.rate * (time - self.alpha))
        found = []
        pairs = [(p, q) for q in range(len(moments)) for p in range(q)]
        for p, q in pairs:
            if scarce is None or come[p] or left[q]:
                found.append((p, q, come[p], left[q], self.rate * (moments[q] - moments[p] - self.alpha)))
            if scarce is not None and (p, q) == (begin, end):
                found.append((p, q, 0, 0, scarce))
        return len(moments), found

    def time_of(self, prices: Int64Array) -> float:
        """Return the time, in units of the least, in which all links earn what moving the data costs."""
        cost = self._cost(prices)
        low, high = 0.0, 1.0
        while self._earned(prices, high) < cost:
            low, high = high, 2 * high
        for _ in range(50):  # nearly all bits of a double
            middle = (low + high) / 2
            low, high = (middle, high) if self._earned(prices, middle) < cost else (low, middle)
        return low

    def _earned(self, prices: Int64Array, time: float) -> float:
        """Return the most that all links earn together."""
        moments, messages = self._messages(time)
        dearest = np.maximum.accumulate(np.maximum.accumulate(prices, axis=1), axis=2)
        best = np.zeros((moments, len(prices)))
        for p, q, come, left, passed in messages:
            best[q] = np.maximum(best[q], np.maximum(best[q - 1], best[p] + dearest[:, come, left] * passed))
        return float(best[-1] @ np.bincount(self.problem.orbit))

    def _cost(self, prices: Int64Array) -> float:
        """Return the least cost of moving the data."""
        problem, topology = self.problem, self.problem.topology
        order = np.argsort(topology.target, kind="stable")
        heads, first = np.unique(topology.target[order], return_index=True)
        price = prices[problem.orbit, self.come][:, order]
        cost = np.full((len(price), topology.num_nodes, len(self.known)), INT64_MAX // 2)
        cost[np.arange(len(price)), problem.sources] = 0
        while True:
            before = cost[:, topology.source[order, None], self.left[order]]
            through = np.minimum.reduceat(before + price, first, axis=1)
            if (cost[:, heads] <= through).all():
                break
            cost[:, heads] = np.minimum(cost[:, heads], through)
        moved = problem.weights[:, None] * problem.demand / problem.whole.denominator
        return float((moved * np.where(moved, cost[:, :, 0], 0)).sum())
