"""TACOS into a file: rounds between links of one cost, written as they are made.

Memory holds only which rank has which chunk, a bit for each pair. An interrupted synthesis is continued by
delivering the rounds that are in the file: random numbers depend on the seed and the round alone.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from tutti.heuristics.tacos.bitsets import NOTHING
from tutti.heuristics.tacos.event_loop import clock, played
from tutti.heuristics.tacos.network import time_expanded
from tutti.heuristics.tacos.options import SAMPLED, TacosOptions, check_state
from tutti.heuristics.tacos.round_matching import Sampled
from tutti.heuristics.tacos.round_state import (
    RoundState,
    deliver_round,
    shared_out,
    starting_state,
    threads_for,
)
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
from tutti.topologies.transforms import transpose

Progress = Callable[[int, float], None]

TOLD = 2**24
"""Entries of the array between two reports."""


def _silent(turn: int, share: float) -> None:
    """Report nothing."""


def synthesize_to(
    path: Path, problem: Problem, options: TacosOptions, rng: np.random.Generator, tell: Progress = _silent
) -> RoundTable:
    """Write a schedule to a file and return it, read through a memory map.

    Parameters
    ----------
    path
        The path of the file; an interrupted synthesis of the same is continued.
    problem
        An allgather, reduce-scatter or allreduce among all ranks, with shards of one size, on a network of
        links of one cost, without switches.
    options
        Chunks a shard and the memory allowed; the rule is ``"sampled"``, with one try.
    rng
        Source of the seed.
    tell
        A function that is called now and then with the number of rounds made, and the share of all transfers.

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
    network = time_expanded(where, Fraction(1), 1)[0]._replace(duration=np.ones(1, np.int64))
    owner = np.repeat(what.items.owner, per_item).astype(np.int64)
    state = starting_state(network, owner, room=where.num_links)
    whole = False
    try:
        _play(state, writer, seed, tell)
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


def _play(made: RoundState, writer: RoundWriter, seed: np.uint64, tell: Progress) -> None:
    """Make the rounds that the file does not have yet."""
    links, none = made.network.in_links, nothing(writer.width)
    rule, total = Sampled(seed), int(made.rows[1])
    for cells in writer.done():
        _deliver_again(made, np.asarray(cells)[links], none)
    if made.rows[1] == 0:
        return
    threads, turn, slot = threads_for(made.end), writer.rounds, np.argsort(links)
    states, clocks = shared_out(made, threads), [clock(now=turn) for _ in range(threads)]
    every = max(1, TOLD // len(links))
    for step in played(rule, states, clocks, steps=2):
        if step % 2 == 0:
            for state in states:
                state.rows[0] = 0
            writer.append(made.picked[slot].astype(writer.width))  # -1 becomes the number for nothing
            turn += 1
            if turn % every == 0:
                tell(turn, 1 - states[0].rows[1] / total)


def _deliver_again(made: RoundState, chunk: Cells, none: np.unsignedinteger[Any]) -> None:
    """Let the part of a round that the file has arrive, given by slots."""
    brought = chunk != none
    made.picked[:] = np.where(brought, chunk, NOTHING)
    made.missing[:] -= np.add.reduceat(brought.astype(np.int64), made.network.in_first[:-1])
    made.found[0, 0] = np.count_nonzero(brought)
    deliver_round(made, 0)
    made.rows[0] = 0
