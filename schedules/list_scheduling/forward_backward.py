"""Forward-backward improvement of list schedules.

With time running backwards a list schedule is one again. So each pass schedules all transfers from the end,
those that were over last first, and then from the beginning, by the order that the end has given: what was
late there is early here, and gaps close (Li and Willis, European J. Oper. Res. 1992; called justification in
Valls, Ballestin, Quintanilla, European J. Oper. Res. 2005).
"""

from __future__ import annotations

import numpy as np

from tutti.schedules.list_scheduling.kernel import ListScheduleTransfers, TimedRoutes, send
from tutti.topologies.exact import INT64_MAX, Int64Array


def forward_backward(
    transfers: ListScheduleTransfers,
    routes: TimedRoutes,
    priority: Int64Array,
    passes: int,
    *,
    room: int = 0,
    least: int = 0,
    patience: int = INT64_MAX,
) -> Int64Array:
    """Return when each transfer starts in the shortest schedule found, in ticks: int64 (transfers,).

    Parameters
    ----------
    transfers, routes
        What is to be moved, over routes of one link each.
    priority
        int64, shape (transfers,): the least first, in the first schedule.
    passes
        How often at most a schedule is made forwards, and from its end.
    room
        What messages carry, as `kernel.send` takes it.
    least
        No schedule is shorter; when one is as short no more passes are made.
    patience
        Passes without progress, after which there are no more.

    Examples
    --------
    Two pieces go over link 0 and then over link 1, three ticks each.

    >>> route, need = np.array([0, 0, 1, 1], np.int32), np.array([0, 0, 1, 1], np.int32)
    >>> first, follower = np.array([0, 1, 2, 2, 2]), np.array([2, 3], np.int32)
    >>> transfers = ListScheduleTransfers(route, need, first, follower, np.full(4, 3))
    >>> forward_backward(transfers, TimedRoutes.single_links(2), np.zeros(4, np.int64), 1)
    array([0, 3, 3, 6])
    """
    backwards, late = transfers.reversed, np.arange(len(priority)) < len(priority) // 2
    best: Int64Array = np.zeros(len(priority), np.int64)
    shortest, since = INT64_MAX, 0
    for _ in range(passes):
        there = send(transfers, routes, priority, room)
        # What one message carried is over at once: from the end, what goes down trees goes first.
        back = send(backwards, routes, late - 2 * there.arrival, room)
        turned, since = back.end - back.arrival, since + 1
        for start, end in ((there.start, there.end), (turned, back.end)):
            if end < shortest:
                best, shortest, since = start, end, 0
        if shortest <= least or since >= patience:
            break
        priority = turned
    return best
