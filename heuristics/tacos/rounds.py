"""Link-chunk matching in rounds, for networks whose links all cost the same: from hundreds of ranks to 10^5.

All transfers of a round arrive together, so a round is a time span of the paper (MICRO 2024, sections IV-C to
IV-E). In a round nodes do not affect each other: each matches its own in-links with what it lacks and its
in-neighbours had before. So nodes can be shared out among threads, and as the random numbers of a node and
round are a hash of (seed, round, node), the schedule is the same for any number of threads, and a synthesis
that was interrupted goes on where it was.

Each round has two steps: the matching of all nodes (`round_matching`), and the arrival of what was matched
(`round_state`). Threads play many rounds without coming back to the interpreter, and wait for each other
after each step, many thousand times a second. Each counts the steps that it has done, in a line of the cache
of its own, and reads how many the others have. Within a kernel that takes a fraction of a microsecond where
all of them run; a wait that takes long is left to the caller, who lets other threads have the processor.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Event
from typing import Any, NamedTuple

import numpy as np

from tutti.heuristics.tacos.bitsets import leaf, unlocked
from tutti.heuristics.tacos.network import TacosNetwork
from tutti.heuristics.tacos.round_matching import CAREFUL_CHUNKS, match_nodes
from tutti.heuristics.tacos.round_state import (
    WIDTH,
    NodeScratch,
    RoundState,
    deliver,
    deliver_to,
    scratch_for,
    starting_state,
)
from tutti.topologies.exact import Int32Array, Int64Array
from tutti.topologies.kernels import intrinsic


class TacosRoundTuning(NamedTuple):
    """How threads share a round."""

    logged: int
    """Rounds after which a thread returns to the interpreter, where it can be interrupted."""
    nodes_a_thread: int
    """Nodes for each thread, at least. With fewer, a round is too short to be shared."""
    patience: int
    """Looks at the other threads before a wait is left to the caller: some ten microseconds."""


TUNING = TacosRoundTuning(logged=256, nodes_a_thread=1024, patience=4096)


class TacosRounds(NamedTuple):
    """Transfers by round, then destination.

    Parameters
    ----------
    chunk, link
        int32, shape (transfers,).
    first
        int64, shape (rounds + 1,): the transfers of round r are first[r] to first[r + 1] - 1.
    """

    chunk: Int32Array
    link: Int32Array
    first: Int64Array


class Together(NamedTuple):
    """What the threads make together.

    Parameters
    ----------
    chunk, link
        int32, shape (transfers,): of all transfers.
    in_links
        int64, shape (slots,): the link of each slot.
    barrier
        Where threads wait for each other: two steps a round.
    found
        int64, shape (threads, WIDTH): how many transfers each thread's nodes have in the round, in column 0.
    """

    chunk: Int32Array
    link: Int32Array
    in_links: Int64Array
    barrier: Int64Array
    found: Int64Array


class ThreadPart(NamedTuple):
    """What is a thread's own.

    Parameters
    ----------
    thread
        Its number.
    begin, end
        Its nodes are begin to end - 1.
    scratch
        Room to work in.
    at
        int64, shape (2,): how many steps it has done, and how many transfers all rounds before have.
    first
        int64, shape (logged,): the first transfers of the rounds after those that it had done at the call.
    """

    thread: int
    begin: int
    end: int
    scratch: NodeScratch
    at: Int64Array
    first: Int64Array


def threads_for(nodes: int) -> int:
    """Return how many threads share so many nodes."""
    return max(1, min(os.cpu_count() or 1, nodes // TUNING.nodes_a_thread))


def synthesize(
    network: TacosNetwork, owner: Int64Array, seed: np.uint64, threads: int = 1, careful: int = CAREFUL_CHUNKS
) -> TacosRounds:
    """Return the transfers that bring every chunk from its owner to all nodes, round by round.

    Parameters
    ----------
    network
        Strongly connected, all links being of one cost.
    owner
        int64, shape (chunks,): where each chunk starts.
    seed
        Of all random choices.
    threads
        How many share the nodes of a round; without effect on the result.
    careful
        Nodes that lack no more chunks search well (`round_matching.CAREFUL`), others quickly.
    """
    state = starting_state(network, owner)
    transfers, found = int(state.missing.sum()), np.zeros((threads, WIDTH), np.int64)
    chunk, link = np.empty(transfers, np.int32), np.empty(transfers, np.int32)
    made = Together(chunk, link, network.in_links, thread_barrier(threads), found)
    stop = Event()
    work = partial(_work, state, made, seed, careful, stop)
    if threads == 1:
        return TacosRounds(chunk, link, work(0))
    with ThreadPoolExecutor(threads) as pool:
        try:
            first, *_ = pool.map(work, range(threads))
            return TacosRounds(chunk, link, first)
        finally:
            stop.set()


def starts(first: Int64Array, duration: int, threads: int = 1) -> Int64Array:
    """Return when each transfer starts, in ticks.

    Parameters
    ----------
    first
        As of `TacosRounds`.
    duration
        Of a round.
    threads
        How many share the rounds.
    """
    start = np.empty(int(first[-1]), np.int64)
    bounds = _shares(len(first) - 1, threads)
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(partial(_fill, start, first, duration), bounds, bounds[1:]))
    return start


@unlocked
def _fill(start: Int64Array, first: Int64Array, duration: int, begin: int, end: int) -> None:
    for turn in range(begin, end):
        for row in range(first[turn], first[turn + 1]):
            start[row] = turn * duration


def _work(
    state: RoundState, made: Together, seed: np.uint64, careful: int, stop: Event, thread: int
) -> Int64Array:
    """Do one thread's part of all rounds; return the first transfer of each round, and how many there are."""
    begin, end = _shares(len(state.missing), len(made.barrier))[thread : thread + 2]
    at, first = np.zeros(2, np.int64), np.empty(TUNING.logged, np.int64)
    part = ThreadPart(thread, begin, end, scratch_for(state), at, first)
    own = state._replace(spread=state.spread.copy())
    logged, transfers = [], len(made.chunk)
    try:
        while part.at[1] < transfers and not stop.is_set():
            logged.append(part.first[: play(own, made, part, seed, careful)].copy())
            time.sleep(0)
    finally:
        if part.at[1] < transfers:  # the others would wait for ever
            stop.set()
    return np.concatenate([*logged, part.at[1:]])


def _shares(count: int, threads: int) -> list[int]:
    """Return where each thread's share of so many nodes or rounds begins, and the end."""
    return [count * thread // threads for thread in range(threads + 1)]


@unlocked
def play(state: RoundState, made: Together, part: ThreadPart, seed: np.uint64, careful: int) -> int:
    """Play a thread's part of rounds; return how many have begun to arrive.

    Until all transfers are made, the log is full, or other threads are long in coming. Invariant: no thread
    is more than a step ahead of another, in even steps only `picked`, `missing` and `full` of its own nodes
    are written, and in odd ones `have` and `begun` of them.

    Parameters
    ----------
    state
        Shared, but for `spread`.
    made, part
        What is shared, and what is not.
    seed, careful
        As of `synthesize`.
    """
    logged = 0
    while part.at[1] < len(made.chunk) and logged < TUNING.logged:
        step, row = part.at[0], part.at[1]
        if not all_arrived(made.barrier, step):
            break
        if step % 2 == 0:
            # Algorithm 1 on one time span: nobody's `have` changes while anybody matches.
            made.found[part.thread, 0] = match_nodes(
                state, part.begin, part.end, part.scratch, seed, step // 2 + 1, careful
            )
        else:
            part.first[logged] = row
            logged += 1
            # Rows of a round stand by destination: this thread's after those of the threads before it.
            for thread in range(part.thread):
                row += made.found[thread, 0]
            deliver_to(state, part.begin, part.end, made.in_links, made.chunk, made.link, row)
            part.at[1] += made.found[:, 0].sum()
        part.at[0] = step + 1
        arrive(made.barrier, part.thread, step + 1)
    return logged


def played(
    state: RoundState, seed: np.uint64, threads: int = 1, careful: int = CAREFUL_CHUNKS, turn: int = 0
) -> Iterator[int]:
    """Play the rounds after the first `turn`, until nobody lacks anything; yield each round's number, from 1.

    While a round is yielded, `state.picked` says what the links bring in it; it is not delivered yet.
    Parameters as of `synthesize`.
    """
    bounds, scratch = _shares(len(state.missing), threads), [scratch_for(state) for _ in range(threads)]

    def match(thread: int) -> None:
        match_nodes(state, bounds[thread], bounds[thread + 1], scratch[thread], seed, turn, careful)

    with ThreadPoolExecutor(threads) as pool:
        while state.missing.any():
            turn += 1
            if threads == 1:
                match(0)
            else:
                list(pool.map(match, range(threads)))
            yield turn
            deliver(state)


def thread_barrier(threads: int) -> Int64Array:
    """Return int64, shape (threads, WIDTH): how many steps each thread has done, in column 0; none so far."""
    return np.zeros((threads, WIDTH), np.int64)


def _place(context: Any, builder: Any, kind: Any, array: Any, row: Any) -> Any:
    """Return the address of a row's first number."""
    from numba.core import cgutils

    view = context.make_array(kind)(context, builder, array)
    return cgutils.get_item_pointer(context, builder, kind, view, [row, row.type(0)])


@intrinsic
def _read(context: Any, steps: Any, thread: Any) -> Any:
    """Return how many steps a thread has done; what it wrote before is then there to read."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.load_atomic(_place(context, builder, signature.args[0], *arguments), "acquire", WIDTH)

    return steps.dtype(steps, thread), generate


@intrinsic
def _write(context: Any, steps: Any, thread: Any, done: Any) -> Any:
    """Let the others read how many steps a thread has done, and what it wrote before."""
    from numba.types import void

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place = _place(context, builder, signature.args[0], *arguments[:2])
        builder.store_atomic(arguments[2], place, "release", WIDTH)
        return context.get_dummy_value()

    return void(steps, thread, done), generate


@leaf
def arrive(steps: Int64Array, thread: int, done: int) -> None:
    """Say that a thread has done so many steps."""
    _write(steps, np.int64(thread), np.int64(done))


@leaf
def all_arrived(steps: Int64Array, done: int) -> bool:
    """Wait a while until all threads have done so many steps; return whether they have."""
    for thread in range(len(steps)):
        left = TUNING.patience
        while _read(steps, np.int64(thread)) < done:
            left -= 1
            if left == 0:
                return False
    return True
