"""The method `teccl`: TE-CCL's time-expanded program, in the time clock."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np

from tutti.models.bfb import METHOD as BFB
from tutti.models.forestcoll import METHOD as FORESTCOLL
from tutti.models.solvers import Feature, find_backend
from tutti.models.solvers.options import LEAST_SECONDS
from tutti.models.teccl.epochs import BEST, EXACT, FASTEST, SLOWEST, Epochs, finish_of
from tutti.models.teccl.starts import NO_START, StartSchedule, check_start
from tutti.models.time_expanded import ChunkInstance, by_copies, routes_of
from tutti.schedules.capabilities import Capabilities
from tutti.schedules.collective import Kind
from tutti.schedules.compose import BY_ALLGATHER
from tutti.schedules.method import Method, Problem, chunks_a_shard
from tutti.schedules.schedule import Clock, Schedule
from tutti.topologies.errors import InputError, NoSchedule
from tutti.topologies.kernels import now
from tutti.topologies.options import Choice, Duration, Number, Options, Whole
from tutti.topologies.units import parse_time

if TYPE_CHECKING:
    from tutti.models.teccl.search import EpochLimits, EpochSchedule

KINDS = (*BY_ALLGATHER, Kind.BROADCAST, Kind.REDUCE, Kind.SCATTER, Kind.GATHER, Kind.ALL_TO_ALL)
DEFAULT_SIZE = Fraction(2**20)
"""M where none is given and none matters: if all links are equal, every transfer takes an epoch."""
NAMED = (FASTEST, SLOWEST, BEST, EXACT)
FINISH, REWARD = "finish", "reward"
UPWARD, ONCE = "upward", "once"


@dataclass(frozen=True)
class TecclOptions(Options):
    """Options of TE-CCL.

    Parameters
    ----------
    chunks
        The number of equal chunks into which every item is cut.
    epoch
        Length of an epoch: what a chunk takes on the ``"fastest"`` or the ``"slowest"`` route, or a time with
        its unit. ``"best"``: of these two, and of what messages of more chunks take, the one that ends first.
        ``"exact"``: the longest of which all routes take a multiple, as in TACOS's time-expanded network.
    epochs
        Largest number of epochs; 0: no limit.
    objective
        ``"finish"``: the fewest epochs; ``"reward"``: the paper's, reads early on average, within `epochs`
        or, if that is 0, within the fewest.
    search
        How the fewest epochs are found: ``"upward"``, one number of epochs after the other, or ``"once"``,
        by one program that minimizes the finish.
    buffers
        Whether ranks store chunks to forward them later.
    window
        Epochs of a round of the decomposition; 0: no rounds.
    start
        A method whose schedule is listed into epochs to begin with, or ``"none"``. One that does not fit is
        dropped, and the result's message says so.
    cuts
        Whether the project's lower bounds are used: the search begins at them, and chunks must cross the
        cuts (`models.teccl.program`). Else it begins at the longest route.
    gap
        Gap relative to the optimum, at which to stop early.
    solver
        A back-end for mixed-integer programs.
    time_limit
        Limit of all solves together, a time with its unit.

    Raises
    ------
    InputError
        If a value is out of range, the solver unknown or not installed, or a time none.
    """

    OWNER: ClassVar[str] = "teccl"

    chunks: Annotated[int, Whole(1, words="it must be an integer of at least 1")] = 1
    epoch: str = FASTEST
    epochs: Annotated[int, Whole(0, words="it must be an integer of at least 0")] = 0
    objective: Annotated[str, Choice((FINISH, REWARD))] = FINISH
    search: Annotated[str, Choice((UPWARD, ONCE), words="allowed: upward, once")] = UPWARD
    buffers: bool = True
    window: Annotated[int, Whole(0, words="it must be an integer of at least 0")] = 0
    start: str = NO_START
    cuts: bool = True
    gap: Annotated[float, Number(least=0, below=1)] = 0.0
    solver: str = "highs"
    time_limit: Annotated[str, Duration(words="it must be a positive time")] = "60s"

    def __post_init__(self) -> None:
        """Check the values, those that go together, and that the solver is installed."""
        super().__post_init__()
        if self.window and self.objective != FINISH:
            raise InputError(
                "teccl option window goes with objective 'finish' only; its rounds have their own"
            )
        if self.window and (self.start != NO_START or self.search != UPWARD):
            raise InputError("teccl option window goes without start and search; its rounds have their own")
        words = f"{', '.join(NAMED)} or a positive time"
        try:
            positive = self.epoch in NAMED or parse_time(self.epoch) > 0
        except InputError as error:
            raise InputError(f"teccl option epoch must be {words}: {error}") from error
        if not positive:
            raise InputError(f"teccl option epoch is {self.epoch!r}; it must be {words}")
        find_backend(self.solver, {Feature.MILP})

    @property
    def length(self) -> Fraction | str:
        """The length of an epoch, as `Epochs` takes it."""
        return self.epoch if self.epoch in NAMED else Fraction(parse_time(self.epoch))


def teccl(starts: Mapping[str, Method]) -> Method:
    """Return the method, which may start from these methods under their names."""

    def make(problem: Problem, options: TecclOptions, rng: np.random.Generator) -> Schedule:
        method.supports(problem, options)
        return synthesize(problem, options, rng, starts.get(options.start))

    def check(problem: Problem, options: TecclOptions) -> None:
        check_start("teccl", options.start, [NO_START, *starts])
        ChunkInstance(problem.topology, problem.collective, options.chunks, "teccl", switches=True)
        routes_of(problem.topology)

    method = Method(
        name="teccl",
        kind="exact",
        synthesize=make,
        options=TecclOptions,
        capabilities=Capabilities(KINDS, uneven_shards=False),
        check=check,
        size_dependent=size_dependent,
        seeded=True,
        exact_for=_exact_for,
        summary="multicommodity flows with copies over epochs, by integer programming (TE-CCL)",
    )
    return method


def _exact_for(options: TecclOptions) -> str:
    what = f"{chunks_a_shard(options)} in whole epochs"
    return f"{what}, each window by itself" if options.window else what


def synthesize(
    problem: Problem, options: TecclOptions, rng: np.random.Generator, first: Method | None = None
) -> Schedule:
    """Return the schedule that ends in the fewest epochs, or the one that the options ask for.

    Parameters
    ----------
    problem, options, rng
        As for every method.
    first
        Makes the schedule to start from.

    Raises
    ------
    Unsupported
        As `Method.supports`.
    NoSchedule
        If there is none in this number of epochs, or none was found in time.
    InputError
        If the links differ and the problem has no size.
    """
    if problem.size is None and size_dependent(problem, options):
        raise InputError(f"teccl needs a size on {problem.topology.name}: its epochs depend on it")
    sized = Problem(problem.topology, problem.collective, problem.size or DEFAULT_SIZE)
    task = _Task(sized, options, int(rng.integers(2**31)), first)
    return by_copies(sized, partial(_half, task, []))


def _half(task: _Task, halves: list[Schedule], problem: Problem) -> Schedule:
    """Return a half of an allreduce: if there are switches, the second half is in the first one's epochs.

    In ticks of another length a message would enter the later links of its route at other moments.
    """
    alike = bool(halves and problem.topology.num_switches)
    half = replace(task, epoch=halves[0].tick if alike else None).forward(problem)
    halves.append(half)
    return half


@dataclass(frozen=True, eq=False)
class _Task:
    """A task, with options; its parts do not combine; `epoch`: seconds, if that is no longer free."""

    problem: Problem
    options: TecclOptions
    seed: int
    first: Method | None
    epoch: Fraction | None = None

    def forward(self, problem: Problem) -> Schedule:
        """Return the schedule of a collective that does not combine."""
        from tutti.models.teccl.search import EpochLimits  # Pyomo is slow to import

        options = self.options
        instance = ChunkInstance(problem.topology, problem.collective, options.chunks, "teccl", switches=True)
        seconds = float(parse_time(options.time_limit))
        limits = EpochLimits(options.solver, seconds, self.seed, options.gap, options.buffers, options.cuts)
        backwards = problem.topology is not self.problem.topology
        best = options.length == BEST and self.epoch is None
        length = self.epoch or (FASTEST if best else options.length)
        epochs = Epochs(instance, Fraction(problem.size or DEFAULT_SIZE), length, backwards)
        known = None
        if self.first is not None:
            known = StartSchedule.of(self.first, problem, options.chunks, self.seed)
        if best:
            return _of_all_lengths(epochs, options, limits, known)
        return schedule_of(epochs, _found(epochs, options, limits, known))


def _found(
    epochs: Epochs, options: TecclOptions, limits: EpochLimits, known: StartSchedule | None
) -> EpochSchedule:
    from tutti.models.teccl.search import by_rounds, earliest_finish, least_finish, most_reward

    if options.window:
        return by_rounds(epochs, limits, options.window)
    search = earliest_finish if options.search == UPWARD else least_finish
    start, note = (None, "") if known is None else known.transfers(epochs, options.epochs, options.buffers)
    if options.objective == FINISH:
        found = search(epochs, limits, options.epochs, start)
    else:
        horizon = options.epochs or search(epochs, limits, 0, start).ticks
        fits = start is not None and finish_of(epochs, start) <= horizon
        found = most_reward(epochs, limits, horizon, start if fits else None)
    return replace(found, stats={**found.stats, **({"note": note} if note else {})})


def _of_all_lengths(
    first: Epochs, options: TecclOptions, limits: EpochLimits, known: StartSchedule | None
) -> Schedule:
    """Return the schedule that ends first over all lengths, those of the least bound tried first.

    The time is shared; a length whose bound is no earlier than what was found is left out.
    """
    lengths = [first, *(replace(first, length=length) for length in first.lengths())]
    lengths.sort(key=lambda epochs: epochs.least * epochs.tick)
    until = now() + limits.seconds
    best: Schedule | None = None
    for place, epochs in enumerate(lengths):
        if best is not None and epochs.least * epochs.tick >= _end(best):
            break
        left = (until - now()) / min(len(lengths) - place, 4)  # a quarter of the time left, at least
        try:
            limited = replace(limits, seconds=max(left, LEAST_SECONDS))
            found = schedule_of(epochs, _found(epochs, options, limited, known))
        except NoSchedule:
            continue
        best = found if best is None or _end(found) < _end(best) else best
    if best is None:
        raise NoSchedule(
            f"teccl: found no schedule with any epoch in {limits.seconds:g} s; give it more time"
        )
    return best


def _end(schedule: Schedule) -> Fraction:
    """Return the seconds of its epochs."""
    return Fraction(schedule.tick or 0) * schedule.stats["epochs"]


def schedule_of(epochs: Epochs, found: EpochSchedule) -> Schedule:
    """Return the transfers in the time clock, a tick being an epoch."""
    route, number, start = np.array(found.rows, dtype=np.int64).reshape(-1, 3).T
    return epochs.instance.schedule(
        Clock.TIME,
        (number, route, start),
        epochs.routes.links,
        tick=epochs.tick,
        size=epochs.size,
        stats={"solver_gap": found.gap, "epochs": found.ticks, **found.stats},
    )


def size_dependent(problem: Problem, options: Any) -> bool:
    """Return whether the epochs depend on the size: routes differ, or the length is given or chosen."""
    topology = problem.topology
    return bool(topology.num_switches) or not topology.homogeneous or options.length not in (FASTEST, SLOWEST)


METHOD = teccl({method.name: method for method in (BFB, FORESTCOLL)})
