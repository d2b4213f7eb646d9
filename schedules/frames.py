"""Schedules as data frames for people: the transfers, and when each message holds which link."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from tutti.schedules.schedule import Clock, Schedule
from tutti.schedules.simulation.pipelining import best_slices
from tutti.schedules.simulation.simulate import SimulationOptions, watch
from tutti.topologies.units import parse_size

if TYPE_CHECKING:
    import pandas as pd


def transfer_frame(schedule: Schedule) -> pd.DataFrame:
    """Return one row per transfer, in table order.

    Columns: ``order`` (the comm step, or seconds in the time clock; none in a flow), ``source`` and
    ``target`` (nodes), ``links`` (numbers, with spaces), ``chunk`` (the first), ``count``, ``share`` (of M, a
    float) and ``reduce``.
    """
    import pandas as pd  # slow to import

    routes = schedule.route_table
    names = [" ".join(map(str, links)) for links in routes.lists]
    order, unit = schedule.order, 1 if schedule.tick is None else float(schedule.tick)
    return pd.DataFrame(
        {
            **({} if order is None else {"order": order * unit}),
            "source": schedule.source,
            "target": schedule.target,
            "links": np.array(names, dtype=object)[schedule.route],
            "chunk": schedule.chunk,
            "count": schedule.counts,
            "share": schedule.load / schedule.chunks.denominator,
            "reduce": schedule.adds,
        }
    )


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
