r"""The method `cp_allreduce`: an allreduce in few steps, in which links carry as few sums as can be found.

Each rank has a sum, at first its own input. In a step a link may carry the sum of the rank before it to the
next rank, where it is added to that rank's sum or replaces it. The program for CP-SAT, for T steps:

    minimize    sum over steps t of L[t].
    subject to  has[t, v, s] = keep[t, v] has[t - 1, v, s]
                               + sum over links l into v of x[t, l] has[t - 1, tail of l, s].
                sum over the links of an orbit o of x[t, l]  <=  links(o) b(o) L[t]
                has[T, v, s] = 1

The variable has[t, v, s] says whether the input of rank s is in the sum of rank v after t steps. It is at
most 1, so no input is added twice. The vector is cut into parts. Each part is sent as an image of the
solution under one of the network's symmetries. So all links of an orbit carry the same amount, and L is the
part of a vector that the busiest one carries.

Solutions that some symmetries take to themselves have fewer variables, those of orbits. These symmetries are
drawn at random. The best solution is a first one for the program in which no symmetry is demanded.

Parts may also use different solutions, weighted so that the sum of the L[t] is least. This is a linear
program. Its prices are the cost of a message of an orbit in a step, so they tell which solution may still
help.

The walks of `heuristics.classic.walks` are solutions that all symmetries of a network take to themselves.
This method finds others where there are no walks, or where some ranks should add up sums that others only
use.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NamedTuple

import numpy as np

from tutti.models.all_to_all.rounding import rounded_shares
from tutti.models.allreduce.certificate import CLOSE
from tutti.models.solvers.options import LEAST_SECONDS
from tutti.models.solvers.ortools import MOST_WHOLE
from tutti.models.solvers.outcome import ROUNDING
from tutti.schedules.capabilities import Capabilities, Groups, Switches
from tutti.schedules.collective import Kind
from tutti.schedules.intervals import PartTransfers, in_parts, sums_sent
from tutti.schedules.method import Method, Problem
from tutti.schedules.schedule import Schedule
from tutti.topologies.errors import NoSchedule
from tutti.topologies.exact import BoolArray, FloatArray, Int32Array, Int64Array
from tutti.topologies.graphs.shortest_paths import diameter, hop_distances
from tutti.topologies.graphs.symmetry import automorphisms, drawn_subgroup
from tutti.topologies.kernels import now
from tutti.topologies.options import Duration, Options, Whole
from tutti.topologies.progress import tell
from tutti.topologies.topology import Topology
from tutti.topologies.units import parse_time

if TYPE_CHECKING:
    from ortools.sat.python import cp_model


class CpAllreduceTuning(NamedTuple):
    """Parameters of the search."""

    taken: int
    """Most symmetries times links that are used. A larger value uses more symmetries, from 2^8 to 2^11."""
    products: int
    """Most products of two variables in a program. CP-SAT makes no progress in larger ones."""
    part: float
    """Fraction of the time limit for one program. With a larger value fewer programs are solved."""
    drawn: int
    """Most symmetries that are drawn to explore, which ends after half of the time."""
    drawn_for_fewer: int
    """Symmetries that are drawn to find fewer that suffice. With a larger value schedules have fewer
    pieces."""
    kept: int
    """Last solutions of a program that are kept. With a larger value the mixtures take longer."""
    workers: int
    """CP-SAT's strategies, used in turn; some of them search neighbourhoods of known solutions."""
    fine: int
    """Units of the time that a vector takes on the fastest link, in which loads are whole numbers."""
    greatest: int
    """Most units of a vector on a slow link, and of a price."""


TUNING = CpAllreduceTuning(
    taken=2**20,
    products=2**14,
    part=1 / 12,
    drawn=2**10,
    drawn_for_fewer=2**6,
    kept=8,
    workers=4,
    fine=10**4,
    greatest=2**28,
)


@dataclass(frozen=True)
class FewSumsOptions(Options):
    """Options of cp_allreduce.

    Parameters
    ----------
    time_limit
        A time with its unit, for all programs together.
    steps
        The number of steps; by default the network's diameter, or one more.

    Raises
    ------
    InputError
        If the time is no duration, or there are no steps.
    """

    OWNER: ClassVar[str] = "cp_allreduce"

    time_limit: Annotated[str, Duration("60s")] = "30s"
    steps: Annotated[int | None, Whole(1)] = None


@dataclass(frozen=True, eq=False)
class _Symmetries:
    """Elements of a group, the identity first; int32, shapes (elements, nodes) and (elements, links)."""

    nodes: Int32Array
    links: Int32Array

    @property
    def trivial(self) -> _Symmetries:
        """The identity alone."""
        return _Symmetries(self.nodes[:1], self.links[:1])

    @cached_property
    def of_node(self) -> Int32Array:
        """Shape (nodes,): the least node of the orbit of each."""
        return self.nodes.min(axis=0)

    @cached_property
    def of_link(self) -> Int32Array:
        """Shape (links,): the least link of the orbit of each."""
        return self.links.min(axis=0)

    @cached_property
    def of_pair(self) -> Int64Array:
        """Shape (nodes, nodes): a number of the orbit of each pair of nodes."""
        count = self.nodes.shape[1]
        return (self.nodes[:, :, None].astype(np.int64) * count + self.nodes[:, None, :]).min(axis=0)

    @cached_property
    def of_place(self) -> Int64Array:
        """Shape (links, nodes): a number of the orbit of each link and node."""
        links = self.links[:, :, None].astype(np.int64)
        return (links * self.nodes.shape[1] + self.nodes[:, None, :]).min(axis=0)


class _LinkOrbits(NamedTuple):
    """Orbits of links, which symmetries take to each other.

    Parameters
    ----------
    of
        int64, shape (links,): the orbit of each.
    load
        Shape (orbits,): the load on an orbit by one message, in vectors on the fastest link.
    """

    of: Int64Array
    load: FloatArray

    @classmethod
    def under(cls, topology: Topology, all_: _Symmetries) -> _LinkOrbits:
        """Return the orbits of a network's links."""
        _, first, of = np.unique(all_.of_link, return_index=True, return_inverse=True)
        rates = topology.bandwidth.numerators.astype(np.float64)
        return cls(of.astype(np.int64), rates.max() / rates[first] / np.bincount(of))


@dataclass(eq=False)
class _FewSumsProgram:
    """The program of a number of steps, whose solutions have some symmetries.

    Parameters
    ----------
    topology
        The network.
    alike
        The symmetries of the solution.
    orbits
        Orbits of links that carry the same amount.
    steps
        The number of steps.
    """

    topology: Topology
    alike: _Symmetries
    orbits: _LinkOrbits
    steps: int
    known: dict[tuple[Any, ...], cp_model.IntVar] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Make the constraints for CP-SAT, without an objective."""
        from ortools.sat.python import cp_model  # slow to import

        self.model, self._hops = cp_model.CpModel(), hop_distances(self.topology)
        own = self.alike.of_node == np.arange(self.topology.num_nodes)
        for rank in np.flatnonzero(own).tolist():
            for step in range(1, self.steps + 1):
                self._goes_on(step, rank)
            for source in range(self.topology.num_ranks):
                self.model.add(self._has(self.steps, rank, source) == 1)

    def _var(self, *key: Any) -> cp_model.IntVar:
        if key not in self.known:
            self.known[key] = self.model.new_bool_var(str(key))
        return self.known[key]

    def _sends(self, step: int, link: int) -> cp_model.IntVar:
        return self._var("sends", step, int(self.alike.of_link[link]))

    def _has(self, step: int, rank: int, source: int) -> Any:
        """Return the variable, or 1 or 0 where that is known."""
        if not step:
            return int(rank == source)
        if self._hops[source, rank] > step:
            return 0
        return self._var("has", step, int(self.alike.of_pair[rank, source]))

    def _goes_on(self, step: int, rank: int) -> None:
        """Add the sum that a rank has after a step."""
        into = np.flatnonzero(self.topology.target == rank).tolist()
        kept = self._var("kept", step, rank)
        arriving = [self._sends(step, link) for link in into]
        self.model.add_bool_or([kept, *arriving])
        for source in range(self.topology.num_ranks):
            before = self._has(step - 1, rank, source)
            held: list[tuple[cp_model.IntVar, Any, tuple[Any, ...]]] = [
                (kept, before, ("both", step, "kept", rank, source))
            ]
            for sends, link in zip(arriving, into, strict=True):
                before = self._has(step - 1, int(self.topology.source[link]), source)
                held.append((sends, before, ("both", step, "sent", int(self.alike.of_place[link, source]))))
            total = sum(self._both(*each) for each in held)
            self.model.add(self._has(step, rank, source) == total)

    def _both(self, one: cp_model.IntVar, other: Any, key: tuple[Any, ...]) -> Any:
        """Return the product of two variables, or of one and a known number."""
        if isinstance(other, int):
            return one if other else 0
        if key not in self.known:
            both = self._var(*key)
            self.model.add_bool_or([one.negated(), other.negated(), both])
            self.model.add_implication(both, one)
            self.model.add_implication(both, other)
        return self.known[key]

    @cached_property
    def evenly(self) -> Any:
        """The sum of loads, and among equal ones the fewest messages."""
        fine, greatest = TUNING.fine, TUNING.greatest
        weight = np.minimum(np.ceil(fine * self.orbits.load), greatest).astype(np.int64)
        most = min(MOST_WHOLE, int(weight.max()) * self.topology.num_links)
        loads = [self.model.new_int_var(0, most, f"load {step}") for step in range(1, self.steps + 1)]
        for step, load in enumerate(loads, 1):
            for orbit, links in enumerate(self._links):
                self.model.add(int(weight[orbit]) * self._messages(step, links) <= load)
        every = range(self.topology.num_links)
        return fine * sum(loads) + sum(self._messages(step, every) for step in range(1, self.steps + 1))

    def cheaply(self, price: FloatArray) -> Any:
        """Return the sum of prices, shape (steps, orbits), of a vector on all links of an orbit."""
        each = price * self.orbits.load
        cost = np.rint(TUNING.greatest * each / each.max()).astype(np.int64) + 1
        return sum(
            int(cost[step - 1, orbit]) * self._messages(step, links)
            for step in range(1, self.steps + 1)
            for orbit, links in enumerate(self._links)
        )

    def _messages(self, step: int, links: Iterable[int]) -> Any:
        return sum(self._sends(step, link) for link in links)

    @cached_property
    def _links(self) -> list[list[int]]:
        """The links of each orbit."""
        return [np.flatnonzero(self.orbits.of == orbit).tolist() for orbit in range(len(self.orbits.load))]

    def solved(self, seconds: float, seed: int, least: Any, start: _Solution | None) -> list[_Solution]:
        """Return the last solutions that are found, each better than those before."""
        from ortools.sat.python import cp_model

        known, values = self.known, list[dict[tuple[Any, ...], int]]()

        class Keep(cp_model.CpSolverSolutionCallback):
            def on_solution_callback(self) -> None:
                values.append({key: int(self.value(var)) for key, var in known.items()})

        model = self.model
        model.clear_hints()
        hints = ((var, start.hint(key)) for key, var in known.items()) if start else ()
        for var, value in hints:
            if value is not None:
                model.add_hint(var, value)
        model.minimize(least)
        solver = cp_model.CpSolver()
        solver.parameters.max_time_in_seconds = max(seconds, LEAST_SECONDS)
        solver.parameters.num_workers, solver.parameters.random_seed = TUNING.workers, seed
        proven = solver.solve(model, Keep()) == cp_model.OPTIMAL
        return [_Solution(self, each, proven) for each in values[-TUNING.kept :]]


@dataclass(frozen=True, eq=False)
class _Solution:
    """Values of a program's variables by their keys, and whether the last of its solutions is the best."""

    program: _FewSumsProgram
    values: dict[tuple[Any, ...], int]
    proven: bool = False

    @cached_property
    def load(self) -> FloatArray:
        """Shape (steps, orbits): the load of each link, in vectors on the fastest one."""
        orbits = self.program.orbits
        steps = [np.bincount(orbits.of, sends, len(orbits.load)) for sends, _ in self._steps]
        return np.stack(steps) * orbits.load

    @property
    def _steps(self) -> Iterator[tuple[Int64Array, BoolArray]]:
        """Yield for each step how often each link sends, and whether each rank keeps its sum."""
        alike = self.program.alike
        for step in range(1, self.program.steps + 1):
            sends = np.array([self.values["sends", step, link] for link in alike.of_link.tolist()])
            yield (
                sends,
                np.array([self.values["kept", step, rank] for rank in alike.of_node.tolist()], np.bool_),
            )

    @cached_property
    def alone(self) -> float:
        """The sum over steps of the largest load."""
        return float(self.load.max(axis=1).sum())

    @property
    def sent(self) -> PartTransfers:
        """The transfers of the solution."""
        steps = [(np.flatnonzero(sends), kept) for sends, kept in self._steps]
        return sums_sent(self.program.topology, steps)

    def hint(self, key: tuple[Any, ...]) -> int | None:
        """Return the value here of a variable of the program without symmetries; None if it has none."""
        alike, (what, step, *_, last) = self.program.alike, key
        orbits: dict[str, Any] = {
            "sends": alike.of_link,
            "has": alike.of_pair.ravel(),
            "kept": alike.of_node,
        }
        return self.values.get((what, step, int(orbits[what][last]))) if what in orbits else None


@dataclass(eq=False)
class _Mixture:
    """Solutions with a number of steps, and the parts of the vector that use each.

    Parameters
    ----------
    steps
        The number of steps.
    solutions
        The solutions that were found.
    part
        Shape (solutions,).
    load
        The sum over steps of the largest load, in vectors on the fastest link.
    price, least
        Shape (steps, orbits): the price of a vector on all links of an orbit; and the cost of solutions in
        use.
    """

    steps: int
    solutions: list[_Solution] = field(default_factory=list)
    part: FloatArray = field(default_factory=lambda: np.zeros(0))
    load: float = np.inf
    price: FloatArray = field(default_factory=lambda: np.zeros((0, 0)))
    least: float = np.inf

    def add(self, solutions: Iterable[_Solution]) -> None:
        """Add some, and choose the parts again."""
        from scipy.optimize import linprog  # slow to import

        self.solutions += solutions
        scale = min(each.alone for each in self.solutions)
        mixed = np.flatnonzero(self._loads.max(axis=(0, 1)) <= scale / ROUNDING)  # so that numbers are near
        loads = self._loads[..., mixed]
        steps, orbits, count = loads.shape
        largest = -np.repeat(np.eye(steps), orbits, axis=0)
        found = linprog(
            np.repeat([1.0, 0.0], [steps, count]),
            A_ub=np.hstack([largest, loads.reshape(-1, count) / scale]),
            b_ub=np.zeros(steps * orbits),
            A_eq=np.repeat([0.0, 1.0], [steps, count])[None],
            b_eq=[1.0],
        )
        self.part, self.load = np.zeros(len(self.solutions)), float(scale * found.fun)
        self.part[mixed] = found.x[steps:]
        self.least = float(scale * found.eqlin.marginals[0])
        self.price = -found.ineqlin.marginals.reshape(steps, orbits)

    @property
    def best(self) -> _Solution | None:
        """The solution with the least loads alone."""
        return min(self.solutions, key=lambda each: each.alone, default=None)

    def cost(self, solution: _Solution) -> float:
        """Return the cost of a solution."""
        return float((self.price * solution.load).sum()) if self.solutions else np.inf

    @property
    def _loads(self) -> FloatArray:
        """Shape (steps, orbits, solutions)."""
        return np.stack([each.load for each in self.solutions], axis=-1)

    @property
    def _rounded(self) -> Int64Array:
        """int64, shape (solutions,): the parts in units, or the best one alone if that is as good."""
        for parts, whole in rounded_shares(self.part, np.zeros(len(self.part), np.int64)):
            units = np.array(parts)
            load = (self._loads @ units / whole).max(axis=1).sum()
            if load <= (1 + CLOSE) * self.load:
                return units
        alone = np.array([each.alone for each in self.solutions])
        return units if load < alone.min() else np.eye(len(alone), dtype=np.int64)[alone.argmin()]

    def sent(self, alike: _Symmetries) -> tuple[list[PartTransfers], list[int]]:
        """Return the transfers of each piece of the vector, and the relative sizes of the pieces."""
        units = self._rounded
        used = np.flatnonzero(units).tolist()
        images = [_images(self.solutions[own].sent, alike) for own in used]
        whole = math.lcm(*map(len, images))
        sizes = [
            int(units[own]) * whole // len(all_) for own, all_ in zip(used, images, strict=True) for _ in all_
        ]
        common = math.gcd(*sizes)
        return list(itertools.chain(*images)), [size // common for size in sizes]


def synthesize(problem: Problem, options: FewSumsOptions, rng: np.random.Generator) -> Schedule:
    """Return the fastest schedule found, in the step clock.

    Raises
    ------
    NoSchedule
        If none was found in time.
    Unsupported
        As `METHOD.supports`.
    """
    METHOD.supports(problem, options)
    topology = problem.topology
    most = np.clip(TUNING.taken // topology.num_links, 2**8, 2**11)
    all_ = _Symmetries(*automorphisms(topology).some_elements(int(most)))
    search = _FewSumsSearch(problem, all_, options, rng)
    search.explore()
    search.improve(search.best)
    best = search.best
    if not best.solutions:
        found, more = (f" in {options.time_limit}", "more time, or") if search.left <= 0 else ("", "more")
        raise NoSchedule(f"cp_allreduce on {topology.name}: found none{found}; give it {more} steps")
    every, times = (all_.nodes, all_.links), range(TUNING.drawn_for_fewer)
    drawn = [_Symmetries(*drawn_subgroup(topology, every, rng)) for _ in times]
    alike = [each for each in [*drawn, all_] if np.array_equal(each.of_link, all_.of_link)]
    return in_parts(topology, problem.collective, *best.sent(min(alike, key=lambda each: len(each.nodes))))


class _FewSumsSearch:
    """Looks for solutions with some symmetries, and then for cheap ones.

    Parameters
    ----------
    problem, options, rng
        The method's.
    all_
        The network's symmetries.
    """

    def __init__(
        self, problem: Problem, all_: _Symmetries, options: FewSumsOptions, rng: np.random.Generator
    ) -> None:
        self.problem, self.all_, self.rng = problem, all_, rng
        self.begun, self.limit = now(), float(parse_time(options.time_limit))
        wide, self.orbits = diameter(problem.topology), _LinkOrbits.under(problem.topology, all_)
        steps = (wide, wide + 1) if options.steps is None else [options.steps]
        self.mixtures = [_Mixture(number) for number in steps]

    @property
    def best(self) -> _Mixture:
        """The fastest mixture."""
        return min(self.mixtures, key=self._seconds)

    @property
    def left(self) -> float:
        """The seconds that are left."""
        return self.limit - (now() - self.begun)

    def _seconds(self, found: _Mixture) -> tuple[float, float]:
        """Return the sum over steps of α and the largest load over bandwidth, and the load."""
        topology = self.problem.topology
        vector = float((self.problem.size or Fraction(0)) / max(topology.bandwidth))
        bytes_ = found.load * vector if found.solutions else np.inf
        return found.steps * float(max(topology.alpha)) + bytes_, found.load

    def _program(self, alike: _Symmetries, steps: int) -> _FewSumsProgram | None:
        """Return the program for solutions with some symmetries; None if it would be too large."""
        topology = self.problem.topology
        products = steps * topology.num_links * topology.num_ranks // len(alike.nodes)
        too_large = products > TUNING.products
        return None if too_large else _FewSumsProgram(topology, alike, self.orbits, steps)

    def explore(self) -> None:
        """Look for even loads, under random symmetries."""
        ended, topology = set[bytes](), self.problem.topology
        for _ in range(TUNING.drawn):
            if self.left <= self.limit / 2:
                break
            alike = _Symmetries(*drawn_subgroup(topology, (self.all_.nodes, self.all_.links), self.rng))
            if np.sort(alike.of_link).tobytes() in ended:
                continue
            ended.add(np.sort(alike.of_link).tobytes())
            for mixture in self.mixtures:
                program = self._program(alike, mixture.steps)
                if program is not None:
                    self._solve(mixture, program, program.evenly)

    def improve(self, mixture: _Mixture) -> None:
        """Look for even loads without symmetries, and for cheap solutions while there are some."""
        whole = self._program(self.all_.trivial, mixture.steps)
        programs = list(dict.fromkeys(solution.program for solution in mixture.solutions))
        if whole is not None:
            self._solve(mixture, whole, whole.evenly, mixture.best)
            programs.append(whole)
        closed = 0
        for program in itertools.cycle(programs if mixture.solutions else []):
            if self.left <= 0 or closed == len(programs):
                break
            start = min(mixture.solutions, key=mixture.cost) if program is whole else None
            if self._solve(mixture, program, program.cheaply(mixture.price), start):
                closed = len(programs) if program is whole else closed + 1
            else:
                closed = 0

    def _solve(
        self, mixture: _Mixture, program: _FewSumsProgram, least: Any, start: _Solution | None = None
    ) -> bool:
        """Solve a program and add its solutions; return whether no cheaper one than those in use exists."""
        seconds = min(TUNING.part * self.limit, self.left)
        found = program.solved(seconds, int(self.rng.integers(2**31)), least, start)
        if not found:
            return False
        cheaper, before = mixture.cost(found[-1]) < (1 - ROUNDING) * mixture.least, mixture.load
        mixture.add(found)
        if mixture is self.best and mixture.load < (1 - ROUNDING) * before:
            tell(f"cp_allreduce: {mixture.steps} steps, {mixture.load:.3g} vectors on a link")
        return found[-1].proven and not cheaper


def _images(sent: PartTransfers, all_: _Symmetries) -> list[PartTransfers]:
    """Return the transfers under each symmetry, each result once."""
    known = dict[bytes, PartTransfers]()
    for links in all_.links:
        order = np.lexsort((links[sent.link], sent.step))
        image = PartTransfers(sent.step[order], links[sent.link][order], sent.reduce[order])
        known.setdefault(image.step.tobytes() + image.link.tobytes(), image)
    return list(known.values())


def check(problem: Problem, options: FewSumsOptions) -> None:
    """Raise `Unsupported` for too many ranks, and for fewer steps than the network's diameter."""
    topology, most = problem.topology, 64
    if topology.num_ranks > most:
        raise METHOD.unsupported(f"needs at most {most} ranks; {topology.name} has more")
    if options.steps is not None and options.steps < (least := diameter(topology)):
        raise METHOD.unsupported(f"has {options.steps} steps, and {topology.name} needs {least} at least")


METHOD = Method(
    name="cp_allreduce",
    kind="heuristic",
    synthesize=synthesize,
    options=FewSumsOptions,
    size_dependent=lambda problem, options: options.steps is None,
    seeded=True,
    quick={"time_limit": "4s"},
    capabilities=Capabilities(
        (Kind.ALLREDUCE,), Groups.NONE, switches=Switches.NONE, further="at most 64 ranks"
    ),
    check=check,
    summary="allreduce in few steps, in which links carry as few sums as CP-SAT finds",
)
