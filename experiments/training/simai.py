"""SimAI's text workloads, as AICB writes them: a line of parallelism, a count, a row a layer.

A row has 12 words: name, dependency, then time (ns), collective and bytes of the forward pass, of the input
gradient and of the weight gradient, and the time of the update. A collective ends in ``_EP`` or ``_DP_EP`` if
it is the experts' or their replicas'; else the first two are of the tensor parallel group and the third of
the data parallel one.

What a row does is what one rank does. Where the file says ``pp``, its rows are those of one stage: ``ga``
times the same, for each microbatch, and before and after these what is done once. As in SimAI every stage has
these rows, though the first and the last would have others, and sends ``pp_comm`` bytes to the next. The file
leaves open in which order a stage does its microbatches, and which rows each of its ``vpp`` chunks has: here
they have nearly equal compute.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import numpy as np

from tutti.experiments.training.workload import Communication, Layer, Parallelism, Pass, Workload
from tutti.schedules.collective import Kind
from tutti.topologies.errors import InputError, suggestion
from tutti.topologies.files import read_text

MOST_ONCE = 64
"""Rows of what is done once an iteration; the others repeat."""
FIRST = "HYBRID_TRANSFORMER_FWD_IN_BCKWD"
COLLECTIVES = {
    "ALLREDUCE": Kind.ALLREDUCE,
    "ALLGATHER": Kind.ALLGATHER,
    "REDUCESCATTER": Kind.REDUCE_SCATTER,
    "ALLTOALL": Kind.ALL_TO_ALL,
    "BROADCAST": Kind.BROADCAST,
}
SUFFIXES = {"_DP_EP": "edp", "_EP": "ep"}
NONE = "NONE"


def read_simai(path: Path | str, parallelism: Parallelism | None = None) -> Workload:
    """Return the table in a file.

    Parameters
    ----------
    path
        Of the file.
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
        name.rstrip(":"): _number(value, f"{path}, line 1: {name.rstrip(':')}")
        for name, value in pairwise(lines[0].split())
        if name.endswith(":")
    }
    groups = _groups(f"{path}, line 1", said, parallelism)
    count = _number(lines[1].strip(), f"{path}, line 2: the count of layers")
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
    """Return the rows of a microbatch, of which a file has so many times the same, and those done once."""
    known: dict[Layer, int] = {}
    kinds = np.array([known.setdefault(layer, len(known)) for layer in layers])
    for length in range(len(layers) // max(times, 1), 0, -1):
        once = len(layers) - times * length
        if once > MOST_ONCE:
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
        moved = _communication(kind, _number(size, f"{where}: {what} bytes"), group, where)
        passes.append(Pass(_seconds(time, f"{where}: {what} time"), moved))
    update = _seconds(words[-1], f"{where}: update time")
    forward, gradient, weights = passes
    return Layer(words[0], forward, gradient, weights, update=update)


def _communication(word: str, size: int, group: str, where: str) -> Communication | None:
    suffix = next((suffix for suffix in SUFFIXES if word.endswith(suffix)), "")
    kind = word.removesuffix(suffix)
    if kind == NONE or (kind in COLLECTIVES and not size):
        return None
    if kind not in COLLECTIVES:
        raise InputError(f"{where}: unknown collective '{word}'{suggestion(kind, [*COLLECTIVES, NONE])}")
    try:
        return Communication(COLLECTIVES[kind], Fraction(size), SUFFIXES.get(suffix, group))
    except InputError as error:
        raise InputError(f"{where}: {error}") from None


def _seconds(nanoseconds: str, where: str) -> float:
    return 1e-9 * _number(nanoseconds, where)


def _number(text: str, where: str) -> int:
    if not (text.isascii() and text.isdigit()) or len(text) > 18:
        raise InputError(f"{where} is '{text[:40]}'; it is a whole number, 0 or more, of at most 18 digits")
    return int(text)
