"""The method `teccl`: TE-CCL's time-expanded program, in the time clock."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np

from tutti.models.solvers import Feature, find_backend
from tutti.models.solvers.options import LEAST_SECONDS
from tutti.models.teccl.epochs import BEST, EXACT, FASTEST, SLOWEST, Epochs, finish_of
from tutti.models.teccl.starts import NO_START, STARTS, StartSchedule, check_start
from tutti.models.time_expanded import BY_COPIES, ChunkInstance, by_copies, routes_of
from tutti.schedules.capabilities import Capabilities
from tutti.schedules.method import Method, Problem, chunks_a_shard
from tutti.schedules.schedule import Clock, Schedule
from tutti.topologies.errors import InputError, NoSchedule
from tutti.topologies.kernels import now
from tutti.topologies.options import Choice, Duration, Number, Options, Whole
from tutti.topologies.units import parse_time

if TYPE_CHECKING:
    from tutti.models.teccl.search import EpochLimits

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


def check(problem: Problem, options: TecclOptions) -> None:
    """Refuse a start that is not known, items that can't be cut, and too many routes.

    Raises
    ------
    InputError
        If the start is none of `starts.STARTS`.
    Unsupported
        As `ChunkInstance` and `routes_of`.
    """
    check_start("teccl", options.start, [NO_START, *STARTS])
    ChunkInstance(problem.topology, problem.collective, options.chunks, "teccl", switches=True)
    routes_of(problem.topology)


def synthesize(problem: Problem, options: TecclOptions, rng: np.random.Generator) -> Schedule:
    """Return the schedule that ends in the fewest epochs, or the one that the options ask for.

    Raises
    ------
    Unsupported
        As `METHOD.supports`.
    NoSchedule
        If there is none in this number of epochs, or none was found in time.
    InputError
        If the links differ and the problem has no size.
    """
    from tutti.models.teccl.search import EpochLimits  # Pyomo is slow to import

    METHOD.supports(problem, options)
    if problem.size is None and size_dependent(problem, options):
        raise InputError(f"teccl needs a size on {problem.topology.name}: its epochs depend on it")
    size = Fraction(problem.size or DEFAULT_SIZE)
    seed, seconds = int(rng.integers(2**31)), float(parse_time(options.time_limit))
    limits = EpochLimits(options.solver, seconds, seed, options.gap, options.buffers, options.cuts)
    halves: list[Schedule] = []

    def forward(part: Problem) -> Schedule:
        """Return the schedule of a collective that does not combine.

        If there are switches, the second half of an allreduce is in the first one's epochs. In ticks of
        another length a message would enter the later links of its route at other moments.
        """
        instance = ChunkInstance(part.topology, part.collective, options.chunks, "teccl", switches=True)
        epoch = halves[0].tick if halves and part.topology.num_switches else None
        best = options.length == BEST and epoch is None
        length = epoch or (FASTEST if best else options.length)
        epochs = Epochs(instance, size, length, backwards=part.topology is not problem.topology)
        first = STARTS.get(options.start)
        known = None if first is None else StartSchedule.of(first, part, options.chunks, seed)
        halves.append((_of_all_lengths if best else _of_length)(epochs, options, limits, known))
        return halves[-1]

    return by_copies(Problem(problem.topology, problem.collective, size), forward)


def _of_length(
    epochs: Epochs, options: TecclOptions, limits: EpochLimits, known: StartSchedule | None
) -> Schedule:
    """Return the schedule for one length of epochs, in the time clock; a tick is an epoch."""
    from tutti.models.teccl.search import by_rounds, earliest_finish, least_finish, most_reward

    search = earliest_finish if options.search == UPWARD else least_finish
    start, note = (None, "") if known is None else known.transfers(epochs, options.epochs, options.buffers)
    if options.window:
        found = by_rounds(epochs, limits, options.window)
    elif options.objective == FINISH:
        found = search(epochs, limits, options.epochs, start)
    else:
        horizon = options.epochs or search(epochs, limits, 0, start).ticks
        fits = start is not None and finish_of(epochs, start) <= horizon
        found = most_reward(epochs, limits, horizon, start if fits else None)
    route, number, begin = np.array(found.rows, dtype=np.int64).reshape(-1, 3).T
    schedule = epochs.instance.schedule(
        Clock.TIME, (number, route, begin), epochs.routes.links, tick=epochs.tick, size=epochs.size
    )
    stats = {"solver_gap": found.gap, "epochs": found.ticks, **found.stats}
    return schedule.replace(stats={**stats, "note": note} if note else stats)


def _of_all_lengths(
    first: Epochs, options: TecclOptions, limits: EpochLimits, known: StartSchedule | None
) -> Schedule:
    """Return the schedule that ends first over all lengths, those of the least bound tried first.

    The time is shared; a length whose bound is no earlier than what was found is left out.
    """
    lengths = [first, *(replace(first, length=length) for length in first.lengths())]
    lengths.sort(key=lambda epochs: epochs.least * epochs.tick)
    until = now() + limits.seconds
    best, end = None, Fraction(0)
    for place, epochs in enumerate(lengths):
        if best is not None and epochs.least * epochs.tick >= end:
            break
        left = (until - now()) / min(len(lengths) - place, 4)  # a quarter of the time left, at least
        try:
            limited = replace(limits, seconds=max(left, LEAST_SECONDS))
            found = _of_length(epochs, options, limited, known)
        except NoSchedule:
            continue
        ended = epochs.tick * found.stats["epochs"]
        if best is None or ended < end:
            best, end = found, ended
    if best is None:
        raise NoSchedule(
            f"teccl: found no schedule with any epoch in {limits.seconds:g} s; give it more time"
        )
    return best


def size_dependent(problem: Problem, options: Any) -> bool:
    """Return whether the epochs depend on the size: routes differ, or the length is given or chosen."""
    topology = problem.topology
    return bool(topology.num_switches) or not topology.homogeneous or options.length not in (FASTEST, SLOWEST)


METHOD = Method(
    name="teccl",
    kind="exact",
    synthesize=synthesize,
    options=TecclOptions,
    capabilities=Capabilities(BY_COPIES, uneven_shards=False),
    check=check,
    size_dependent=size_dependent,
    seeded=True,
    exact_for=lambda options: (
        chunks_a_shard(options)
        + (" in whole epochs, each window by itself" if options.window else " in whole epochs")
    ),
    summary="multicommodity flows with copies over epochs, by integer programming (TE-CCL)",
)
