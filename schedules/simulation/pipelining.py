"""The number of slices in which the transfers of a flow travel: the one of least simulated time.

`message_frame` shows people when each message then holds which link.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tutti.schedules.schedule import Clock, Schedule
from tutti.schedules.simulation.simulate import SimulationOptions, simulate, watch
from tutti.topologies.units import parse_size

if TYPE_CHECKING:
    import pandas as pd


class SliceTuning(NamedTuple):
    """Parameters of the search for the number of slices."""

    most_hops: int
    """Most transfers times links times slices of a simulation, which then takes a few seconds."""
    gain: float
    """Fraction of the time that more slices must save. Without α, each doubling halves the gain, so a larger
    value ends the search sooner."""
    patience: int
    """The search ends after this many powers of two in a row without a gain."""


TUNING = SliceTuning(most_hops=2**22, gain=1e-5, patience=2)

_PLAIN = SimulationOptions()


def best_slices(
    schedule: Schedule,
    size: Fraction,
    most_hops: int = TUNING.most_hops,
    options: SimulationOptions = _PLAIN,
) -> tuple[int, float]:
    """Return a number of slices and the simulated time with it, in seconds.

    Powers of two are tried upwards, as long as they help and their simulation has at most `most_hops` hops.
    With more slices data moves through a tree sooner, but each slice pays every link's α. Times of runs do
    not matter, so the answer is the same on every machine. Schedules of the other clocks have one slice.

    Parameters
    ----------
    schedule
        A verified schedule.
    size
        M in bytes.
    most_hops
        The budget in hops; one slice is always simulated.
    options
        The behaviour of messages; its slices are ignored.
    """
    best, least = 1, simulate(schedule, size, replace(options, slices=1)).time
    if schedule.clock is not Clock.FLOW:
        return best, least
    hops = int(np.diff(schedule.route_table.offsets)[schedule.route].sum())
    slices = 2
    while slices <= best << TUNING.patience and slices * hops <= most_hops:
        time = simulate(schedule, size, replace(options, slices=slices)).time
        if time < least * (1 - TUNING.gain):
            best, least = slices, time
        slices *= 2
    return best, least


def message_frame(schedule: Schedule, size: Fraction | int | str) -> pd.DataFrame:
    """Return one row for each message and link that it holds, sorted by start.

    Columns: ``message``, ``link``, ``source`` and ``target`` (the link's nodes), ``start`` and ``end``
    (seconds, while the link is held), ``bytes``. A flow is cut into its best slices.

    Parameters
    ----------
    schedule
        A legal schedule.
    size
        M in bytes, or as text such as ``"1MB"``.

    Raises
    ------
    InputError
        As `schedules.simulation.simulate.simulate`.
    """
    import pandas as pd

    size = parse_size(size) if isinstance(size, str) else Fraction(size)
    slices = best_slices(schedule, size)[0] if schedule.clock is Clock.FLOW else 1
    _, held = watch(schedule, size, SimulationOptions(slices))
    topology = schedule.topology
    return pd.DataFrame(
        {
            "message": held.message,
            "link": held.link,
            "source": topology.source[held.link],
            "target": topology.target[held.link],
            "start": held.begin,
            "end": held.end,
            "bytes": held.bytes,
        }
    ).sort_values(["start", "message"], ignore_index=True, kind="stable")
