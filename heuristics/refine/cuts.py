"""The best cuts for given messages: a linear program in their starts and the sizes of parcels.

With a plan's messages, their routes and their order fixed, all constraints on its times are linear:

    minimize T.
    begin(m, l) >= begin(k, l) + α(l) + load(k) / b(l)                          k before m on link l.
    start(m) >= start(k) + latency(k) + load(k) / b(k)                          k brings what m carries.
    T >= start(m) + latency(m) + load(m) / b(m)                                 each message m.
    begin(m, l) = start(m) + enter(m, l) + lag(m, l) load(m);  b(m) is the least on m's route.
    load(m) = the sizes of the parcels in m;  the parcels of an item sum to it.

Here k and m are messages, and loads are in units. All cuts between parcels move together, while a search
moves one at a time.
"""

from __future__ import annotations

import numpy as np

from tutti.heuristics.refine.plan import Parcels, Roads, TransferSequence
from tutti.topologies.exact import FloatArray, Int32Array, Int64Array, offsets_of


def best_cuts(
    roads: Roads, parcels: Parcels, plan: TransferSequence, end: float, seconds: float
) -> Int64Array | None:
    """Return the sizes of parcels with which a plan's messages end soonest.

    Parameters
    ----------
    roads, parcels
        The problem.
    plan
        The plan, in the order of its messages' starts.
    end
        Its present end, in seconds.
    seconds
        Time limit of the program.

    Returns
    -------
    int64 array of shape (parcels,), or None
        Units, rounded; the parcels of an item keep their sum. None: no solution in time.
    """
    from scipy.optimize import linprog  # slow to import
    from scipy.sparse import coo_array, diags_array, hstack

    length, sizes = int(plan.length[0]), len(plan.size)
    slot = plan.slot[:length]
    message = np.cumsum(plan.begins[:length]) - 1
    kind = roads.kind[plan.route[slot[plan.begins[:length]]]]
    count = len(kind)
    own = np.repeat(np.arange(len(parcels.item) - 1), np.diff(parcels.item))
    total = np.bincount(own, plan.size).astype(np.int64)
    unit = float(total.max())

    # Each row is start[first] - start[then] + rate load[first] - late load[then] <= -wait: pairs on a link,
    # then pairs of bringer and carrier, then each message and T. Times are over `end` and loads over `unit`.
    every = np.arange(count)
    link_pairs = _in_turn(roads, kind)
    data = _brought(plan, slot, message, count)
    first = np.concatenate([link_pairs[0], data // count, every])
    then = np.concatenate([link_pairs[1], data % count, np.full(count, count)])  # the last is T
    wait = np.concatenate([link_pairs[2], roads.latency[kind[data // count]], roads.latency[kind]]) / end
    rate = (
        np.concatenate([link_pairs[3], roads.slowest[kind[data // count]], roads.slowest[kind]]) * unit / end
    )
    late = np.concatenate([link_pairs[4], np.zeros(len(data) + count)]) * unit / end

    rows = np.arange(len(first))
    ones = np.ones(len(rows))
    order = coo_array((ones, (rows, first)), (len(rows), count + 1))
    order = order - coo_array((ones, (rows, then)), (len(rows), count + 1))
    load = coo_array((np.ones(length), (message, parcels.of[slot])), (count, sizes)).tocsr()
    bytes_of = diags_array(rate) @ load[first] - diags_array(late) @ load[np.minimum(then, count - 1)]
    whole = coo_array((np.ones(sizes), (own, count + 1 + np.arange(sizes))), (len(total), count + 1 + sizes))
    found = linprog(
        np.eye(1, count + 1 + sizes, count)[0],
        A_ub=hstack([order, bytes_of]).tocsr(),
        b_ub=-wait,
        A_eq=whole.tocsr(),
        b_eq=total / unit,
        bounds=[(0, None)] * (count + 1) + [(0, None if size else 0) for size in plan.size],
        method="highs",
        options={"time_limit": seconds},
    )
    return None if found.x is None else _rounded(found.x[count + 1 :], own, total)


def _in_turn(
    roads: Roads, kind: Int32Array
) -> tuple[Int64Array, Int64Array, FloatArray, FloatArray, FloatArray]:
    """Return pairs of messages that follow each other on a link, and the seconds between their starts.

    The seconds are a constant, plus some for each unit of the first, less some for each unit of the second.
    """
    # Invariant of the plan: messages are numbered by their starts, so a stable sort keeps a link's order.
    hops = np.diff(roads.first)[kind]
    message = np.repeat(np.arange(len(kind)), hops)
    hop = roads.first[kind][message] + np.arange(len(message)) - offsets_of(hops)[message]
    order = np.argsort(roads.link[hop], kind="stable")
    message, hop = message[order], hop[order]
    same = np.flatnonzero(np.diff(roads.link[hop]) == 0)
    before, after = hop[same], hop[same + 1]
    held = roads.enter[before] + roads.alpha[before] - roads.enter[after]
    rate = roads.lag[before] + roads.byte[before]
    return message[same], message[same + 1], held, rate, roads.lag[after]


def _brought(plan: TransferSequence, slot: Int32Array, message: Int64Array, count: int) -> Int64Array:
    """Return pairs of messages, as first · count + second: the first brings data that the second carries."""
    goal = plan.goal[slot]
    # A transfer waits for all transfers that end in the cell where it begins.
    order = np.argsort(goal, kind="stable")
    low = np.searchsorted(goal[order], plan.origin[slot], "left")
    high = np.searchsorted(goal[order], plan.origin[slot], "right")
    taker = np.repeat(np.arange(len(slot)), high - low)
    bringer = order[np.arange(len(taker)) - offsets_of(high - low)[taker] + low[taker]]
    return np.unique(message[bringer] * count + message[taker])


def _rounded(size: FloatArray, own: Int64Array, total: Int64Array) -> Int64Array:
    """Return sizes as whole units that sum to each item's size."""
    size = np.maximum(size, 0)
    share = np.cumsum(size) - np.concatenate([[0.0], np.cumsum(np.bincount(own, size))])[own]
    upto = np.rint(share / np.bincount(own, size)[own] * total[own]).astype(np.int64)
    first = np.concatenate([[True], np.diff(own) != 0])
    return np.where(first, upto, upto - np.concatenate([[0], upto[:-1]]))
