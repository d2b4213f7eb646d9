"""A schedule's messages on their links, as the simulator times them at a size: what the player shows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from tutti.experiments.show.layout import LOOKS
from tutti.schedules.message_durations import messages
from tutti.schedules.schedule import Clock, Schedule
from tutti.schedules.simulation.pipelining import best_slices
from tutti.schedules.simulation.simulate import SimulationOptions, watch
from tutti.topologies.exact import FloatArray, Int64Array
from tutti.topologies.topology import Topology

MOST_BARS = 4096
"""Messages, each once for every link of its route, that are played: some 2,000 through a switch each."""
TOO_MUCH = f"The player shows up to {MOST_BARS} messages, counted on each link; this schedule has more."


@dataclass(frozen=True, eq=False)
class Film:
    """The times at which each message holds a link, in order. Arrays are of one length, a bar each.

    Parameters
    ----------
    time
        Seconds until the last message is complete.
    slices
        In which a flow is played, and in which it is fastest; 1 of the other clocks.
    message, link
        int64: numbers, of `simulate` and of the topology.
    begin, end
        Seconds.
    bytes
        The bytes of the message.
    step
        int64: the comm step, 0 in the other clocks.
    owners
        The ranks whose data the message carries, increasing.
    """

    time: float
    slices: tuple[int, int]
    message: Int64Array
    link: Int64Array
    begin: FloatArray
    end: FloatArray
    bytes: FloatArray
    step: Int64Array
    owners: Sequence[tuple[int, ...]]

    @cached_property
    def colours(self) -> dict[int, list[int]]:
        """Red, green and blue of each owner."""
        ranks = sorted({rank for owners in self.owners for rank in owners})
        few, scale = LOOKS["ranks"]["few"], LOOKS["ranks"]["scale"]
        if len(ranks) <= len(few):
            return dict(zip(ranks, few, strict=False))
        places = np.linspace(0, len(scale) - 1, len(ranks))
        parts = [np.interp(places, np.arange(len(scale)), part) for part in zip(*scale, strict=True)]
        return dict(zip(ranks, np.rint(parts).astype(int).T.tolist(), strict=True))

    def document(self, topology: Topology) -> dict[str, Any]:
        """Return the page's data: ``bars`` are message, link, begin, end, bytes, step and owners each.

        ``colours`` are an owner and its colour each, ``links`` and ``ranks`` the names of the network's.
        """
        columns = (self.message, self.link, self.begin, self.end, self.bytes, self.step)
        return {
            "time": self.time,
            "bars": list(zip(*(column.tolist() for column in columns), self.owners, strict=True)),
            "colours": list(self.colours.items()),
            "links": [topology.link_name(link) for link in range(topology.num_links)],
            "ranks": topology.labels[: topology.num_ranks],
        }


def film(schedule: Schedule, size: Fraction) -> Film | None:
    """Return what a player shows of a schedule at a size, None if it is too much.

    A flow is played in its best number of slices, or in fewer where these would be too many messages.

    Parameters
    ----------
    schedule
        Verified.
    size
        M in bytes.

    Raises
    ------
    InputError
        As `schedules.simulation.simulate.simulate`.
    """
    grouped = messages(schedule)
    if not 0 < int(np.diff(schedule.route_table.offsets)[grouped.route].sum()) <= MOST_BARS:
        return None
    best = best_slices(schedule, size)[0] if schedule.clock is Clock.FLOW else 1
    slices = best_slices(schedule, size, MOST_BARS)[0] if best > 1 else 1
    simulation, held = watch(schedule, size, SimulationOptions(slices))
    order = np.lexsort((held.message, held.begin))
    group = held.message[order] // slices
    owner = schedule.collective.items.owner[schedule.chunks.item[schedule.chunk]]  # whose data it is
    owners = [tuple(sorted(own.tolist())) for own in pd.Series(owner).groupby(grouped.of_row).unique()]
    return Film(
        simulation.time,
        (slices, best),
        held.message[order],
        held.link[order].astype(np.int64),
        held.begin[order],
        held.end[order],
        held.bytes[order],
        grouped.order[group] * (schedule.clock is Clock.STEP),
        [owners[message] for message in group.tolist()],
    )
