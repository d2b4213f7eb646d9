"""TACOS into a file: rounds between links of one cost, written as they are made.

Only who has what is in memory, a bit for each rank and chunk. An interrupted synthesis is taken up by
delivering the rounds that are in the file: random numbers depend on the seed and the round alone.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from tutti.heuristics.tacos import rounds
from tutti.heuristics.tacos.bitsets import unlocked
from tutti.heuristics.tacos.network import time_expanded
from tutti.heuristics.tacos.options import SAMPLED, TacosOptions, check_state
from tutti.heuristics.tacos.round_state import RoundState, deliver, starting_state
from tutti.schedules.collective import Kind
from tutti.schedules.files.rounds import (
    Cells,
    RoundTable,
    RoundWriter,
    nothing,
    parts_of,
    read_rounds,
    width_of,
)
from tutti.schedules.method import Problem
from tutti.schedules.schedule import Chunks
from tutti.topologies.errors import Unsupported
from tutti.topologies.exact import Int32Array, Int64Array
from tutti.topologies.kernels import kernel
from tutti.topologies.transforms import transpose

Progress = Callable[[int, float], None]

TOLD = 2**24
"""Entries of the array between two reports."""


def _silent(turn: int, share: float) -> None:
    """Tell nobody."""


def synthesize_to(
    path: Path, problem: Problem, options: TacosOptions, rng: np.random.Generator, tell: Progress = _silent
) -> RoundTable:
    """Write a schedule to a file and return it, read through a memory map.

    Parameters
    ----------
    path
        Of the file; an interrupted synthesis of the same is continued.
    problem
        An allgather, reduce-scatter or allreduce among all ranks, with shards of one size, on a network of
        like links without switches.
    options
        Chunks a shard and the memory allowed; the rule is ``"sampled"``, of one try.
    rng
        Source of the seed.
    tell
        Is told, now and then, how many rounds are made and what share of all transfers.

    Raises
    ------
    Unsupported
        If the problem is another.
    InputError
        If the state outgrows the memory, or the file can't be written.
    """
    _check(problem, options)
    per_item, what = options.chunks, problem.collective
    chunks = Chunks.even(what, per_item)
    where = transpose(problem.topology) if what.kind is Kind.REDUCE_SCATTER else problem.topology
    check_state(where, len(chunks), options)
    seed = rng.integers(2**64, dtype=np.uint64)
    none = np.zeros((0, where.num_links), width_of(len(chunks)))
    writer = RoundWriter(path, RoundTable(problem.topology, what, chunks, none), {"seed": int(seed)})
    network, _ = time_expanded(where, Fraction(1), 1)
    state = starting_state(network, np.repeat(what.items.owner, per_item).astype(np.int64))
    whole = False
    try:
        _play(state, network.in_links, writer, seed, tell)
        whole = True
    finally:
        writer.close(whole=whole)
    return read_rounds(path)


def _check(problem: Problem, options: TacosOptions) -> None:
    what, where = problem.collective, problem.topology
    parts_of(what)
    if what.groups is not None or not what.items.share.uniform:
        raise Unsupported("tacos into a file needs one group of all ranks and shards of one size")
    if where.num_switches or not where.homogeneous:
        raise Unsupported(f"tacos into a file needs links of one cost; those of {where.name} differ")
    if options.restarts != 1 or options.chunk_rule not in ("auto", SAMPLED):
        raise Unsupported("tacos into a file makes one try, with chunk_rule 'sampled'")


def _play(
    state: RoundState, in_links: Int64Array, writer: RoundWriter, seed: np.uint64, tell: Progress
) -> None:
    """Make the rounds that the file does not have yet."""
    for cells in writer.done():
        _pick_again(state, np.asarray(cells), in_links, nothing(writer.width))
        deliver(state)
    total = float(len(state.spread)) * (len(state.missing) - 1)
    row = np.empty(len(in_links), writer.width)
    every = max(1, TOLD // len(row))
    for turn in rounds.played(state, seed, rounds.threads_for(len(state.missing)), turn=writer.rounds):
        row[:] = nothing(writer.width)
        _write_links(state.picked, in_links, row)
        writer.append(row)
        if turn % every == 0:
            tell(turn, 1 - float(state.missing.sum()) / total)


@unlocked
def _write_links(picked: Int32Array, in_links: Int64Array, row: Cells) -> None:
    for slot in range(len(picked)):
        if picked[slot] >= 0:
            row[in_links[slot]] = picked[slot]


@kernel
def _pick_again(state: RoundState, row: Cells, in_links: Int64Array, none: np.unsignedinteger[Any]) -> None:
    """Set what the links of a round brought."""
    for node in range(len(state.missing)):
        for slot in range(state.in_first[node], state.in_first[node + 1]):
            chunk = row[in_links[slot]]
            state.picked[slot] = -1 if chunk == none else chunk
            state.missing[node] -= chunk != none
