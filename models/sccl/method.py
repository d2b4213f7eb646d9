"""The method `sccl`: the fastest of SCCL's schedules at a size, in the step clock."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, ClassVar

import numpy as np

from tutti.models.solvers import Feature, find_backend
from tutti.models.time_expanded import BY_COPIES, ChunkInstance, by_copies
from tutti.schedules.capabilities import Capabilities, Switches
from tutti.schedules.method import Method, Problem, chunks_a_shard
from tutti.schedules.schedule import Clock, Schedule, step_numbers
from tutti.topologies.errors import InputError
from tutti.topologies.options import Duration, Options, Whole
from tutti.topologies.units import parse_time

if TYPE_CHECKING:
    from tutti.models.sccl.search import FrontierPoint, Rounds


@dataclass(frozen=True)
class ScclOptions(Options):
    """Options of SCCL.

    Parameters
    ----------
    chunks
        C, the number of chunks into which every item is cut.
    steps
        S; 0: the frontier from the fewest steps on, and of it the schedule that is fastest at the size.
    rounds
        R, which goes with `steps`: any schedule of at most R rounds, or the proof that there is none; 0: the
        fewest.
    frontier
        Whether more than the fewest steps are tried where `steps` is 0.
    solver
        A back-end for mixed-integer programs.
    time_limit
        Limit for each number of steps, a time with its unit.
    start
        Whether to begin with a breadth-first schedule; where it meets the lower bound nothing is solved.

    Raises
    ------
    InputError
        If a number is out of range, the solver unknown or not installed, or the time none.
    """

    OWNER: ClassVar[str] = "sccl"

    chunks: Annotated[int, Whole(1, words="it must be an integer of at least 1")] = 1
    steps: Annotated[int, Whole(0, words="it must be an integer of at least 0")] = 0
    rounds: Annotated[int, Whole(0, words="it must be an integer of at least 0")] = 0
    frontier: bool = True
    solver: str = "cp-sat"
    time_limit: Annotated[str, Duration("600s")] = "600s"
    start: bool = True

    def __post_init__(self) -> None:
        """Check the values, and that rounds go with steps."""
        super().__post_init__()
        if self.rounds and not self.steps:
            raise InputError(f"sccl option rounds is {self.rounds} without steps; give both, or steps alone")
        find_backend(self.solver, {Feature.MILP})


def synthesize(problem: Problem, options: ScclOptions, rng: np.random.Generator) -> Schedule:
    """Return the schedule with the fewest, or the given, rounds of its steps, over C chunks of every item.

    Raises
    ------
    Unsupported
        As `METHOD.supports`.
    NoSchedule
        If there is none of these steps and rounds, or none was found in time.
    """
    METHOD.supports(problem, options)
    return by_copies(problem, partial(_forward, options=options, seed=int(rng.integers(2**31))))


def _forward(problem: Problem, options: ScclOptions, seed: int) -> Schedule:
    """Return the schedule of a collective that does not combine."""
    from tutti.models.sccl.search import FrontierPoint, StepLimits, fewest_rounds, frontier, in_rounds

    instance = ChunkInstance(problem.topology, problem.collective, options.chunks)
    seconds = float(parse_time(options.time_limit))
    limits = StepLimits(options.solver, seconds, seed, start=options.start)
    ask = partial(fewest_rounds, limits=limits)
    steps = options.steps or instance.least_steps
    if options.rounds:
        points = [FrontierPoint(steps, in_rounds(instance, steps, options.rounds, limits))]
    elif options.steps or not options.frontier:
        points = [FrontierPoint(steps, ask(instance, steps))]
    else:
        points = list(frontier(instance, ask))
    best = min(points, key=lambda point: _seconds(problem, instance, point))
    frontier_row = tuple((steps, answer.ticks, answer.proven) for steps, answer in points)
    stats = {**best.answer.stats, "solver_gap": best.answer.gap, "frontier": frontier_row}
    return schedule_of(instance, best.answer).replace(stats=stats)


def _seconds(problem: Problem, instance: ChunkInstance, point: FrontierPoint) -> float:
    """Return S α + R chunks over the slowest link; without a size, the number of steps counts."""
    alpha, slowest = max(problem.topology.alpha), min(problem.topology.bandwidth)
    size = instance.collective.items.share[0] * (problem.size or 0) / instance.chunks
    return float(point.steps * alpha + point.answer.ticks * size / slowest)


def schedule_of(instance: ChunkInstance, answer: Rounds) -> Schedule:
    """Return the transfers of an answer, in the step clock."""
    step, link, number = answer.rows
    return instance.schedule(Clock.STEP, (number, link, step_numbers(step)))


def check(problem: Problem, options: ScclOptions) -> None:
    """Raise `Unsupported` for too many chunks."""
    ChunkInstance(problem.topology, problem.collective, options.chunks)


METHOD = Method(
    name="sccl",
    kind="exact",
    synthesize=synthesize,
    options=ScclOptions,
    capabilities=Capabilities(BY_COPIES, uneven_shards=False, switches=Switches.NONE, uneven_links=False),
    check=check,
    size_dependent=lambda problem, options: options.steps == 0 and options.frontier,
    seeded=True,
    exact_for=lambda options: f"rounds of {chunks_a_shard(options)}",
    summary="SCCL: the fewest rounds for given chunks and steps, by integer programming",
)
