"""Link-chunk matching in rounds, for networks whose links all cost the same: from hundreds of ranks to 10^5.

All transfers of a round arrive together, so a round is a time span of the paper (sections IV-C to IV-E).
In a round nodes do not affect each other: each matches its own in-links with what it lacks and its
in-neighbours had before. So nodes can be shared out among threads, and as the random numbers of a node and
round are a hash of (seed, round, node), the schedule is the same for any number of threads, and a synthesis
that was interrupted goes on where it was.

Each round has two steps: the matching of all nodes (`receivers`), and the arrival of what was matched.
Threads play many rounds without coming back to the interpreter, and meet after each step (`meeting`).
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import repeat
from threading import Event
from typing import NamedTuple

import numpy as np

from heuristics.tacos.bitsets import unlocked
from heuristics.tacos.field import Field, Key, Room, deliver, land, room_for, starting_field
from heuristics.tacos.meeting import LINE, all_have, arrive, meeting
from heuristics.tacos.receivers import CAREFUL_CHUNKS, Pair, match_nodes
from heuristics.tacos.state import Network
from topologies.exact import Int32Array, Int64Array

LOGGED = 256
"""Rounds after which a thread comes back to the interpreter, where it can be interrupted."""


class Made(NamedTuple):
    """What the threads make together.

    Parameters
    ----------
    chunk, link
        int32, shape (transfers,): by round, then destination.
    in_links
        int64, shape (slots,): the link of each slot.
    steps
        Where threads meet: two steps a round.
    found
        int64, shape (threads, LINE): how many transfers each thread's nodes have in the round, in column 0.
    """

    chunk: Int32Array
    link: Int32Array
    in_links: Int64Array
    steps: Int64Array
    found: Int64Array


class Part(NamedTuple):
    """What is a thread's own.

    Parameters
    ----------
    thread
        Its number.
    share
        Its nodes.
    room
        Room to work in.
    at
        int64, shape (2,): how many steps it has done, and how many transfers all rounds before have.
    first
        int64, shape (LOGGED,): the first transfers of the rounds after those that it had done at the call.
    """

    thread: int
    share: Pair
    room: Room
    at: Int64Array
    first: Int64Array


def synthesize(
    network: Network, owner: Int64Array, seed: np.uint64, threads: int = 1, careful: int = CAREFUL_CHUNKS
) -> tuple[Int32Array, Int32Array, Int64Array]:
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
        Nodes that lack no more chunks search well (`receivers.CAREFUL`), others quickly.

    Returns
    -------
    chunk, link
        int32, shape (transfers,): by round, then destination.
    first
        int64, shape (rounds + 1,): the transfers of round r are first[r] to first[r + 1] - 1.
    """
    field = starting_field(network, owner)
    transfers, found = int(field.missing.sum()), np.zeros((threads, LINE), np.int64)
    chunk, link = np.empty(transfers, np.int32), np.empty(transfers, np.int32)
    made = Made(chunk, link, network.in_links, meeting(threads), found)
    stop = Event()
    work = partial(_work, field, made, (seed, careful), stop)
    if threads == 1:
        return chunk, link, work(0)
    with ThreadPoolExecutor(threads) as pool:
        try:
            first, *_ = pool.map(work, range(threads))
            return chunk, link, first
        finally:
            stop.set()


def starts(first: Int64Array, duration: int, threads: int = 1) -> Int64Array:
    """Return when each transfer starts, in ticks.

    Parameters
    ----------
    first
        As `synthesize` returns it.
    duration
        Of a round.
    threads
        How many share the rounds.
    """
    start = np.empty(int(first[-1]), np.int64)
    shares = [_share(len(first) - 1, threads, thread) for thread in range(threads)]
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(partial(_fill, start, first, duration), shares))
    return start


@unlocked
def _fill(start: Int64Array, first: Int64Array, duration: int, share: Pair) -> None:
    for turn in range(share[0], share[1]):
        for row in range(first[turn], first[turn + 1]):
            start[row] = turn * duration


def _work(field: Field, made: Made, key: tuple[np.uint64, int], stop: Event, thread: int) -> Int64Array:
    """Do one thread's part of all rounds; return the first transfer of each round, and how many there are."""
    part = _part(field, len(made.steps), thread)
    own = field._replace(spread=field.spread.copy())
    first = []
    try:
        while part.at[1] < len(made.chunk) and not stop.is_set():
            first.append(part.first[: play(own, made, part, key)].copy())
            time.sleep(0)
    finally:
        if part.at[1] < len(made.chunk):  # the others would wait for ever
            stop.set()
    return np.concatenate([*first, part.at[1:]])


def _part(field: Field, threads: int, thread: int) -> Part:
    most = int(np.diff(field.in_first).max(initial=1))
    share = _share(len(field.missing), threads, thread)
    return Part(thread, share, room_for(most), np.zeros(2, np.int64), np.empty(LOGGED, np.int64))


def _share(nodes: int, threads: int, thread: int) -> Pair:
    return nodes * thread // threads, nodes * (thread + 1) // threads


@unlocked
def play(field: Field, made: Made, part: Part, key: tuple[np.uint64, int]) -> int:
    """Play a thread's part of rounds; return how many have begun to arrive.

    Until all transfers are made, the log is full, or other threads are long in coming. Invariant: no thread
    is more than a step ahead of another, in even steps only `picked`, `missing` and `full` of its own nodes
    are written, and in odd ones `have` and `begun` of them.

    Parameters
    ----------
    field
        Shared, but for `spread`.
    made, part
        What is shared, and what is not.
    key
        The seed, and who searches well (`Key.careful`).
    """
    seed, careful = key
    logged = 0
    while part.at[1] < len(made.chunk) and logged < LOGGED:
        step, row = part.at[0], part.at[1]
        if not all_have(made.steps, step):
            break
        if step % 2 == 0:
            turn = Key(seed, np.uint64(step // 2 + 1), careful)
            made.found[part.thread, 0] = match_nodes(field, part.share, part.room, turn)
        else:
            part.first[logged] = row
            logged += 1
            for thread in range(part.thread):
                row += made.found[thread, 0]
            land(field, part.share, (made.chunk, made.link, made.in_links), row)
            part.at[1] += made.found[:, 0].sum()
        part.at[0] = step + 1
        arrive(made.steps, part.thread, step + 1)
    return logged


def played(
    field: Field, seed: np.uint64, threads: int = 1, careful: int = CAREFUL_CHUNKS, turn: int = 0
) -> Iterator[int]:
    """Play the rounds after the first `turn`, until nobody lacks anything; yield each round's number, from 1.

    While a round is yielded, `field.picked` says what the links bring in it; it is not delivered yet.
    Parameters as of `synthesize`.
    """
    nodes = len(field.in_first) - 1
    most = int(np.diff(field.in_first).max(initial=1))
    shares = [_share(nodes, threads, thread) for thread in range(threads)]
    rooms = [room_for(most) for _ in shares]
    with ThreadPoolExecutor(threads) as pool:
        while field.missing.any():
            turn += 1
            key = Key(seed, np.uint64(turn), careful)
            if threads == 1:
                match_nodes(field, shares[0], rooms[0], key)
            else:
                list(pool.map(match_nodes, repeat(field), shares, rooms, repeat(key)))
            yield turn
            deliver(field)
