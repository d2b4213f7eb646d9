"""SimAI's text workloads, as AICB writes them: a line of parallelism, a count, a row a layer.

A row has 12 words: name, dependency, then time (ns), collective and bytes of the forward pass, of the input
gradient and of the weight gradient, and the time of the update. A collective ends in ``_EP`` or ``_DP_EP`` if
it is the experts' or their replicas'; else the first two are of the tensor parallel group and the third of
the data parallel one. What a row does is what one rank does: where the file says ``pp``, its rows are one
stage's, and no pipeline is simulated.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from pathlib import Path

from experiments.training.workload import Communication, Layer, Parallelism, Pass, Workload
from schedules.collective import Kind
from topologies.errors import InputError, suggestion
from topologies.files import read_text

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
WORDS = 12
NANO = 1e-9


def read_simai(path: Path | str, parallelism: Parallelism | None = None) -> Workload:
    """Return the table in a file.

    Parameters
    ----------
    path
        Of the file.
    parallelism
        The groups; without it the file's first line must have ``all_gpus``. Its tp and ep must be the file's.

    Raises
    ------
    InputError
        If the file can't be read, has an unknown collective or a row that is none (naming the line), or its
        groups don't multiply to its ranks.
    """
    lines = read_text(path).splitlines()
    if len(lines) < 2 or not lines[0].startswith(FIRST):
        raise InputError(f"{path}: no SimAI workload; its first word would be {FIRST}")
    groups = _groups(str(path), lines[0], parallelism)
    count = _number(lines[1].strip(), f"{path}, line 2: the count of layers")
    rows = [(number, line.split()) for number, line in enumerate(lines[2:], 3) if line.strip()]
    note = "" if len(rows) == count else f"; line 2 says {count} layers, {len(rows)} follow"
    layers = tuple(_layer(words, f"{path}, line {number}") for number, words in rows)
    return Workload(Path(path).stem, layers, groups, source=f"AICB / SimAI{note}")


def _groups(path: str, line: str, given: Parallelism | None) -> Parallelism:
    words = line.split()
    said = {
        name.rstrip(":"): _number(value, f"{path}, line 1: {name.rstrip(':')}")
        for name, value in pairwise(words)
        if name.endswith(":")
    }
    tp, pp, ep = (said.get(name, 1) for name in ("model_parallel_NPU_group", "pp", "ep"))
    ranks = said.get("all_gpus")
    if given is None and ranks is None:
        raise InputError(f"{path}, line 1: no all_gpus; say parallel = {{tp = {tp}, dp = ...}}")
    if ranks is not None and (min(tp, pp, ep) < 1 or ranks < 1 or ranks % (tp * pp)):
        raise InputError(f"{path}, line 1: tp x pp = {tp} x {pp} does not divide all_gpus = {ranks}")
    found = given or Parallelism(tp=tp, dp=(ranks or 0) // (tp * pp), ep=ep)
    if (found.tp, found.ep) != (tp, ep):
        raise InputError(f"{path}, line 1: it is made for tp = {tp} and ep = {ep}, not for {found}")
    if ranks is not None and found.ranks * pp != ranks:
        raise InputError(f"{path}, line 1: tp x dp x pp = {found.ranks * pp}, but all_gpus = {ranks}")
    return found


def _layer(words: list[str], where: str) -> Layer:
    if len(words) != WORDS:
        raise InputError(f"{where}: {len(words)} words; a layer has {WORDS}")
    passes = []
    for number, (group, what) in enumerate(zip(("tp", "tp", "dp"), ("forward", "ig", "wg"), strict=True)):
        time, kind, size = words[2 + 3 * number : 5 + 3 * number]
        seconds = NANO * _number(time, f"{where}: {what} time")
        passes.append(
            Pass(seconds, _communication(kind, _number(size, f"{where}: {what} bytes"), group, where))
        )
    update = NANO * _number(words[-1], f"{where}: update time")
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


def _number(text: str, where: str) -> int:
    if not (text.isascii() and text.isdigit()) or len(text) > 18:
        raise InputError(f"{where} is '{text[:40]}'; it is a whole number, 0 or more, of at most 18 digits")
    return int(text)
