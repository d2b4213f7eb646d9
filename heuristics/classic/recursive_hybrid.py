"""Hybrid: an allreduce in parts, each of which takes the digits of ranks in its own order and manner.

A message holds each port for α, and a partial sum serves all ranks that still lack it. So where α and bytes
cost about the same, there should be few messages that carry sums, not sums for each rank that wants them.
Simulated annealing (Kirkpatrick, Gelatt, Vecchi, doi 10.1126/science.220.4598.671) searches which digits to
take (all 8 ranks of a machine in one exchange or by twos), in which order, which to scatter, and which to sum
whole. It also searches how the vector is cut in parts, which use several networks in turn. The objective is
the simulated time.

The number of a rank is written in *digits*: one or several for each dimension of the network. In an
*exchange* of a digit, of radix r, each rank sends to the r - 1 others that differ from it in this digit only.
A digit may be *summed*: all send all that they have added up (with radix 2 a step of recursive doubling). Or
it is *scattered*: each gets a part of that and adds it up (recursive halving), and from then on has this part
only. At last all parts are gathered, in the opposite order. Where a digit is *folded* to f < r, only the
ranks whose digit is less than f get parts, and the others rest until these are gathered.

The hybrid of scattered and summed digits is that of Barnett, Littlefield, Payne, van de Geijn (Global combine
algorithms for 2-D meshes with wormhole routing, JPDC 24, 1995). Radices above 2 are in Ruefenacht, Bull,
Booth (Generalisation of recursive doubling for AllReduce, Parallel Computing 69, 2017).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, partial
from typing import Annotated, ClassVar, NamedTuple

import numpy as np

from tutti.heuristics.classic.steps import StepTransfers, schedule_of_steps
from tutti.heuristics.hosts import HostOptions, with_note_on_hosts
from tutti.schedules.capabilities import Capabilities, Groups
from tutti.schedules.collective import Kind
from tutti.schedules.method import Method, Problem
from tutti.schedules.schedule import Chunks, Schedule
from tutti.schedules.simulation.simulate import simulate
from tutti.topologies.exact import BoolArray, FloatArray, Int64Array, offsets_of
from tutti.topologies.graphs.grid_structure import grid_of, placed
from tutti.topologies.kernels import now
from tutti.topologies.options import SECONDS, Whole


class Chain(NamedTuple):
    """The digits of ranks by which a part of the vector is summed, and which of them are scattered.

    Parameters
    ----------
    radices
        The radix of each digit.
    order
        The digits in the order in which they are added up.
    scattered
        The number of digits, first in the order, that are scattered.
    folds
        For each digit the number of its values to which it is scattered.

    Examples
    --------
    Halving in pairs of neighbours, doubling between the pairs:

    >>> Chain((2, 2), (1, 0), 1, (2, 2)).length
    3
    """

    radices: tuple[int, ...]
    order: tuple[int, ...]
    scattered: int
    folds: tuple[int, ...]

    @property
    def length(self) -> int:
        """The number of exchanges."""
        return len(self.order) + self.scattered

    @property
    def transfers(self) -> int:
        """The number of transfers of an item, times the number of items, one a rank."""
        ranks = int(np.prod(self.radices, dtype=object))
        rows, holders = 0, ranks
        for place, digit in enumerate(self.order):
            radix = self.radices[digit]
            if place < self.scattered:
                rows += 2 * ranks * holders // radix * (radix - 1)
                holders = holders // radix
            else:
                rows += ranks * holders * (radix - 1)
        return rows


class ChainTransfers(NamedTuple):
    """Transfers, int64 of one length: sender, receiver and the item, by its rank; and whether they add."""

    source: Int64Array
    target: Int64Array
    item: Int64Array
    adds: bool


def exchanges(chain: Chain, ranks: Int64Array) -> list[ChainTransfers]:
    """Return the exchanges of a chain, one after the other.

    Parameters
    ----------
    chain
        A chain of digits whose radices have the product N.
    ranks
        int64, shape (N,): the rank at each place, the first digit the most significant.
    """
    digits = np.empty((len(chain.radices), len(ranks)), dtype=np.int64)
    digits[:, ranks] = np.unravel_index(np.arange(len(ranks)), chain.radices)
    found = list(_added_up(chain, ranks, digits))
    gathered = [one._replace(source=one.target, target=one.source, adds=False) for one in found]
    return found + gathered[: chain.scattered][::-1]


def _added_up(chain: Chain, ranks: Int64Array, digits: Int64Array) -> Iterator[ChainTransfers]:
    # has[u, i]: whether rank u has a sum of item i that it still sends
    has: BoolArray = np.ones((len(ranks), len(ranks)), dtype=np.bool_)
    for place, digit in enumerate(chain.order):
        targets = []
        for offset in range(1, chain.radices[digit]):  # the ranks whose digit is greater by this, cyclically
            moved = digits.copy()
            moved[digit] = (moved[digit] + offset) % chain.radices[digit]
            targets.append(ranks[np.ravel_multi_index(tuple(moved), chain.radices)])
        part = digits[digit] % chain.folds[digit]
        scatters = place < chain.scattered
        rows = [
            (target, *np.nonzero(has & (part == digits[digit][target][:, None]) if scatters else has))
            for target in targets
        ]
        if scatters:
            has = has & (part == digits[digit][:, None])
        source, item = (np.concatenate([row[column] for row in rows]) for column in (1, 2))
        yield ChainTransfers(source, np.concatenate([row[0][row[1]] for row in rows]), item, True)


class HybridTuning(NamedTuple):
    """Limits of the search for chains."""

    weight: int
    """Number of units into which the vector is divided. With a larger value parts are balanced more
    finely."""
    most_transfers: int
    """Largest number of transfers of a part."""
    work: int
    """Largest number of moves times transfers for each number of parts. A larger value searches longer."""
    kept: int
    """Number of chains whose transfers are cached. A larger value takes more memory."""
    heat: float
    """A change that makes the schedule longer by this fraction of the best time is accepted at first with
    probability 1 / e."""
    swaps: float
    """Fraction of a chain's changes that exchange two digits, and fraction of the other changes that scatter
    other digits."""


TUNING = HybridTuning(weight=64, most_transfers=2**19, work=2**23, kept=32, heat=0.02, swaps=0.5)


@dataclass(frozen=True)
class HybridOptions(HostOptions):
    """Options of recursive_hybrid.

    Parameters
    ----------
    parts
        Largest number of parts into which the vector is cut.
    moves
        Number of changes that are tried for each number of parts.
    time_limit
        Seconds after which no further change is tried; None for no limit.

    Raises
    ------
    InputError
        If one is out of its range.
    """

    OWNER: ClassVar[str] = "recursive_hybrid"

    parts: Annotated[int, Whole(1, TUNING.weight)] = 2
    moves: Annotated[int, Whole(1, 10**6)] = 1000
    time_limit: Annotated[float | None, SECONDS] = None


class HybridPart(NamedTuple):
    """A part of each item: its size in units of 1 / `TUNING.weight`, and its chain."""

    weight: int
    chain: Chain


def synthesize(problem: Problem, options: HybridOptions, rng: np.random.Generator) -> Schedule:
    """Return the fastest schedule found, in the step clock.

    Raises
    ------
    Unsupported
        As `METHOD.supports`.
    """
    METHOD.supports(problem, options)
    return with_note_on_hosts(HybridSearch(problem, options, rng).fastest(options.parts), options)


class HybridSearch:
    """A search on one network."""

    def __init__(self, problem: Problem, options: HybridOptions, rng: np.random.Generator) -> None:
        self.problem, self.moves, self.rng = problem, options.moves, rng
        self.size = problem.size or Fraction(1)
        self.until = math.inf if options.time_limit is None else now() + options.time_limit
        ranks = problem.topology.num_ranks
        grid = grid_of(placed(problem.topology, infer=options.infer_hosts))
        self.ranks = np.arange(ranks) if grid is None else grid.ranks.ravel()
        shape = (ranks,) if grid is None else grid.shape
        ways = itertools.product(*(factorizations(length) for length in shape))
        self.radices = [tuple(itertools.chain(*way)) for way in ways]
        self.exchanges = lru_cache(TUNING.kept)(partial(exchanges, ranks=self.ranks))
        self.starts: dict[HybridPart, FloatArray] = {}
        self.times: dict[tuple[HybridPart, ...], float] = {}

    def fastest(self, count: int) -> Schedule:
        """Return the fastest schedule found, with 1 to `count` parts, one more at a time."""
        radices = self.radices[0]
        halved = Chain(radices, tuple(range(len(radices)))[::-1], len(radices), radices)
        best = self._annealed([HybridPart(TUNING.weight, halved)])
        for _ in range(count - 1):
            largest = max(best)
            half = largest.weight // 2
            cut = [largest._replace(weight=half), largest._replace(weight=largest.weight - half)]
            others = [part for part in best if part.weight and part is not largest]
            best = min(best, self._annealed([*others, *cut]), key=self._time)
        return self.schedule(best)

    def _annealed(self, parts: list[HybridPart]) -> list[HybridPart]:
        """Return the fastest parts on a walk from these."""
        current = best = parts
        before = least = self._time(parts)
        moves = max(1, min(self.moves, TUNING.work // sum(part.chain.transfers for part in parts)))
        for number, chance in enumerate(self.rng.random(moves)):
            if now() > self.until:
                break
            then = self._changed(current)
            time = self._time(then)
            if chance < np.exp(min(0.0, (before - time) / (TUNING.heat * least * (1 - number / moves)))):
                current, before = then, time
            if time < least:
                best, least = then, time
        return best

    def _time(self, parts: Sequence[HybridPart]) -> float:
        """Return the simulated time, infinite where there are too many transfers."""
        used = tuple(part for part in parts if part.weight)
        if any(part.chain.transfers > TUNING.most_transfers for part in used):
            return np.inf
        if used not in self.times:
            self.times[used] = simulate(self.schedule(used), self.size).time
        return self.times[used]

    def schedule(self, parts: Sequence[HybridPart]) -> Schedule:
        """Return the parts' schedule: exchanges come in the order of their starts if parts were alone."""
        used = [part for part in parts if part.weight]
        starts = [self._alone(part) for part in used]
        places = [np.arange(len(one)) for one in starts]
        keys = np.stack([np.concatenate(starts), np.concatenate(places)])
        step = np.unique(keys, axis=1, return_inverse=True)[1].ravel() + 1
        return self._in_steps(used, np.split(step, np.cumsum([len(one) for one in starts])[:-1]))

    def _alone(self, part: HybridPart) -> FloatArray:
        """Return when each exchange of a part starts if there is no other part, in seconds."""
        if part not in self.starts:
            schedule = self._in_steps([part], [np.arange(1, part.chain.length + 1)])
            simulation = simulate(schedule, self.size * part.weight / TUNING.weight)
            first = offsets_of([len(one.item) for one in self.exchanges(part.chain)])[:-1]
            start = np.minimum.reduceat(simulation.start[simulation.message], first)
            self.starts[part] = np.maximum.accumulate(start)
        return self.starts[part]

    def _in_steps(self, parts: Sequence[HybridPart], steps: Sequence[Int64Array]) -> Schedule:
        """Return the schedule of the parts in which each exchange is done in its step."""
        cuts = [part.weight for part in parts]
        share = self.problem.collective.items.share.reduced
        item = np.repeat(np.arange(len(share), dtype=np.int32), len(cuts))
        sizes = share.numerators[item] * np.tile(cuts, len(share))
        chunks = Chunks(item, sizes, share.denominator * sum(cuts))
        rows, adds = [], []
        for number, part in enumerate(parts):
            for step, one in zip(steps[number], self.exchanges(part.chain), strict=True):
                chunk = one.item * len(cuts) + number
                rows.append(StepTransfers.of(step, one.source, one.target, chunk))
                adds.append(np.full(len(chunk), one.adds))
        joined, reduce = StepTransfers.joined(rows), np.concatenate(adds)
        order = np.argsort(joined.step, kind="stable")
        return schedule_of_steps(self.problem, joined.kept(order), chunks, reduce[order])

    def _changed(self, parts: Sequence[HybridPart]) -> list[HybridPart]:
        """Return the parts with a change: of weights, or of a chain."""
        found, rng = list(parts), self.rng
        one, other = rng.integers(len(found), size=2)
        part = found[one]
        match rng.integers(4 if len(found) > 1 else 2):
            case 0:
                radices = self.radices[rng.integers(len(self.radices))]
                order = rng.permutation(len(radices)).tolist()
                scattered = int(rng.integers(len(order) + 1))
                found[one] = part._replace(chain=Chain(radices, tuple(order), scattered, radices))
            case 1:
                found[one] = part._replace(chain=self._neighbour(part.chain))
            case 2:
                found[one] = found[other]._replace(weight=part.weight)
            case _:
                moved = min(part.weight, 2 ** int(rng.integers(5)))
                found[one] = part._replace(weight=part.weight - moved)
                found[other] = found[other]._replace(weight=found[other].weight + moved)
        return found

    def _neighbour(self, chain: Chain) -> Chain:
        """Return a chain with two digits in another order, another fold or more or fewer digits scattered."""
        place, other = self.rng.integers(len(chain.order), size=2).tolist()
        if self.rng.random() < TUNING.swaps:
            order = list(chain.order)
            order[place], order[other] = order[other], order[place]
            return chain._replace(order=tuple(order))
        if self.rng.random() < TUNING.swaps:
            return chain._replace(scattered=int(self.rng.integers(len(chain.order) + 1)))
        folds = list(chain.folds)
        folds[place] = int(self.rng.integers(1, chain.radices[place] + 1))
        return chain._replace(folds=tuple(folds))


def factorizations(number: int) -> list[tuple[int, ...]]:
    """Return all ordered products that make a number.

    Examples
    --------
    >>> factorizations(8)
    [(2, 2, 2), (2, 4), (4, 2), (8,)]
    """
    if number == 1:
        return [()]
    divisors = (divisor for divisor in range(2, number + 1) if number % divisor == 0)
    return [(divisor, *rest) for divisor in divisors for rest in factorizations(number // divisor)]


METHOD = Method(
    name="recursive_hybrid",
    kind="heuristic",
    synthesize=synthesize,
    options=HybridOptions,
    capabilities=Capabilities(
        (Kind.ALLREDUCE,),
        Groups.NONE,
        uneven_shards=False,
        most_ranks=256,  # there is a table of ranks times items
    ),
    size_dependent=lambda problem, options: True,
    seeded=True,
    quick={"moves": 500},
    summary="allreduce digit by digit: few messages, some digits scattered and others summed whole",
)
