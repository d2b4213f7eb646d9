"""Shipped models as formulae: layers with their weights, operations and collectives, for any parallelism.

For a matrix product of weights W on T tokens, forward, input gradient and weight gradient take 2 W T
operations each, and read the weights and both sides once. Attention adds 4 s h T forward
(scores and values over a sequence of s, h the heads' numbers; the mask is not used to save half) and twice as
much backward, without weights.

A number has `TrainingSetup.number` bytes. The collectives, with M in bytes, are:

- Tensor parallel: an allreduce of the activations after attention and after the feed forward part, forward
  and backward (Megatron-LM, arXiv 1909.08053).
- Expert parallel: an all-to-all of the tokens, k times each, before and after the experts, forward and
  backward (GShard, arXiv 2006.16668).
- Data parallel: an allreduce of the gradients.
- Fsdp: an allgather of the weights before forward and before backward, and a reduce-scatter of the gradients
  (ZeRO-3, arXiv 1910.02054).
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from tutti.experiments.training.workload import NOTHING, Communication, Layer, Parallelism, Pass, Workload
from tutti.schedules.byte_matrix import ByteMatrix, byte_matrix
from tutti.schedules.collective import Kind
from tutti.topologies.errors import InputError, suggestion
from tutti.topologies.options import Choice, Number, Options, Whole

MOST_TOKENS = 10**9
SIZES = Path(__file__).with_name("models.toml")
"""File of the transformers' sizes. It has a table for each, with the fields of `Transformer` and the
source."""
DEVICES: dict[str, tuple[float, float]] = tomllib.loads(SIZES.with_name("devices.toml").read_text("utf-8"))
"""FLOPS (16 bits, dense) and bytes/s of each accelerator."""


@dataclass(frozen=True)
class TrainingSetup(Options):
    """The setup of a model's training, and its accelerator.

    Parameters
    ----------
    parallelism
        The groups.
    device
        A name of `DEVICES`.
    efficiency
        Share of the peak FLOPS that large products reach, above 0 and at most 1.
    batch
        Sequences (images) of a microbatch, of the ranks that share the layers (tp) together.
    sequence
        Tokens of a sequence; None: the model's own.
    recompute
        Whether each layer's forward pass is done again in the backward pass.
    number
        Bytes of a weight, a gradient and an activation.
    matrix
        How many tokens each rank of ep sends to each, as for `byte_matrix`; None: equally many. The rank that
        sends most sends those of `batch`. The rank that receives most computes longest, and all wait for it.

    Raises
    ------
    InputError
        If there is no such device or matrix, or a number is out of range.
    """

    parallelism: Parallelism
    device: Annotated[str, Choice(DEVICES)] = "a100_80g"
    efficiency: Annotated[float, Number(above=0, most=1)] = 0.5
    batch: Annotated[int, Whole(1, MOST_TOKENS)] = 1
    sequence: Annotated[int | None, Whole(1, MOST_TOKENS)] = None
    recompute: bool = False
    number: Annotated[int, Whole(1, MOST_TOKENS)] = 2
    matrix: str | None = None

    @cached_property
    def tokens(self) -> ByteMatrix | None:
        """The tokens that each rank of ep sends to each; None if all send equally many."""
        return None if self.matrix is None else byte_matrix(self.matrix, self.parallelism.ep)

    @property
    def busiest(self) -> Fraction:
        """The tokens that the busiest rank of ep receives, over those that a rank sends at most."""
        if self.tokens is None:
            return Fraction(1)
        return Fraction(int(self.tokens.amounts.sum(axis=0).max()), self.tokens.largest_row)

    def compute(self, flops: Fraction | float, read: Fraction | float) -> Pass:
        """Return a pass of these operations and bytes: whichever takes longer (the roofline)."""
        peak, bandwidth = DEVICES[self.device]
        return Pass(max(float(flops) / (peak * self.efficiency), float(read) / bandwidth))

    def product(self, weights: int, tokens: int, moved: int) -> Pass:
        """Return a pass, forward or a gradient, of products with `weights` on `tokens`.

        `moved` is how many numbers the activations at both sides are, of a token.
        """
        return self.compute(2 * weights * tokens, self.number * (weights + moved * tokens))

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
        matrix = self.tokens if kind is Kind.ALL_TO_ALL else None
        return Communication(kind, size, group, matrix) if several and size else None


class Model(NamedTuple):
    """A model.

    Parameters
    ----------
    name, source
        What it is, and where its numbers are from.
    sequence
        Tokens of a sequence.
    width
        Numbers of a token between two layers.
    layers
        Returns the layers of a setup and a number of tokens of a sequence.
    """

    name: str
    source: str
    sequence: int
    width: int
    layers: Callable[[TrainingSetup, int], Iterator[Layer]]

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
        made = Workload(self.name, layers, load.parallelism, microbatches, boundary, chunks, self.source)
        if load.matrix is not None and not any(one.matrix for one in made.communications):
            raise InputError(
                f"{self.name}: matrix is for tokens of experts, and no experts are divided by ep"
            )
        return made


@dataclass(frozen=True)
class Transformer:
    """A transformer's numbers.

    Parameters
    ----------
    depth, hidden, feedforward
        Layers, numbers of a token, and those inside the feed forward part.
    vocabulary
        Number of different tokens.
    heads, keys, head
        Heads, heads of keys and values (None: as many), numbers of a head (None: hidden / heads).
    gated
        Whether the feed forward part has three matrices (SwiGLU, GeGLU) instead of two.
    tied
        Whether the last layer's weights are the first's.
    positions
        Number of learnt embeddings of positions.
    attention
        Weights of an attention where they are no four matrices (DeepSeek's latent attention).
    crossed
        Whether every layer from the middle on has a second attention, to the encoder (T5).
    experts, chosen, every, inner, shared, dense
        Experts of a layer; how many of them a token goes to; 2 if every second layer has experts; the numbers
        inside an expert (None: feedforward); how many experts all tokens pass as well; and how many first
        layers have none.
    """

    depth: int
    hidden: int
    feedforward: int
    vocabulary: int
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
        looked_up = load.compute(0, load.number * tokens * self.hidden)
        yield load.layer("embedding", table, replace(looked_up, communication=summed), NOTHING, looked_up)
        for number in range(self.depth):
            yield self._attention(load, sequence, number, summed)
            if self.experts and number >= self.dense and number % self.every == self.every - 1:
                yield from self._experts(load, tokens, number, summed)
            else:
                yield self._feed(load, f"feed forward {number + 1}", self.feedforward, tokens, summed)
        weights = self.vocabulary * self.hidden // tp
        one = load.product(weights, tokens, self.hidden + self.vocabulary // tp)
        own = 0 if self.tied else weights
        yield load.layer("vocabulary", own, one, replace(one, communication=summed), one)

    def _attention(
        self, load: TrainingSetup, sequence: int, number: int, summed: Communication | None
    ) -> Layer:
        tp, tokens, head = load.parallelism.tp, load.batch * sequence, self.head or self.hidden // self.heads
        times = 1 + (self.crossed and number >= self.depth // 2)
        matrices = 2 * self.hidden * head * (self.heads + (self.keys or self.heads))
        weights, inside = times * (self.attention or matrices) // tp, self.heads * head // tp
        one = load.product(weights, tokens, times * (2 * self.hidden + 4 * inside))
        scores = load.compute(times * 4 * sequence * inside * tokens, 0).seconds
        forward, backward = (Pass(one.seconds + share * scores, summed) for share in (1, 2))
        return load.layer(f"attention {number + 1}", weights, forward, backward, one)

    def _matrices(self, inner: int) -> int:
        """Return the weights of a feed forward part."""
        return (3 if self.gated else 2) * self.hidden * inner

    def _feed(
        self, load: TrainingSetup, name: str, inner: int, tokens: int, summed: Communication | None
    ) -> Layer:
        weights, inside = self._matrices(inner) // load.parallelism.tp, inner // load.parallelism.tp
        one = load.product(weights, tokens, 2 * self.hidden + (3 if self.gated else 2) * inside)
        ended = replace(one, communication=summed)
        return load.layer(name, weights, ended, ended, one)

    def _experts(
        self, load: TrainingSetup, tokens: int, number: int, summed: Communication | None
    ) -> Iterator[Layer]:
        """Yield router and shared experts, the experts between their all-to-alls, and what brings back.

        A rank sends as many tokens as it has, `chosen` times. The busiest experts count
        (`TrainingSetup.busiest`). Tokens come back in the time that they took.
        """
        inner, routed, tp = self.inner or self.feedforward, self.chosen * tokens, load.parallelism.tp
        received = math.ceil(routed * load.busiest)
        moved = load.over(Kind.ALL_TO_ALL, Fraction(load.number * routed * self.hidden), "ep")
        shared = self._feed(load, f"router {number + 1}", self.shared * inner, tokens, None)
        router = self.experts * self.hidden
        seconds = shared.forward.seconds + load.product(router, tokens, self.hidden).seconds
        ends = Pass(seconds, moved), Pass(seconds, summed), Pass(seconds)
        yield load.layer(shared.name, router + self.shared * self._matrices(inner) // tp, *ends)
        weights = self.experts // load.parallelism.ep * self._matrices(inner) // tp
        read = weights + 2 * received * (self.hidden + inner // tp)
        one = load.compute(2 * self._matrices(inner) // tp * received, load.number * read)
        back = replace(one, communication=moved)
        yield load.layer(f"experts {number + 1}", weights, back, back, one, experts=True)
        yield Layer(f"combine {number + 1}", Pass(0.0, summed), Pass(0.0, moved))


def _only_data_parallel(name: str, load: TrainingSetup) -> None:
    for group in ("tp", "ep"):
        if (size := load.parallelism.size(group)) > 1:
            raise InputError(f"{name}: {group} = {size}; only dp, fsdp and pp divide it")


def _resnet(load: TrainingSetup, sequence: int) -> Iterator[Layer]:
    """Yield ResNet-50's convolutions of an image of 224 x 224, each with its batch normalization."""
    _only_data_parallel("resnet50", load)

    def layer(name: str, weights: int, products: int, moved: int) -> Layer:
        work = load.compute(2 * products * load.batch, load.number * (weights + moved * load.batch))
        return load.layer(name, weights, work, work, work)

    def convolution(name: str, side: int, kernel: int, inward: int, out: int, stride: int = 1) -> Layer:
        weights, after = kernel * kernel * inward * out, side // stride
        return layer(name, weights + 2 * out, weights * after**2, side**2 * inward + after**2 * out)

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
    yield layer("fc", 2048 * 1000 + 1000, 2048 * 1000, 2048 + 1000)


GNMT_WIDTH, GNMT_WORDS = 1024, 32_000


def _gnmt(load: TrainingSetup, sequence: int) -> Iterator[Layer]:
    """Yield GNMT's embeddings, its recurrent layers of 4 gates of input and state, and the last layer."""
    _only_data_parallel("gnmt", load)
    tokens, table = load.batch * sequence, GNMT_WORDS * GNMT_WIDTH
    looked_up = load.compute(0, 2 * load.number * tokens * GNMT_WIDTH)
    yield load.layer("embeddings", 2 * table, looked_up, NOTHING, looked_up)
    wide, narrow = (4 * GNMT_WIDTH * (inward + GNMT_WIDTH + 2) for inward in (2 * GNMT_WIDTH, GNMT_WIDTH))
    recurrent = {"encoder 1 forward": narrow, "encoder 1 backward": narrow, "encoder 2": wide}
    recurrent |= {f"encoder {number}": narrow for number in range(3, 9)}
    recurrent |= {"attention": 2 * GNMT_WIDTH**2 + GNMT_WIDTH}
    recurrent |= {f"decoder {number}": wide for number in range(1, 9)}
    for name, weights in recurrent.items():
        # a step of the sequence reads all weights again
        one = load.compute(2 * weights * tokens, load.number * weights * sequence)
        yield load.layer(name, weights, one, one, one)
    one = load.product(table, tokens, GNMT_WIDTH + GNMT_WORDS)
    yield load.layer("softmax", table + GNMT_WORDS, one, one, one)


def _transformer(name: str, source: str, sequence: int, **sizes: Any) -> Model:
    shape = Transformer(**sizes)
    return Model(name, source, sequence, shape.hidden, shape.layers)


_GNMT = "Wu et al. 2016 (arXiv 1609.08144): 8 + 8 LSTM layers of 1024, 32,000 word pieces"
_RESNET = "He et al. 2016 (arXiv 1512.03385), Table 1; images of 224 x 224"
MODELS: dict[str, Model] = {
    "gnmt": Model("gnmt", _GNMT, 50, GNMT_WIDTH, _gnmt),
    "resnet50": Model("resnet50", _RESNET, 1, 56 * 56 * 256, _resnet),
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
