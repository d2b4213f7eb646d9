"""In how many slices the transfers of a flow travel: the count of least simulated time."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np

from tutti.schedules.schedule import Clock, Schedule
from tutti.schedules.simulation.simulate import SimulationOptions, simulate

MOST_HOPS = 2**22
"""Hops (transfers times links times slices) of the largest simulation tried, a few seconds' worth."""
GAIN = 1e-5
"""Relative: what helps less does not help. Without α the gain is halved time after time."""
PATIENCE = 2
"""So many powers of two in a row that don't help end the search."""
_PLAIN = SimulationOptions()


def best_slices(
    schedule: Schedule,
    size: Fraction,
    most_hops: int = MOST_HOPS,
    options: SimulationOptions = _PLAIN,
) -> tuple[int, float]:
    """Return a number of slices and the simulated time with it, in seconds.

    Powers of two are tried upwards, as long as they help and their simulation has at most `most_hops` hops:
    more slices follow each other sooner through a tree, but each pays every link's α. So the answer is the
    same on every machine. Schedules of the other clocks have one slice.

    Parameters
    ----------
    schedule
        Verified.
    size
        M in bytes.
    most_hops
        The budget; one slice is always simulated.
    options
        How messages behave; its slices are not looked at.
    """
    best, least = 1, simulate(schedule, size, replace(options, slices=1)).time
    if schedule.clock is not Clock.FLOW:
        return best, least
    hops = int(np.diff(schedule.route_table.offsets)[schedule.route].sum())
    slices = 2
    while slices <= best << PATIENCE and slices * hops <= most_hops:
        time = simulate(schedule, size, replace(options, slices=slices)).time
        if time < least * (1 - GAIN):
            best, least = slices, time
        slices *= 2
    return best, least
