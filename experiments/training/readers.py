"""Other tools' files: SimAI's workloads and Calculon's models, systems and executions.

SimAI's text workloads, as AICB writes them, have a line of parallelism, a count, and a row a layer.
A row has 12 words: name, dependency, then time (ns), collective and bytes of the forward pass, of the input
gradient and of the weight gradient, and the time of the update. A collective ends in ``_EP`` or ``_DP_EP`` if
it is the experts' or their replicas'; else the first two are of the tensor parallel group and the third of
the data parallel one.

What a row does is what one rank does. Where the file says ``pp``, its rows are those of one stage: ``ga``
times the same, for each microbatch, and before and after these what is done once. As in SimAI every stage has
these rows, though the first and the last would have others, and sends ``pp_comm`` bytes to the next. The file
leaves open in which order a stage does its microbatches, and which rows each of its ``vpp`` chunks has: here
they have nearly equal compute.

Calculon's files are a model, a system and an execution, each JSON (Isaev et al., SC 2023).
Its cost model is of blocks of dense transformers. Every product, norm and elementwise step takes the time of
its arithmetic plus that of its memory traffic (or the larger one, as the system says). Both have an
efficiency that falls with their size. A collective takes a latency and bytes over an effective bandwidth.
What is not modelled here is refused: offloading, tensor parallelism that overlaps, multi-query attention.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from pydantic import ConfigDict, Field

from tutti.experiments.runner.config import Table, at, read_table
from tutti.experiments.training.iteration import Job, Plan
from tutti.experiments.training.workload import (
    SEND,
    Communication,
    Formula,
    Layer,
    Parallelism,
    Pass,
    Workload,
)
from tutti.schedules.collective import Kind
from tutti.topologies.errors import InputError, suggestion
from tutti.topologies.files import read_text

MOST_ONCE = 64
"""Rows of what is done once an iteration; the others repeat."""
FIRST = "HYBRID_TRANSFORMER_FWD_IN_BCKWD"
KINDS = (Kind.ALLREDUCE, Kind.ALLGATHER, Kind.REDUCE_SCATTER, Kind.ALL_TO_ALL, Kind.BROADCAST)
COLLECTIVES = {kind.replace("-", "").upper(): kind for kind in KINDS}
SUFFIXES = {"_DP_EP": "edp", "_EP": "ep"}
NONE = "NONE"


def read_simai(path: Path | str, parallelism: Parallelism | None = None) -> Workload:
    """Return the table in a file.

    Parameters
    ----------
    path
        The path of the file.
    parallelism
        The groups, with the file's tp, pp and ep; without it the file's first line must have ``all_gpus``.

    Raises
    ------
    InputError
        If the file can't be read, has an unknown collective or a row that is none (naming the line), or its
        groups don't multiply to its ranks.
    """
    lines = read_text(path).splitlines()
    if len(lines) < 2 or not lines[0].startswith(FIRST):
        raise InputError(f"{path}: no SimAI workload; its first word would be {FIRST}")
    said = {
        name.rstrip(":"): _whole(value, f"{path}, line 1: {name.rstrip(':')}")
        for name, value in pairwise(lines[0].split())
        if name.endswith(":")
    }
    groups = _groups(f"{path}, line 1", said, parallelism)
    count = _whole(lines[1].strip(), f"{path}, line 2: the count of layers")
    rows = [(number, line.split()) for number, line in enumerate(lines[2:], 3) if line.strip()]
    note = "" if len(rows) == count else f"; line 2 says {count} layers, {len(rows)} follow"
    layers = tuple(_layer(words, f"{path}, line {number}") for number, words in rows)
    name, source = Path(path).stem, f"AICB / SimAI{note}"
    if groups.pp == 1:
        return Workload(name, layers, groups, source=source)
    microbatches = said.get("ga", 1)
    stage = _microbatch(layers, microbatches, f"{path}, line 1")
    boundary, chunks = Fraction(said.get("pp_comm", 0)), said.get("vpp", 1)
    return Workload(name, stage, groups, microbatches, boundary, chunks, alike=True, source=source)


def _microbatch(layers: tuple[Layer, ...], times: int, where: str) -> tuple[Layer, ...]:
    """Return the rows of a microbatch, which a file repeats `times` times, and those that are done once."""
    known: dict[Layer, int] = {}
    kinds = np.array([known.setdefault(layer, len(known)) for layer in layers])
    for length in range(len(layers) // max(times, 1), 0, -1):
        if (once := len(layers) - times * length) > MOST_ONCE:
            break
        for start in range(once + 1):
            end = start + times * length
            if (kinds[start : end - length] == kinds[start + length : end]).all():
                single = [replace(layer, once=times > 1) for layer in layers]
                return (*single[:start], *layers[start : start + length], *single[end:])
    raise InputError(f"{where}: ga = {times}, but its rows are not those of so many microbatches alike")


def _groups(where: str, said: Mapping[str, int], given: Parallelism | None) -> Parallelism:
    tp, pp, ep = (said.get(name, 1) for name in ("model_parallel_NPU_group", "pp", "ep"))
    ranks = said.get("all_gpus")
    if given is None and ranks is None:
        raise InputError(f"{where}: no all_gpus; say parallel = {{tp = {tp}, dp = ...}}")
    if ranks is not None and (min(tp, pp, ep) < 1 or ranks < 1 or ranks % (tp * pp)):
        raise InputError(f"{where}: tp x pp = {tp} x {pp} does not divide all_gpus = {ranks}")
    found = given or Parallelism(tp=tp, pp=pp, dp=(ranks or 0) // (tp * pp), ep=ep)
    if (found.tp, found.pp, found.ep) != (tp, pp, ep):
        raise InputError(f"{where}: it is made for tp = {tp}, pp = {pp} and ep = {ep}, not for {found}")
    if ranks is not None and found.ranks != ranks:
        raise InputError(f"{where}: tp x dp x pp = {found.ranks}, but all_gpus = {ranks}")
    return found


def _layer(words: list[str], where: str) -> Layer:
    if len(words) != 12:
        raise InputError(f"{where}: {len(words)} words; a layer has 12")
    passes = []
    for number, (group, what) in enumerate(zip(("tp", "tp", "dp"), ("forward", "ig", "wg"), strict=True)):
        time, kind, size = words[2 + 3 * number : 5 + 3 * number]
        moved = _communication(kind, _whole(size, f"{where}: {what} bytes"), group, where)
        passes.append(Pass(1e-9 * _whole(time, f"{where}: {what} time"), moved))
    update = 1e-9 * _whole(words[-1], f"{where}: update time")
    forward, gradient, weights = passes
    return Layer(words[0], forward, gradient, weights, update=update)


def _communication(word: str, size: int, group: str, where: str) -> Communication | None:
    suffix = next((suffix for suffix in SUFFIXES if word.endswith(suffix)), "")
    kind = word.removesuffix(suffix)
    if kind == NONE or (kind in COLLECTIVES and not size):
        return None
    if kind not in COLLECTIVES:
        raise InputError(f"{where}: unknown collective '{word}'{suggestion(kind, [*COLLECTIVES, NONE])}")
    return at(where, Communication, COLLECTIVES[kind], Fraction(size), SUFFIXES.get(suffix, group))


def _whole(text: str, where: str) -> int:
    if not (text.isascii() and text.isdigit()) or len(text) > 18:
        raise InputError(f"{where} is '{text[:40]}'; it is a whole number, 0 or more, of at most 18 digits")
    return int(text)


BYTES = {"float8": 1, "float16": 2, "bfloat16": 2, "float32": 4}
ADAM = 11
"""Operations of an update, a weight."""
STATE = 12
"""Bytes of master weight and two moments, a weight."""
OPERATIONS = {
    "reduce_scatter": Kind.REDUCE_SCATTER,
    "all_gather": Kind.ALLGATHER,
    "all_reduce": Kind.ALLREDUCE,
}


class _Part(Table):
    """A table of which other keys are ignored."""

    model_config = ConfigDict(extra="ignore", allow_inf_nan=False)


class _Model(_Part):
    hidden: int = Field(gt=0, le=10**6)
    feedforward: int = Field(gt=0, le=10**7)
    seq_size: int = Field(gt=0, le=10**8)
    attn_heads: int = Field(gt=0, le=10**5)
    attn_size: int = Field(gt=0, le=10**5)
    num_blocks: int = Field(gt=0, le=10**4)


class _Execution(_Part):
    num_procs: int
    tensor_par: int
    pipeline_par: int
    data_par: int
    tensor_par_net: int = Field(ge=0)
    pipeline_par_net: int = Field(ge=0)
    data_par_net: int = Field(ge=0)
    batch_size: int = Field(gt=0)
    microbatch_size: int = Field(gt=0)
    datatype: str
    fused_activation: bool = False
    attention_type: Literal["multihead"] = "multihead"
    activation_recompute: Literal["none", "attn_only", "full"]
    pipeline_interleaving: int = Field(gt=0)
    optimizer_sharding: bool
    tensor_par_comm_type: Literal["ar", "rs_ag"]
    tensor_par_overlap: Literal["none"] = "none"
    seq_par_ag_redo: bool = False
    data_par_overlap: bool = False
    weight_offload: Literal[False] = False
    activations_offload: Literal[False] = False
    optimizer_offload: Literal[False] = False
    training: Literal[True] = True


Efficiency = Annotated[list[tuple[float, Annotated[float, Field(gt=0, le=1)]]], Field(min_length=1)]
"""Pairs of a size and the share of the peak that larger sizes reach."""


def _seconds(size: float, peak: float, points: Efficiency, unit: float) -> float:
    """Return the seconds at the share of the peak that the largest threshold below the size has."""
    shares = sorted(points, reverse=True)
    return size / (peak * next((share for least, share in shares if size >= least * unit), shares[-1][1]))


class _Engine(_Part):
    tflops: float = Field(gt=0)
    gflops_efficiency: Efficiency


class _Memory(_Part):
    GBps: float = Field(gt=0)
    MB_efficiency: Efficiency


class _Network(_Part):
    bandwidth: float = Field(gt=0)
    efficiency: float = Field(gt=0, le=1)
    latency: float = Field(ge=0)
    ops: dict[str, list[float | None]]


class _System(_Part):
    matrix: dict[str, _Engine]
    vector: dict[str, _Engine]
    mem1: _Memory
    processing_mode: Literal["roofline", "no_overlap"]
    networks: list[_Network]


class _BlockStep(NamedTuple):
    """A step of a block: operations and bytes of forward, input gradient and weight gradient."""

    flops: tuple[float, float, float]
    read: tuple[float, float, float]
    weights: int = 0
    matrix: bool = False
    core: bool = False


def read_calculon(model: Path | str, system: Path | str, execution: Path | str) -> Job:
    """Return the job that three files describe.

    Raises
    ------
    InputError
        If one can't be read, lacks a key, asks for what is not modelled, or the groups don't multiply to the
        processors.
    """
    shape = read_table(_Model, read_text(model), str(model))
    run = read_table(_Execution, read_text(execution), str(execution))
    place = read_table(_System, read_text(system), str(system))
    groups = at(str(execution), Parallelism, run.tensor_par, run.pipeline_par, run.data_par)
    at(str(execution), groups.check, run.num_procs)
    if run.datatype not in BYTES:
        raise InputError(f"{execution}: datatype '{run.datatype}'; one of {', '.join(BYTES)}")
    for name, engines in (("matrix", place.matrix), ("vector", place.vector)):
        if run.datatype not in engines:
            raise InputError(f"{system}: {name} has no {run.datatype}; it has {', '.join(engines)}")
    for name in ("hidden", "feedforward", "attn_heads"):
        if getattr(shape, name) % groups.tp:
            raise InputError(f"{execution}: tensor_par {groups.tp} does not divide {name} of {model}")
    microbatches, left = divmod(run.batch_size, groups.dp * run.microbatch_size)
    if left or not microbatches:
        factors = f"data_par x microbatch_size = {groups.dp} x {run.microbatch_size}"
        raise InputError(f"{execution}: batch_size {run.batch_size} is no multiple of {factors}")
    networks = {
        "tp": _network(place, run.tensor_par_net, groups.tp, system),
        "pp": _network(place, run.pipeline_par_net, 2, system),
        "dp": _network(place, run.data_par_net, groups.dp, system, run.optimizer_sharding),
    }
    layers = _TransformerBlock(shape, run, place).layers()
    boundary = Fraction(BYTES[run.datatype] * run.microbatch_size * shape.seq_size * shape.hidden)
    name, chunks, every = Path(model).stem, run.pipeline_interleaving, layers * shape.num_blocks
    workload = Workload(name, every, groups, microbatches, boundary, chunks, "Calculon")
    return Job(name, workload, Plan(Fraction(0), overlap=run.data_par_overlap), networks)


def _network(place: _System, tier: int, ranks: int, where: Path | str, sharded: bool = False) -> Formula:
    """Return a tier among these ranks; with a sharded optimizer an allreduce is two collectives."""
    if tier >= len(place.networks):
        raise InputError(f"{where}: no network {tier}; it has {len(place.networks)}")
    network = place.networks[tier]
    rate = 1 / (network.bandwidth * 1e9 * network.efficiency)
    found: dict[str, tuple[float, float]] = {SEND: (network.latency, rate)}
    for name, kind in OPERATIONS.items():
        scale, offset = (*network.ops.get(name, [1.0, 0.0]), 0.0)[:2]
        found[kind] = (network.latency, (scale or 0.0) * (1 + (offset or 0.0) / ranks) * rate)
    if sharded:
        halves = [found[kind] for kind in (Kind.REDUCE_SCATTER, Kind.ALLGATHER)]
        found[Kind.ALLREDUCE] = (halves[0][0] + halves[1][0], halves[0][1] + halves[1][1])
    return Formula(found, f"{where}: networks[{tier}]")


class _TransformerBlock:
    """A transformer block as Calculon takes it apart."""

    def __init__(self, shape: _Model, run: _Execution, system: _System) -> None:
        self.shape, self.run, self.system = shape, run, system
        self.tp, self.bytes = run.tensor_par, BYTES[run.datatype]
        self.tokens = run.microbatch_size * shape.seq_size
        self.activations = self.tokens * shape.hidden
        self.split = run.tensor_par_comm_type == "rs_ag"
        self.outside = self.activations // self.tp if self.split else self.activations
        copied = self.activations * (self.tp - 1) / self.tp, 2 * self.activations * self.bytes
        self.touch = self._seconds(*copied) if self.tp > 1 else 0.0
        """The seconds that a tensor parallel collective computes and copies for."""

    def _seconds(self, flops: float, read: float, matrix: bool = False) -> float:
        """Return the time of arithmetic and memory traffic, one after the other or at the same time."""
        place, memory = self.system, self.system.mem1
        engine = (place.matrix if matrix else place.vector)[self.run.datatype]
        both = (
            _seconds(flops, engine.tflops * 1e12, engine.gflops_efficiency, 1e9),
            _seconds(read, memory.GBps * 1e9, memory.MB_efficiency, 1e6),
        )
        return max(both) if place.processing_mode == "roofline" else sum(both)

    def layers(self) -> tuple[Layer, ...]:
        """Return its rows: norm, core and rest of attention and of the feed forward part."""
        return (*self._half("attention", self._attention()), *self._half("feed forward", self._feed()))

    def _half(self, name: str, core: list[_BlockStep]) -> tuple[Layer, ...]:
        """Return three rows: what comes before the gathering, the core, what follows the sum."""
        full, redo = self.run.activation_recompute == "full", self.run.activation_recompute == "attn_only"
        residual = self._elementwise(self.outside, 1, 2, 3 * self.bytes)
        rows = [
            self._row(f"{name} norm", [self._fork(self.outside, 2), self._norm()], full),
            self._row(name, core, full, redo),
            self._row(f"{name} residual", [self._dropout(self.outside), residual], full),
        ]
        summed = self._over(Kind.REDUCE_SCATTER if self.split else Kind.ALLREDUCE)
        ends = {1: {"forward": summed, "recompute": summed if full else None, "input_gradient": summed}}
        if self.split:
            gather = self._over(Kind.ALLGATHER)
            again = gather if full or self.run.seq_par_ag_redo else None
            ends |= {0: {"forward": gather, "recompute": again}, 2: {"input_gradient": gather}}
        for place, passes in ends.items():
            for which, what in passes.items():
                # what is done again neither computes nor copies for its collective
                seconds = getattr(rows[place], which).seconds + self.touch * (which != "recompute")
                ended: dict[str, Any] = {which: Pass(seconds, what)}
                rows[place] = replace(rows[place], **ended)
        return tuple(rows)

    def _over(self, kind: Kind) -> Communication | None:
        return Communication(kind, Fraction(self.activations * self.bytes), "tp") if self.tp > 1 else None

    def _row(self, name: str, steps: list[_BlockStep], full: bool, redo: bool = False) -> Layer:
        shards = self.run.data_par if self.run.optimizer_sharding else 1

        def all_of(number: int, chosen: list[_BlockStep]) -> Pass:
            times = (self._seconds(step.flops[number], step.read[number], step.matrix) for step in chosen)
            return Pass(sum(times))

        forward, backward, gradient = (all_of(number, steps) for number in range(3))
        again = all_of(0, [step for step in steps if full or (redo and step.core)])
        weights = sum(step.weights for step in steps)
        if weights and self.run.data_par > 1:
            reduced = Communication(Kind.ALLREDUCE, Fraction(weights * self.bytes), "dp")
            gradient = replace(gradient, communication=reduced)
        updated = [(ADAM * step.weights / shards, STATE * step.weights / shards) for step in steps]
        update = sum(self._seconds(*both) for both in updated)
        return Layer(name, forward, backward, gradient, again, update=update)

    def _attention(self) -> list[_BlockStep]:
        shape, tp = self.shape, self.tp
        inside = shape.attn_heads * shape.attn_size // tp
        heads, length = self.run.microbatch_size * shape.attn_heads // tp, shape.seq_size
        scores = heads * length * length
        return [
            self._fork(self.activations, 3),
            *[self._linear(shape.hidden, inside)] * 3,
            self._product(heads, length, shape.attn_size, length, core=True),
            self._elementwise(scores, 5, 8, 2 * self.bytes, core=True),
            self._dropout(scores, core=True),
            self._product(heads, length, length, shape.attn_size),
            self._linear(inside, shape.hidden),
        ]

    def _feed(self) -> list[_BlockStep]:
        inside, hidden = self.shape.feedforward // self.tp, self.shape.hidden
        gelu = self._elementwise(inside * self.tokens, 8, 13, 2 * self.bytes)
        return [self._linear(hidden, inside), gelu, self._linear(inside, hidden)]

    def _linear(self, inward: int, out: int) -> _BlockStep:
        flops, weights = 2.0 * self.tokens * inward * out, inward * out
        read = self.bytes * (self.tokens * (inward + out) + weights)
        return _BlockStep((flops,) * 3, (read,) * 3, weights, matrix=True)

    def _product(self, count: int, rows: int, inner: int, columns: int, core: bool = False) -> _BlockStep:
        flops = 2.0 * count * rows * inner * columns
        read = self.bytes * count * (rows * inner + inner * columns + rows * columns)
        return _BlockStep((flops, 2 * flops, 0), (read, read, 0), matrix=True, core=core)

    def _elementwise(
        self, size: int, forward: int, backward: int, moved: int, core: bool = False
    ) -> _BlockStep:
        """Return a step of `size` numbers; the other counts are operations and bytes of each."""
        read = moved * size
        return _BlockStep((forward * size, backward * size, 0), (read, read, 0), core=core)

    def _dropout(self, size: int, core: bool = False) -> _BlockStep:
        """Return it; its mask is a byte a number."""
        return self._elementwise(size, 1, 1, 2 * self.bytes + 1, core)

    def _norm(self) -> _BlockStep:
        size, weights = self.outside, 2 * self.shape.hidden
        read = self.bytes * (2 * size + weights)
        return _BlockStep((9 * size, 14 * size, 7 * size), (read,) * 3, weights)

    def _fork(self, size: int, users: int) -> _BlockStep:
        return _BlockStep((0, users * size, 0), (0, self.bytes * size * (users + 1), 0))
