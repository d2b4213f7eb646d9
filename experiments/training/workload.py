"""A workload: a table of layers, the groups of ranks that share them, and the networks of the groups.

A layer has three passes, forward, input gradient and weight gradient. Each computes for a while and then may
do a collective over one of the rank's groups. That of the first two blocks the compute which follows, that of
the weight gradient runs beside it. A network, `Formula` or `Scheduled`, says how long a collective takes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import pairwise
from typing import Annotated, Any

from tutti.schedules.byte_matrix import ByteMatrix
from tutti.schedules.collective import KINDS
from tutti.topologies.errors import InputError
from tutti.topologies.options import Choice, Number, Options, Whole
from tutti.topologies.units import MOST_BYTES

SEND = "send"
"""Kind of the one communication that is no collective: a stage of a pipeline sends to the next one."""
GROUPS = {
    "tp": "tensor parallel",
    "pp": "pipeline parallel",
    "dp": "data parallel",
    "fsdp": "fully sharded data parallel",
    "ep": "expert parallel",
    "edp": "replicas of the same experts",
}
WEIGHTS = frozenset({"dp", "fsdp", "edp"})
"""Groups whose collectives carry weights and their gradients; those of the others carry activations."""
MOST_RANKS = 10**7
MOST_LAYERS = 10**5


@dataclass(frozen=True)
class Parallelism(Options):
    """Numbers of ranks of the groups; tp x pp x dp x fsdp is the number of all ranks.

    Parameters
    ----------
    tp, pp, dp, fsdp
        Ranks that share a layer's tensors, the layers, the batch with whole weights, the batch with
        sharded ones.
    ep
        Ranks that share the experts, some of those that share the batch: ep divides dp x fsdp.

    Raises
    ------
    InputError
        If a number is out of range, or they don't fit each other.
    """

    tp: Annotated[int, Whole(1, MOST_RANKS)] = 1
    pp: Annotated[int, Whole(1, MOST_RANKS)] = 1
    dp: Annotated[int, Whole(1, MOST_RANKS)] = 1
    fsdp: Annotated[int, Whole(1, MOST_RANKS)] = 1
    ep: Annotated[int, Whole(1, MOST_RANKS)] = 1

    def __post_init__(self) -> None:
        """Check the numbers."""
        super().__post_init__()
        if self.replicas % self.ep:
            raise InputError(f"ep = {self.ep} does not divide the {self.replicas} ranks that share the batch")

    @property
    def replicas(self) -> int:
        """The number of ranks that share the batch."""
        return self.dp * self.fsdp

    @property
    def ranks(self) -> int:
        """The number of all ranks."""
        return self.tp * self.pp * self.replicas

    def size(self, group: str) -> int:
        """Return the ranks of a group."""
        return self.replicas // self.ep if group == "edp" else int(getattr(self, group))

    def check(self, ranks: int) -> None:
        """Refuse another number of ranks.

        Raises
        ------
        InputError
            If the groups don't multiply to it.
        """
        if self.ranks != ranks:
            product = f"{self.tp} x {self.pp} x {self.dp} x {self.fsdp} = {self.ranks}"
            raise InputError(f"tp x pp x dp x fsdp = {product}, but there are {ranks} ranks")

    def __str__(self) -> str:
        return " ".join(f"{name}={count}" for name, count in vars(self).items() if count > 1) or "one rank"


@dataclass(frozen=True)
class Communication(Options):
    """A collective of one group.

    Parameters
    ----------
    kind
        The kind of collective (`schedules.collective.Kind`), or `SEND`.
    size
        M in bytes, as everywhere: of an allgather all that is gathered, of an all-to-all what a rank holds.
    group
        The group of ranks, one of `GROUPS`.
    matrix
        For an all-to-all: what each rank sends to each other. None: all ranks send the same to each.

    Raises
    ------
    InputError
        If there is no such collective or group, or the size is none.
    """

    kind: Annotated[str, Choice((*KINDS, SEND))]
    size: Annotated[Fraction, Number(above=0, most=MOST_BYTES)]
    group: Annotated[str, Choice(GROUPS)]
    matrix: ByteMatrix | None = None


@dataclass(frozen=True)
class Pass(Options):
    """Compute for a number of seconds, then a collective."""

    seconds: Annotated[float, Number(least=0)]
    communication: Communication | None = None


NOTHING = Pass(0.0)


@dataclass(frozen=True)
class Layer:
    """A row of the table.

    Parameters
    ----------
    name
        As charts call it.
    forward, input_gradient, weight_gradient
        The passes.
    recompute
        Forward again, before the input gradient, where activations are not kept.
    weights
        FSDP's allgather, done before forward and again before backward; None where weights are whole.
    update
        Seconds of the optimizer.
    once
        Whether it is for the last microbatch alone.
    """

    name: str
    forward: Pass = NOTHING
    input_gradient: Pass = NOTHING
    weight_gradient: Pass = NOTHING
    recompute: Pass = NOTHING
    weights: Communication | None = None
    update: float = 0.0
    once: bool = False

    @property
    def passes(self) -> tuple[Pass, ...]:
        """All of them, in the order in which they run."""
        return self.forward, self.recompute, self.input_gradient, self.weight_gradient

    @property
    def seconds(self) -> float:
        """Seconds of compute for a microbatch."""
        return sum(one.seconds for one in self.passes)

    @property
    def communications(self) -> tuple[Communication, ...]:
        """The collectives of all passes, and that of the weights."""
        found = (*(one.communication for one in self.passes), self.weights)
        return tuple(one for one in found if one is not None)


@dataclass(frozen=True)
class Workload(Options):
    """The work of a rank for one microbatch, were it to do all stages of the pipeline.

    Parameters
    ----------
    name
        The name of the model.
    layers
        In forward order; of all stages, or with `alike` of one.
    parallelism
        The groups.
    microbatches
        The number of microbatches of an iteration.
    boundary
        Bytes that a stage of a pipeline sends to the next.
    chunks
        Parts of the model that each stage has, for the interleaved schedule.
    alike
        Whether every stage has all layers.

    Raises
    ------
    InputError
        If there are no layers, fewer than stages, or a group of one rank communicates.
    """

    name: str
    layers: tuple[Layer, ...]
    parallelism: Parallelism
    microbatches: Annotated[int, Whole(1, MOST_LAYERS)] = 1
    boundary: Fraction = Fraction(0)
    chunks: Annotated[int, Whole(1)] = 1
    source: str = field(default="", compare=False)
    alike: bool = False

    def __post_init__(self) -> None:
        """Check the numbers."""
        super().__post_init__()
        count, stages = len(self.layers), self.parallelism.pp
        parts = self.chunks * (1 if self.alike else stages)
        if not 0 < count <= MOST_LAYERS:
            raise InputError(f"{self.name}: {count} layers; 1 to {MOST_LAYERS} are allowed")
        if parts > count:
            raise InputError(f"{self.name}: {parts} parts for {stages} stages, but only {count} layers")
        if any(all(layer.once for layer in part) for part in self.parts):
            why = "one would have no layer that repeats"
            raise InputError(f"{self.name}: {self.chunks} chunks a stage; {why}")

    @property
    def parts(self) -> list[Sequence[Layer]]:
        """The layers of each part of the model: chunk by chunk, and in a chunk stage by stage."""
        copies = self.parallelism.pp if self.alike else 1
        every = parts_of(self.layers, self.chunks * self.parallelism.pp // copies)
        return [part for part in every for _ in range(copies)]

    @property
    def seconds(self) -> float:
        """Seconds of compute in an iteration, on all stages together."""
        times = self.parallelism.pp if self.alike else 1
        return times * sum(layer.seconds * (1 if layer.once else self.microbatches) for layer in self.layers)

    @property
    def communications(self) -> tuple[Communication, ...]:
        """All of a microbatch, and last what a stage sends to the next."""
        found = tuple(one for layer in self.layers for one in layer.communications)
        sends = self.boundary and self.parallelism.pp > 1
        return (*found, Communication(SEND, self.boundary, "pp")) if sends else found

    def taking(self, seconds: float) -> Workload:
        """Return it with all compute of an iteration scaled to these seconds, on all stages together."""
        if not (now := self.seconds):
            raise InputError(f"{self.name}: no layer computes, so there is nothing to scale")

        def scaled(layer: Layer) -> Layer:
            passes: dict[str, Any] = {name: one for name, one in vars(layer).items() if isinstance(one, Pass)}
            for name, one in passes.items():
                passes[name] = replace(one, seconds=one.seconds * seconds / now)
            return replace(layer, **passes)

        return replace(self, layers=tuple(map(scaled, self.layers)))


@dataclass(frozen=True)
class Formula:
    """A network without links: a collective takes a constant, and seconds in proportion to its bytes.

    Parameters
    ----------
    constants
        The constant in seconds and the seconds a byte of M, of each kind of collective.
    name
        Groups with the same name share it; messages call it so.
    """

    constants: Mapping[str, tuple[float, float]]
    name: str
    ranks: None = None

    def time(self, what: Communication) -> float:
        """Return the seconds of a collective.

        Raises
        ------
        InputError
            If the formula lacks it.
        """
        if what.kind not in self.constants:
            known = ", ".join(self.constants) or "none"
            raise InputError(f"{self.name}: no time for {what.kind}; it has {known}")
        constant, rate = self.constants[what.kind]
        return constant + rate * float(what.size)

    bound = time
    """The same: nothing is proven."""


def parts_of(layers: Sequence[Layer], parts: int) -> list[Sequence[Layer]]:
    """Return the layers in contiguous parts of nearly equal compute, none empty."""
    ends: list[int] = []
    whole, done = sum(layer.seconds for layer in layers) or 1.0, 0.0
    for number, layer in enumerate(layers):
        done += layer.seconds
        left = parts - len(ends) - 1
        full = done + (layers[number + 1].seconds / 2 if number + 1 < len(layers) else 0.0)
        last = len(layers) - number - 1 == left
        if left and (last or full >= whole * (len(ends) + 1) / parts * (1 - 1e-9)):
            ends.append(number + 1)
    return [layers[start:end] for start, end in pairwise([0, *ends, len(layers)])]


def check_groups(workload: Workload, networks: Mapping[str, int | None]) -> None:
    """Refuse a workload whose groups communicate on networks of another size, or on none.

    Parameters
    ----------
    workload
        The table.
    networks
        How many ranks the network of a group has; None: as many as the group.

    Raises
    ------
    InputError
        Naming the group.
    """
    for group in dict.fromkeys(one.group for one in workload.communications):
        if (size := workload.parallelism.size(group)) > 1 and networks.get(group, 0) not in (size, None):
            lacks = f' and no network; add networks = {{{group} = "..."}}'
            own = f", its network {networks[group]}" if group in networks else lacks
            raise InputError(f"{workload.name}: group {group} has {size} ranks{own}")
