"""Column generation over trees whose edges have epochs, and the schedules that the trees make.

The linear program over the trees known so far:

    minimize    sum over k of τ[k].
    subject to  B[o] τ[k] - sum over trees t of n[t, o, k] w[t]  >=  B[o] α[o]   for each orbit o of lines and
                                                                                 epoch k (dual: price).
                sum of w[t] over the trees of root r  =  1                       for each orbit r of ranks.
                τ, w >= 0.

τ[k] is the length of epoch k, and w[t] the part of a shard that goes down tree t and its images. n[t, o, k]
is the number of its edges on lines of orbit o in epoch k. Each line of the orbit carries n[t, o, k] w[t] for
all images together. The data that a line carries in an epoch is one message, of α and bytes over bandwidth.

The program's prices, smoothed (Wentges, International Transactions in Operational Research 1997), lead to
cheaper trees: those that it uses, improved under the prices, and a few new ones (`pricing`). A method says in
`EpochSearch.candidates` which trees these are.

`schedule_of` makes the schedule. The data that a line carries in an epoch is one message on each of its
routes. A line of several parallel routes is loaded evenly: the data of an epoch is laid in a row and cut into
as many equal parts, and a piece that lies across a cut is cut in two.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from tutti.models.solvers import Start, solve
from tutti.models.solvers.compiled import CompiledModel, Rows
from tutti.models.solvers.highs import HighsOptions
from tutti.models.solvers.outcome import Basis, BasisStatus
from tutti.models.tree_columns.links import EpochLinks
from tutti.schedules.collective import Collective
from tutti.schedules.intervals import IntervalTransfers, interval_schedule
from tutti.schedules.list_scheduling import in_messages
from tutti.schedules.schedule import Routes, Schedule
from tutti.topologies.errors import NoSchedule
from tutti.topologies.exact import FloatArray, Int64Array, joined_rows, offsets_of, rows_at
from tutti.topologies.kernels import now

PARTS = 2**24
"""Units of a shard, or of an allreduce's vector, to which weights are rounded."""


class ColumnRounds(NamedTuple):
    """Parameters of the rounds of a search.

    Measured for allreduces on `mesh:3x3` and `mesh:3x4`: half or twice any of them changes the time by at
    most 0.3 %.
    """

    smoothing: float
    """Fraction of the prices that stays from one round to the next. With a larger value they change less."""
    improved: int
    """Number of trees in use that are improved in a round. With a larger value rounds are fewer and
    longer."""
    new: int
    """Number of roots for which new trees are drawn in a round. A larger value makes rounds fewer and
    longer."""
    known: int
    """Number of trees from which on some are forgotten. With a larger value programs take longer."""
    kept: int
    """Number of trees that are kept then. With a larger value trees are forgotten more often."""
    progress: float
    """Relative progress below which a round counts as stale. With a larger value a search ends sooner."""
    stale: int
    """Number of stale rounds in a row after which a search ends. With a larger value it ends later."""
    added: int
    """Largest number of trees added in a round, the cheapest ones. A larger value grows programs faster."""
    least_price: float
    """A tree is added if it is cheaper by more than this than those in use, in units of the program's time.
    With a larger value fewer trees are added."""
    spread: float
    """Spread of the logarithms of the prices under which new trees are drawn. A larger value varies them
    more."""
    early: float
    """Logarithm of the factor by which first trees' prices grow with each epoch, where they end too late."""


ROUNDS = ColumnRounds(
    smoothing=0.9,
    improved=100,
    new=8,
    known=900,
    kept=500,
    progress=1e-5,
    stale=25,
    added=60,
    least_price=1e-9,
    spread=0.3,
    early=3.0,
)


class EpochCounts(NamedTuple):
    """Parameters for the number of epochs of a search."""

    fold: float
    """Additional epochs for each factor of e by which the bytes into a rank take longer than α. With a larger
    value messages are smaller; half or twice the value costs allreduces on `mesh:3x3` up to 1.2 %."""
    most: int
    """Largest number of epochs, however small α is. With a larger value links are idle for less time, and
    programs are larger."""
    rows: int
    """Largest number of orbits of links times epochs. With a larger value a program takes longer."""


FIRST = HighsOptions(method="ipm")
LATER = HighsOptions(method="simplex", strategy="primal", presolve=False)
"""Options of HiGHS for the first program, and for those after it, which begin with the last basis."""


@dataclass(frozen=True, eq=False)
class EpochTrees:
    """Trees: index of the root's orbit (trees,), parents and epochs as in `pricing`, (trees, N)."""

    root: Int64Array
    parent: Int64Array
    epoch: Int64Array

    def __len__(self) -> int:
        return len(self.root)

    def take(self, chosen: Int64Array) -> EpochTrees:
        """Return the chosen trees."""
        return EpochTrees(self.root[chosen], self.parent[chosen], self.epoch[chosen])

    def plus(self, others: EpochTrees) -> EpochTrees:
        """Return these and others."""
        return EpochTrees(
            np.append(self.root, others.root),
            np.vstack([self.parent, others.parent]),
            np.vstack([self.epoch, others.epoch]),
        )

    def keys(self) -> list[bytes]:
        """Return a key for each tree, equal for equal trees."""
        both = np.ascontiguousarray(np.hstack([self.root[:, None], self.parent, self.epoch]))
        return [row.tobytes() for row in both]


class EpochOptimum(NamedTuple):
    """An optimum over some trees: Σ τ, τ, w, prices of rows and of roots, reduced costs, and its basis."""

    time: float
    lasting: FloatArray
    weight: FloatArray
    price: FloatArray
    worth: FloatArray
    reduced: FloatArray
    basis: Basis | None


class TreeMaster:
    """The program over the trees known so far.

    `rows` are as `EpochLinks.rows`, times and sizes in units near 1.
    """

    def __init__(self, rows: Int64Array, bandwidth: FloatArray, alpha: FloatArray, trees: EpochTrees) -> None:
        self.rows, self.bandwidth = rows, bandwidth
        self.epochs = rows.shape[2]
        self.roots = int(trees.root.max()) + 1
        self.lower = np.concatenate([np.repeat(bandwidth * alpha, self.epochs), np.ones(self.roots)])
        self.upper = np.concatenate([np.full(len(bandwidth) * self.epochs, np.inf), np.ones(self.roots)])
        self.trees, self.known = trees, set(trees.keys())
        self.solved: EpochOptimum | None = None

    def used(self, trees: EpochTrees) -> Int64Array:
        """Return the row of each edge: int64 (trees, N), -1 at the root."""
        ranks = np.arange(trees.parent.shape[1])
        rows = self.rows[np.maximum(trees.parent, 0), ranks, np.maximum(trees.epoch, 0)]
        return np.where(trees.parent >= 0, rows, -1)

    def reduced(self, trees: EpochTrees, price: FloatArray, worth: FloatArray) -> FloatArray:
        """Return the reduced cost of trees."""
        return np.append(price, 0.0)[self.used(trees)].sum(axis=1) - worth[trees.root]

    def add(self, trees: EpochTrees) -> int:
        """Add the trees that are not known; return how many."""
        new = []
        for number, key in enumerate(trees.keys()):
            if key not in self.known:
                self.known.add(key)
                new.append(number)
        self.trees = self.trees.plus(trees.take(np.array(new, dtype=np.int64)))
        return len(new)

    def solve(self) -> EpochOptimum:
        """Return the optimum over the trees known.

        Raises
        ------
        NoSchedule
            If the solver found none.
        """
        used, columns = self.used(self.trees), self.epochs + np.arange(len(self.trees))
        tree, rank = np.nonzero(used >= 0)
        rows, epochs = Rows(), np.tile(np.arange(self.epochs), len(self.bandwidth))
        rows.add((np.repeat(self.bandwidth, self.epochs), epochs))
        rows.extend(used[tree, rank], np.full(len(tree), -1.0), columns[tree])
        rows.extend(rows.count + self.trees.root, np.ones(len(columns)), columns)
        rows.count += self.roots
        matrix = rows.matrix(self.epochs + len(columns))
        model = CompiledModel.of_matrix(
            "epochs", matrix, np.arange(matrix.shape[1]) < self.epochs, self.lower, self.upper
        )
        basis = None if self.solved is None else self.solved.basis
        start = None if basis is None else Start(basis=basis.grown(model))
        outcome = solve(model, "highs", LATER if start else FIRST, start=start)
        if outcome.values is None or outcome.duals is None:
            raise NoSchedule(f"trees in epochs: highs stopped with '{outcome.termination}'")
        price, worth = np.maximum(outcome.duals[: -self.roots], 0.0), outcome.duals[-self.roots :]
        lasting, weight = outcome.values[: self.epochs], outcome.values[self.epochs :]
        reduced = self.reduced(self.trees, price, worth)
        self.solved = EpochOptimum(
            float(lasting.sum()), lasting, weight, price, worth, reduced, outcome.basis
        )
        return self.solved

    @property
    def optimum(self) -> EpochOptimum:
        """The optimum over the trees known."""
        return self.solved or self.solve()

    def extend(self, found: EpochTrees, rounds: ColumnRounds) -> int:
        """Add those trees that lower the optimum, the cheapest first; return how many are new."""
        reduced = self.reduced(found, self.optimum.price, self.optimum.worth)
        order = np.argsort(reduced, kind="stable")
        added = self.add(found.take(order[reduced[order] < -rounds.least_price][: rounds.added]))
        if added:
            self.solve()
            if len(self.trees) > rounds.known:
                self._forget(rounds.kept)
        return added

    def _forget(self, most: int) -> None:
        """Keep the trees of least reduced cost, and all of the basis."""
        solved = self.optimum
        if solved.basis is None:
            return
        places = solved.basis.columns[self.epochs :]
        order = np.argsort(np.where(places == BasisStatus.BASIC, -np.inf, solved.reduced), kind="stable")
        basic = int((places == BasisStatus.BASIC).sum())
        kept = np.sort(order[: max(most, basic)])
        self.trees, self.known = self.trees.take(kept), set(self.trees.take(kept).keys())
        columns = np.append(solved.basis.columns[: self.epochs], places[kept])
        self.solved = solved._replace(
            weight=solved.weight[kept], reduced=solved.reduced[kept], basis=Basis(columns, solved.basis.rows)
        )


class EpochSearch:
    """Rounds in which trees are added that are cheap under the program's smoothed prices."""

    program: TreeMaster
    rounds = ROUNDS

    def __init__(
        self, bandwidth: FloatArray, alpha: FloatArray, size: float, unit: float, rng: np.random.Generator
    ) -> None:
        """Begin without trees.

        Parameters
        ----------
        bandwidth, alpha
            float64 (orbits,): bytes/s and seconds of each row in an epoch.
        size, unit
            Bytes that a weight of 1 stands for, and seconds that a time of 1 stands for.
        rng
            For what is drawn.
        """
        self.bandwidth, self.alpha = bandwidth * unit / size, alpha / unit
        self.unit, self.rng = unit, rng

    def restart(self, rows: Int64Array, trees: EpochTrees) -> None:
        """Solve the program over these trees alone."""
        self.program = TreeMaster(rows, self.bandwidth, self.alpha, trees)
        self.program.solve()

    def used(self) -> tuple[EpochTrees, FloatArray]:
        """Return the trees in use, and their weights."""
        kept = np.flatnonzero(self.program.optimum.weight > 0)
        return self.program.trees.take(kept), self.program.optimum.weight[kept]

    def prices_of_edges(self, rows: Int64Array, prices: FloatArray) -> FloatArray:
        """Return the price of each edge in each epoch, infinite where it has no row."""
        return np.append(np.maximum(prices, 0.0) + self.rounds.least_price, np.inf)[rows]

    @property
    def time(self) -> float:
        """The optimum over the trees known."""
        return self.program.optimum.time

    def candidates(self, prices: FloatArray) -> EpochTrees:
        """Return trees that are cheap under these prices."""
        raise NotImplementedError

    def ended(self) -> bool:
        """Whether a round that adds nothing under the program's own prices ends the search."""
        return False

    def run(self, until: float, stale: int | None = None) -> None:
        """Do rounds until a moment, or until `stale` of them in a row hardly help."""
        smooth, least, fruitless = self.program.optimum.price, self.time, 0
        while now() < until and fruitless < (stale or self.rounds.stale):
            smooth = self.rounds.smoothing * smooth + (1 - self.rounds.smoothing) * self.program.optimum.price
            if not self.program.extend(self.candidates(smooth), self.rounds):
                smooth = self.program.optimum.price
                if not self.program.extend(self.candidates(smooth), self.rounds) and self.ended():
                    return
            fruitless = fruitless + 1 if self.time > least * (1 - self.rounds.progress) else 0
            least = min(least, self.time)


class EpochEdges(NamedTuple):
    """Edges of trees: epoch, ranks, and the units of M that they move, `start` to `stop` - 1; int64 each.

    `turn` is negative where the units are reduced.
    """

    epoch: Int64Array
    tail: Int64Array
    head: Int64Array
    start: Int64Array
    stop: Int64Array
    turn: Int64Array

    def take(self, chosen: Int64Array) -> EpochEdges:
        """Return the chosen edges."""
        return rows_at(self, chosen)


class TreeImages(NamedTuple):
    """Images of trees, in the order of the data that they move: tree, automorphism and units; int64 each."""

    tree: Int64Array
    element: Int64Array
    units: Int64Array


def schedule_of(
    lines: EpochLinks, trees: EpochTrees, images: TreeImages, what: Collective, size: Fraction
) -> Schedule:
    """Return the time-clock schedule by these trees, for M = `size` bytes.

    A message leaves as soon as its data is there and its links are free of those before it.

    Parameters
    ----------
    lines
        The lines that the trees use.
    trees
        Trees over the ranks, or over the ranks twice: first those to their roots, on which data is reduced.
    images
        Their units are all of M: those of the first item come first, then those of the second.
    what
        The collective that the trees do.
    size
        M in bytes.
    """
    begin = offsets_of(images.units)
    edges, route, routes = laid(_edges(lines, trees, images, begin), lines.routes)
    order = np.lexsort((edges.start, route, edges.epoch))
    edges, route = edges.take(order), route[order]
    transfers = IntervalTransfers(edges.start, edges.stop, route, edges.turn)
    flow, row = interval_schedule(lines.topology, what, transfers, int(begin[-1]), routes)
    return in_messages(flow, edges.epoch[row], size)


def _edges(lines: EpochLinks, trees: EpochTrees, images: TreeImages, begin: Int64Array) -> EpochEdges:
    """Return the edges of all images; `begin` is the first unit of each."""
    ranks = lines.topology.num_ranks
    which, child = np.nonzero(trees.parent[images.tree] >= 0)
    tree, element = images.tree[which], images.element[which]
    parent, up = trees.parent[tree, child], child < trees.parent.shape[1] - ranks
    tail, head = np.where(up, child, parent) % ranks, np.where(up, parent, child) % ranks
    return EpochEdges(
        trees.epoch[tree, child],
        lines.symmetries[element, tail],
        lines.symmetries[element, head],
        begin[which],
        begin[which + 1],
        -up.astype(np.int64),
    )


def whole_units(weight: FloatArray) -> Int64Array:
    """Return weights in whole units, `PARTS` in all, by largest remainders."""
    exact = weight / weight.sum() * PARTS
    whole = np.floor(exact).astype(np.int64)
    left = PARTS - int(whole.sum())
    whole[np.argsort(whole - exact, kind="stable")[:left]] += 1
    return whole


def laid(
    edges: EpochEdges, routes_from: Callable[[int, int], list[list[int]]]
) -> tuple[EpochEdges, Int64Array, Routes]:
    """Return the edges in parts, the route of each part, and all routes, given the routes of each pair."""
    edges = edges.take(np.lexsort((edges.start, edges.head, edges.tail, edges.epoch)))
    pairs, line = np.unique(np.column_stack([edges.tail, edges.head]), axis=0, return_inverse=True)
    routes_of = [routes_from(tail, head) for tail, head in pairs.tolist()]
    count, line = np.array([len(each) for each in routes_of]), line.ravel()
    base = offsets_of(count)
    new = np.ones(len(line), dtype=bool)
    new[1:] = (np.diff(edges.epoch) != 0) | (np.diff(line) != 0)
    message = np.cumsum(new) - 1
    length = edges.stop - edges.start
    begin = offsets_of(length)[:-1]
    begin = begin - begin[np.flatnonzero(new)][message]
    total = np.bincount(message, length).astype(np.int64)[message]
    parts, routes = [], []
    for place in range(int(count.max())):
        low = np.maximum(begin, total * place // count[line])
        high = np.minimum(begin + length, total * (place + 1) // count[line])
        on = np.flatnonzero((low < high) & (place < count[line]))
        start = edges.start[on] + (low - begin)[on]
        parts.append(edges.take(on)._replace(start=start, stop=start + (high - low)[on]))
        routes.append(base[line[on]] + place)
    together = joined_rows(parts)
    return together, np.concatenate(routes), Routes.of([route for each in routes_of for route in each])
