"""Schedules that only copy, from the rank where each chunk starts: the best of several tries."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from itertools import chain
from typing import NamedTuple

import numpy as np

from heuristics.tacos import guided, kernel, matching, rounds
from heuristics.tacos.field import threads_for
from heuristics.tacos.memory import check_table
from heuristics.tacos.network import time_expanded
from heuristics.tacos.options import AUTO, EVENT_PICKS, MAXIMUM, SAMPLED, TacosOptions
from heuristics.tacos.state import Network
from schedules.collective import EVERYONE, Collective
from schedules.method import Problem
from schedules.schedule import Chunks, Clock, Schedule
from topologies.exact import Int32Array, Int64Array, offsets_of

MANY = 2**17
"""For more transfers the exact rule gives way to the sampled one, which misses the bound on small tori."""


class Table(NamedTuple):
    """Transfers by start.

    Parameters
    ----------
    chunk, link
        int32, shape (transfers,).
    start
        int64, shape (transfers,): in ticks.
    end
        The last arrival.
    """

    chunk: Int32Array
    link: Int32Array
    start: Int64Array
    end: int


def copies(problem: Problem, size: Fraction, options: TacosOptions, rng: np.random.Generator) -> Schedule:
    """Return a schedule for a collective that does not combine, on a network without switches.

    Parameters
    ----------
    problem
        The collective and the network.
    size
        M in bytes.
    options, rng
        The variant, and where its seeds come from.

    Raises
    ------
    InputError
        If the state and the table outgrow the memory of the machine.
    """
    check_table(problem, options)
    chunks = Chunks.even(problem.collective, options.chunks)
    owner = np.repeat(problem.collective.items.start, options.chunks).astype(np.int64)
    transfers = len(owner) * (problem.topology.num_ranks - 1)
    network, tick = time_expanded(problem.topology, bytes_of_chunk(chunks, size), transfers)
    if problem.collective.groups is None and (problem.collective.items.end == EVERYONE).all():
        make = _to_all(network, owner, options)
    else:
        make = _to_goals(network, owner, goals_of(problem.collective, options.chunks))
    best, tried = first_to_end(make, options, rng)
    for column in (best.chunk, best.link, best.start):
        column.flags.writeable = False  # nobody else has them: the schedule need not copy
    return Schedule(
        topology=problem.topology,
        collective=problem.collective,
        clock=Clock.TIME,
        chunks=chunks,
        chunk=best.chunk,
        route=best.link,
        order=best.start,
        tick=tick,
        size=size,
        stats={"tries": tried},
    )


def bytes_of_chunk(chunks: Chunks, size: Fraction) -> Fraction:
    """Return the bytes of each chunk, all being alike."""
    return size * int(chunks.size[0]) / chunks.denominator


def first_to_end(
    make: Callable[[np.uint64], Table], options: TacosOptions, rng: np.random.Generator
) -> tuple[Table, int]:
    """Return the table that ends first of those made from several seeds, the first of equal ones.

    And how many there were: `tries`, and more while the time lasts if it is limited.
    """
    until = None if options.time_limit is None else time.monotonic() + options.time_limit
    workers = min(options.tries, _cores()) if until is None else _cores()
    tried = options.tries
    with ThreadPoolExecutor(workers) as pool:
        seeds = rng.integers(2**64, size=options.tries, dtype=np.uint64)
        best = min(pool.map(make, seeds), key=lambda table: table.end)
        while until is not None and time.monotonic() < until:
            seeds = rng.integers(2**64, size=workers, dtype=np.uint64)
            best = min([best, *pool.map(make, seeds)], key=lambda table: table.end)
            tried += workers
    return best, tried


def by_start(network: Network, rows: tuple[Int32Array, Int32Array, Int64Array]) -> Table:
    """Return the transfers (chunk, link, start) as a table."""
    _, link, start = rows
    return Table(*rows, int((start + network.duration[network.cost[link]]).max(initial=0)))


def goals_of(what: Collective, chunks: int) -> guided.Goals:
    """Return who must get what, given the number of chunks a shard."""
    ends = []
    for group, start, end in zip(what.items.group, what.items.start, what.items.end, strict=True):
        nodes = what.members[group] if end == EVERYONE else (end,)
        ends += [[node for node in nodes if node != start]] * chunks
    return guided.Goals(
        offsets_of([len(nodes) for nodes in ends]), np.array(list(chain.from_iterable(ends)), np.int32)
    )


def _to_goals(network: Network, start: Int64Array, goals: guided.Goals) -> Callable[[np.uint64], Table]:
    """Return what makes a table from a seed where chunks pass through ranks that do not want them."""
    return lambda seed: by_start(network, guided.synthesize(network, start, goals, seed))


def _to_all(network: Network, owner: Int64Array, options: TacosOptions) -> Callable[[np.uint64], Table]:
    """Return what makes a table from a seed, by the kernel that suits the pick and the network."""
    nodes = len(network.in_first) - 1
    many = len(owner) * (nodes - 1) > MANY and len(network.duration) == 1
    pick = (SAMPLED if many else "scarcest") if options.pick == AUTO else options.pick
    threads = threads_for(nodes) if options.tries == 1 else 1

    def by_round(seed: np.uint64) -> Table:
        chunk, link, first = rounds.synthesize(network, owner, seed, threads)
        duration = int(network.duration[0])
        return Table(chunk, link, rounds.starts(first, duration, threads), (len(first) - 1) * duration)

    def by_matching(seed: np.uint64) -> Table:
        return by_start(network, matching.synthesize(network, owner, options.wait, seed))

    def by_event(seed: np.uint64) -> Table:
        return by_start(network, kernel.synthesize(network, owner, EVENT_PICKS[pick], options.wait, seed))

    return {SAMPLED: by_round, MAXIMUM: by_matching}.get(pick, by_event)


def _cores() -> int:
    return os.cpu_count() or 1
