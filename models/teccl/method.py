"""The method `teccl`: TE-CCL's time-expanded program, in the time clock."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from models.sccl.instance import Instance
from models.solvers import Feature, find_backend
from models.teccl.epochs import BEST, FASTEST, SLOWEST, Epochs
from schedules.collective import Kind
from schedules.compose import BY_ALLGATHER, from_allgather
from schedules.method import Method, Problem
from schedules.reverse import reverse
from schedules.schedule import Chunks, Clock, Schedule
from topologies.errors import InputError, NoSchedule
from topologies.transforms import transpose
from topologies.units import parse_time

if TYPE_CHECKING:
    from models.teccl.search import Found, Limits

KINDS = (*BY_ALLGATHER, Kind.BROADCAST, Kind.REDUCE, Kind.SCATTER, Kind.GATHER, Kind.ALL_TO_ALL)
DEFAULT_SIZE = Fraction(2**20)
"""M where none is given and none matters: between like links every send is an epoch."""
SHARES = 4
"""Of the time that is left, no length of epochs gets less than one in so many."""
NAMED = (FASTEST, SLOWEST, BEST)
OBJECTIVES = ("finish", "reward")


@dataclass(frozen=True)
class TecclOptions:
    """Options of TE-CCL.

    Parameters
    ----------
    chunks
        Into how many equal chunks every item is cut.
    epoch
        Length: what a chunk takes on the ``"fastest"`` or the ``"slowest"`` link, or a time with its unit;
        ``"best"``: of these two, and of what messages of more chunks take, the one that ends first.
    epochs
        The most; 0: as many as it takes.
    objective
        ``"finish"``: the fewest epochs; ``"reward"``: the paper's, reads early on average, within `epochs`
        or, if that is 0, within the fewest.
    buffers
        Whether ranks store chunks to forward them later.
    window
        Epochs of a round of the decomposition; 0: the whole at once.
    gap
        Relative to the optimum, at which to stop early.
    solver
        A back-end for mixed-integer programs.
    time_limit
        Of all solves, a time with its unit.

    Raises
    ------
    InputError
        If a value is out of range, the solver unknown or not installed, or a time none.
    """

    chunks: int = 1
    epoch: str = FASTEST
    epochs: int = 0
    objective: str = OBJECTIVES[0]
    buffers: bool = True
    window: int = 0
    gap: float = 0.0
    solver: str = "highs"
    time_limit: str = "60s"

    def __post_init__(self) -> None:
        """Check the values."""
        for name, least in (("chunks", 1), ("epochs", 0), ("window", 0)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise InputError(
                    f"teccl option {name} is {value!r}; it must be an integer of at least {least}"
                )
        if self.objective not in OBJECTIVES:
            raise InputError(
                f"teccl option objective is '{self.objective}'; allowed: {', '.join(OBJECTIVES)}"
            )
        if not isinstance(self.buffers, bool):
            raise InputError(f"teccl option buffers is {self.buffers!r}; it must be true or false")
        if isinstance(self.gap, bool) or not isinstance(self.gap, int | float) or not 0 <= self.gap < 1:
            raise InputError(f"teccl option gap is {self.gap!r}; it must be at least 0 and below 1")
        if self.window and self.objective != OBJECTIVES[0]:
            raise InputError(
                "teccl option window goes with objective 'finish' only; its rounds have their own"
            )
        for name in ("epoch", "time_limit"):
            self._check_time(name)
        find_backend(self.solver, {Feature.MILP})

    def _check_time(self, name: str) -> None:
        text = getattr(self, name)
        if name == "epoch" and text in NAMED:
            return
        words = f"{', '.join(NAMED)} or a positive time" if name == "epoch" else "a positive time"
        try:
            positive = parse_time(text) > 0
        except InputError as error:
            raise InputError(f"teccl option {name} must be {words}: {error}") from error
        if not positive:
            raise InputError(f"teccl option {name} is {text!r}; it must be {words}")

    @property
    def length(self) -> Fraction | str:
        """Of an epoch, as `Epochs` takes it."""
        return self.epoch if self.epoch in NAMED else Fraction(parse_time(self.epoch))


def synthesize(problem: Problem, options: TecclOptions, rng: np.random.Generator) -> Schedule:
    """Return the schedule that ends in the fewest epochs, or that the options ask for.

    Raises
    ------
    Unsupported
        As `supports`.
    NoSchedule
        If there is none in so many epochs, or none was found in time.
    InputError
        If the links differ and the problem has no size.
    """
    supports(problem, options)
    if problem.size is None and size_dependent(problem, options):
        raise InputError(f"teccl needs a size on {problem.topology.name}: its epochs depend on it")
    sized = Problem(problem.topology, problem.collective, problem.size or DEFAULT_SIZE)
    forward = partial(_forward, options=options, seed=int(rng.integers(2**31)))
    if problem.collective.kind in BY_ALLGATHER:
        return from_allgather(sized, forward)
    if problem.collective.kind is Kind.REDUCE:
        turned = Problem(transpose(problem.topology), problem.collective.reverse, sized.size)
        return reverse(forward(turned), problem.topology)
    return forward(sized)


def _forward(problem: Problem, options: TecclOptions, seed: int) -> Schedule:
    """Return the schedule of a collective that does not combine."""
    from models.teccl.search import Limits  # Pyomo is slow to import

    instance = Instance(problem.topology, problem.collective, options.chunks, method="teccl")
    size, seconds = Fraction(problem.size or DEFAULT_SIZE), float(parse_time(options.time_limit))
    limits = Limits(options.solver, seconds, options.gap, seed, options.buffers)
    if options.length == BEST:
        return _of_all_lengths(Epochs(instance, size), options, limits)
    epochs = Epochs(instance, size, options.length)
    return schedule_of(epochs, _found(epochs, options, limits))


def _found(epochs: Epochs, options: TecclOptions, limits: Limits) -> Found:
    from models.teccl.rounds import by_rounds
    from models.teccl.search import earliest_finish, most_reward

    if options.window:
        return by_rounds(epochs, limits, options.window)
    if options.objective == "finish":
        return earliest_finish(epochs, limits, options.epochs)
    horizon = options.epochs or earliest_finish(epochs, limits).finish
    return most_reward(epochs, limits, horizon)


def _of_all_lengths(first: Epochs, options: TecclOptions, limits: Limits) -> Schedule:
    """Return the schedule that ends first over all lengths, those of the least bound tried first.

    The time is shared; a length whose bound is no earlier than what was found is left out.
    """
    lengths = [first, *(replace(first, length=length) for length in first.lengths())]
    lengths.sort(key=lambda epochs: epochs.least * epochs.epoch)
    until = time.perf_counter() + limits.seconds
    best: Schedule | None = None
    for place, epochs in enumerate(lengths):
        if best is not None and epochs.least * epochs.epoch >= _end(best):
            break
        left = (until - time.perf_counter()) / min(len(lengths) - place, SHARES)
        try:
            found = schedule_of(epochs, _found(epochs, options, replace(limits, seconds=max(left, 0.01))))
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


def schedule_of(epochs: Epochs, found: Found) -> Schedule:
    """Return the transfers in the time clock, a tick being an epoch."""
    instance = epochs.instance
    link, number, start = np.array(found.sends, dtype=np.int64).reshape(-1, 3).T
    place = (number % instance.chunks).astype(np.int32)  # the chunks of an item stand together
    cost = found.cost
    return Schedule(
        topology=instance.topology,
        collective=instance.collective,
        clock=Clock.TIME,
        chunks=Chunks.even(instance.collective, instance.chunks),
        chunk=instance.item[number] * instance.chunks + place,
        route=link.astype(np.int32),
        order=start,
        tick=epochs.epoch,
        size=epochs.size,
        stats={
            "build_s": cost.build_s,
            "solve_s": cost.solve_s,
            "variables": cost.variables,
            "constraints": cost.constraints,
            "solver": cost.solver,
            "solver_gap": (found.finish - found.proven) / max(found.finish, 1),
            "epochs": found.finish,
            **found.stats,
        },
    )


def supports(problem: Problem, options: TecclOptions) -> None:
    """Raise `Unsupported` for switches and uneven shards."""
    METHOD.check_kind(problem.collective, KINDS)
    Instance(problem.topology, problem.collective, options.chunks, method="teccl")


def size_dependent(problem: Problem, options: Any) -> bool:
    """Return whether the epochs depend on the size: links differ, or the length is given or chosen."""
    return not problem.topology.homogeneous or options.length not in (FASTEST, SLOWEST)


METHOD = Method(
    name="teccl",
    kind="exact",
    synthesize=synthesize,
    options=TecclOptions,
    supports=supports,
    size_dependent=size_dependent,
    seeded=True,
    summary="multicommodity flows with copies over epochs, by integer programming (TE-CCL)",
)
