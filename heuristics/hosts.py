"""An option and a note that methods share which use the hosts of ranks."""

from __future__ import annotations

from dataclasses import dataclass

from tutti.schedules.schedule import Schedule
from tutti.topologies.graphs.grid_structure import note_on_hosts
from tutti.topologies.options import Options


@dataclass(frozen=True)
class HostOptions(Options):
    """Options of a method that uses hosts.

    Parameters
    ----------
    infer_hosts
        Whether hosts that the network does not name are inferred if its links make them plain.

    Raises
    ------
    InputError
        If it is neither true nor false.
    """

    infer_hosts: bool = True


def with_note_on_hosts(schedule: Schedule, options: HostOptions) -> Schedule:
    """Return the schedule with a note that says which hosts were inferred, or how to name them."""
    note = note_on_hosts(schedule.topology, infer=options.infer_hosts)
    return schedule.replace(stats={**schedule.stats, "note": note}) if note else schedule
