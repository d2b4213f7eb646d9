"""Where pieces follow trees: when each of them goes over which edge, improved from pass to pass.

A piece is reduced up one tree, copied down another, or both. A *hop* is one piece over one edge: upwards it
waits for the hops into its tail, downwards for the one into its tail, at the root for all that come up. It
takes a route of one link or several (through switches) and holds each of them for its own while. A hop
starts once it is ready and all its links are free for it; of those that compete, the least priority first.

Turned around in time a placement is one again, up and down exchanged. So each pass places the hops twice,
from the end with the starts found so far as priorities, then from the beginning with those from the end:
forward-backward improvement, as for projects with scarce resources (Li and Willis, EJOR 1992).

In some passes a route with nothing to send makes a *detour*: it brings a piece to a node that would get it
later from elsewhere, if the route has time for that besides what is planned for it. The piece's tree has then
another edge there, and the next pass starts from the new trees: local search over the time-expanded network.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from heuristics.tacos.hops import Detours, place
from heuristics.tacos.ways import DOWN, UP, Trees, Ways
from topologies.exact import Int32Array, Int64Array, offsets_of

Pair = tuple[Int32Array, Int32Array]


class Effort(NamedTuple):
    """How many placements are made.

    Parameters
    ----------
    passes
        How often one is made from its end, and then anew.
    detours
        In how many passes hops may leave their trees, where nothing is reduced. (Trees that are both reduced
        and broadcast are balanced both ways, which detours would upset.)
    """

    passes: int = 4
    detours: int = 3


THOROUGH = Effort()


class Placement(NamedTuple):
    """When each hop starts, over which route, and when all is done; shaped as `Trees.way`."""

    start: Int64Array
    trees: Trees
    end: int


def improved(ways: Ways, trees: Trees, priority: Int64Array, ends: Pair, effort: Effort) -> Placement:
    """Return the placement that ends first of several.

    Parameters
    ----------
    ways, trees
        The network, and what follows what.
    priority
        int64, shape (2, pieces, nodes): the least goes first. Entries without a hop are not read.
    ends
        The ranks that each route leaves and enters.
    effort
        How many are made.
    """
    best = made = _placed(ways, trees, priority, _no_detours())
    alone = not (trees.way[UP] >= 0).any()
    for turn in range(effort.passes + 1):
        made = _placed(ways, trees, priority, _no_detours()) if turn else made
        finish = made.start + ways.lasts[made.trees.way]
        if made.end < best.end:
            best = made
        if turn < effort.detours and alone:
            more = _placed(ways, trees, priority, _detours(best.end, finish[DOWN], ends))
            if more.end < best.end:
                best = more
                trees, finish = more.trees, more.start + ways.lasts[more.trees.way]
        if turn < effort.passes:
            back = place(ways.reversed, trees.reversed, -finish[::-1], ways.num_links, _no_detours())[0]
            priority = -(back + ways.lasts[trees.way][::-1])[::-1]
    return best


def _no_detours() -> Detours:
    nothing = np.zeros(0, np.int64)
    return Detours(0, np.zeros((0, 0), np.int64), nothing, nothing, nothing, nothing)


def _detours(until: int, expected: Int64Array, ends: Pair) -> Detours:
    tail, head = (end.astype(np.int64) for end in ends)
    first = offsets_of(np.bincount(tail, minlength=expected.shape[1]))
    return Detours(until, expected, tail, head, first, np.argsort(tail, kind="stable"))


def _placed(ways: Ways, trees: Trees, priority: Int64Array, detours: Detours) -> Placement:
    """Return a placement, with the trees as the hops then have them."""
    start, way = place(ways, trees, priority, ways.num_links, detours)
    if not np.array_equal(way, trees.way):
        parent = np.where(way >= 0, detours.tail[way], -1).astype(np.int32)
        parent[UP] = trees.parent[UP]
        trees = Trees.of(trees.root, parent, way)
    moves = way >= 0
    return Placement(start, trees, int((start + ways.lasts[way])[moves].max(initial=0)))
