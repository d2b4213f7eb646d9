"""What the α-β model says of a schedule on a measured network, to set beside what a run took."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from tutti.schedules.schedule import Routes, Schedule
from tutti.schedules.simulation.simulate import simulate
from tutti.topologies.errors import InputError
from tutti.topologies.topology import Topology


def predicted(schedule: Schedule, network: Topology, size: int) -> float:
    """Return the simulated seconds of a schedule whose messages take the direct links of a network.

    Raises
    ------
    InputError
        As `on_network`.
    """
    return simulate(on_network(schedule, network), Fraction(size)).time


def on_network(schedule: Schedule, network: Topology) -> Schedule:
    """Return the schedule with every message on the network's link between its ends.

    Raises
    ------
    InputError
        If the network has another number of ranks or lacks a link, or a message ends at a switch.
    """
    ranks = schedule.topology.num_ranks
    if network.num_ranks != ranks:
        raise InputError(f"{network.name} has {network.num_ranks} ranks, and the schedule {ranks}")
    ends = zip(network.source.tolist(), network.target.tolist(), strict=True)
    link_of = {pair: link for link, pair in reversed(list(enumerate(ends)))}
    used = np.unique(schedule.route)
    number = np.zeros(len(schedule.route_table), dtype=np.int32)
    links = []
    for row, route in enumerate(used.tolist()):
        source, target = int(schedule.route_source[route]), int(schedule.route_target[route])
        if max(source, target) >= ranks:
            raise InputError(f"{schedule.topology.name}: a message ends at a switch, which no process is")
        if (source, target) not in link_of:
            raise InputError(f"{network.name} has no link from rank {source} to {target}")
        links.append([link_of[source, target]])
        number[route] = row
    return schedule.replace(topology=network, route=number[schedule.route], routes=Routes.of(links))
