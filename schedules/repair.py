"""Repair of a schedule when links fail or slow down, and the result without a repair.

A *rerouted* schedule is the old one on a network that routes around failures: data that crossed a dead link
takes a path of the fewest hops to its destination.

A *repaired* one keeps every transfer that crosses neither a dead nor a slower link. Each of the others brings
its chunks to the same node as before, at its old place in the table. But it starts at the node and takes the
links that cost least, and is cut in parts. Any node is allowed that has the same value by then: the same
contributions, summed. A reduction is a copy backwards (`schedules.reversal`), so it may change the place
where its contribution is added. The data that each node holds when it sends stays the same.

The cost of a path is the increase of the sum over links of (load / bandwidth)^p. Choosing the least increase
for one transfer after the other comes within a constant of the least sum (Awerbuch, Azar, Grove, Kao,
Krishnan, Vitter: Load balancing in the L_p norm, FOCS 1995). With a large p the largest load decides, which
determines the time. Then a path is chosen again for each transfer, while the others stay. In the step clock
loads are those of the step, as in T_B.
"""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

import numpy as np

from tutti.schedules.collective import EVERYONE
from tutti.schedules.message_durations import messages
from tutti.schedules.retiming import retimed
from tutti.schedules.reversal import reverse
from tutti.schedules.schedule import Clock, Routes, Schedule
from tutti.schedules.simulation.simulate import SimulationOptions, simulate
from tutti.schedules.verify import verify
from tutti.topologies.errors import InputError, NoSchedule, Unsupported, VerificationError
from tutti.topologies.exact import (
    INT64_MAX,
    NONE,
    BoolArray,
    FloatArray,
    Int32Array,
    Int64Array,
    IntArray,
    entries_of,
    offsets_of,
)
from tutti.topologies.graphs.heaps import sift_down, sift_up
from tutti.topologies.graphs.shortest_paths import shortest_routes
from tutti.topologies.kernels import kernel
from tutti.topologies.topology import Incidence, Topology


class RepairTuning(NamedTuple):
    """Numbers that steer how sources and routes are chosen for transfers."""

    sweeps: int
    """Number of times that a source and a route are chosen for each transfer. A larger value balances links
    better."""
    most_cells: int
    """Most pairs of node and chunk whose values are kept (512 MiB). In larger schedules sources stay."""
    parts: tuple[int, ...]
    """Numbers of parts of a transfer that are tried. More parts load links more evenly and make more
    messages."""


TUNING = RepairTuning(sweeps=2, most_cells=2**27, parts=(4, 2, 1))


def rerouted(schedule: Schedule, topology: Topology) -> Schedule:
    """Return the schedule on a network with failures; rows over dead links take paths of the fewest hops.

    Parameters
    ----------
    schedule
        A verified schedule.
    topology
        The remaining network: the same ranks, and links with other bandwidths or none.

    Returns
    -------
    Schedule
        ``stats["changed"]`` is the number of transfers with another route.

    Raises
    ------
    InputError
        If the network has other ranks, or links that the schedule's network lacks.
    NoSchedule
        If a switch that copies or adds has failed.
    Unsupported
        If the schedule is in the time clock, where messages get other times, and sums depend on the times.
    """
    left, routes = _left(schedule, topology), schedule.route_table
    dead = np.logical_or.reduceat(left.link_of[routes.links] == NONE, routes.offsets[:-1])
    rows = np.flatnonzero(dead[schedule.route])
    wanted, way = np.unique(schedule.route[rows], return_inverse=True)
    ends = np.stack([schedule.route_source, schedule.route_target])[:, wanted]
    gone = ends[left.node_of[ends] == NONE]
    if len(gone):
        raise left.no_way(gone[0])
    offsets, links = shortest_routes(topology, *left.node_of[ends])
    detours = Routes(offsets, left.old_link[links])
    return _on(left, _with_routes(schedule, rows, len(routes) + way, detours), len(rows))


def fastest_repair(schedule: Schedule, topology: Topology, size: Fraction, slices: int = 1) -> Schedule:
    """Return the fastest at a size of `repaired`, in each number of `TUNING.parts`, and `rerouted`.

    The size is in bytes, and a flow is in `slices` slices. All change the same transfers. If messages are
    short, their number is what counts.
    """
    options = SimulationOptions(slices if schedule.clock is Clock.FLOW else 1)
    several = TUNING.parts[:1] if schedule.clock is Clock.TIME else TUNING.parts
    tried = [repaired(schedule, topology, parts) for parts in several]
    return min([*tried, rerouted(schedule, topology)], key=lambda one: simulate(one, size, options).time)


def repaired(schedule: Schedule, topology: Topology, parts: int = TUNING.parts[0]) -> Schedule:
    """Return the schedule on a network with failures; only transfers over failed or slow links change.

    Parameters
    ----------
    schedule, topology
        As in `rerouted`, and so are the result and the errors.
    parts
        The number of parts in which these are cut, to take several routes; none in the time clock.
    """
    left = _left(schedule, topology)
    if schedule.clock is Clock.TIME:
        # One message after the other, in the flow clock.
        message = messages(schedule).of_row
        row = np.argsort(message, kind="stable")
        message, cut = message[row], schedule.taking(row, clock=Clock.FLOW, order=None)
        row = np.arange(len(cut))
    else:
        cut, row = _cut(schedule, left, parts)
    chosen = left.crossed(cut)
    adds = chosen & cut.adds
    added = _added_elsewhere(cut, adds, left) if adds.any() else None
    moved = _moved(cut, chosen, left) if added is None else _moved(added, chosen & ~adds, left)
    changed = len(np.unique(row[moved.route != cut.route]))
    if schedule.clock is Clock.TIME:
        # Only consecutive rows stay one message: rows between them may bring data that later ones send on.
        begin = (np.diff(message) != 0) | (np.diff(moved.route) != 0)
        return _on(left, moved.replace(clock=Clock.TIME, order=offsets_of(begin)[: len(row)]), changed)
    if moved.count is not None:  # parts of an old row that take one route are merged again
        same = (np.diff(row) == 0) & (np.diff(moved.route) == 0)
        first = np.flatnonzero(np.concatenate([[True], ~same]))
        moved = moved.taking(first, count=np.add.reduceat(moved.count, first))
    return _on(left, moved, changed)


def _added_elsewhere(schedule: Schedule, adds: BoolArray, left: _Left) -> Schedule | None:
    """Return the schedule with some contributions added elsewhere on their route, or None if it can't.

    It can't if sums are overwritten, or if a switch that adds receives nothing any more.
    """
    try:
        moved = reverse(_moved(reverse(schedule), adds[::-1], left), schedule.topology)
        verify(moved)
    except (Unsupported, VerificationError):
        return None
    return moved


def _cut(schedule: Schedule, left: _Left, most: int) -> tuple[Schedule, Int64Array]:
    """Return the schedule with rows over failing links cut in `most` parts, and the old row of each.

    The chunks are cut; other transfers carry all their parts. Nothing is cut if it would not fit 64 bits, or
    if chunks have copies.
    """
    chunks, chosen = schedule.chunks, left.crossed(schedule)
    fits = chunks.denominator * len(chunks) * most <= INT64_MAX
    if not chosen.any() or chunks.copy_of is not None or not fits:
        return schedule, np.arange(len(schedule))
    parts = np.where(_carried(schedule, chosen), most, 1)
    first = offsets_of(parts)
    begin, end = first[schedule.chunk], first[schedule.chunk + schedule.counts]
    times = np.where(chosen, most, 1)
    row, part = entries_of(times)
    count = (end - begin)[row] // times[row]
    return schedule.taking(row, chunks=chunks.cut(parts), chunk=begin[row] + part * count, count=count), row


class _Left(NamedTuple):
    """The remaining network.

    Parameters
    ----------
    old, topology
        The old network, and the remaining one.
    node_of, link_of
        Int64 and int32: the new number of each node and link of the old network, or `NONE`.
    speed
        Float64: bytes per second of each link of the old network, 0 if it is dead.
    """

    old: Topology
    topology: Topology
    node_of: Int64Array
    link_of: Int32Array
    speed: FloatArray

    @classmethod
    def of(cls, old: Topology, topology: Topology) -> _Left:
        """Match nodes by label, and links by their ends; the first of parallel links remain."""
        ranks = old.labels[: old.num_ranks]
        if topology.labels[: topology.num_ranks] != ranks:
            raise InputError(
                f"topology {topology.name} has other ranks than {old.name}, which the schedule is for; "
                "links and switches may fail"
            )
        number = {label: node for node, label in enumerate(topology.labels)}
        node_of = np.array([number.get(label, NONE) for label in old.labels])
        links: dict[tuple[int, int], list[int]] = {}
        for link in range(topology.num_links - 1, -1, -1):
            links.setdefault((int(topology.source[link]), int(topology.target[link])), []).append(link)
        link_of = np.full(old.num_links, NONE, np.int32)
        for link, ends in enumerate(
            zip(node_of[old.source].tolist(), node_of[old.target].tolist(), strict=True)
        ):
            if links.get(ends):
                link_of[link] = links[ends].pop()
        more = [link for parallel in links.values() for link in parallel]
        if more:
            name = topology.link_name(min(more))
            raise InputError(
                f"topology {topology.name} has a link {name} that {old.name} has not; links may fail"
            )
        speed = np.where(link_of == NONE, 0.0, topology.bandwidth.floats[link_of])
        return cls(old, topology, node_of, link_of, speed)

    def crossed(self, schedule: Schedule) -> BoolArray:
        """Return a mask of the transfers that cross a link that is dead or slower than before."""
        slower, routes = self.speed < self.old.bandwidth.floats * (1 - 1e-12), schedule.route_table
        return np.logical_or.reduceat(slower[routes.links], routes.offsets[:-1])[schedule.route]

    @property
    def old_link(self) -> Int32Array:
        """The old number of each remaining link."""
        found = np.empty(self.topology.num_links, np.int32)
        alive = np.flatnonzero(self.link_of != NONE)
        found[self.link_of[alive]] = alive
        return found

    def no_way(self, node: int) -> NoSchedule:
        """Return the error for data that can't go to or from a node."""
        return NoSchedule(
            f"topology {self.topology.name} leaves no way to or from {self.old.labels[node]}, which copies "
            "or adds in the schedule; make a new one"
        )


def _left(schedule: Schedule, topology: Topology) -> _Left:
    """Return the remaining network of a schedule, if its rows carry the same data when replayed in turn."""
    if schedule.clock is Clock.TIME and schedule.reduce is not None:
        try:
            verify(schedule.replace(clock=Clock.FLOW, order=None))
        except VerificationError as error:
            raise Unsupported(
                f"a repair of a schedule in the time clock with messages that cross, as where two ranks "
                f"exchange what they have: one after the other they don't do it: {error}"
            ) from error
    return _Left.of(schedule.topology, topology)


def _with_routes(schedule: Schedule, rows: IntArray, route: IntArray, more: Routes) -> Schedule:
    """Return the schedule with some rows on other routes: its own, or one of `more`, numbered after them."""
    table, changed = schedule.route_table, schedule.route.copy()
    changed[rows] = route
    return schedule.replace(route=changed, routes=Routes.joined([table, more]))


def _on(left: _Left, schedule: Schedule, changed: int) -> Schedule:
    """Return a schedule whose rows cross only live links on the remaining network."""
    routes = schedule.route_table
    used = np.bincount(schedule.route, minlength=len(routes)) > 0
    lengths = np.diff(routes.offsets)
    links = left.link_of[routes.links[np.repeat(used, lengths)]]
    moved = schedule.replace(
        topology=left.topology,
        route=(np.cumsum(used) - 1)[schedule.route],
        routes=Routes(offsets_of(lengths[used]), links),
        claims={},
        stats={"changed": changed},
    )
    return retimed(moved) if moved.clock is Clock.TIME else moved


class _ReplayRows(NamedTuple):
    """The rows in order of replay.

    Parameters
    ----------
    first, last
        Int64: the cells that each carries, from `first` to before `last`. A cell is a chunk of some row that
        a route is chosen for.
    source, target
        Int32: the ends of each; the source of a chosen row is updated.
    begin, end
        Int64: the places of each row's links; updated in the same way.
    size
        Float64: the load of each.
    adds
        Bool: whether each reduces.
    chosen
        Int64: the rows that routes are chosen for, increasing.
    """

    first: Int64Array
    last: Int64Array
    source: Int32Array
    target: Int32Array
    begin: Int64Array
    end: Int64Array
    size: FloatArray
    adds: BoolArray
    chosen: Int64Array


class _RepairNetwork(NamedTuple):
    """The links into each node, their ends and bandwidths, and whether each node can send copies."""

    into: Incidence
    tail: Int32Array
    head: Int32Array
    speed: FloatArray
    able: BoolArray


class _PathScratch(NamedTuple):
    """Memory of a search: each node's cost of a path to the target and its first link, and a heap."""

    cost: FloatArray
    link: Int32Array
    keys: FloatArray
    nodes: Int32Array


def _moved(schedule: Schedule, chosen: BoolArray, left: _Left) -> Schedule:
    """Return the schedule with the best sources and routes found for the chosen rows."""
    topology, routes = schedule.topology, schedule.route_table
    if not chosen.any():
        return schedule
    # A cell is a chunk that a chosen row carries; a row carries cells from first to before last.
    carried = _carried(schedule, chosen)
    before, cells = offsets_of(carried), np.flatnonzero(carried)
    free = topology.num_nodes * len(cells) <= TUNING.most_cells and schedule.chunks.copy_of is None
    table = _ReplayRows(
        before[schedule.chunk],
        before[schedule.chunk + schedule.counts],
        schedule.source.copy(),
        schedule.target,
        routes.offsets[schedule.route],
        routes.offsets[schedule.route + 1],
        schedule.load.astype(np.float64),
        schedule.adds.copy(),
        np.flatnonzero(chosen),
    )
    able = np.arange(topology.num_nodes) < topology.num_ranks
    able[list(topology.multicast)] = True
    network = _RepairNetwork(topology.in_links, topology.source, topology.target, left.speed, able)
    steps = np.array([0, len(schedule)])
    if schedule.clock is Clock.STEP and schedule.order is not None:
        steps = np.concatenate([[0], np.flatnonzero(np.diff(schedule.order)) + 1, [len(schedule)]])
    values = _initial(schedule, cells) if free else np.zeros((0, 0), np.int32)
    links = routes.links.copy()
    for _ in range(TUNING.sweeps):
        wrong, links = _choose(table, steps, schedule.clock is Clock.STEP, network, values.copy(), links)
        if wrong != NONE:
            ends = table.source[wrong], table.target[wrong]
            raise left.no_way(next((node for node in ends if left.node_of[node] == NONE), ends[1]))
    ways = [tuple(links[table.begin[row] : table.end[row]].tolist()) for row in table.chosen]
    own = np.unique(schedule.route[table.chosen]).tolist()
    known = {tuple(routes.links[routes.offsets[r] : routes.offsets[r + 1]].tolist()): r for r in own}
    new = [way for way in dict.fromkeys(ways) if way not in known]
    number = known | {way: len(routes) + index for index, way in enumerate(new)}
    return _with_routes(schedule, table.chosen, np.array([number[way] for way in ways]), Routes.of(new))


def _carried(schedule: Schedule, rows: BoolArray) -> BoolArray:
    """Return a mask of the chunks that some rows carry."""
    edges = np.zeros(len(schedule.chunks) + 1, np.int64)
    np.add.at(edges, schedule.chunk[rows], 1)
    np.add.at(edges, (schedule.chunk + schedule.counts)[rows], -1)
    return np.cumsum(edges[:-1]) > 0


def _initial(schedule: Schedule, cells: Int64Array) -> Int32Array:
    """Return a number for the initial value of each cell at each node, int32 (nodes, cells)."""
    what = schedule.collective
    values = np.full((schedule.topology.num_nodes, len(cells)), NONE, np.int32)
    item = schedule.chunks.item[cells]
    start, group = what.items.start[item], what.items.group[item]
    alone = np.flatnonzero(start != EVERYONE)
    values[start[alone], alone] = start[alone]
    for number in np.unique(group[start == EVERYONE]):
        members = np.array(what.members[number], dtype=np.int32)
        values[np.ix_(members, np.flatnonzero((start == EVERYONE) & (group == number)))] = members[:, None]
    return values


@kernel
def _choose(
    rows: _ReplayRows,
    steps: Int64Array,
    at_once: bool,
    network: _RepairNetwork,
    value: Int32Array,
    links: Int32Array,
) -> tuple[int, Int32Array]:
    """Choose a source and a route for each chosen row, in order, while all others stay; return the links.

    Before the links stands a row for which there is no route, or -1. `value` (nodes, cells) is the initial
    value of each node and is updated; if it is empty, rows keep their sources. Rows of one step are
    `at_once`.
    """
    nodes, room = len(network.able), len(network.tail) + 1
    search = _PathScratch(
        np.empty(nodes), np.empty(nodes, np.int32), np.empty(room), np.empty(room, np.int32)
    )
    load = np.empty(len(network.tail))
    new, used, turn = nodes, len(links), 0
    for step in range(len(steps) - 1):
        given, high = steps[step], steps[step + 1]
        if turn < len(rows.chosen) and rows.chosen[turn] < high:
            load[:] = 0
            for row in range(given, high):
                _add(load, rows, row, links, 1)
        while turn < len(rows.chosen) and rows.chosen[turn] < high:
            row = rows.chosen[turn]
            turn += 1
            if not at_once:
                new = _deliver(rows, given, row, at_once, value, new)
                given = row
            # The row's own load does not count when its route is chosen.
            _add(load, rows, row, links, -1)
            if not _find(rows, row, network, value, load, search):
                return row, links
            links = _take(rows, row, network, search, links, used)
            used = rows.end[row]
            _add(load, rows, row, links, 1)
        new = _deliver(rows, given, high, at_once, value, new)
    return NONE, links[:used]


@kernel
def _add(load: FloatArray, rows: _ReplayRows, row: int, links: Int32Array, times: int) -> None:
    """Add the load of a row, times `times`, to its links."""
    for place in range(rows.begin[row], rows.end[row]):
        load[links[place]] += times * rows.size[row]


@kernel
def _find(
    rows: _ReplayRows,
    row: int,
    network: _RepairNetwork,
    value: Int32Array,
    load: FloatArray,
    search: _PathScratch,
) -> bool:
    """Run Dijkstra's algorithm backwards from a row's target to the nearest node that may be its source."""
    cost, link_of, keys, nodes = search
    target = np.int64(rows.target[row])
    power = 8  # p
    cost[:] = np.inf
    cost[target] = keys[0] = 0.0
    nodes[0], size = target, 1
    while size:
        node, reached = np.int64(nodes[0]), keys[0]
        size -= 1
        sift_down(keys, nodes, size)
        if reached > cost[node]:
            continue
        if node != target and _may_send(rows, row, network, value, node):
            rows.source[row] = node
            return True
        for place in range(network.into.offsets[node], network.into.offsets[node + 1]):
            link = network.into.links[place]
            tail, speed = np.int64(network.tail[link]), network.speed[link]
            if speed == 0:
                continue
            more = ((load[link] + rows.size[row]) / speed) ** power - (load[link] / speed) ** power
            if reached + more < cost[tail]:
                cost[tail], link_of[tail] = reached + more, link
                sift_up(keys, nodes, size, reached + more, tail)
                size += 1
    return False


@kernel
def _may_send(rows: _ReplayRows, row: int, network: _RepairNetwork, value: Int32Array, node: int) -> bool:
    """Return whether a node has the same values of all that a row carries as its source has."""
    source = rows.source[row]
    if node == source:
        return True
    if len(value) == 0 or rows.adds[row] or not network.able[node]:
        return False
    for cell in range(rows.first[row], rows.last[row]):
        if value[node, cell] != value[source, cell] or value[node, cell] == NONE:
            return False
    return True


@kernel
def _take(
    rows: _ReplayRows, row: int, network: _RepairNetwork, search: _PathScratch, links: Int32Array, used: int
) -> Int32Array:
    """Write the links from a row's source to its target after those in use, and return all links."""
    rows.begin[row] = used
    node = rows.source[row]
    while node != rows.target[row]:
        if used == len(links):
            links = np.concatenate((links, np.empty_like(links)))
        links[used] = search.link[node]
        node = network.head[links[used]]
        used += 1
    rows.end[row] = used
    return links


@kernel
def _deliver(rows: _ReplayRows, low: int, high: int, at_once: bool, value: Int32Array, new: int) -> int:
    """Give the targets of rows low to high - 1 their values; each sum is a new number; return the next one.

    If rows are `at_once`, those that add come last, because others read the values from before.
    """
    for adding in range((2 if at_once else 1) if len(value) else 0):
        for row in range(low, high):
            if at_once and rows.adds[row] != (adding == 1):
                continue
            source, target = rows.source[row], rows.target[row]
            for cell in range(rows.first[row], rows.last[row]):
                value[target, cell] = new if rows.adds[row] else value[source, cell]
                new += 1 if rows.adds[row] else 0
    return new
