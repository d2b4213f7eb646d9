"""List scheduling of pieces that one tree reduces and another broadcasts, from both ends of time.

A *cell* is a transfer of one rank: cell v sends rank v's sum to its parent in the in-tree, and cell N + v
brings the result to rank v from its parent in the out-tree. The root's cell holds no link: it joins all that
comes up to all that goes down. Who waits for whom is the same for all pieces of a segment.

A link that is free sends the first of the pieces that wait for it, by priority, then by number. Turned round
in time a schedule is one again, so passes go forwards and backwards in turn, each with the order of the last:
what was late there is early here, and gaps close (justification: Valls, Ballestin, Quintanilla, European J.
Oper. Res. 2005). Where every link has leaves of both halves to send, no gap need remain.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from models.allreduce.branches import Branches
from topologies.exact import BoolArray, Int32Array, Int64Array
from topologies.heap import pop_event, push_event


class Cells(NamedTuple):
    """Who waits for whom, segment by segment.

    Parameters
    ----------
    link
        int32, shape (segments, cells): -1 for cells that hold none.
    need
        int32, shape (segments, cells): for how many others each waits.
    first, follower
        int32, shapes (segments, cells + 1) and (segments, 2 N - 2): in CSR form, those that wait for each.
    """

    link: Int32Array
    need: Int32Array
    first: Int32Array
    follower: Int32Array


class Work(NamedTuple):
    """Pieces: each one's segment, and for how many ticks each cell holds its link, shape (pieces, cells)."""

    segment: Int64Array
    ticks: Int64Array


class Tables(NamedTuple):
    """The cells, forwards and backwards in time, and how many links there are."""

    there: Cells
    back: Cells
    num_links: int


def tables_of(
    up: Branches, down: Branches, rows: tuple[Int64Array, Int64Array], parent: tuple[Int64Array, Int64Array]
) -> Tables:
    """Return the cells of segments, whose arcs are links.

    Parameters
    ----------
    up, down
        In-trees and out-trees.
    rows
        Of the segments in both.
    parent
        Of in-trees and out-trees, shape (trees, ranks), -1 at roots.
    """
    ranks = up.via.shape[1]
    link = np.concatenate([up.via[rows[0]], down.via[rows[1]]], axis=1).astype(np.int32)
    pairs = [_pairs(int(up.root[i]), parent[0][i], parent[1][j], ranks) for i, j in zip(*rows, strict=True)]
    return Tables(_cells(link, pairs), _cells(link, [pair[::-1] for pair in pairs]), int(link.max()) + 1)


def _pairs(root: int, above: Int64Array, below: Int64Array, ranks: int) -> Int64Array:
    """Return which cell waits (row 1) for which (row 0)."""
    others = np.delete(np.arange(ranks), root)
    source = np.where(below[others] == root, root, ranks + below[others])
    return np.stack([np.concatenate([others, source]), np.concatenate([above[others], ranks + others])])


def _cells(link: Int32Array, pairs: list[Int64Array]) -> Cells:
    width = link.shape[1]
    order = [np.argsort(before, kind="stable") for before, _ in pairs]
    follower = [after[turn] for (_, after), turn in zip(pairs, order, strict=True)]
    need = [np.bincount(after, minlength=width) for _, after in pairs]
    first = [np.searchsorted(np.sort(before), np.arange(width + 1)) for before, _ in pairs]
    return Cells(link, *(np.array(table, dtype=np.int32) for table in (need, first, follower)))


def justified(tables: Tables, work: Work, priority: Int64Array, passes: int, least: int) -> Int64Array:
    """Return when each cell of each piece starts in the shortest schedule found, in ticks.

    Parameters
    ----------
    tables
        The cells.
    work
        The pieces.
    priority
        int64, shape (pieces, cells), the least first.
    passes
        How often at most it is made forwards, and from its end.
    least
        No schedule is shorter; when one is as short no more passes are made.
    """
    moves = tables.there.link[work.segment] >= 0
    best: Int64Array = np.zeros_like(work.ticks)
    shortest, since = np.iinfo(np.int64).max, 0
    for _ in range(passes):
        start = listed(tables.there, work, priority, tables.num_links)
        finish = start + work.ticks
        back = listed(tables.back, work, -finish, tables.num_links) + work.ticks
        turned = int(back[moves].max()) - back
        since += 1
        for found in (start, turned):
            end = int((found + work.ticks)[moves].max())
            if end < shortest:
                best, shortest, since = found, end, 0
        if shortest <= least or since >= _PATIENCE:
            break
        priority = turned
    return best


_PATIENCE = 2
"""Passes without progress, after which there are no more."""


class _State(NamedTuple):
    """For how many others each cell waits; a heap for each link; when what is under way is over.

    `counts` holds events under way and touched links.
    """

    left: Int64Array
    room: Int64Array
    base: Int64Array
    size: Int64Array
    busy: BoolArray
    finish: Int64Array
    agenda: Int64Array
    touched: Int64Array
    is_touched: BoolArray
    counts: Int64Array


@njit(cache=True)
def listed(cells: Cells, work: Work, priority: Int64Array, num_links: int) -> Int64Array:
    """Return the starts; invariant: before links send at a moment, all that is over by then has been told."""
    width = cells.link.shape[1]
    key, ticks = priority.copy().reshape(-1), work.ticks.copy().reshape(-1)
    state = _empty(cells, work, num_links)
    start = np.zeros(len(key), np.int64)
    for event in range(len(key)):
        place = (work.segment[event // width], event % width)
        if state.left[event] == 0 and cells.link[place] >= 0:
            _wait(event, cells.link[place], key, state)
    now = 0
    while True:
        for on in state.touched[: state.counts[1]]:
            state.is_touched[on] = False
            if state.busy[on] or state.size[on] == 0:
                continue
            event = pop_event(state.room[state.base[on] : state.base[on + 1]], key, state.size[on])
            state.size[on] -= 1
            state.busy[on] = True
            start[event], state.finish[event] = now, now + ticks[event]
            push_event(state.agenda, state.finish, state.counts[0], event)
            state.counts[0] += 1
        state.counts[1] = 0
        if state.counts[0] == 0:
            return start.reshape(priority.shape)
        now = state.finish[state.agenda[0]]
        while state.counts[0] > 0 and state.finish[state.agenda[0]] == now:
            event = pop_event(state.agenda, state.finish, state.counts[0])
            state.counts[0] -= 1
            on = cells.link[work.segment[event // width], event % width]
            state.busy[on] = False
            _touch(on, state)
            _tell(event, cells, work.segment[event // width], key, state)


@njit(cache=True)
def _empty(cells: Cells, work: Work, num_links: int) -> _State:
    """Return the state in which nothing has happened."""
    pieces, width = len(work.segment), cells.link.shape[1]
    left, base = np.empty((pieces, width), np.int64), np.zeros(num_links + 1, np.int64)
    for piece in range(pieces):
        left[piece] = cells.need[work.segment[piece]]
        for on in cells.link[work.segment[piece]]:
            if on >= 0:
                base[on + 1] += 1
    base = np.cumsum(base)
    return _State(
        left.reshape(-1),
        np.empty(base[-1], np.int64),
        base,
        np.zeros(num_links, np.int64),
        np.zeros(num_links, np.bool_),
        np.zeros(pieces * width, np.int64),
        np.empty(num_links, np.int64),
        np.empty(num_links, np.int64),
        np.zeros(num_links, np.bool_),
        np.zeros(2, np.int64),
    )


@njit(cache=True)
def _touch(on: int, state: _State) -> None:
    if not state.is_touched[on]:
        state.is_touched[on] = True
        state.touched[state.counts[1]] = on
        state.counts[1] += 1


@njit(cache=True)
def _wait(event: int, on: int, key: Int64Array, state: _State) -> None:
    """Let an event wait for its link."""
    push_event(state.room[state.base[on] : state.base[on + 1]], key, state.size[on], event)
    state.size[on] += 1
    _touch(on, state)


@njit(cache=True)
def _tell(event: int, cells: Cells, segment: int, key: Int64Array, state: _State) -> None:
    """Tell those that wait for an event, and through the root's cell those beyond it."""
    width = cells.link.shape[1]
    cell = event % width
    first, follower = cells.first[segment], cells.follower[segment]
    for other in follower[first[cell] : first[cell + 1]]:
        after = event - cell + other
        state.left[after] -= 1
        if state.left[after] > 0:
            continue
        if cells.link[segment, other] >= 0:
            _wait(after, cells.link[segment, other], key, state)
            continue
        for beyond in follower[first[other] : first[other + 1]]:
            state.left[event - cell + beyond] -= 1
            if state.left[event - cell + beyond] == 0:
                _wait(event - cell + beyond, cells.link[segment, beyond], key, state)
