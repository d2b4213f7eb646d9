"""A flow's rows sent as messages that are given."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from schedules.cost import congestion
from schedules.listing.kernel import Sent
from schedules.listing.pieces import Cut, edges_of
from schedules.schedule import Schedule
from topologies.exact import Int64Array


def in_messages(flow: Schedule, turn: Int64Array, size: Fraction) -> Schedule:
    """Return a time-clock schedule in which rows of one turn and one route are one message.

    Each goes as soon as its data is there and its links are free of the messages before it.

    Parameters
    ----------
    flow
        Legal, no chunk empty.
    turn
        int64, shape (transfers,): non-decreasing; rows of one turn and one route stand together, and a row
        reads only what rows of earlier turns bring.
    size
        M in bytes.
    """
    edges = edges_of(flow)
    route = flow.route[edges.row].astype(np.int64)
    new = np.ones(len(route), dtype=bool)
    new[1:] = (np.diff(turn[edges.row]) != 0) | (np.diff(route) != 0)
    first = np.flatnonzero(new)
    sent = Sent(np.append(first, len(route)), np.arange(len(route)), route[first].astype(np.int32))
    cut = Cut(flow, edges, np.ones(len(flow.chunks), dtype=np.int64), size)
    return cut.scheduled(sent, float(congestion(flow) * size))
