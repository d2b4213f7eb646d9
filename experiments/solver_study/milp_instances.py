"""The mixed-integer programs of a study, by name, all of allgather, and the bounds of their optima.

A name may have options after it, ``sccl chunks=2``. An upper bound (of a minimum) is the objective of a
solver's own answer once it has been checked; a lower one comes from the project's bounds.

An answer is checked in exact arithmetic (`worth`). Its whole columns are rounded. If there are no others,
rows and objective are computed in integers and fractions, and no row may be exceeded. If there are continuous
columns, a linear program finds their best values with the whole ones fixed. Its solution is then put into the
rows, in fractions, and may exceed a side by `KEPT`, because solvers compute in floats.

`find_model` finds every model of a study, linear ones too, by its text.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Annotated, Any, ClassVar

import numpy as np
import pyomo.environ as pyo
from scipy.sparse import eye_array, vstack

from tutti.experiments.old_names import current_model
from tutti.experiments.solver_study.instances import (
    MODELS,
    Bounds,
    SolverInstance,
    StudyModel,
    said_of,
    timed,
)
from tutti.models.sccl.program import build as sccl_model
from tutti.models.sccl.search import breadth_first
from tutti.models.solvers import CompiledModel, HighsOptions, SolutionStatus, solve
from tutti.models.taccl.costs import Costs
from tutti.models.taccl.method import METHOD
from tutti.models.taccl.options import TacclOptions
from tutti.models.taccl.ordering import ordered
from tutti.models.taccl.routing import greedy_routing
from tutti.models.taccl.routing_model import WEIGHT, RoutingModel
from tutti.models.taccl.scheduling import SchedulingModel
from tutti.models.taccl.sketch import Policy
from tutti.models.taccl.stages import demand_for
from tutti.models.taccl.transfers import Contiguity, RoutedTransfers
from tutti.models.teccl.epochs import SLOWEST, Epochs
from tutti.models.teccl.program import EpochState, TecclProgram
from tutti.models.time_expanded import ChunkInstance
from tutti.schedules.collective import Kind, collective
from tutti.schedules.method import Problem
from tutti.topologies.errors import InputError, Unsupported, suggestion
from tutti.topologies.exact import FloatArray, frozen
from tutti.topologies.options import Options, Whole, parse_assignments
from tutti.topologies.topology import Topology
from tutti.topologies.units import parse_size

KEPT = 1e-6
"""The largest excess over a side of a row with continuous columns, relative to the side or 1."""


def worth(model: CompiledModel, values: FloatArray) -> Fraction | None:
    """Return the exact objective of the values, their whole columns rounded; None if they break a row.

    Parameters
    ----------
    model
        The program.
    values
        float64, one a column.
    """
    rounded, tolerance = np.where(model.integer, np.rint(values), values), 0.0
    completed: FloatArray | None = rounded
    if not model.integer.all():
        completed, tolerance = _completed(model, rounded), KEPT
    if completed is None or violation(model, completed, negligible=tolerance) > tolerance:
        return None
    used = np.flatnonzero(model.cost * completed)
    terms = zip(model.cost[used].tolist(), completed[used].tolist(), strict=True)
    return sum((Fraction(cost) * Fraction(value) for cost, value in terms), Fraction(model.offset))


def _completed(model: CompiledModel, values: FloatArray) -> FloatArray | None:
    """Return the best continuous columns for the whole ones given; None if there are none within 20 s."""
    lower, upper = (np.where(model.integer, values, side) for side in (model.lower, model.upper))
    none = frozen(np.zeros(model.num_columns), np.bool_)
    fixed = replace(model, integer=none, lower=frozen(lower, np.float64), upper=frozen(upper, np.float64))
    result = solve(fixed, "highs", HighsOptions(method="simplex", tolerance=1e-9, time_limit=20.0))
    if result.status is not SolutionStatus.OPTIMAL or result.values is None:
        return None
    return np.where(model.integer, values, result.values)


NEGLIGIBLE = 1e-12
"""Violations below this count as 0. With a smaller value more rows are added up in fractions."""


def violation(model: CompiledModel, values: FloatArray, negligible: float = NEGLIGIBLE) -> Fraction:
    """Return the largest excess of a row or column over a side, relative to the side or to 1, the larger one.

    Sums are computed in floats first. Rows whose violation may be the largest, by the error bound of a sum of
    products (Higham, Accuracy and Stability of Numerical Algorithms, section 3.1), are computed in fractions.

    Parameters
    ----------
    model
        The program.
    values
        float64, one a column.
    negligible
        A smaller violation is not computed exactly, and may be returned as 0.
    """
    matrix = vstack([model.matrix(), eye_array(model.num_columns)], format="csr")
    sides = ((-1, np.append(model.row_lower, model.lower)), (1, np.append(model.row_upper, model.upper)))
    sums, sizes = matrix @ values, abs(matrix) @ np.abs(values)
    whole = bool((matrix.data == np.rint(matrix.data)).all() and (values == np.rint(values)).all())
    error = (np.diff(matrix.indptr) + 2) * np.finfo(np.float64).eps * sizes
    room = 0.0 if whole and sizes.max(initial=0.0) < 2.0**53 else error
    at_most = np.zeros(len(sums))  # an upper bound of each row's violation
    for sign, side in sides:
        known = np.where(np.isfinite(side), side, sums)
        at_most = np.maximum(at_most, (sign * (sums - known) + room) / np.maximum(1.0, np.abs(known)))
    worst = Fraction(0)
    # Invariant: rows that are not reached have no larger violation than `worst`.
    for place in np.argsort(-at_most, kind="stable").tolist():
        if at_most[place] <= max(float(worst), negligible):
            break
        entries = slice(*matrix.indptr[place : place + 2])
        pairs = zip(matrix.data[entries].tolist(), values[matrix.indices[entries]].tolist(), strict=True)
        total = sum((Fraction(a) * Fraction(x) for a, x in pairs), Fraction(0))
        ends = ((sign, Fraction(side[place])) for sign, side in sides if np.isfinite(side[place]))
        worst = max([worst, *(sign * (total - end) / max(Fraction(1), abs(end)) for sign, end in ends)])
    return worst


def integrality(model: CompiledModel, values: FloatArray) -> float:
    """Return the largest distance of a whole column's value from a whole number, exact in floats."""
    own = values[model.integer]
    return float(np.abs(own - np.rint(own)).max(initial=0.0))


CHECKED = "the incumbent checked in own arithmetic; the project's bound"
"""The value of column ``certified_by``."""
SLACK = 0.1
"""Room that is added to a known time, the horizon of a program, where times are no whole numbers: a solver on
a grid rounds each of them up."""
ROUNDING = Fraction(1, 10**9)
"""Relative error that is allowed for in bounds that were computed in floats."""


@dataclass(frozen=True)
class TacclProgram(Options):
    """Options of TACCL's programs.

    Parameters
    ----------
    chunks
        The chunks of a shard.
    symmetry
        Whether sends are equal under the sketch's symmetry or, without one, under automorphisms.
    sketch
        The option of the method `taccl`; None: all links of a network without switches.
    size
        M, if the sketch gives none.
    """

    OWNER: ClassVar[str] = "model taccl"

    chunks: Annotated[int, Whole(1)] = 1
    symmetry: bool = True
    sketch: str | None = None
    size: str = "1MB"

    def __post_init__(self) -> None:
        """Check the values, and that the sketch and the size can be read."""
        super().__post_init__()
        _ = self.settings, parse_size(self.size)

    @property
    def settings(self) -> Any:
        """The method's options; the sketch is read."""
        given = None if self.sketch is not None and self.chunks == 1 else self.chunks
        return TacclOptions(
            sketch=self.sketch, chunks=given, symmetry=self.symmetry, contiguity=Contiguity.ALL
        )

    def costs(self, topology: Topology) -> Any:
        """Return the demand's costs; raises where the network needs a sketch."""
        what = collective(Kind.ALLGATHER, topology.num_ranks)
        sketch = self.settings.read()
        size = parse_size(self.size) if sketch is None or sketch.size is None else sketch.size
        problem = Problem(topology, what, Fraction(size))
        METHOD.supports(problem, self.settings)
        return Costs(demand_for(problem, self.settings))


@dataclass(frozen=True)
class ChunkedProgram(Options):
    """Options of TE-CCL's program.

    Parameters
    ----------
    chunks
        The chunks of a shard.
    """

    OWNER: ClassVar[str] = "model teccl"

    chunks: Annotated[int, Whole(1)] = 1

    def instance(self, topology: Topology) -> Any:
        """Return chunks and links; raises where there are switches."""
        chunked = ChunkInstance(topology, collective(Kind.ALLGATHER, topology.num_ranks), self.chunks)
        _ = chunked.capacity
        return chunked


@dataclass(frozen=True)
class SteppedProgram(ChunkedProgram):
    """Options of SCCL's program.

    Parameters
    ----------
    steps
        S, the number of steps; 0: the fewest that the distances allow.

    The other is that of `ChunkedProgram`.
    """

    OWNER: ClassVar[str] = "model sccl"

    steps: Annotated[int, Whole(0)] = 0

    def steps_of(self, chunked: Any) -> int:
        """Return S for a network's chunks and links."""
        return int(self.steps or chunked.least_steps)


def _checked(compiled: CompiledModel, seconds: float, proven: Fraction | None) -> SolverInstance:
    """Return an instance whose optimum is bounded by what is proven and by the objectives of answers."""

    def certify(values: FloatArray | None, duals: FloatArray | None) -> Bounds:
        reached = None if values is None else worth(compiled, values)
        return (reached, proven) if compiled.maximize else (proven, reached)

    return SolverInstance(compiled, seconds, None, CHECKED, certify)


def _routing(topology: Topology, options: TacclProgram) -> SolverInstance:
    """TACCL's routing, equations 1 to 15.

    If all sends take the same time, all times are made whole multiples of it. That loses no optimum, because
    with the paths fixed the earliest starts are such multiples. So all columns are whole, and a solver of
    whole numbers solves the model itself, not an approximation on a grid.
    """
    costs = options.costs(topology)

    def made() -> Any:
        """Build it within the time of the greedy routing, or else of one send after the other."""
        if (first := greedy_routing(costs)) is not None:
            return RoutingModel(costs, float(first[1]) + (0.0 if costs.alike else SLACK)).build()
        sends = len(costs.demand) * costs.demand.logical.topology.num_ranks
        return RoutingModel(costs, float(math.ceil(float(costs.lat.max()) * sends))).build()

    compiled, seconds = timed(made)
    if costs.alike and (compiled.value == np.rint(compiled.value)).all():
        compiled = replace(compiled, integer=frozen(np.ones(compiled.num_columns), np.bool_))
    # A link's policy may reward its use: that takes `WEIGHT` at most off the objective, and off the bound.
    least = Fraction(costs.receiving) * (1 - (0 if costs.alike else ROUNDING))
    rewarded = any(link.policy is Policy.MAX for link in costs.demand.logical.links)
    return _checked(compiled, seconds, least - Fraction(WEIGHT) if rewarded else least)


def _scheduling(topology: Topology, options: TacclProgram) -> SolverInstance:
    """TACCL's contiguity and exact scheduling, equations 16 to 21, of a greedy routing in order."""
    costs = options.costs(topology)
    first = greedy_routing(costs)
    if first is None:
        said = f"the symmetry of {topology.name} leaves none: give it symmetry=false"
        raise InputError(f"model taccl-scheduling needs a greedy routing; {said}")
    times = ordered(RoutedTransfers.spreading(costs.demand, first[0]), 0, 0, np.random.default_rng(0))
    model = SchedulingModel(times, options.settings.contiguity, SLACK)
    if not model.follows:
        raise Unsupported(f"taccl-scheduling: no link of {topology.name} carries two chunks; nothing to join")
    return _checked(*timed(model.build), None)


def _sccl(topology: Topology, options: SteppedProgram) -> SolverInstance:
    """SCCL: the fewest rounds of the fewest steps."""
    chunked = options.instance(topology)
    steps = options.steps_of(chunked)
    if steps < chunked.least_steps:
        raise InputError(
            f"model sccl option steps is {steps}; on {topology.name} at least {chunked.least_steps}"
        )

    def made() -> Any:
        m = sccl_model(chunked, steps)
        m.total = pyo.Objective(expr=pyo.quicksum(m.rounds.values()))
        return m

    return _checked(*timed(made), Fraction(max(chunked.least_rounds, steps)))


def _teccl(topology: Topology, options: ChunkedProgram) -> SolverInstance:
    """TE-CCL: the most reward within the epochs of a breadth-first schedule.

    An epoch is the time of a send on the slowest link. The rounds of that schedule are such epochs, so there
    is a solution. The reward is bounded because no demand is read before its chunk can be there.
    """
    chunked = options.instance(topology)
    schedule = breadth_first(chunked)
    if schedule is None:
        raise Unsupported("teccl: there is no breadth-first schedule")
    steps, link, _ = schedule
    loads = np.zeros((int(steps.max()) + 1, topology.num_links), np.int64)
    np.add.at(loads, (steps, link), 1)
    rounds = int((-(-loads // chunked.capacity))[1:].max(axis=1).clip(1).sum())
    epochs = Epochs(chunked, Fraction(2**20), SLOWEST)

    program = TecclProgram(epochs, EpochState.start(epochs), rounds)
    reads = [int(program.earliest[c, n]) for c, n in epochs.instance.wanted]
    after = {k: sum(Fraction(1, e + 1) for e in range(k, rounds + 1)) for k in set(reads)}

    def made() -> Any:
        m = program.build()
        program.add_reward()
        return m

    return _checked(*timed(made), Fraction(sum(after[k] for k in reads)) * (1 + ROUNDING))


def _entries(factor: Callable[..., int], topology: Topology, options: ChunkedProgram | TacclProgram) -> int:
    """Return a matrix's entries: `factor` has the number for a pair of a chunk and a link."""
    return factor(options, topology) * options.chunks * topology.num_ranks * topology.num_links


MIXED: dict[str, StudyModel] = {
    name: StudyModel(name, said_of(build), Kind.ALLGATHER, build, partial(_entries, factor), options)
    for name, build, options, factor in (
        ("taccl-routing", _routing, TacclProgram, lambda own, network: 10),
        ("taccl-scheduling", _scheduling, TacclProgram, lambda own, network: 10),
        ("sccl", _sccl, SteppedProgram, lambda own, network: 3 * own.steps_of(own.instance(network))),
        ("teccl", _teccl, ChunkedProgram, lambda own, network: 5 * int(own.instance(network).least_rounds)),
    )
}
"""The mixed-integer models of a study; a new one is an entry here."""


def model_text(name: str, options: Mapping[str, Any]) -> str:
    """Return a model's name with its options, as `find_model` reads it.

    Examples
    --------
    >>> model_text("taccl-routing", {"chunks": 2, "symmetry": False})
    'taccl-routing chunks=2 symmetry=false'
    """
    texts = {key: str(own).lower() if isinstance(own, bool) else own for key, own in options.items()}
    return current_model(" ".join([name, *(f"{key}={text}" for key, text in texts.items())]))


def is_mixed(text: str) -> bool:
    """Whether a model is a mixed-integer program."""
    return text.partition(" ")[0] in MIXED


def find_model(text: str) -> StudyModel:
    """Return the model of that name, with its options.

    Raises
    ------
    InputError
        If there is none, or it has no such option; the message suggests one.
    """
    name, *words = current_model(text).split() or [""]
    models = MODELS | MIXED
    if name not in models:
        raise InputError(f"unknown model '{name}'{suggestion(name, models)}")
    model, given = models[name], parse_assignments(words)
    fields = [field.name for field in dataclasses.fields(model.options)]
    for key in given:
        if key not in fields:
            known = suggestion(key, fields) if fields else "; it has none"
            raise InputError(f"model {name} has no option '{key}'{known}")
    return model.given(text, model.options(**given)) if fields else model
