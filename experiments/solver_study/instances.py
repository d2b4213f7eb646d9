"""The linear programs of a study, by name: a topology turned into matrices, and what certifies its value.

Of some models the exact optimum is known without a linear program (BFB by counting, routing by the bottleneck
cut), or another algorithm proves it (allreduce, by cuts and trees). Of all-to-all every solver's answer
proves an interval of its own, in integers and whatever the solver's tolerance was; all of them hold, so their
intersection does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from tutti.experiments.runner.tasks import Stopwatch
from tutti.models.solvers import CompiledModel, SolverResult, compile_model
from tutti.schedules.collective import Kind, collective
from tutti.topologies.exact import FloatArray
from tutti.topologies.topology import Topology

if TYPE_CHECKING:
    from tutti.models.all_to_all.optimum import FlowProgram

PROOF_SECONDS = 60.0
"""How long the proof of an allreduce optimum may take, once an instance; what is proven by then counts."""

BYTES_AN_ENTRY = 1500
"""Memory for a nonzero while a model is built, compiled and written; measured: 600 to 1,800."""

Bounds = tuple[Fraction | None, Fraction | None]
"""What is proven of an optimum: from below and from above."""
UNKNOWN: Bounds = (None, None)


@dataclass(frozen=True, eq=False)
class SolverInstance:
    """A linear or mixed-integer program, ready to be solved.

    Parameters
    ----------
    compiled
        Its matrices.
    build_s
        Seconds from the topology to the matrices.
    known
        The optimum, where it is known exactly.
    certified_by
        What proves the value, in words.
    certify
        From a solver's values and duals to bounds on the optimum; either may be None.
    """

    compiled: CompiledModel
    build_s: float
    known: Fraction | None
    certified_by: str
    certify: Callable[[FloatArray | None, FloatArray | None], Bounds] = lambda values, duals: UNKNOWN

    def bounds(self, result: SolverResult) -> Bounds:
        """Return what is proven of the optimum, with a solver's answer at hand."""
        if self.known is not None:
            return self.known, self.known
        return self.certify(result.values, result.duals)


@dataclass(frozen=True)
class StudyModel:
    """A kind of linear program, or of mixed-integer program.

    Parameters
    ----------
    name, summary
        As users write it; what it is.
    kind
        The collective that it speaks of.
    build
        From a topology to the instance; raises `Unsupported` where the model does not suit the network.
    entries
        About how many nonzeros its matrix has; of BFB's and mixed-integer programs at most.
    options
        A frozen dataclass that checks itself, which `build` and `entries` also take; None: without options.
    """

    name: str
    summary: str
    kind: Kind
    build: Callable[..., SolverInstance]
    entries: Callable[..., int]
    options: type[Any] | None = None

    def given(self, text: str, options: Any) -> StudyModel:
        """Return the model with its options, under a name that says them."""
        made = {name: partial(getattr(self, name), options=options) for name in ("build", "entries")}
        return replace(self, name=text, options=None, **made)

    def memory(self, topology: Topology) -> int:
        """Return about how many bytes building and writing it takes."""
        return self.entries(topology) * BYTES_AN_ENTRY


def timed(build: Callable[[], CompiledModel]) -> tuple[CompiledModel, float]:
    """Return the matrices and the seconds that making them took."""
    with Stopwatch() as watch:
        made = build()
    return made, watch.seconds


def _bfb(topology: Topology) -> SolverInstance:
    from tutti.experiments.solver_study.programs import whole_model, whole_optimum
    from tutti.models.bfb.method import METHOD
    from tutti.schedules.method import Problem

    METHOD.supports(Problem(topology, collective(Kind.ALLGATHER, topology.num_ranks)), METHOD.options())
    whole_optimum(topology)  # its kernels compile here, if they must, and not in the measured time
    compiled, seconds = timed(lambda: compile_model(whole_model(topology)))
    return SolverInstance(compiled, seconds, whole_optimum(topology), "counting, exact")


def _routing(topology: Topology) -> SolverInstance:
    from tutti.experiments.solver_study.programs import routing_model, routing_optimum

    compiled, seconds = timed(lambda: compile_model(routing_model(topology)))
    return SolverInstance(compiled, seconds, routing_optimum(topology), "bottleneck cut, exact")


def _all_to_all(topology: Topology) -> SolverInstance:
    from tutti.models.all_to_all.demand import Demand
    from tutti.models.all_to_all.optimum import FlowProgram

    demand = Demand.of(topology, collective(Kind.ALL_TO_ALL, topology.num_ranks))
    program = FlowProgram(demand)

    def certify(values: FloatArray | None, duals: FloatArray | None) -> Bounds:
        return _rate_bounds(program, values, duals)

    return SolverInstance(program.compiled, program.build_s, None, "lengths and a flow, in integers", certify)


def _rate_bounds(program: FlowProgram, values: FloatArray | None, duals: FloatArray | None) -> Bounds:
    """Return bounds on f: the time is proven, and f is the inverse of it in the model's units."""
    from tutti.models.all_to_all.certificate import upper_bound
    from tutti.models.all_to_all.optimum import best_lengths
    from tutti.models.all_to_all.rounding import exact_flow

    demand = program.demand
    unit = Fraction(int(demand.amounts.max()), demand.denominator) / max(demand.topology.bandwidth)
    fastest, _ = best_lengths(demand, None if duals is None else program.lengths(duals))
    if values is None or not values[-1] > 0:
        return None, unit / fastest
    slowest = upper_bound(exact_flow(demand, program.flows(values)))
    return unit / slowest, unit / fastest


def _allreduce(topology: Topology) -> SolverInstance:
    from tutti.models.allreduce import allreduce_optimum
    from tutti.models.allreduce.model import allreduce_model

    compiled, seconds = timed(lambda: compile_model(allreduce_model(topology)))

    @cache
    def proven() -> Bounds:
        """Prove it once, when it is first asked for: a program that is only written needs no proof."""
        optimum = allreduce_optimum(topology, time_limit=PROOF_SECONDS, by="cuts")
        fastest = max(topology.bandwidth)
        return 1 / (optimum.upper * fastest), 1 / (optimum.lower * fastest)

    return SolverInstance(
        compiled, seconds, None, "cuts and trees, in integers", lambda values, duals: proven()
    )


def _flow_entries(topology: Topology) -> int:
    """Return 3 N links: a flow leaves a node, enters a node, and loads a link; of BFB's likewise."""
    return 3 * topology.num_ranks * topology.num_links


def _allreduce_entries(topology: Topology) -> int:
    """Return the entries of two flows for each rank, and of the flow that carries b' over switches."""
    ranks, links = topology.num_ranks, topology.num_links
    arcs = ranks * (ranks - 1) if topology.num_switches else links
    return 8 * ranks * (arcs + ranks) + (3 * ranks * links if topology.num_switches else 0)


def _routing_entries(topology: Topology) -> int:
    return 4 * topology.num_ranks**2 * topology.num_links


BFB = StudyModel(
    "bfb", "BFB's linear programs (3.1) of all nodes and steps as one", Kind.ALLGATHER, _bfb, _flow_entries
)
MCF = StudyModel(
    "mcf",
    "all-to-all as a multi-commodity flow, aggregated by source (A.1)",
    Kind.ALL_TO_ALL,
    _all_to_all,
    _flow_entries,
)
ALLREDUCE = StudyModel(
    "allreduce",
    "allreduce by in-trees and out-trees, its max-flows written out (B.5)",
    Kind.ALLREDUCE,
    _allreduce,
    _allreduce_entries,
)
ROUTING = StudyModel(
    "routing", "the routing relaxation of allgather", Kind.ALLGATHER, _routing, _routing_entries
)
OLD = (
    replace(BFB, name="bfb-pyomo", summary="another name of bfb"),
    replace(MCF, name="all-to-all-pyomo", summary="another name of mcf"),
)
MODELS: dict[str, StudyModel] = {model.name: model for model in (BFB, MCF, ALLREDUCE, ROUTING, *OLD)}
"""The models of a study; a new one is an entry here."""
