r"""The method `few_sums`: an allreduce in few steps, in which links carry as few sums as can be found.

Each rank has a sum, at first what it adds itself. In a step a link may carry the sum of the rank before it to
the next one, where it is added to that one's or takes its place. The program for CP-SAT, for T steps:

    minimize    sum over steps t of L[t]
    subject to  has[t, v, s] = keep[t, v] has[t - 1, v, s]
                               + sum over links l into v of x[t, l] has[t - 1, tail of l, s]
                sum over the links of an orbit o of x[t, l]  <=  links(o) b(o) L[t]
                has[T, v, s] = 1

has says whether what rank s adds is in the sum of rank v after t steps: never twice, as it is at most 1. The
vector is cut in parts, each of which goes the ways of an image of what was found under the network's
symmetries: so all links of an orbit carry as much, and L is the part of a vector that the busiest one does.

Solutions that some symmetries take to themselves have fewer variables, those of orbits. Which symmetries is
drawn by chance, and the best solution is a first one for the program in which none is demanded.

The walks of `heuristics.classic.walks` are solutions that all symmetries of a network take to themselves;
where there are none, or where some ranks should add up what others only use, these are others.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np

from schedules.capabilities import Capabilities, Groups, Switches
from schedules.collective import Kind
from schedules.intervals import PartTransfers, in_equal_parts, sums_sent
from schedules.method import Method, Problem
from schedules.schedule import Schedule
from topologies.errors import NoSchedule
from topologies.exact import Int32Array, Int64Array
from topologies.graphs.shortest_paths import diameter, hop_distances
from topologies.graphs.symmetry import automorphisms, drawn_subgroup
from topologies.kernels import now
from topologies.progress import tell
from topologies.ranges import Duration, Options, Whole
from topologies.topology import Topology
from topologies.units import parse_time

if TYPE_CHECKING:
    from ortools.sat.python import cp_model

MOST_RANKS, MOST_ELEMENTS = 64, 2**8
"""Of a network; and of the symmetries that are used."""
MOST_PRODUCTS = 2**14
"""Of two variables in a program, by which it is judged whether CP-SAT gets anywhere."""
MORE = 2
"""So many numbers of steps are tried, the network's diameter first."""
SLICE, EXPLORED = 1 / 12, 0.5
"""Of the time, what a program has at first, and for how long they are tried."""
MOST_DRAWN = 2**10
"""Times that symmetries are drawn."""
WORKERS = 4
"""Of CP-SAT, which take turns: neighbourhoods of solutions are searched by some."""
FINE = 10**4
"""Units of a vector's time on the fastest link."""
GREATEST, MOST_LOAD = 2**28, 2**40
"""Of such units: a vector's time on slow links, and all that an orbit carries; CP-SAT adds in 64 bits."""


@dataclass(frozen=True)
class FewSumsOptions(Options):
    """Options of few_sums.

    Parameters
    ----------
    time_limit
        A time with its unit, for all programs together.
    steps
        How many there are; by default as many as the network is wide, or one more.

    Raises
    ------
    InputError
        If the time is none, or there are no steps.
    """

    OWNER: ClassVar[str] = "few_sums"

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


@dataclass(eq=False)
class _Program:
    """The program of so many steps, whose solutions have some symmetries.

    Parameters
    ----------
    topology
        The network.
    alike
        The symmetries of the solution.
    weight
        int64, shape (links,): what a message adds to the load of its link's orbit.
    kind
        int64, shape (links,): the orbit of each.
    steps
        How many.
    """

    topology: Topology
    alike: _Symmetries
    weight: Int64Array
    kind: Int64Array
    steps: int
    known: dict[tuple[Any, ...], cp_model.IntVar] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """About how many products it has."""
        topology, often = self.topology, len(self.alike.nodes)
        return self.steps * topology.num_links * topology.num_ranks // often

    @cached_property
    def model(self) -> cp_model.CpModel:
        """What CP-SAT takes."""
        from ortools.sat.python import cp_model  # slow to import

        model = cp_model.CpModel()
        own = self.alike.of_node == np.arange(self.topology.num_nodes)
        for rank in np.flatnonzero(own).tolist():
            for step in range(1, self.steps + 1):
                self._goes_on(model, step, rank)
            for source in range(self.topology.num_ranks):
                model.add(self._has(model, self.steps, rank, source) == 1)
        self._carry_little(model)
        return model

    def _var(self, model: cp_model.CpModel, *key: Any) -> cp_model.IntVar:
        if key not in self.known:
            self.known[key] = model.new_bool_var(str(key))
        return self.known[key]

    def _sends(self, model: cp_model.CpModel, step: int, link: int) -> cp_model.IntVar:
        return self._var(model, "sends", step, int(self.alike.of_link[link]))

    def _has(self, model: cp_model.CpModel, step: int, rank: int, source: int) -> Any:
        """Return the variable, or 1 or 0 where that is known."""
        if not step:
            return int(rank == source)
        if self._hops[source, rank] > step:
            return 0
        return self._var(model, "has", step, int(self.alike.of_pair[rank, source]))

    @cached_property
    def _hops(self) -> Int32Array:
        return hop_distances(self.topology)

    def _goes_on(self, model: cp_model.CpModel, step: int, rank: int) -> None:
        """Say what a rank has after a step."""
        into = np.flatnonzero(self.topology.target == rank).tolist()
        kept = self._var(model, "kept", step, rank)
        arriving = [self._sends(model, step, link) for link in into]
        model.add_bool_or([kept, *arriving])
        for source in range(self.topology.num_ranks):
            before = self._has(model, step - 1, rank, source)
            held: list[tuple[cp_model.IntVar, Any, tuple[Any, ...]]] = [
                (kept, before, ("kept", rank, source))
            ]
            for sends, link in zip(arriving, into, strict=True):
                tail, number = int(self.topology.source[link]), int(self.alike.of_place[link, source])
                held.append((sends, self._has(model, step - 1, tail, source), ("sent", number)))
            total = sum(self._both(model, one, other, (step, *key)) for one, other, key in held)
            model.add(self._has(model, step, rank, source) == total)

    def _both(self, model: cp_model.CpModel, one: cp_model.IntVar, other: Any, key: tuple[Any, ...]) -> Any:
        """Return the product of two variables, or of one and a known number."""
        if isinstance(other, int):
            return one if other else 0
        if ("both", *key) not in self.known:
            both = self._var(model, "both", *key)
            model.add_bool_or([one.negated(), other.negated(), both])
            model.add_implication(both, one)
            model.add_implication(both, other)
        return self.known["both", *key]

    def _carry_little(self, model: cp_model.CpModel) -> None:
        """Ask for the least sum of loads, and of such for the fewest messages."""
        loads, messages = [], []
        for step in range(1, self.steps + 1):
            load = model.new_int_var(0, MOST_LOAD, f"load {step}")
            for kind in np.unique(self.kind):
                sent = [self._sends(model, step, link) for link in np.flatnonzero(self.kind == kind).tolist()]
                model.add(int(self.weight[self.kind == kind][0]) * sum(sent) <= load)
                messages += sent
            loads.append(load)
        model.minimize(FINE * sum(loads) + sum(messages))

    def solved(self, seconds: float, seed: int, start: dict[tuple[Any, ...], int]) -> _Solution | None:
        """Return the best solution that is found."""
        from ortools.sat.python import cp_model

        model = self.model
        for key, var in self.known.items():
            if key in start:
                model.add_hint(var, start[key])
        solver = cp_model.CpSolver()
        solver.parameters.max_time_in_seconds = max(seconds, 0.01)
        solver.parameters.num_workers, solver.parameters.random_seed = WORKERS, seed
        if solver.solve(model) not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            return None
        values = {key: int(solver.value(var)) for key, var in self.known.items()}
        return _Solution(self, values, solver.objective_value / FINE**2)


@dataclass(frozen=True, eq=False)
class _Solution:
    """Values of a program's variables by their keys, and the sum of loads, in vectors on the fastest link."""

    program: _Program
    values: dict[tuple[Any, ...], int]
    load: float

    @property
    def sent(self) -> PartTransfers:
        """What is sent."""
        alike, steps = self.program.alike, []
        for step in range(1, self.program.steps + 1):
            sends = [self.values["sends", step, number] for number in alike.of_link.tolist()]
            kept = np.array([self.values["kept", step, rank] for rank in alike.of_node.tolist()], np.bool_)
            steps.append((np.flatnonzero(sends), kept))
        return sums_sent(self.program.topology, steps)

    def start(self) -> dict[tuple[Any, ...], int]:
        """Return values for a program without symmetries."""
        alike, found = self.program.alike, dict[tuple[Any, ...], int]()
        pairs, links, orbit = alike.of_pair, alike.of_link, alike.of_node
        for key, value in self.values.items():
            what, step, last = key[0], key[1], key[-1]
            if what == "sends":
                found.update({(what, step, link): value for link in np.flatnonzero(links == last).tolist()})
            elif what == "has":
                where = np.argwhere(pairs == last)
                found.update({(what, step, rank * len(orbit) + s): value for rank, s in where.tolist()})
            elif what == "kept":
                found.update({(what, step, rank): value for rank in np.flatnonzero(orbit == last).tolist()})
        return found


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
    all_ = _Symmetries(*automorphisms(topology).some_elements(MOST_ELEMENTS))
    best = None
    for found in _solutions(problem, all_, options, rng):
        if best is None or _seconds(problem, found) < _seconds(problem, best):
            best = found
            tell(f"few_sums: {best.program.steps} steps, {best.load:.3g} vectors on a link")
    if best is None:
        raise NoSchedule(
            f"few_sums on {topology.name}: found none in {options.time_limit}; give it more time"
        )
    return in_equal_parts(topology, problem.collective, _images(best.sent, all_))


def _seconds(problem: Problem, found: _Solution) -> float:
    """Return the sum over steps of α and the largest load over bandwidth."""
    topology = problem.topology
    vector = float((problem.size or Fraction(0)) / max(topology.bandwidth))
    return found.program.steps * float(max(topology.alpha)) + found.load * vector


def _solutions(
    problem: Problem, all_: _Symmetries, options: FewSumsOptions, rng: np.random.Generator
) -> Iterator[_Solution]:
    """Yield solutions with symmetries by chance, and then one that begins with the best and needs none."""
    topology, limit = problem.topology, float(parse_time(options.time_limit))
    begun, wide = now(), diameter(topology)
    kind = np.unique(all_.of_link, return_inverse=True)[1].astype(np.int64)
    rates = topology.bandwidth.numerators.astype(np.float64)
    weight = np.ceil(FINE * rates.max() / rates / np.bincount(kind)[kind])
    weight = np.minimum(weight, GREATEST).astype(np.int64)
    steps = range(wide, wide + MORE) if options.steps is None else [options.steps]
    ended, best, drawn = set[tuple[int, bytes]](), dict[int, _Solution](), 0
    while now() - begun < EXPLORED * limit and drawn < MOST_DRAWN:
        alike, drawn = _Symmetries(*drawn_subgroup(topology, (all_.nodes, all_.links), rng)), drawn + 1
        for number in steps:
            program = _Program(topology, alike, weight, kind, number)
            key = number, np.sort(alike.of_link).tobytes()
            if key in ended or program.size > MOST_PRODUCTS:
                continue
            ended.add(key)
            found = program.solved(min(SLICE * limit, limit - (now() - begun)), int(rng.integers(2**31)), {})
            if found and (number not in best or found.load < best[number].load):
                best[number] = found
                yield found
    asked = [min(best.values(), key=lambda found: _seconds(problem, found)).program.steps] if best else steps
    for number in asked:
        program = _Program(topology, all_.trivial, weight, kind, number)
        start = best[number].start() if best else {}
        if program.size <= MOST_PRODUCTS:
            found = program.solved(limit - (now() - begun), int(rng.integers(2**31)), start)
            if found:
                yield found


def _images(sent: PartTransfers, all_: _Symmetries) -> list[PartTransfers]:
    """Return what is sent, as each symmetry takes it elsewhere, once each."""
    known = dict[bytes, PartTransfers]()
    for links in all_.links:
        order = np.lexsort((links[sent.link], sent.step))
        image = PartTransfers(sent.step[order], links[sent.link][order], sent.reduce[order])
        known.setdefault(image.step.tobytes() + image.link.tobytes(), image)
    return list(known.values())


def check(problem: Problem, options: FewSumsOptions) -> None:
    """Raise `Unsupported` for more ranks than can be searched."""
    if problem.topology.num_ranks > MOST_RANKS:
        raise METHOD.unsupported(f"needs at most {MOST_RANKS} ranks; {problem.topology.name} has more")


METHOD = Method(
    name="few_sums",
    kind="heuristic",
    synthesize=synthesize,
    options=FewSumsOptions,
    size_dependent=lambda problem, options: options.steps is None,
    seeded=True,
    quick={"time_limit": "4s"},
    capabilities=Capabilities((Kind.ALLREDUCE,), Groups.NONE, switches=Switches.NONE),
    check=check,
    summary="allreduce in few steps, in which links carry as few sums as CP-SAT finds",
)
