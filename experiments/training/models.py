"""Shipped models as formulae: layers with their weights, operations and collectives, for any parallelism.

Of a matrix product of weights W on T tokens: forward, input gradient and weight gradient take 2 W T
operations each, and read the weights and both sides once. Attention adds 4 s h T forward
(scores and values over a sequence of s, h the heads' numbers; the mask is not used to save half) and twice as
much backward, without weights.

Collectives, bytes of M: tensor parallel, an allreduce of the activations after attention and after the feed
forward part, forward and backward (Megatron-LM, arXiv 1909.08053); expert parallel, an all-to-all of the
tokens, k times each, before and after the experts, forward and backward (GShard, arXiv 2006.16668); data
parallel, an allreduce of the gradients; fsdp, an allgather of the weights before forward and before backward
and a reduce-scatter of the gradients (ZeRO-3, arXiv 1910.02054). A number has `TrainingSetup.number` bytes.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

from tutti.experiments.training.workload import NOTHING, Communication, Layer, Parallelism, Pass, Workload
from tutti.schedules.collective import Kind
from tutti.topologies.errors import InputError, suggestion

MOST_TOKENS = 10**9
SIZES = Path(__file__).with_name("models.toml")
"""File of the transformers' sizes. It has a table for each, with the fields of `Transformer` and the
source."""


@dataclass(frozen=True)
class Accelerator:
    """Peaks, and the share of the arithmetic one that large products reach.

    Parameters
    ----------
    flops
        16-bit, dense, a second.
    bandwidth
        Of its memory, bytes a second.
    efficiency
        Above 0, at most 1.
    """

    flops: float
    bandwidth: float
    efficiency: float

    def __post_init__(self) -> None:
        """Check the share."""
        if not 0 < self.efficiency <= 1:
            allowed = "it is a share of the peak, above 0 and at most 1"
            raise InputError(f"efficiency is {self.efficiency}; {allowed}")

    def seconds(self, flops: Fraction | float, read: Fraction | float) -> Pass:
        """Return a pass of so many operations and bytes: whichever takes longer (the roofline)."""
        return Pass(max(float(flops) / (self.flops * self.efficiency), float(read) / self.bandwidth))


DEVICES: dict[str, tuple[float, float]] = tomllib.loads(SIZES.with_name("devices.toml").read_text("utf-8"))
"""FLOPS (16 bits, dense) and bytes/s of each accelerator."""


def find_device(name: str, efficiency: float = 0.5) -> Accelerator:
    """Return a device by its name.

    Raises
    ------
    InputError
        If there is none.
    """
    if name not in DEVICES:
        raise InputError(f"unknown device '{name}'{suggestion(name, DEVICES)}")
    return Accelerator(*DEVICES[name], efficiency)


@dataclass(frozen=True)
class TrainingSetup:
    """How a model is trained.

    Parameters
    ----------
    parallelism
        The groups.
    device
        A rank.
    batch
        Sequences (images) of a microbatch, of the ranks that share the layers (tp) together.
    sequence
        Tokens of a sequence; None: the model's own.
    recompute
        Whether each layer's forward pass is done again in the backward pass.
    number
        Bytes of a weight, a gradient and an activation.
    """

    parallelism: Parallelism
    device: Accelerator
    batch: int = 1
    sequence: int | None = None
    recompute: bool = False
    number: int = 2

    def __post_init__(self) -> None:
        """Check the numbers."""
        for name, count in (("batch", self.batch), ("sequence", self.sequence), ("number", self.number)):
            if count is not None and not 1 <= count <= MOST_TOKENS:
                raise InputError(f"{name} is {count}; it must be at least 1, at most {MOST_TOKENS}")

    def matrix(self, weights: int, tokens: int, moved: int) -> tuple[Pass, Pass]:
        """Return forward, and one of the gradients, of products with `weights` on `tokens`.

        `moved` is how many numbers the activations at both sides are, of a token.
        """
        one = self.device.seconds(2 * weights * tokens, self.number * (weights + moved * tokens))
        return one, one

    def layer(
        self, name: str, weights: int, forward: Pass, backward: Pass, gradient: Pass, experts: bool = False
    ) -> Layer:
        """Return a layer with the collectives of its weights (those of experts: of replicas of them)."""
        size, sharded = Fraction(self.number * weights), self.parallelism.fsdp > 1 and not experts
        group = "edp" if experts else "fsdp" if sharded else "dp"
        reduced = self.over(Kind.REDUCE_SCATTER if sharded else Kind.ALLREDUCE, size, group)
        gathered = self.over(Kind.ALLGATHER, size, group) if sharded else None
        again = forward if self.recompute else NOTHING
        return Layer(name, forward, backward, replace(gradient, communication=reduced), again, gathered)

    def over(self, kind: Kind, size: Fraction, group: str) -> Communication | None:
        """Return a collective of a group; None where the group is one rank, or nothing moves."""
        several = self.parallelism.size(group) > 1
        return Communication(kind, size, group) if several and size else None


@dataclass(frozen=True)
class Model:
    """A model.

    Parameters
    ----------
    name, source
        What it is, and where its numbers are from.
    sequence
        Tokens of a sequence.
    layers
        Returns the layers and the bytes between two of them.
    parameters
        How many weights it has.
    """

    name: str
    source: str
    sequence: int
    layers: Callable[[TrainingSetup, int], Iterator[Layer]]
    width: int
    parameters: int

    def workload(self, load: TrainingSetup, microbatches: int = 1, chunks: int = 1) -> Workload:
        """Return its table.

        Raises
        ------
        InputError
            If the parallelism does not fit the model.
        """
        sequence = load.sequence or self.sequence
        if load.parallelism.dp > 1 and load.parallelism.fsdp > 1:
            both = f"dp = {load.parallelism.dp} and fsdp = {load.parallelism.fsdp}"
            raise InputError(f"{self.name}: {both}; shipped models have one of the two")
        boundary = Fraction(load.number * self.width * load.batch * sequence)
        layers = tuple(self.layers(load, sequence))
        return Workload(self.name, layers, load.parallelism, microbatches, boundary, chunks, self.source)


@dataclass(frozen=True)
class Transformer:
    """A transformer's numbers.

    Parameters
    ----------
    depth, hidden, feedforward
        Layers, numbers of a token, and those inside the feed forward part.
    vocabulary
        Tokens that there are.
    sequence
        Tokens of a sequence.
    heads, keys, head
        Heads, heads of keys and values (None: as many), numbers of a head (None: hidden / heads).
    gated
        Whether the feed forward part has three matrices (SwiGLU, GeGLU) instead of two.
    tied
        Whether the last layer's weights are the first's.
    positions
        Of learnt embeddings.
    attention
        Weights of an attention where they are no four matrices (DeepSeek's latent attention).
    crossed
        Layers that have a second attention, to the encoder (T5): every one from the middle on.
    experts, chosen, every, inner, shared, dense
        Experts of a layer, how many a token goes to, that each so-many-th layer has them, the numbers inside
        one (None: feedforward), how many all tokens pass besides, and the first layers that have none.
    """

    depth: int
    hidden: int
    feedforward: int
    vocabulary: int
    sequence: int
    heads: int
    keys: int | None = None
    head: int | None = None
    gated: bool = False
    tied: bool = True
    positions: int = 0
    attention: int | None = None
    crossed: bool = False
    experts: int = 0
    chosen: int = 1
    every: int = 1
    inner: int | None = None
    shared: int = 0
    dense: int = 0

    @property
    def _head(self) -> int:
        return self.head or self.hidden // self.heads

    @property
    def attention_weights(self) -> int:
        """Of one attention: queries, keys, values, output."""
        if self.attention is not None:
            return self.attention
        keys = self.keys or self.heads
        return 2 * self.hidden * self._head * (self.heads + keys)

    def feed(self, inner: int) -> int:
        """Return the weights of a feed forward part."""
        return (3 if self.gated else 2) * self.hidden * inner

    def has_experts(self, number: int) -> bool:
        """Whether layer `number`, from 0, has experts."""
        return self.experts > 0 and number >= self.dense and number % self.every == self.every - 1

    def attentions(self, number: int) -> int:
        """Return how many attentions layer `number` has."""
        return 1 + (self.crossed and number >= self.depth // 2)

    @property
    def parameters(self) -> int:
        """All weights, but for norms and biases."""
        count = (1 if self.tied else 2) * self.vocabulary * self.hidden + self.positions * self.hidden
        for number in range(self.depth):
            count += self.attentions(number) * self.attention_weights
            if self.has_experts(number):
                inner = self.inner or self.feedforward
                count += (self.experts + self.shared) * self.feed(inner) + self.experts * self.hidden
            else:
                count += self.feed(self.feedforward)
        return count

    def layers(self, load: TrainingSetup, sequence: int) -> Iterator[Layer]:
        """Yield the table: embedding, attention and feed forward parts, the last projection."""
        tp, tokens = load.parallelism.tp, load.batch * sequence
        for name in ("hidden", "heads", "feedforward"):
            if getattr(self, name) % tp:
                raise InputError(f"tp = {tp} does not divide {name} = {getattr(self, name)}")
        if self.experts % load.parallelism.ep:
            raise InputError(f"ep = {load.parallelism.ep} does not divide {self.experts} experts")
        summed = load.over(Kind.ALLREDUCE, Fraction(load.number * tokens * self.hidden), "tp")
        table = (self.vocabulary + self.positions) * self.hidden // tp
        looked_up = load.device.seconds(0, load.number * tokens * self.hidden)
        yield load.layer("embedding", table, replace(looked_up, communication=summed), NOTHING, looked_up)
        for number in range(self.depth):
            yield self._attention(load, sequence, number, summed)
            if self.has_experts(number):
                yield from self._experts(load, tokens, number, summed)
            else:
                yield self._feed(load, f"feed forward {number + 1}", self.feedforward, tokens, summed)
        weights = self.vocabulary * self.hidden // tp
        forward, gradient = load.matrix(weights, tokens, self.hidden + self.vocabulary // tp)
        own = 0 if self.tied else weights
        yield load.layer("vocabulary", own, forward, replace(gradient, communication=summed), gradient)

    def _attention(
        self, load: TrainingSetup, sequence: int, number: int, summed: Communication | None
    ) -> Layer:
        tp, tokens, times = load.parallelism.tp, load.batch * sequence, self.attentions(number)
        weights = times * self.attention_weights // tp
        inside = self.heads * self._head // tp
        forward, gradient = load.matrix(weights, tokens, times * (2 * self.hidden + 4 * inside))
        scores = load.device.seconds(times * 4 * sequence * inside * tokens, 0).seconds
        return load.layer(
            f"attention {number + 1}",
            weights,
            Pass(forward.seconds + scores, summed),
            Pass(gradient.seconds + 2 * scores, summed),
            gradient,
        )

    def _feed(
        self, load: TrainingSetup, name: str, inner: int, tokens: int, summed: Communication | None
    ) -> Layer:
        weights, inside = self.feed(inner) // load.parallelism.tp, inner // load.parallelism.tp
        forward, gradient = load.matrix(weights, tokens, 2 * self.hidden + (3 if self.gated else 2) * inside)
        one = replace(forward, communication=summed)
        return load.layer(name, weights, one, replace(gradient, communication=summed), gradient)

    def _experts(
        self, load: TrainingSetup, tokens: int, number: int, summed: Communication | None
    ) -> Iterator[Layer]:
        """Yield router and shared experts, the experts between their all-to-alls, and what brings back.

        Tokens are spread evenly, so that a rank's experts get as many as it has, `chosen` times.
        """
        inner, routed = self.inner or self.feedforward, self.chosen * tokens
        moved = load.over(Kind.ALL_TO_ALL, Fraction(load.number * routed * self.hidden), "ep")
        shared = self._feed(load, f"router {number + 1}", self.shared * inner, tokens, None)
        router = self.experts * self.hidden
        forward, gradient = load.matrix(router, tokens, self.hidden)
        yield load.layer(
            shared.name,
            router + self.shared * self.feed(inner) // load.parallelism.tp,
            Pass(shared.forward.seconds + forward.seconds, moved),
            Pass(shared.input_gradient.seconds + gradient.seconds, summed),
            Pass(shared.weight_gradient.seconds + gradient.seconds),
        )
        tp = load.parallelism.tp
        weights = self.experts // load.parallelism.ep * self.feed(inner) // tp
        read = weights + 2 * routed * (self.hidden + inner // tp)
        one = load.device.seconds(2 * self.feed(inner) // tp * routed, load.number * read)
        back = replace(one, communication=moved)
        yield load.layer(f"experts {number + 1}", weights, back, back, one, experts=True)
        yield Layer(f"combine {number + 1}", Pass(0.0, summed), Pass(0.0, moved))


def _convolutions() -> Iterator[tuple[str, int, int, int]]:
    """Yield ResNet-50's layers: name, weights, operations / 2 and numbers moved, of an image of 224 x 224."""

    def convolution(
        name: str, side: int, kernel: int, inward: int, out: int, stride: int = 1
    ) -> tuple[str, int, int, int]:
        weights, after = kernel * kernel * inward * out, side // stride
        # and a batch normalization of two numbers a channel
        return name, weights + 2 * out, weights * after**2, side**2 * inward + after**2 * out

    yield convolution("conv1", 224, 7, 3, 64, 2)
    inward, side = 64, 56
    for stage, (blocks, width) in enumerate(((3, 64), (4, 128), (6, 256), (3, 512)), 2):
        for block in range(blocks):
            name, stride = f"conv{stage}_{block + 1}", 2 if stage > 2 and block == 0 else 1
            if block == 0:
                yield convolution(f"{name} shortcut", side, 1, inward, 4 * width, stride)
            yield convolution(f"{name} 1x1", side, 1, inward, width, 1)
            yield convolution(f"{name} 3x3", side, 3, width, width, stride)
            inward, side = 4 * width, side // stride
            yield convolution(f"{name} out", side, 1, width, inward, 1)
    yield "fc", 2048 * 1000 + 1000, 2048 * 1000, 2048 + 1000


def _resnet(load: TrainingSetup, sequence: int) -> Iterator[Layer]:
    _only_data_parallel("resnet50", load)
    for name, weights, products, moved in _convolutions():
        work = load.device.seconds(2 * products * load.batch, load.number * (weights + moved * load.batch))
        yield load.layer(name, weights, work, work, work)


GNMT_WIDTH, GNMT_WORDS = 1024, 32_000


def _lstms() -> Iterator[tuple[str, int]]:
    """Yield GNMT's recurrent layers and their weights: 4 gates of input and state, with two biases."""

    def weights(inward: int) -> int:
        return 4 * GNMT_WIDTH * (inward + GNMT_WIDTH + 2)

    yield "encoder 1 forward", weights(GNMT_WIDTH)
    yield "encoder 1 backward", weights(GNMT_WIDTH)
    yield "encoder 2", weights(2 * GNMT_WIDTH)
    for number in range(3, 9):
        yield f"encoder {number}", weights(GNMT_WIDTH)
    yield "attention", 2 * GNMT_WIDTH**2 + GNMT_WIDTH
    for number in range(1, 9):
        yield f"decoder {number}", weights(2 * GNMT_WIDTH)


def _gnmt(load: TrainingSetup, sequence: int) -> Iterator[Layer]:
    _only_data_parallel("gnmt", load)
    tokens, table = load.batch * sequence, GNMT_WORDS * GNMT_WIDTH
    looked_up = load.device.seconds(0, 2 * load.number * tokens * GNMT_WIDTH)
    yield load.layer("embeddings", 2 * table, looked_up, NOTHING, looked_up)
    for name, weights in _lstms():
        # a step of the sequence reads all weights again
        one = load.device.seconds(2 * weights * tokens, load.number * weights * sequence)
        yield load.layer(name, weights, one, one, one)
    forward, gradient = load.matrix(table, tokens, GNMT_WIDTH + GNMT_WORDS)
    yield load.layer("softmax", table + GNMT_WORDS, forward, gradient, gradient)


def _only_data_parallel(name: str, load: TrainingSetup) -> None:
    for group in ("tp", "ep"):
        if (size := load.parallelism.size(group)) > 1:
            raise InputError(f"{name}: {group} = {size}; only dp, fsdp and pp divide it")


def _transformer(name: str, source: str, **sizes: Any) -> Model:
    shape = Transformer(**sizes)
    return Model(name, source, shape.sequence, shape.layers, shape.hidden, shape.parameters)


MODELS: dict[str, Model] = {
    "gnmt": Model(
        "gnmt",
        "Wu et al. 2016 (arXiv 1609.08144): 8 + 8 LSTM layers of 1024, 32,000 word pieces",
        50,
        _gnmt,
        GNMT_WIDTH,
        3 * GNMT_WORDS * GNMT_WIDTH + GNMT_WORDS + sum(weights for _, weights in _lstms()),
    ),
    "resnet50": Model(
        "resnet50",
        "He et al. 2016 (arXiv 1512.03385), Table 1; images of 224 x 224",
        1,
        _resnet,
        56 * 56 * 256,
        sum(weights for _, weights, _, _ in _convolutions()),
    ),
    **{name: _transformer(name, **row) for name, row in tomllib.loads(SIZES.read_text("utf-8")).items()},
}


def find_model(name: str) -> Model:
    """Return a shipped model.

    Raises
    ------
    InputError
        If there is none of that name.
    """
    if name not in MODELS:
        raise InputError(f"unknown model '{name}'{suggestion(name, MODELS)}")
    return MODELS[name]
