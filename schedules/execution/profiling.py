"""Measures α and β of every pair of ranks, as TACCL's profiler does (section 4.1).

n messages of s bytes are sent one after another, and then all together. In the α-β model this takes n (α + β
s) and α + n β s. α and β are the least-squares solution over several sizes, with every equation divided by
its time. A time is the least of several repeats, because other work of the machine only adds to it. In the
first case the receiver answers each message with an empty one; in the second it answers the last one only. So
each time has two α for one, one per direction, which are taken to be equal.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from tutti.schedules.collective import collective
from tutti.schedules.execution.session import RepeatTimes, SessionTask
from tutti.schedules.programs.program import Address, Buffer, Instruction, Op, Program
from tutti.schedules.schedule import Routes, Schedule
from tutti.schedules.simulation.simulate import simulate
from tutti.topologies.errors import InputError
from tutti.topologies.measurements.regression import fit
from tutti.topologies.topology import Link, Topology
from tutti.topologies.units import GIGA

MESSAGES = 8
"""Number of messages, n. With a larger value a measurement takes longer and averages more."""


def pairs(ranks: int) -> list[tuple[int, int]]:
    """Return all ordered pairs of ranks."""
    return list(itertools.permutations(range(ranks), 2))


def tasks_of(ranks: int, sizes: Sequence[int]) -> list[SessionTask]:
    """Return the runs for each pair and size: with messages one by one, and with all together."""
    return [
        SessionTask(program, size)
        for source, target in pairs(ranks)
        for program in (messages(ranks, source, target, at_once=once) for once in (False, True))
        for size in sizes
    ]


def messages(ranks: int, source: int, target: int, *, at_once: bool) -> Program:
    """Return the program that sends n messages from one rank to another."""
    place = Address(Buffer.OUTPUT, 0)
    sends = [Instruction(Op.SEND, place, to=target)]
    answered = [Instruction(Op.WAIT, origin=target)]
    receives = [Instruction(Op.RECV, target=place, origin=source)]
    answers = [Instruction(Op.SIGNAL, to=source)]
    blocks: list[list[list[Instruction]]] = [[] for _ in range(ranks)]
    if at_once:
        blocks[source] = [sends * MESSAGES + answered]
        blocks[target] = [receives * MESSAGES + answers]
    else:
        blocks[source] = [(sends + answered) * MESSAGES]
        blocks[target] = [(receives + answers) * MESSAGES]
    what = collective("broadcast", ranks, groups=[[source, target]])
    return Program.of(what, 1, blocks, in_place=True, name=f"rank {source} to {target}")


def profile(name: str, tasks: Sequence[SessionTask], times: Sequence[Sequence[RepeatTimes]]) -> Topology:
    """Return the measured network: a link from each rank to each other rank.

    Parameters
    ----------
    name
        The name of the network.
    tasks
        The `tasks_of` its ranks.
    times
        The times by rank, then task.
    """
    ranks = tasks[0].program.num_ranks
    each = len(tasks) // len(pairs(ranks))
    links = []
    for number, (source, target) in enumerate(pairs(ranks)):
        span = slice(number * each, (number + 1) * each)
        seconds = [min(one.ours) for one in times[source][span]]
        alpha, beta = _solve(tasks[span], seconds)
        links.append(
            Link(source, target, Fraction(max(round(1 / beta), 1)), Fraction(round(alpha * GIGA), GIGA))
        )
    return Topology.from_links(name, ranks, links)


def _solve(tasks: Sequence[SessionTask], seconds: Sequence[float]) -> tuple[float, float]:
    """Return α and β; α is at least 0, and β is more than 0."""
    half = len(tasks) // 2
    trips = [
        2
        * (MESSAGES if number < half else 1)
        * -(-task.elements // task.fifos.slice_of(task.elements, task.itemsize))
        for number, task in enumerate(tasks)
    ]
    moved = [MESSAGES * task.size for task in tasks]
    line = fit(np.array(moved, dtype=float), np.array(seconds), messages=np.array(trips, dtype=float))
    # If more bytes took no longer, only the time of the most bytes is known.
    return line.alpha, line.beta or seconds[-1] / moved[-1]


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
