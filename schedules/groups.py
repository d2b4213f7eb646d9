"""Lets any method do several collectives at the same time, over any groups: each alone, then combined.

If a method does not do a problem directly, the problem is divided (`parts_of`): a mixed collective into its
parts, several groups into one each. A group is then alone on a network, in two variants: the other ranks are
switches, which forward, or they are removed. The schedules of all groups are combined, and the fastest result
is kept.

`side_by_side` joins the chunk tables in the order of the items, and merges the rows by step or start. No row
is moved. In the step clock links that several parts use in one step carry the sum. In the time clock they may
collide, and the caller has to give them new times.

`together` does so. It knows from simulations when each message starts in its own part. It sorts the messages
of all parts in several orders: by these starts, by the fraction of the part that has passed, by the time
until the part ends, and part by part. In each order every message starts as early as its data and its links
allow (`schedules.retiming`). The fastest result is kept, or the parts side by side if these are faster. The
last orders are the parts one after the other, with whatever fits filled in.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from typing import Any

import numpy as np

from tutti.schedules.collective import Collective
from tutti.schedules.compose import on_common_tick
from tutti.schedules.message_durations import sizes_of, tick_of
from tutti.schedules.method import Method, Problem
from tutti.schedules.retiming import retimed
from tutti.schedules.schedule import (
    NO_COPY,
    Chunks,
    Clock,
    Routes,
    Schedule,
    joined_adds,
    joined_counts,
    step_numbers,
)
from tutti.schedules.simulation.simulate import SimulationOptions, best_slices, simulate
from tutti.schedules.verify import verify
from tutti.topologies.errors import InputError, NoSchedule, TuttiError, Unsupported, VerificationError
from tutti.topologies.exact import INT64_MAX, FloatArray, Int64Array, entries_of, frozen
from tutti.topologies.topology import Topology
from tutti.topologies.transforms import among, only_among
from tutti.topologies.units import parse_time


def parts_of(what: Collective) -> list[tuple[Fraction, Collective]]:
    """Return the collectives of which one consists, each with its M over that of the whole.

    For a mixed collective they are its parts; for several groups there is one for each group.
    """
    if what.parts:
        return list(zip(what.part_weights, what.parts, strict=True))
    return [(Fraction(1), what.with_group(number)) for number in range(len(what.members))]


@dataclass(frozen=True, eq=False)
class _Played:
    """The rows of a part in a table of whole messages, and the start of each if the part is alone.

    Parameters
    ----------
    schedule
        The part; a flow that travels in slices is cut into pieces.
    message
        int64, shape (rows,): the number of each row's message.
    start
        The start of each row's message in seconds, shape (rows,).
    seconds
        The time in seconds when all is complete.
    """

    schedule: Schedule
    message: Int64Array
    start: FloatArray
    seconds: float

    @classmethod
    def of(cls, schedule: Schedule, size: Fraction) -> _Played:
        """Return a part with the times of its simulation with M = `size` bytes."""
        slices, seconds = best_slices(schedule, size)
        if schedule.chunks.copy_of is not None:
            slices = 1
        found = simulate(schedule, size, SimulationOptions(slices=slices))
        cut, row, piece = _in_slices(schedule, slices)
        message = found.message[row].astype(np.int64) + piece
        return cls(cut, message, found.start[message], seconds)


def together(what: Collective, parts: Sequence[Schedule], size: Fraction) -> Schedule:
    """Return the fastest schedule found of all parts together.

    Parameters
    ----------
    what
        A mixed collective, or one of several groups.
    parts
        A legal schedule of each of `parts_of`, in order, on one network.
    size
        M of the whole in bytes.

    Returns
    -------
    Schedule
        The schedule. Its ``stats`` have ``alone``, the seconds of each part by itself.

    Raises
    ------
    InputError
        As `side_by_side`.
    NoSchedule
        If no compared schedule is legal.
    """
    played = [_Played.of(part, size * w) for (w, _), part in zip(parts_of(what), parts, strict=True)]
    found, least = None, math.inf
    for each in _candidates(what, parts, played, size):
        seconds = best_slices(each, size)[1]
        if seconds < least and _is_legal(each):
            found, least = each, seconds
    if found is None:
        raise NoSchedule(f"{what}: its parts' schedules do not fit together")
    return found.replace(stats={"alone": tuple(part.seconds for part in played)})


def _candidates(
    what: Collective, parts: Sequence[Schedule], played: Sequence[_Played], size: Fraction
) -> Iterator[Schedule]:
    """Yield the schedules that are compared."""
    clocks = {part.clock for part in parts}
    if len(clocks) == 1 and Clock.TIME not in clocks:
        made = side_by_side(what, [part.replace(size=None) for part in parts])
        yield made if all(part.size is None for part in parts) else made.replace(size=size)
    yield _in_turn(what, played, size)
    pieces = [part.schedule.replace(order=None, clock=Clock.FLOW, tick=None, size=None) for part in played]
    table = side_by_side(what, pieces)
    tick = tick_of(table.topology, sizes_of(table.chunks, size), len(table))
    of_row = np.repeat(np.arange(len(played)), [len(part.schedule) for part in played])
    last = np.array([part.start.max(initial=0.0) for part in played])[of_row]
    base = np.cumsum([0, *(int(part.message.max(initial=-1)) + 1 for part in played)])
    message = np.concatenate([part.message + first for part, first in zip(played, base, strict=False)])
    start = np.concatenate([part.start for part in played])
    for first, then in (
        (start, of_row),
        (start / np.maximum(last, np.finfo(float).tiny), of_row),
        (start - last, of_row),
        (of_row, start),
        (-of_row, start),
    ):
        rows = np.lexsort((message, then, first))
        _, number = np.unique(message[rows], return_index=True)  # the first row of each message
        order = np.empty(base[-1], np.int64)
        order[np.unique(message)] = number
        starts = order[message[rows]]
        yield retimed(table.taking(rows, clock=Clock.TIME, order=starts, tick=tick, size=size))


def _is_legal(schedule: Schedule) -> bool:
    """Whether the verifier accepts it. It may refuse an exchange of sums in a step if a message is late.

    Sorted by starts, the late message follows the other one, whose data is then already added to its own.
    """
    try:
        verify(schedule)
    except VerificationError:
        return False
    return True


def _in_turn(what: Collective, played: Sequence[_Played], size: Fraction) -> Schedule:
    """Return the parts one after the other, in steps: on every link a part's messages precede the next's.

    Messages enter the first links of their routes in the order of their own schedule.
    """
    steps, first = [], 0
    for part in played:
        own, order = part.schedule, part.schedule.order
        if own.clock is Clock.STEP and order is not None:
            rows, step = np.arange(len(own)), order.astype(np.int64)
        else:
            rows = np.argsort(part.start, kind="stable")
            step = np.unique(part.start[rows], return_inverse=True)[1] + 1
        number = step_numbers(step + first)
        steps.append(own.taking(rows, clock=Clock.STEP, order=number, tick=None, size=None))
        first += int(step.max(initial=0))
    return side_by_side(what, steps).replace(size=size)


def _in_slices(schedule: Schedule, slices: int) -> tuple[Schedule, Int64Array, Int64Array]:
    """Return a flow with every chunk in `slices` pieces, and the old row and the piece of each row."""
    if slices == 1:
        return schedule, np.arange(len(schedule)), np.zeros(len(schedule), np.int64)
    chunks = schedule.chunks
    if chunks.denominator * slices > INT64_MAX:
        raise InputError("the chunks, cut into slices, do not fit 64 bits over their denominator")
    count = schedule.counts.astype(np.int64)
    of_row, place = entries_of(count * slices)
    piece, within = np.divmod(place, count[of_row])
    chunk = (schedule.chunk[of_row] + within) * slices + piece
    return schedule.taking(of_row, chunks=chunks.cut(slices), chunk=chunk, count=None), of_row, piece


def side_by_side(what: Collective, parts: Sequence[Schedule]) -> Schedule:
    """Return the schedule that does all parts at the same time, without moving a row.

    Parameters
    ----------
    what
        A mixed collective (`schedules.collective.concurrent`), or one of several groups.
    parts
        A schedule of each of `parts_of`, in order: on one topology, in one clock and, in the time clock, made
        for one M of the whole.

    Raises
    ------
    InputError
        If they do not fit each other, or if their chunks have no common denominator, or their starts no
        common tick, that fits 64 bits.
    """
    asked = parts_of(what)
    if [part.collective for part in parts] != [part for _, part in asked]:
        raise InputError(f"the parts of {what} are not what the {len(parts)} schedules do, in that order")
    whole = {None if part.size is None else part.size / w for part, (w, _) in zip(parts, asked, strict=True)}
    for part in parts[1:]:
        if part.topology != parts[0].topology:
            raise InputError(f"topologies {parts[0].topology.name} and {part.topology.name} differ")
        if part.clock is not parts[0].clock or len(whole) > 1:
            raise InputError("the parts' schedules must be in one clock and made for one size")
    first = parts[0]
    chunks, base = _joined_chunks(what, parts)
    counts, adds = joined_counts(parts), joined_adds(parts)
    parts = on_common_tick(parts)
    orders = [part.order for part in parts if part.order is not None]
    order = np.concatenate(orders) if orders else None
    if first.clock is Clock.STEP and order is not None:
        order = step_numbers(order)
    rows = np.arange(sum(map(len, parts))) if order is None else np.argsort(order, kind="stable")
    tables, routes = [part.route_table for part in parts], None
    if any(part.routes is not None for part in parts):
        routes = Routes.joined(tables)
    shift = [0] * len(parts) if routes is None else np.cumsum([0, *map(len, tables)])[:-1].tolist()
    chunk = np.concatenate([part.chunk + np.int32(b) for part, b in zip(parts, base, strict=True)])
    route = np.concatenate([part.route + np.int32(s) for part, s in zip(parts, shift, strict=True)])
    return Schedule(
        topology=first.topology,
        collective=what,
        clock=first.clock,
        chunks=chunks,
        chunk=chunk[rows],
        route=route[rows],
        order=None if order is None else order[rows],
        count=None if counts is None else counts[rows],
        reduce=None if adds is None else adds[rows],
        routes=routes,
        tick=parts[0].tick,
        size=None if first.size is None else first.size / parts_of(what)[0][0],
    )


def _joined_chunks(what: Collective, parts: Sequence[Schedule]) -> tuple[Chunks, list[int]]:
    """Return the chunks of all parts over one denominator, and the number of each part's first chunk."""
    tables = [part.chunks for part in parts]
    units = [w / table.denominator for (w, _), table in zip(parts_of(what), tables, strict=True)]
    denominator = math.lcm(*(unit.denominator for unit in units))
    items = np.cumsum([0, *(len(part.items) for _, part in parts_of(what))])
    item = np.concatenate(
        [table.item + np.int32(base) for table, base in zip(tables, items[:-1], strict=True)]
    )
    sizes = [
        table.size.astype(object) * int(unit * denominator) for table, unit in zip(tables, units, strict=True)
    ]
    base = np.cumsum([0, *map(len, tables)])[:-1].tolist()
    try:
        size = np.concatenate(sizes).astype(np.int64)
    except OverflowError:
        raise InputError("the chunks of the parts do not fit 64 bits over their common denominator") from None
    copies = [np.full(len(table), NO_COPY) if table.copy_of is None else table.copy_of for table in tables]
    copy_of = [np.where(of == NO_COPY, NO_COPY, of + first) for of, first in zip(copies, base, strict=True)]
    return Chunks(item, size, denominator, np.concatenate(copy_of)), base


LEAST_SECONDS = 0.01
"""Least time limit in seconds for one of many parts. A larger value may exceed the whole limit."""
OWN, WHOLE = "own", "whole"
"""Names of the networks on which groups are alone: without the other ranks, or with them as switches."""


@dataclass(frozen=True)
class ByGroups(Method):
    """A method that does directly what it can, and everything else by groups.

    Parameters
    ----------
    alone
        The method. The other fields are copied from it, or call it.
    """

    alone: Method = field(kw_only=True)

    def supports(self, problem: Problem, options: Any) -> None:
        """Refuse a problem that the method does neither directly nor by groups."""
        if _at_once(self.alone, problem, options):
            self.alone.supports(problem, options)
            return
        for share, part in parts_of(problem.collective):
            if problem.collective.parts:
                size = None if problem.size is None else problem.size * share
                self.supports(Problem(problem.topology, part, size), options)
            else:
                _refuse_group(self.alone, problem.topology, part, options)

    def kind_of(self, problem: Problem, options: Any) -> str:
        """Return the kind of its answer. Exact parts do not make an exact whole."""
        return self.kind if _at_once(self.alone, problem, options) else "heuristic"


def by_groups(method: Method) -> Method:
    """Return the method, able to do its collectives at the same time over any groups of ranks."""

    def synthesize(problem: Problem, options: Any, rng: np.random.Generator) -> Schedule:
        if _at_once(method, problem, options):
            return method.synthesize(problem, options, rng)
        own = getattr(options, "time_limit", None)
        if own is not None:  # divided among the groups on both of their networks
            seconds = float(parse_time(own)) if isinstance(own, str) else float(own)
            parts = 2 * len(problem.collective.members)
            options = limited(options, max(seconds / parts, LEAST_SECONDS))
        return _GroupSynthesizer(method, options, rng).fastest(problem)

    def size_dependent(problem: Problem, options: Any) -> bool:
        return not _at_once(method, problem, options) or method.size_dependent(problem, options)

    def improve(problem: Problem, schedule: Schedule, options: Any, rng: np.random.Generator) -> Schedule:
        method.supports(problem, options)  # by groups, no given schedule can be improved
        return better(problem, schedule, options, rng)

    def estimate(problem: Problem, options: Any) -> float | None:
        return alone(problem, options) if alone and _at_once(method, problem, options) else None

    alone = method.estimate
    better = method.improve or (lambda problem, schedule, options, rng: schedule)
    own = {each.name: getattr(method, each.name) for each in fields(Method)}
    own |= {"synthesize": synthesize, "size_dependent": size_dependent}
    own |= {"estimate": alone and estimate}
    return ByGroups(**own | {"improve": method.improve and improve}, alone=method)


def limited(options: Any, most: float) -> Any:
    """Return a method's options with its ``time_limit``, if it has one, reduced to at most `most` seconds."""
    if not hasattr(options, "time_limit"):
        return options
    own = options.time_limit
    if isinstance(own, str):
        return replace(options, time_limit=f"{min(float(parse_time(own)), most):.3f}s")
    return replace(options, time_limit=most if own is None else min(own, most))


def _at_once(method: Method, problem: Problem, options: Any) -> bool:
    """Whether the method does a problem directly; it must if all ranks take part in one collective."""
    try:
        if problem.collective.groups is not None:
            method.supports(problem, options)
    except Unsupported:
        return False
    return True


@dataclass(frozen=True, eq=False)
class _GroupTopology:
    """A network whose ranks are one group, in order, and the numbers of its links in the whole network."""

    topology: Topology
    links: Int64Array

    def problem(self, what: Collective, size: Fraction | None) -> Problem:
        """Return the problem of the group's collective on this network."""
        return Problem(self.topology, replace(what, num_ranks=self.topology.num_ranks, groups=None), size)

    def lifted(self, schedule: Schedule, topology: Topology, what: Collective) -> Schedule:
        """Return a schedule made here on the whole network, without its claims, which hold only here."""
        table = schedule.route_table
        return schedule.replace(
            topology=topology,
            collective=what,
            routes=Routes(table.offsets, frozen(self.links[table.links], np.int32)),
            claims={},
            stats={},
        )


def _places(topology: Topology, members: tuple[int, ...]) -> Iterator[tuple[str, _GroupTopology]]:
    if len(members) < topology.num_ranks:
        with suppress(InputError):  # without the other ranks they may be disconnected
            yield OWN, _GroupTopology(*only_among(topology, members))
    yield WHOLE, _GroupTopology(among(topology, members), np.arange(topology.num_links))


def _refuse_group(method: Method, topology: Topology, what: Collective, options: Any) -> None:
    """Refuse a collective of one group that the method does on neither network."""
    refused: Unsupported | None = None
    for _, place in _places(topology, what.members[0]):
        try:
            method.supports(place.problem(what, None), options)
        except Unsupported as error:
            refused = error
        else:
            return
    if refused is not None:
        raise refused


@dataclass(frozen=True)
class _GroupSynthesizer:
    """Makes schedules of parts with a method, and combines them."""

    method: Method
    options: Any
    rng: np.random.Generator

    def fastest(self, problem: Problem) -> Schedule:
        """Return the fastest schedule of a problem that has parts."""
        size = problem.size or Fraction(1)
        return min(self.by_network(problem).values(), key=lambda made: best_slices(made, size)[1])

    def by_network(self, problem: Problem) -> dict[str, Schedule]:
        """Return the schedules, by the name of the network on which groups were alone."""
        if _at_once(self.method, problem, self.options):
            return {OWN: self.synthesized(problem)}
        return self.mixed(problem) if problem.collective.parts else self.grouped(problem)

    def mixed(self, problem: Problem) -> dict[str, Schedule]:
        """Return schedules of the parts: all on one kind of network, and each on its fastest kind."""
        size, asked = problem.size or Fraction(1), parts_of(problem.collective)
        parts = [self.by_network(Problem(problem.topology, part, size * share)) for share, part in asked]
        times = [
            {name: best_slices(made, size * share)[1] for name, made in part.items()}
            for part, (share, _) in zip(parts, asked, strict=True)
        ]
        fastest = [min(time, key=time.__getitem__) for time in times]
        chosen = {
            tuple(name if name in time else best for time, best in zip(times, fastest, strict=True))
            for name in {*fastest, OWN, WHOLE}
        } | {tuple(fastest)}
        alone = tuple(min(time.values()) for time in times)
        found = {}
        for names in sorted(chosen):
            made = together(
                problem.collective, [part[name] for part, name in zip(parts, names, strict=True)], size
            )
            found[" ".join(names)] = made.replace(stats={**made.stats, "alone": alone})
        return found

    def grouped(self, problem: Problem) -> dict[str, Schedule]:
        """Return the schedules of several groups on each of their networks.

        Raises
        ------
        TuttiError
            If the method makes none: its last error.
        """
        size, groups = problem.size or Fraction(1), [part for _, part in parts_of(problem.collective)]
        made: dict[str, list[Schedule]] = {OWN: [], WHOLE: []}
        said: TuttiError = NoSchedule(f"{self.method.name} finds no schedule for {problem.collective}")
        for group in groups:
            for name, place in _places(problem.topology, group.members[0]):
                try:
                    self.method.supports(place.problem(group, size), self.options)
                    alone = self.synthesized(place.problem(group, size))
                except (Unsupported, NoSchedule, InputError) as error:
                    said = error
                else:
                    made[name].append(place.lifted(alone, problem.topology, group))
        whole = {name: each for name, each in made.items() if len(each) == len(groups)}
        if not whole:
            raise said
        return {
            name: each[0] if len(each) == 1 else together(problem.collective, each, size)
            for name, each in whole.items()
        }

    def synthesized(self, problem: Problem) -> Schedule:
        """Return the schedule that the method makes directly; it gets the size only if that matters."""
        dependent = self.method.size_dependent(problem, self.options)
        told = problem if dependent else replace(problem, size=None)
        return self.method.synthesize(told, self.options, self.rng)
