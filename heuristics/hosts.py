"""An option and a note that methods share which use the hosts of ranks."""

from __future__ import annotations

from dataclasses import dataclass

from tutti.schedules.method import Method
from tutti.schedules.schedule import Schedule
from tutti.topologies.graphs.grid_structure import Hosts, hosts_of, note_on_hosts
from tutti.topologies.options import Options
from tutti.topologies.topology import Topology


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


def hosts_for(method: Method, topology: Topology, *, infer: bool, trivial: bool = False) -> Hosts:
    """Return the hosts of a network, as `topologies.graphs.grid_structure.hosts_of`.

    Raises
    ------
    Unsupported
        If it has none; the method says so.
    """
    found = hosts_of(topology, infer=infer, trivial=trivial)
    if isinstance(found, str):
        raise method.unsupported(f"needs {method.capabilities.shape}; {topology.name} {found}")
    return found


def with_note_on_hosts(schedule: Schedule, options: HostOptions) -> Schedule:
    """Return the schedule with a note that says which hosts were inferred, or how to name them."""
    note = note_on_hosts(schedule.topology, infer=options.infer_hosts)
    return schedule.replace(stats={**schedule.stats, "note": note}) if note else schedule
