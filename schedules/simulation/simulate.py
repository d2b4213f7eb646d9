"""The α-β simulator: a deterministic discrete-event simulation of a schedule's messages.

A *message* is all rows with one route and one order; in the flow clock, a row and pipeline slice.
It is ready when its data has arrived (`dependencies`), and then enters the links of its route in turn:

* It enters link j at e_j: the earliest moment at which it is ready for the link, no message holds it, and the
  link's earlier messages have entered. Earlier are the messages of smaller steps or, in the time clock, those
  that entered it before in the schedule. If several messages could enter, those of the first slice are
  preferred, so that a rank passes on what it received before it sends more of its own. Then the first to be
  ready is preferred, then the first in the table.
* It holds the link until e_j + α_j + b / B_j, whatever happens at later links, because nodes can buffer it.
  With `overlap_alpha` it holds it until e_j + b / B_j (ASTRA-sim's network: α is in flight, the link free).
* Its head is at the end of the link at e_j + α_j: it is then ready for link j + 1 (cut-through).
* Its tail is there at tail_j = max(e_j + α_j + b / B_j, tail_{j-1} + α_j): no earlier than the link allows,
  and no earlier than it arrived. With `store_and_forward` it is ready for link j + 1 only then.
* It is complete at the destination with its tail: if nothing blocks, after the sum of α and b over the
  slowest bandwidth.
* If γ is not 0 and a rank is to reduce c bytes of it, it is complete γ c later. A rank reduces one message
  at a time, those of smaller steps first, and others as they arrive (dissertation, A.3.4). It can send and
  receive meanwhile.
* With `congestion` κ, a link at a switch over which messages go between c pairs of source and destination has
  a bandwidth of B / (1 + κ (c - 1)). TACCL measured such a drop with the connections of a GPU or adapter
  (Fig. 4), and its effect on schedules (Fig. 9d). α stays. No message takes less than without, so that lower
  bounds on the time hold.

There is no barrier between steps. If every route is one link, a step schedule takes at most T_L α + T_B +
T_C, and without γ exactly that on symmetric networks. Over longer routes each of several messages that share
a link in one step pays its α.

Times are counted in ticks of which every α and every b / B is a whole multiple, exactly up to 2^53 of them,
and are converted to seconds at the end. So ties are ties, and without α all times are proportional to the
size.

The transfers of a flow travel in the number of slices of least simulated time (`best_slices`).
`message_frame` shows people when each message then holds which link.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tutti.schedules.cost import link_loads
from tutti.schedules.message_durations import Messages, exact_tick, messages, transfer_ticks
from tutti.schedules.schedule import Clock, Schedule
from tutti.schedules.simulation.dependencies import dependencies
from tutti.schedules.simulation.events import (
    EDGE,
    HOP,
    LINK,
    MESSAGE,
    TURN,
    WAITER,
    EventTimes,
    Table,
    Tables,
    in_order,
    link_turns,
    run,
)
from tutti.topologies.errors import InputError
from tutti.topologies.exact import INT32_MAX, NONE, BoolArray, FloatArray, Int32Array, Int64Array, offsets_of
from tutti.topologies.options import Flag
from tutti.topologies.units import parse_size

if TYPE_CHECKING:
    import pandas as pd

MOST_HOPS = INT32_MAX


@dataclass(frozen=True)
class SimulationOptions:
    """The behaviour of messages.

    Parameters
    ----------
    slices
        In the flow clock each row's bytes are cut into this number of equal slices, which follow each other
        through the trees; 1 in the other clocks.
    store_and_forward
        A message enters the next link of its route only when it has arrived whole.
    overlap_alpha
        A link is free after bytes / bandwidth, while α is still in flight.
    gamma
        γ: seconds that a rank needs to reduce one byte, exact; None: the network's own.
    congestion
        κ: what each connection of a switch's port beyond the first adds to the time of a byte there, as a
        share of it, exact. A larger value slows schedules with many connections more.

    Raises
    ------
    InputError
        If `slices` is no whole number of at least 1, γ or κ is negative or not exact, or another is neither
        true nor false.
    """

    slices: int = 1
    store_and_forward: bool = False
    overlap_alpha: bool = False
    gamma: Fraction | int | None = None
    congestion: Fraction | int = 0

    def __post_init__(self) -> None:
        """Check the number of slices, and the others' types."""
        if not isinstance(self.slices, int) or isinstance(self.slices, bool):
            raise InputError(f"slices is {self.slices!r}; it must be a whole number, at least 1")
        if self.slices < 1:
            raise InputError(f"{self.slices} slices; at least 1 is needed")
        for name in ("store_and_forward", "overlap_alpha"):
            Flag().check("simulation", name, getattr(self, name))
        gamma = 0 if self.gamma is None else self.gamma
        for name, value in (("gamma", gamma), ("congestion", self.congestion)):
            if not isinstance(value, Fraction | int) or value < 0:
                raise InputError(f"{name} is {value!r}; it must be a Fraction or an integer, at least 0")


@dataclass(frozen=True, eq=False)
class Simulation:
    """The result of a simulation. Messages are numbered by first row, then slice.

    Parameters
    ----------
    time
        Seconds until the last message is complete.
    start, finish
        Seconds, shape (messages,): when each entered its first link and was complete.
    message
        int32, shape (transfers,): the message (its first slice) of each row.
    busy
        Seconds, shape (links,): the time for which each was held.
    bytes
        Shape (links,): the bytes that crossed each.
    """

    time: float
    start: FloatArray
    finish: FloatArray
    message: Int32Array
    busy: FloatArray
    bytes: FloatArray

    @property
    def utilization(self) -> FloatArray:
        """Fraction of the time for which each link was held, shape (links,)."""
        return self.busy / self.time if self.time > 0 else np.zeros_like(self.busy)


_DEFAULT = SimulationOptions()


def simulate(schedule: Schedule, size: Fraction | int, options: SimulationOptions = _DEFAULT) -> Simulation:
    """Return when each message starts and is complete, and how long each link is held.

    Parameters
    ----------
    schedule
        A legal schedule (`verify`) in any clock. In the time clock the order on each link is kept, and
        start times are not, so that the size may differ from the one it was made for.
    size
        M in bytes, exact.
    options
        The behaviour of messages.

    Raises
    ------
    InputError
        If the size is not positive, if there are slices in another clock than flow, if there are 2^31
        hops or more, or if messages wait for each other in a cycle (which no legal schedule does).
    """
    links, rate = timed = _links(schedule, size, options)
    alpha, sending = links["alpha"].copy(), links["sending"].copy()
    times = in_order(schedule, alpha, sending, overlap_alpha=options.overlap_alpha)
    if times is None:
        return _run(schedule, size, options, timed)[0]
    for ticks in (times.start, times.finish, times.busy):
        ticks /= rate
    return _simulation(schedule, size, times)


@dataclass(frozen=True, eq=False)
class Holding:
    """The times when links are held, one row for each message and link of its route (`hops`).

    Parameters
    ----------
    link
        int32, shape (hops,).
    begin, end
        Seconds, shape (hops,).
    num_links
        The number of links of the network.
    message, bytes
        The message, int64, and the bytes that it carries; shape (hops,).

    Reductions by ranks are no hops here.
    """

    link: Int32Array
    begin: FloatArray
    end: FloatArray
    num_links: int
    message: Int64Array
    bytes: FloatArray

    def share_busy(self, edges: FloatArray) -> FloatArray:
        """Return the mean fraction of links that are held between each two neighbouring moments.

        Parameters
        ----------
        edges
            Seconds, shape (n + 1,), increasing.
        """
        # The time held up to t is the sum of t - begin over begun rows, less that of t - end over ended rows.
        until = _time_since(self.begin, edges) - _time_since(self.end, edges)
        return np.diff(until) / np.diff(edges) / self.num_links


def _time_since(events: FloatArray, moments: FloatArray) -> FloatArray:
    """Return, at each moment, the sum of the times that have passed since the events before it."""
    ordered = np.sort(events)
    count = np.searchsorted(ordered, moments, side="right")
    total = np.concatenate([[0.0], np.cumsum(ordered)])
    return count * moments - total[count]


def watch(
    schedule: Schedule, size: Fraction | int, options: SimulationOptions = _DEFAULT
) -> tuple[Simulation, Holding]:
    """Return the result of `simulate`, and the times when each message held each link."""
    links, rate = timed = _links(schedule, size, options)
    simulation, hops, sent = _run(schedule, size, options, timed)
    hops = hops[~links["reducer"][hops["link"]]]
    on, begin = hops["link"].copy(), hops["ready"]
    message = hops["message"].astype(np.int64)
    load, unit = sent["load"][message], float(Fraction(size) / options.slices / schedule.chunks.denominator)
    holding = load * links["sending"][on]
    if not options.overlap_alpha:
        holding += links["alpha"][on]
    end = (begin + holding) / rate
    return simulation, Holding(on, begin / rate, end, schedule.topology.num_links, message, load * unit)


def _run(
    schedule: Schedule, size: Fraction | int, options: SimulationOptions, timed: tuple[Table, float]
) -> tuple[Simulation, Table, Table]:
    """Return the simulation, and the final tables of hops and messages."""
    links, rate = timed
    grouped = messages(schedule)
    hops, sent, turns = _hops_and_messages(schedule, grouped, options.slices, links)
    waits = dependencies(schedule, grouped)
    waiters = np.recarray(len(waits.pending) * options.slices, dtype=WAITER)
    waiters["left"] = np.repeat(waits.pending, options.slices)
    waiters["edge"] = np.repeat(waits.head, options.slices)
    edges = np.recarray(len(waits.waiting), dtype=EDGE)
    edges["next"] = waits.following
    edges["waiter"] = waits.waiting
    waiters["hop"][: len(sent) - 1] = sent["hop"][:-1]
    most, state = len(sent) + len(links), np.empty(3, np.int64)
    tables = Tables(hops, sent, links, turns, waiters, edges, np.empty(most), np.empty(most, np.int64), state)
    run(tables, options.slices, options.store_and_forward, options.overlap_alpha)
    finish = sent["finish"][:-1] / rate
    stuck = np.flatnonzero(np.isnan(finish))
    if len(stuck):
        row = int(np.flatnonzero(grouped.of_row == stuck[0] // options.slices)[0])
        raise InputError(f"transfer {row} never starts: messages wait for each other in a cycle")
    busy = links["busy"][: schedule.topology.num_links] / rate
    times = EventTimes(sent["start"][:-1] / rate, finish, busy, grouped.of_row * np.int32(options.slices))
    return _simulation(schedule, size, times), hops, sent


def _simulation(schedule: Schedule, size: Fraction | int, times: EventTimes) -> Simulation:
    """Return the result for times in seconds."""
    crossed = np.multiply(link_loads(schedule), float(Fraction(size) / schedule.chunks.denominator))
    return Simulation(time=float(times.finish.max(initial=0.0)), bytes=crossed, **times._asdict())


def _links(schedule: Schedule, size: Fraction | int, options: SimulationOptions) -> tuple[Table, float]:
    """Return the table of links for a slice of M = `size`, followed by the ranks if γ is not 0.

    The tick divides every α and the times of a load of 1.
    """
    if size <= 0:
        raise InputError(f"size {size} B; it must be positive")
    if options.slices > 1 and schedule.clock is not Clock.FLOW:
        raise InputError(
            f"{options.slices} slices in the {schedule.clock} clock; only flow schedules are pipelined"
        )
    alpha, bandwidth = schedule.topology.alpha, schedule.topology.bandwidth
    common = int(np.gcd.reduce(alpha.numerators))
    distinct, which = np.unique(bandwidth.numerators, return_inverse=True)
    scale = Fraction(size) * bandwidth.denominator / (schedule.chunks.denominator * options.slices)
    share = Fraction(options.congestion)
    seconds = [scale / numerator / share.denominator for numerator in distinct.tolist()]
    gamma = schedule.topology.gamma if options.gamma is None else Fraction(options.gamma)
    gamma = Fraction(0) if schedule.reduce is None else gamma
    units = [Fraction(common, alpha.denominator), gamma * scale / bandwidth.denominator]
    seconds += [unit for unit in units if unit]
    rate = 1 / exact_tick(seconds, max(seconds))
    ranks = schedule.topology.num_ranks if gamma else 0
    links = np.zeros(len(bandwidth) + ranks, dtype=LINK).view(np.recarray)
    links["sending"][: len(bandwidth)] = np.array([float(time * rate) for time in seconds])[which]
    if share:
        topology, table = schedule.topology, schedule.route_table
        route = np.repeat(np.arange(len(table)), np.diff(table.offsets))
        taken = np.stack([table.links, schedule.route_source[route], schedule.route_target[route]])
        link, *_ = np.unique(taken[:, np.isin(route, schedule.route)], axis=1)
        further = np.maximum(np.bincount(link, minlength=topology.num_links) - 1, 0)
        further = np.where(np.maximum(topology.source, topology.target) < topology.num_ranks, 0, further)
        links["sending"][: len(bandwidth)] *= float(share.denominator) + float(share.numerator) * further
    links["alpha"][: len(bandwidth)] = alpha.numerators // (common or 1) * float(units[0] * rate)
    links["sending"][len(bandwidth) :] = float(units[1] * rate)
    links["reducer"][len(bandwidth) :] = True
    return links, float(rate)


def _hops_and_messages(
    schedule: Schedule, grouped: Messages, slices: int, links: Table
) -> tuple[Table, Table, Table]:
    """Return the tables of hops, of messages and of the links' turns; set the first turn of each link."""
    route = np.repeat(grouped.route, slices)
    reduced = np.zeros(len(grouped), dtype=np.int64)
    if schedule.reduce is not None and links["reducer"].any():
        rows = np.flatnonzero(schedule.reduce & (schedule.target < schedule.topology.num_ranks))
        np.add.at(reduced, grouped.of_row[rows], schedule.load[rows])
    reduced = np.repeat(reduced, slices)
    length = np.diff(schedule.route_table.offsets)[route] + (reduced > 0)
    begin = offsets_of(length)
    if begin[-1] > MOST_HOPS:
        raise InputError(f"{begin[-1]} hops to simulate; at most {MOST_HOPS}: use fewer slices")
    hops = np.recarray(begin[-1], dtype=HOP)
    hops["link"] = _hop_links(schedule, route, begin, reduced > 0)
    hops["message"] = np.repeat(np.arange(len(route), dtype=np.int32), length)
    hops["slice"] = hops["message"] % slices
    hops["child"] = hops["sibling"] = NONE
    key, sequence = _turn_keys(schedule, grouped, begin, links["reducer"][hops["link"]])
    hops["turn"], first, size = link_turns(hops["link"].copy(), key, sequence, len(links))
    links["turns"] = first[:-1]
    turns = np.recarray(len(size), dtype=TURN)
    turns["left"], turns["queue"] = size, NONE
    sent = np.recarray(len(begin), dtype=MESSAGE)
    sent["start"] = sent["finish"] = np.nan
    sent["load"][:-1] = np.repeat(grouped.load, slices)
    sent["reduced"][:-1] = reduced
    sent["hop"] = begin
    return hops, sent, turns


def _hop_links(schedule: Schedule, route: Int32Array, begin: Int64Array, reducing: BoolArray) -> Int32Array:
    """Return the link of each hop; the last of a `reducing` message is its destination, after the links."""
    last = begin[1:][reducing] - 1
    if schedule.routes is None and not len(last):
        return route
    table = schedule.route_table
    place = np.arange(begin[-1]) + np.repeat(table.offsets[route] - begin[:-1], np.diff(begin))
    place[last] = 0
    links = table.links[place]
    links[last] = schedule.topology.num_links + schedule.route_target[route[reducing]]
    return links


def _turn_keys(
    schedule: Schedule, grouped: Messages, begin: Int64Array, reducer: BoolArray
) -> tuple[Int64Array, Int64Array]:
    """Return a key for each hop (equal keys share a turn on their link), and the hops in order of turns."""
    if schedule.clock is Clock.FLOW:
        return np.zeros(begin[-1], dtype=np.int64), np.arange(begin[-1])
    if schedule.clock is Clock.STEP:
        return np.repeat(grouped.order, np.diff(begin)), np.arange(begin[-1])
    sequence = np.arange(begin[-1])
    if schedule.routes is not None:
        durations = transfer_ticks(schedule, grouped)
        within = np.arange(begin[-1]) - np.repeat(begin[:-1], np.diff(begin))
        entry = np.repeat(durations.offsets[durations.kind], np.diff(begin)) + within
        entry[reducer] = 0  # ranks reduce messages as they arrive
        sequence = np.argsort(
            np.repeat(grouped.order, np.diff(begin)) + durations.enter[entry], kind="stable"
        )
    return np.where(reducer, 0, np.arange(begin[-1])), sequence


class SliceTuning(NamedTuple):
    """Parameters of the search for the number of slices."""

    most_hops: int
    """Most transfers times links times slices of a simulation, which then takes a few seconds."""
    few_hops: int
    """A smaller budget, for flows that a method only compares. A larger value tries more slices."""
    gain: float
    """Fraction of the time that more slices must save. Without α, each doubling halves the gain, so a larger
    value ends the search sooner."""
    patience: int
    """The search ends after this many powers of two in a row without a gain."""


SLICING = SliceTuning(most_hops=2**22, few_hops=2**17, gain=1e-5, patience=2)


def best_slices(
    schedule: Schedule,
    size: Fraction,
    most_hops: int = SLICING.most_hops,
    options: SimulationOptions = _DEFAULT,
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
    while slices <= best << SLICING.patience and slices * hops <= most_hops:
        time = simulate(schedule, size, replace(options, slices=slices)).time
        if time < least * (1 - SLICING.gain):
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
        As `simulate`.
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
