"""An iteration of training as operations: DDP with buckets, FSDP, tensor and expert parallelism, pipelines.

A stage of a pipeline (without one there is one stage) computes on one stream. Each network is another stream,
which does one collective at a time (dissertation, A.1.4): groups with the same network share its links one
after the other.

- A collective of a forward pass or an input gradient (tensor parallel allreduce, expert all-to-all) blocks
  the compute that follows it.
- The collective of a weight gradient runs beside the compute. Allreduces of the last microbatch wait in a
  bucket until it holds as much as `Plan.bucket` (DDP); reduce-scatters do not wait (FSDP).
- FSDP gathers a layer's weights while the `Plan.prefetch` layers before it compute.
- Activations and their gradients go to the next stage beside the compute.

Each operation is played on one stream. It starts when the one before it on the stream, and all those that it
waits for, have ended.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from graphlib import CycleError, TopologicalSorter
from typing import Annotated, Any, NamedTuple

from tutti.experiments.training.workload import (
    GROUPS,
    NOTHING,
    SEND,
    WEIGHTS,
    Communication,
    Formula,
    Layer,
    Pass,
    Workload,
)
from tutti.schedules.collective import Kind
from tutti.topologies.errors import InputError
from tutti.topologies.options import Choice, Options, Whole

BUCKETS = (Fraction(10**6), Fraction(10**7), Fraction(10**8), Fraction(10**9))
"""Sizes in bytes of the buckets that are tried; the best one is kept (A.1.4)."""
FORWARD, BACKWARD = "forward", "backward"
COMPUTE = "compute"
"""The name of a stage's stream that is no network."""
SCHEDULES = ("1f1b", "gpipe", "interleaved")
Clock = Callable[[Communication], float]
"""Returns the seconds of a collective."""
MOST_OPERATIONS = 10**6
"""Most operations of an iteration that is played. Larger numbers are taken for typing errors."""


class Operation(NamedTuple):
    """Something that holds a stream for a while.

    Parameters
    ----------
    key
        The name by which others wait for it.
    stream
        What it holds: the compute of a stage, or a network. One at a time, in the order of the list.
    seconds
        For how long.
    after
        Keys of what must have ended before.
    label
        What it is, for those who look at it.
    stage
        The stage that does it.
    """

    key: Hashable
    stream: Hashable
    seconds: float
    after: tuple[Hashable, ...] = ()
    label: Any = None
    stage: int = 0


class OperationGraph:
    """Operations, and an order of them in which each stands after all that it waits for.

    Parameters
    ----------
    operations
        The operations of each stream in its order. An operation may wait for any others, also later ones.

    Raises
    ------
    InputError
        If there are too many, or some wait for each other in a circle.

    Examples
    --------
    >>> compute, send = Operation("f", "compute", 2.0), Operation("a", "network", 3.0, ("f",))
    >>> OperationGraph([compute, send, Operation("g", "compute", 1.0)]).play()
    [(0.0, 2.0), (2.0, 5.0), (2.0, 3.0)]
    """

    def __init__(self, operations: Sequence[Operation]) -> None:
        if len(operations) > MOST_OPERATIONS:
            raise InputError(f"{len(operations)} operations in an iteration; at most {MOST_OPERATIONS}")
        self.operations = operations
        self.before: list[list[int]] = []
        """The numbers of the operations that each waits for, among them the one before it on its stream."""
        numbers, last = {one.key: number for number, one in enumerate(operations)}, dict[Hashable, int]()
        for number, one in enumerate(operations):
            ahead = [last[one.stream]] if one.stream in last else []
            self.before.append([numbers[key] for key in one.after] + ahead)
            last[one.stream] = number
        try:
            self.order = list(TopologicalSorter(dict(enumerate(self.before))).static_order())
        except CycleError as error:
            circle = f"a circle, at {operations[min(error.args[1])].key}"
            raise InputError(f"operations wait for each other in {circle}") from error

    def play(self, seconds: Sequence[float] | None = None) -> list[tuple[float, float]]:
        """Return when each operation starts and ends, in seconds, each as early as possible.

        Parameters
        ----------
        seconds
            For how long each holds its stream; None: its own seconds.
        """
        lasts = [one.seconds for one in self.operations] if seconds is None else seconds
        times = [(0.0, 0.0)] * len(lasts)
        for number in self.order:
            start = max((times[earlier][1] for earlier in self.before[number]), default=0.0)
            times[number] = start, start + lasts[number]
        return times


@dataclass(frozen=True)
class Plan(Options):
    """Settings of an iteration.

    Parameters
    ----------
    bucket
        Bytes of gradients that are reduced together; None: the best of `BUCKETS`; 0: each layer's alone.
    schedule
        One of `SCHEDULES`, for the pipeline; None: interleaved if a stage has several chunks, else 1f1b.
    prefetch
        The number of layers ahead for which FSDP gathers weights; 0: no gather overlaps with compute.
    overlap
        Whether gradients are reduced beside the backward pass; else after it, all in one collective.
    """

    bucket: Fraction | None = None
    schedule: Annotated[str | None, Choice(SCHEDULES)] = None
    prefetch: Annotated[int, Whole()] = 1
    overlap: bool = True


class Job(NamedTuple):
    """A training job.

    Parameters
    ----------
    name
        Its name in charts.
    workload, plan
        The table of layers, and the settings of an iteration.
    networks
        For each group the text of its network, or the formula of its times that a file gives.
    """

    name: str
    workload: Workload
    plan: Plan
    networks: Mapping[str, str | Formula]


@dataclass(frozen=True)
class Iteration:
    """The time of an iteration and its parts, in seconds.

    Parameters
    ----------
    seconds
        The time from start to end; compute + bubble + weights + activations.
    compute
        Compute of the stage that computes longest.
    bubble
        What waiting for other stages adds if communication takes no time.
    activations, weights
        What collectives of activations (tp, ep, pp) add to that, and those of weights (dp, fsdp) to the sum.
    bucket
        The bytes of a bucket.
    operations, times
        The operations that were played, and the start and end of each.
    """

    seconds: float
    compute: float
    bubble: float
    activations: float
    weights: float
    bucket: Fraction
    operations: Sequence[Operation] = field(repr=False)
    times: Sequence[tuple[float, float]] = field(repr=False)

    @property
    def exposed(self) -> float:
        """Return what communication adds."""
        return self.activations + self.weights

    @property
    def communication(self) -> dict[str, float]:
        """Seconds of all collectives on the busiest network of each group."""
        spent: dict[str, dict[Hashable, float]] = {}
        for one in self.operations:
            if (group := _group(one)) is not None:
                on = spent.setdefault(group, {})
                on[one.stream] = on.get(one.stream, 0.0) + one.seconds
        return {group: max(on.values()) for group, on in spent.items()}


class Unit(NamedTuple):
    """A layer's pass, forward or backward, for one microbatch; it may be the first or last of its part."""

    phase: str
    part: int
    microbatch: int
    layer: Layer
    first: bool
    last: bool


def iterate(workload: Workload, clock: Clock, networks: Callable[[str], Hashable], plan: Plan) -> Iteration:
    """Return the iteration with the best bucket, and the parts of its time.

    Parameters
    ----------
    workload
        The table of layers.
    clock
        Returns the seconds of a collective.
    networks
        Returns the network of a group; collectives of groups with the same network take turns.
    plan
        The settings.

    Raises
    ------
    InputError
        If the pipeline's schedule does not fit.
    """
    reduced = any(_waits(one) for one in workload.communications)
    tried = BUCKETS if plan.bucket is None and plan.overlap and reduced else (plan.bucket or Fraction(0),)

    def played(bucket: Fraction) -> tuple[Fraction, OperationGraph, list[tuple[float, float]]]:
        program = OperationGraph(operations(workload, clock, networks, replace(plan, bucket=bucket)))
        return bucket, program, program.play()

    bucket, program, times = min(map(played, tried), key=lambda made: _end(made[-1]))
    compute: defaultdict[Hashable, float] = defaultdict(float)
    for one in program.operations:
        if _group(one) is None:
            compute[one.stream] += one.seconds

    # The parts are differences between the times with all, some and none of the collectives free.
    def lasted(free: Collection[str]) -> float:
        return _end(program.play([0.0 if _group(one) in free else one.seconds for one in program.operations]))

    busiest, seconds, silent, blocking = max(compute.values()), _end(times), lasted(GROUPS), lasted(WEIGHTS)
    parts = (busiest, silent - busiest, blocking - silent, seconds - blocking)
    return Iteration(seconds, *parts, bucket, program.operations, times)


def _end(times: Sequence[tuple[float, float]]) -> float:
    return max(end for _, end in times)


def _group(operation: Operation) -> str | None:
    """Return the group that communicates; None: it is compute."""
    return operation.label.group if isinstance(operation.label, Communication) else None


def _waits(what: Communication) -> bool:
    """Whether it is a gradient that waits in a bucket."""
    return what.kind == Kind.ALLREDUCE and what.group in WEIGHTS


def operations(
    workload: Workload, clock: Clock, networks: Callable[[str], Hashable], plan: Plan
) -> list[Operation]:
    """Return all operations of an iteration, each stage's in its order.

    Raises
    ------
    InputError
        If the pipeline's schedule does not fit, or there are too many.
    """
    check_length(workload)
    stages, parts, last = workload.parallelism.pp, workload.parts, workload.microbatches - 1
    made: list[Operation] = []
    for stage in range(stages):
        units = [
            Unit(phase, part, microbatch, layer, number == 0, number == len(layers) - 1)
            for phase, chunk, microbatch in stage_order(workload, plan.schedule, stage)
            for part in [chunk * stages + stage]
            for layers in [[layer for layer in parts[part] if not layer.once or microbatch == last]]
            for number, layer in enumerate(layers if phase == FORWARD else layers[::-1])
        ]
        made += _Stage(stage, units, workload, clock, networks, plan).program()
    return made


def check_length(workload: Workload) -> None:
    """Refuse a workload with too many operations to be played.

    Raises
    ------
    InputError
        If it is certain that there are more than `MOST_OPERATIONS`.
    """
    # With `alike` each stage has all layers. A layer computes at least once forward and twice backward.
    stages = workload.parallelism.pp if workload.alike else 1
    if (least := 3 * workload.microbatches * len(workload.layers) * stages) > MOST_OPERATIONS:
        raise InputError(f"{workload.name}: {least} operations or more; at most {MOST_OPERATIONS}")


@dataclass
class _Stage:
    """Collects the operations of one stage.

    Parameters
    ----------
    stage, units
        The stage, and its passes in the order in which it does them.
    workload, clock, networks, plan
        As in `iterate`.
    made
        The operations so far.
    gathers
        For each unit, in order, what its compute waits for: its weights' allgather, if there is one.
    ends
        For each unit the key of the operation after which the next one may begin.
    forward
        The last forward operation of each part and microbatch.
    gradients
        The reductions of gradients that the optimizer waits for.
    bucket
        Bytes of gradients that wait for their allreduce, by group.
    computed
        The last compute operation.
    """

    stage: int
    units: list[Unit]
    workload: Workload
    clock: Clock
    networks: Callable[[str], Hashable]
    plan: Plan
    made: list[Operation] = field(default_factory=list)
    gathers: list[tuple[Hashable, ...]] = field(default_factory=list)
    ends: list[Hashable] = field(default_factory=list)
    forward: dict[tuple[int, int], Hashable] = field(default_factory=dict)
    gradients: list[Hashable] = field(default_factory=list)
    bucket: defaultdict[str, Fraction] = field(default_factory=lambda: defaultdict(Fraction))
    computed: Hashable = None

    def program(self) -> list[Operation]:
        """Return all operations."""
        for number, unit in enumerate(self.units):
            self._gather(number)
            self._passes(number, unit)
        for group in list(self.bucket):
            self._reduce(group)
        last = self.workload.microbatches - 1
        units = (unit for unit in self.units if unit.phase == BACKWARD and unit.microbatch == last)
        if update := sum(unit.layer.update for unit in units):
            self._compute("optimizer", update, tuple(self.gradients))
        return self.made

    def _gather(self, number: int) -> None:
        """Issue the allgathers of the weights of the layers up to `prefetch` ahead.

        A gather begins once the layer that is `prefetch` + 1 before its own has ended.
        """
        while len(self.gathers) <= min(number + self.plan.prefetch, len(self.units) - 1):
            free = len(self.gathers) - self.plan.prefetch - 1
            after = (self.ends[free],) if free >= 0 else ()
            self.gathers.append(self._communicate(self.units[len(self.gathers)].layer.weights, after))

    def _passes(self, number: int, unit: Unit) -> None:
        """Add the operations of a unit, and what it sends to another stage."""
        layer, before = unit.layer, (*self.gathers[number], *self._before(unit))
        if unit.phase == FORWARD:
            before = self._blocking(f"{layer.name}, forward", layer.forward, before)
            self.forward[unit.part, unit.microbatch] = before[0]
        else:
            if layer.recompute != NOTHING:
                before = self._blocking(f"{layer.name}, recomputed", layer.recompute, before)
            before = self._blocking(f"{layer.name}, input gradient", layer.input_gradient, before)
            own = layer.weight_gradient
            before = (self._compute(f"{layer.name}, weight gradient", own.seconds, before),)
            if own.communication is not None:
                self._gradient(own.communication, unit)
        self.ends.append(before[0])
        if unit.last and (follower := self._neighbour(unit, 1)) is not None:
            size = self.workload.boundary
            what = Communication(SEND, size, "pp") if size and self.workload.parallelism.pp > 1 else None
            seconds = self.clock(what) if what else 0.0
            key, stream = (unit.phase, follower, unit.microbatch), (self.stage, unit.phase, SEND)
            self.made.append(Operation(key, stream, seconds, before, what, self.stage))

    def _before(self, unit: Unit) -> tuple[Hashable, ...]:
        """Return the keys for which a unit waits: the unit before it, here or in another stage."""
        if not unit.first:
            return (self.ends[-1],)
        if self._neighbour(unit, -1) is not None:
            return ((unit.phase, unit.part, unit.microbatch),)  # what the other stage sends, see `_passes`
        return (self.forward[unit.part, unit.microbatch],) if unit.phase == BACKWARD else ()

    def _blocking(self, label: str, one: Pass, before: tuple[Hashable, ...]) -> tuple[Hashable, ...]:
        """Add a pass and its collective; return the keys for which the next pass waits."""
        return self._communicate(one.communication, (self._compute(label, one.seconds, before),))

    def _gradient(self, what: Communication, unit: Unit) -> None:
        """Reduce a layer's gradients, or put them into a bucket, which is reduced when it is full."""
        if not _waits(what):
            self.gradients += self._communicate(what, (self.computed,))
        elif unit.microbatch == self.workload.microbatches - 1:
            self.bucket[what.group] += what.size
            if self.plan.overlap and self.bucket[what.group] >= (self.plan.bucket or 0):
                self._reduce(what.group)

    def _reduce(self, group: str) -> None:
        """Reduce what a bucket holds; without overlap that is everything."""
        what = Communication(Kind.ALLREDUCE, self.bucket.pop(group), group)
        self.gradients += self._communicate(what, (self.computed,))

    def _communicate(self, what: Communication | None, after: tuple[Hashable, ...]) -> tuple[Hashable, ...]:
        """Add a collective and return the keys to wait for; a group of one rank has no collectives."""
        if what is None or self.workload.parallelism.size(what.group) == 1:
            return after
        key, stream = (self.stage, len(self.made)), (self.stage, self.networks(what.group))
        self.made.append(Operation(key, stream, self.clock(what), after, what, self.stage))
        return (key,)

    def _compute(self, label: str, seconds: float, after: tuple[Hashable, ...]) -> Hashable:
        """Add an operation of the stage's compute stream, and return its key."""
        self.computed = (self.stage, len(self.made))
        self.made.append(Operation(self.computed, (self.stage, COMPUTE), seconds, after, label, self.stage))
        return self.computed

    def _neighbour(self, unit: Unit, step: int) -> int | None:
        """Return the part of the model that comes before (-1) or after this one in its phase."""
        other = unit.part + (step if unit.phase == FORWARD else -step)
        return other if 0 <= other < self.workload.parallelism.pp * self.workload.chunks else None


def stage_order(workload: Workload, schedule: str | None, stage: int) -> Iterator[tuple[str, int, int]]:
    """Yield phase, chunk and microbatch in the order in which a stage does them.

    GPipe does all forward passes, then all backward (Huang et al. 2019). 1F1B begins with one forward pass
    for each later stage, and then does one forward and one backward in turn (Narayanan et al. 2019).
    Interleaved does the same over several chunks a stage (Narayanan et al. 2021, section 2.2).

    Raises
    ------
    InputError
        If there is no such schedule, or chunks and microbatches don't fit it.
    """
    stages, count, chunks = workload.parallelism.pp, workload.microbatches, workload.chunks
    schedule = schedule or ("interleaved" if chunks > 1 else "1f1b")
    interleaved, total, ahead = schedule == "interleaved", count * chunks, stages - stage - 1
    if interleaved != (chunks > 1):
        raise InputError(f"{chunks} chunks a stage; only interleaved has several, and it needs 2 or more")
    if interleaved and count % stages:
        raise InputError(f"{count} microbatches don't divide over {stages} stages, as interleaved needs")
    # `ahead` counts the forward passes before the first backward pass.
    if interleaved:
        ahead = 2 * ahead + (chunks - 1) * stages
    ahead = total if schedule == "gpipe" or (interleaved and count == stages) else min(ahead, total)

    def turn(number: int, phase: str) -> tuple[str, int, int]:
        # Interleaved: `stages` microbatches pass through one chunk, and then through the next chunk.
        lap, place = divmod(number, stages * chunks)
        chunk, micro = divmod(place, stages)
        return phase, chunk if phase == FORWARD else chunks - 1 - chunk, lap * stages + micro

    for number in range(-ahead, total):
        if number + ahead < total:
            yield turn(number + ahead, FORWARD)
        if number >= 0:
            yield turn(number, BACKWARD)
