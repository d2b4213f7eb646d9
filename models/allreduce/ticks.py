"""How long messages hold links, in ticks, for schedules whose messages are given places in time."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from schedules.schedule import Schedule
from schedules.simulate import SimulationOptions, simulate
from topologies.exact import Int64Array
from topologies.topology import Topology

RESOLUTION = 10**6
"""Ticks in the shortest message: rounding up adds less than 1e-6 of it."""
REACH = 2.0**62
"""Times in ticks, and what they are sorted by, stay below this; 64 bits hold twice as much."""
MOST_HOPS = 2**17
"""A flow's transfers times slices: not simulated beyond."""
PATIENCE = 2
"""Numbers of slices that do not help, after which no more are tried."""


class FarApartError(ArithmeticError):
    """The shortest message and the whole schedule lie too far apart for one clock of 64 bits."""


def message_ticks(
    topology: Topology, amounts: Int64Array, unit: Fraction
) -> tuple[Int64Array, Int64Array, Fraction]:
    """Return for how many ticks messages hold links, rounded up as in `schedules.durations`.

    Parameters
    ----------
    topology
        Without switches.
    amounts
        int64, shape (amounts,): of messages, in units.
    unit
        Bytes.

    Returns
    -------
    tuple
        The kind of each link; ticks, shape (kinds, amounts); the tick.

    Raises
    ------
    FarApartError
        If a message takes more ticks than `REACH`.
    """
    costs = np.stack([topology.alpha.numerators, topology.bandwidth.numerators])
    _, example, kind = np.unique(costs, axis=1, return_index=True, return_inverse=True)
    seconds = [[topology.alpha[e] + int(n) * unit / topology.bandwidth[e] for n in amounts] for e in example]
    tick = min(map(min, seconds)) / RESOLUTION
    check_reach(max(map(max, seconds)) / tick)
    table = np.array([[math.ceil(value / tick) for value in row] for row in seconds], dtype=np.int64)
    return kind.ravel(), table, tick


def check_reach(*times: float | Fraction) -> None:
    """Check that such times, in ticks, can be counted.

    Raises
    ------
    FarApartError
        If they can't.
    """
    if any(time >= REACH for time in times):
        raise FarApartError("messages are too far apart in length for one clock")


def flow_seconds(flow: Schedule, size: Fraction) -> float:
    """Return the least time of a flow in a power of 2 slices; not tried beyond `MOST_HOPS` hops."""
    least, slices, worse = math.inf, 1, 0
    while worse < PATIENCE and (slices == 1 or slices * len(flow) <= MOST_HOPS):
        seconds = simulate(flow, size, SimulationOptions(slices=slices)).time
        worse = worse + 1 if seconds >= least else 0
        least, slices = min(least, seconds), 2 * slices
    return least
