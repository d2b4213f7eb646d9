"""Trees in epochs by column generation, first over a few epochs, then over twice as many.

The program (`program`) is solved over some trees; its prices, smoothed (Wentges, International Transactions
in Operational Research 1997), then lead to cheaper ones: those that it uses, improved under the prices, and
a few new ones (`pricing`). Trees of the few epochs serve twice as many in the first and in the second half
of each, which costs nothing but α. Where half as many epochs are too few for a tree, all are there at once.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import reduce

import numpy as np

from models.forestcoll.epochs.lines import Lines
from models.forestcoll.epochs.pricing import improve_all, new_trees
from models.forestcoll.epochs.program import Program, Solved, Trees
from topologies.errors import NoSchedule, Unsupported
from topologies.exact import FloatArray, Int64Array
from topologies.topology import Topology

MOST_EPOCHS, LEAST_EPOCHS = 20, 4
MOST_ROWS = 1000
"""Orbits of lines times epochs: a few tenths of a second for each program."""
EPOCHS_FOLD = 2.3
"""Epochs for each factor e of the time that a rank's links need over α."""
FIRST_PART = 0.15
"""Of the time, for half the epochs."""
SMOOTHING = 0.9
"""Of the prices, what remains from one round to the next."""
IMPROVED, ADDED, NEW, FIRST_TREES = 100, 60, 8, 240
"""Trees that are improved in a round, that are added, new ones, and those at first."""
EARLY = 3.0
"""By e to this from one epoch to the next the prices of first trees grow, where they end too late."""
SPREAD = 0.3
"""Of the logarithms of the prices under which new trees begin."""
MOST, KEPT = 900, 500
"""Trees known, and those kept when there are more."""
STALE, PROGRESS = 25, 1e-5
"""Rounds without this much progress, relative, after which it ends."""
LEAST_PRICE = 1e-9


@dataclass(frozen=True, eq=False)
class Plan:
    """Trees for the first root of each orbit, and their parts of a shard.

    Parameters
    ----------
    lines
        What they use.
    trees, weight
        The weights of the trees of a root sum to 1.
    lasting
        float64 (epochs,): seconds.
    """

    lines: Lines
    trees: Trees
    weight: FloatArray
    lasting: FloatArray


def planned(topology: Topology, size: Fraction, seconds: float, rng: np.random.Generator) -> Plan:
    """Return trees for an allgather of M = `size` bytes.

    Parameters
    ----------
    topology
        What `Lines.of` takes, strongly connected.
    size
        M in bytes.
    seconds
        After so many it ends, if it has not before.
    rng
        For matchings and trees.

    Raises
    ------
    Unsupported
        If the network's switches are not as `Lines` needs them, or it is too large or too irregular.
    NoSchedule
        If no tree is found.
    """
    lines, begin = Lines.of(topology), time.monotonic()
    search = _Search(lines, float(size) / topology.num_ranks, rng)
    try:
        search.begin(search.epochs // 2)
    except NoSchedule:  # trees are higher than that
        search.begin(search.epochs)
    else:
        search.run(begin + seconds * FIRST_PART)
        search.halve()
    search.run(begin + seconds)
    return search.plan()


class _Search:
    """The program and its prices; time in units of a shard over the median line."""

    def __init__(self, lines: Lines, shard: float, rng: np.random.Generator) -> None:
        self.lines, self.rng, self.roots = lines, rng, lines.roots
        self.shard = shard
        self.unit = shard / float(np.median(lines.bandwidth))
        self.bandwidth = lines.bandwidth * self.unit / shard
        self.alpha = lines.alpha / self.unit
        self.matchings: list[dict[tuple[int, int], int]] = []
        self.program: Program

    @property
    def epochs(self) -> int:
        """How many are best, about: an even number, more for less α."""
        topology = self.lines.topology
        into = topology.ingress.floats[: topology.num_ranks].min()
        needed = (topology.num_ranks - 1) * self.shard / float(into)
        longest = float(self.lines.alpha.max())
        fold = math.log(max(needed / longest, 1.0)) if longest > 0 else math.inf
        most = min(MOST_EPOCHS, MOST_ROWS // len(self.bandwidth))
        if most < LEAST_EPOCHS:
            raise Unsupported(
                f"trees in epochs: {topology.name} has {len(self.bandwidth)} orbits of links under a group "
                f"that moves every rank; {MOST_ROWS // LEAST_EPOCHS} at most"
            )
        return 2 * int(min(max(EPOCHS_FOLD * fold, LEAST_EPOCHS), most) / 2)

    def begin(self, epochs: int) -> None:
        """Begin with trees under random prices."""
        self.matchings = [self.lines.matching(self.rng) for _ in range(epochs)]
        rows = self.lines.rows(self.matchings)
        found = self._first(rows, 0.0)
        if len(np.unique(found.root)) < len(self.roots):
            found = self._first(rows, EARLY)
        if len(np.unique(found.root)) < len(self.roots):
            raise NoSchedule(f"trees in epochs: none spans {self.lines.topology.name} in {epochs} epochs")
        self.program = Program(rows, self.bandwidth, self.alpha, found)
        self.program.solve()

    def _first(self, rows: Int64Array, early: float) -> Trees:
        """Return trees under random prices that grow by e to the `early` from one epoch to the next."""
        epochs, roots = rows.shape[2], range(len(self.roots))
        growing = np.exp(early * np.arange(epochs))
        prices = self.rng.random((len(self.bandwidth), epochs)) * growing / self.bandwidth[:, None]
        given = self._given(rows, prices.ravel())
        each = -(-FIRST_TREES // len(self.roots))
        trees = [self._new(given, root, each, 1.0)[0] for root in roots]
        return reduce(Trees.plus, trees)

    def halve(self) -> None:
        """Put two epochs in place of each."""
        solved = self._solved
        used = self.program.trees.take(np.flatnonzero(solved.weight > 0))
        first = replace(used, epoch=np.where(used.epoch >= 0, 2 * used.epoch, -1))
        second = replace(used, epoch=np.where(used.epoch >= 0, 2 * used.epoch + 1, -1))
        self.matchings = [matching for matching in self.matchings for _ in range(2)]
        rows = self.lines.rows(self.matchings)
        self.program = Program(rows, self.bandwidth, self.alpha, first.plus(second))
        self.program.solve()

    def run(self, until: float) -> None:
        """Add trees round by round."""
        smooth, least, stale = self._solved.price, self._solved.time, 0
        while time.monotonic() < until and stale < STALE:
            smooth = SMOOTHING * smooth + (1 - SMOOTHING) * self._solved.price
            if not self._round(smooth):
                smooth = self._solved.price
                if not self._round(smooth):
                    return
            stale = stale + 1 if self._solved.time > least * (1 - PROGRESS) else 0
            least = min(least, self._solved.time)

    def plan(self) -> Plan:
        """Return what was found."""
        solved = self._solved
        kept = np.flatnonzero(solved.weight > 0)
        return Plan(
            self.lines, self.program.trees.take(kept), solved.weight[kept], solved.lasting * self.unit
        )

    @property
    def _solved(self) -> Solved:
        return self.program.solved or self.program.solve()

    def _round(self, prices: FloatArray) -> int:
        """Add trees that are cheap under these prices; return how many."""
        solved, given = self._solved, self._given(self.program.rows, prices)
        support = np.flatnonzero(solved.weight > 0)
        chosen = self.rng.choice(support, min(IMPROVED, len(support)), replace=False)
        found = self.program.trees.take(chosen)
        improve_all(given, found.parent, found.epoch, self.rng)
        each = -(-NEW // len(self.roots))
        for root in self.rng.permutation(len(self.roots))[:NEW]:
            found = found.plus(self._new(given, int(root), each, SPREAD)[0])
        reduced = self.program.reduced(found, solved.price, solved.worth)
        order = np.argsort(reduced, kind="stable")
        added = self.program.add(found.take(order[reduced[order] < -LEAST_PRICE][:ADDED]))
        if added:
            self.program.solve()
            if len(self.program.trees) > MOST:
                self.program.forget(KEPT)
        return added

    def _new(self, given: FloatArray, root: int, count: int, spread: float) -> tuple[Trees, FloatArray]:
        """Return new trees for a root, and their prices."""
        parent, epoch, cost = new_trees(given, int(self.roots[root]), count, spread, self.rng)
        spans = np.isfinite(cost)
        return Trees(np.full(int(spans.sum()), root), parent[spans], epoch[spans]), cost[spans]

    def _given(self, rows: Int64Array, prices: FloatArray) -> FloatArray:
        """Return prices (N, N, epochs), infinite where nothing goes."""
        return np.where(rows >= 0, np.append(np.maximum(prices, 0.0) + LEAST_PRICE, 0.0)[rows], np.inf)
