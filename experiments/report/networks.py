"""Small networks as graphs, with one rank's broadcast in an allgather step by step (Figs 3.1, 3.2).

Grids keep their coordinates, hosts become circles of their own, and everything else stands on one circle,
switches inside it. A link bends to its right, so that the two directions of a pair lie side by side; it bends
further where it would run through another node, as the links around a torus do.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from markupsafe import Markup

from experiments.report.panels import Panel
from experiments.report.results import Results
from experiments.report.svg import Point, drawing, group, tag
from schedules.collective import Kind
from schedules.files.schedule_file import read_schedule
from schedules.schedule import Clock, Schedule
from topologies.errors import TuttiError
from topologies.exact import FloatArray, Int64Array
from topologies.topology import Topology

MOST_HOSTS = 12
"""More hosts than these are not circled; their ranks stand on one circle, host by host."""
NODE = 8.0
"""Half the width of a node, in pixels."""
SPARE = 3.0
"""Pixels between the outermost link and the picture's edge."""
RIM = 13.0
"""Pixels from the middle of a rank to the circle around its host."""
INNER = 0.45
"""Radius of the circle that switches stand on, over that of the ranks around them."""

_HEIGHTS = ((6, 240.0), (40, 320.0), (math.inf, 400.0))
"""Pixels that a picture of so many nodes may be high."""
_GRID = re.compile(r"(?:mesh|torus):(\d+)x(\d+)(?:x(\d+))?(?:\?.*)?")
_WIDER = 1.35
"""Columns of a three-dimensional grid over its rows, which are 1 apart; layers share out the diagonal."""


@dataclass(frozen=True)
class Layout:
    """Places in pixels.

    Parameters
    ----------
    at
        Shape (nodes, 2): the middle of each node.
    circles
        Middle and radius of the circle around each host, if there are any.
    height
        Of the picture.
    """

    at: FloatArray
    circles: tuple[tuple[Point, float], ...]
    height: float


Way = tuple[Point, Point, Point]
"""Start, control point and end of a link's quadratic curve, between the rims of its nodes."""


def layout(topology: Topology, width: float) -> Layout:
    """Return the places of a network's nodes in a picture of that width, with room for its links.

    Parameters
    ----------
    topology
        A small network: this compares each link with every node.
    width
        In pixels.
    """
    at, circles = _shape(topology)
    first = _fitted(at, circles, width, np.zeros(4))
    return _fitted(at, circles, width, _overhang(ways(topology, first.at), width, first.height))


def _overhang(found: Sequence[Way], width: float, height: float) -> FloatArray:
    """Return by how much links run out of a picture on the left, at the top, on the right, at the foot."""
    middles = np.array([(np.add(start, end) + 2 * np.array(control)) / 4 for start, control, end in found])
    outer = np.concatenate([SPARE - middles.min(axis=0), middles.max(axis=0) + SPARE - [width, height]])
    return np.maximum(outer, 0.0)


Shape = tuple[FloatArray, Sequence[tuple[FloatArray, float]]]
"""Places of nodes, and middle and radius of circles, in any unit."""


def _shape(topology: Topology) -> Shape:
    grid = _grid(topology)
    if grid is not None:
        return grid, []
    hosts = _hosts(topology)
    if hosts is not None:
        return _by_hosts(topology, hosts)
    return _around(topology, np.arange(topology.num_nodes), (0.0, 0.0), 1.0), []


def _grid(topology: Topology) -> FloatArray | None:
    """Return grid coordinates of ranks numbered row-major, None where the name promises none."""
    match = _GRID.fullmatch(topology.name)
    if match is None or topology.num_switches:
        return None
    sides = [int(side) for side in match.groups() if side]
    if math.prod(sides) != topology.num_ranks:  # nodes were dropped
        return None
    places = np.stack(np.unravel_index(np.arange(topology.num_ranks), sides), axis=1).astype(float)
    if len(sides) == 2:
        return places[:, ::-1].copy()
    layer, row, column = places.T
    depth = layer / sides[0]
    return np.stack([_WIDER * (column + depth), row + depth], axis=1)


def _hosts(topology: Topology) -> Int64Array | None:
    """Return the host of each node, if hosts have several ranks and are few."""
    if topology.hosts is None:
        return None
    of_ranks = topology.hosts[: topology.num_ranks]
    _, counts = np.unique(of_ranks, return_counts=True)
    if (of_ranks < 0).any() or not 2 <= len(counts) <= MOST_HOSTS or counts.min() < 2:
        return None
    return topology.hosts.astype(np.int64)


def _by_hosts(topology: Topology, hosts: Int64Array) -> Shape:
    """Place the hosts around the switches that belong to none."""
    names = np.unique(hosts[: topology.num_ranks])
    radius = 0.65 * (math.sin(math.pi / len(names)) if len(names) > 2 else 1.0)
    middles = _circle(len(names), (0.0, 0.0), 1.0)
    at = np.zeros((topology.num_nodes, 2))
    outside = np.flatnonzero(~np.isin(hosts, names))
    at[outside] = _between(len(outside), len(names))
    for name, middle in zip(names, middles, strict=True):
        members = np.flatnonzero(hosts == name)
        # Turned by half a place no rank stands between its host's switch and another host.
        at[members] = _around(topology, members, (float(middle[0]), float(middle[1])), radius, 0.5)
    return at, [(middle, radius) for middle in middles]


def _between(count: int, hosts: int) -> FloatArray:
    """Return places in the middle: in a column between two hosts, else on a small circle."""
    if hosts == 2:
        rise = np.linspace(-0.6, 0.6, count) if count > 1 else np.zeros(count)
        return np.stack([np.zeros(count), rise], axis=1)
    return _circle(count, (0.0, 0.0), 0.12 if count > 1 else 0.0)


def _around(
    topology: Topology, nodes: Int64Array, middle: Point, radius: float, turn: float = 0.0
) -> FloatArray:
    """Place ranks on a circle and switches on a smaller one inside."""
    ranks = int((nodes < topology.num_ranks).sum())
    switches = len(nodes) - ranks
    inner = _circle(switches, middle, INNER * radius if switches > 1 else 0.0)
    return np.concatenate([_circle(ranks, middle, radius, turn), inner])


def _circle(count: int, middle: Point, radius: float, turn: float = 0.0) -> FloatArray:
    """Return places clockwise on a circle: two side by side, four in the corners, else from the top.

    They are turned by that many places.
    """
    start = {2: math.pi, 4: -3 * math.pi / 4}.get(count, -math.pi / 2)
    angles = start + 2 * math.pi * (np.arange(count) + turn) / max(count, 1)
    return np.stack([middle[0] + radius * np.cos(angles), middle[1] + radius * np.sin(angles)], axis=1)


def _fitted(
    at: FloatArray, circles: Sequence[tuple[FloatArray, float]], width: float, overhang: FloatArray
) -> Layout:
    """Scale places to a picture's width, and to a height that suits their number.

    Rather than that nodes touch, links run out of the picture.
    """
    room = RIM + 4 if circles else 2.5 * NODE
    before, after = overhang[:2] + room, overhang[2:] + room
    low = np.min([at.min(axis=0), *(middle - radius for middle, radius in circles)], axis=0)
    high = np.max([at.max(axis=0), *(middle + radius for middle, radius in circles)], axis=0)
    extent = np.maximum(high - low, 1e-9)
    box = np.array([width, next(height for nodes, height in _HEIGHTS if len(at) <= nodes)])
    apart = min(*((box - 2 * room) / extent), 2 * NODE / _closest(at))
    scale = max(min((box - before - after) / extent), apart)
    spare = np.array([(width - scale * extent[0] - before[0] - after[0]) / 2, 0.0])
    shift = before + spare - scale * low
    pixels = [
        ((float(x), float(y)), scale * radius + RIM)
        for middle, radius in circles
        for x, y in [scale * middle + shift]
    ]
    return Layout(scale * at + shift, tuple(pixels), float(scale * extent[1] + before[1] + after[1]))


def _closest(at: FloatArray) -> float:
    """Return the least distance of two nodes."""
    distance = np.hypot(*(at[:, None] - at[None]).transpose(2, 0, 1))
    np.fill_diagonal(distance, math.inf)
    return float(distance.min())


BEND = 4.0
"""Pixels that the middle of a link is off the straight line ..."""
APART = 5.0
"""... and those of links that are parallel to it each more."""
DETOUR = 0.16
"""Over its length: how far a link goes around nodes in its way, if that is enough ..."""
DETOURS = (0.0, DETOUR, -DETOUR, 0.26, -0.26, 0.36, -0.36)
"""... and what is tried, first to last."""
CLEAR = NODE + 1
"""Pixels that a link keeps from the middle of other nodes, if it can."""
HEAD = 4.5
"""Pixels: the length of an arrow's head."""


def ways(topology: Topology, places: FloatArray) -> list[Way]:
    """Return the way of each link between nodes at these places."""
    seen: dict[tuple[int, int], int] = {}
    found = []
    for ends in zip(topology.source.tolist(), topology.target.tolist(), strict=True):
        parallel = seen[ends] = seen.get(ends, -1) + 1
        found.append(_way(places, ends, parallel))
    return found


def _way(places: FloatArray, ends: tuple[int, int], parallel: int) -> Way:
    start, end = places[ends[0]], places[ends[1]]
    along = end - start
    length = max(float(np.hypot(*along)), 1e-9)
    right = np.array([-along[1], along[0]]) / length
    others = np.delete(places, ends, axis=0)
    best, control = -1.0, start
    for detour in DETOURS:
        # The middle of a curve is half as far off the straight line as its control point.
        tried = (start + end) / 2 + 2 * (BEND + APART * parallel + detour * length) * right
        room = min(_room(others, start, tried, end), CLEAR)
        if room > best:
            best, control = room, tried
        if room == CLEAR:
            break
    return _point(_rim(start, control)), _point(control), _point(_rim(end, control))


def _room(others: FloatArray, start: FloatArray, control: FloatArray, end: FloatArray) -> float:
    """Return the pixels between a curve and the nearest other node's middle."""
    if not len(others):
        return math.inf
    t = _SHARES[:, None]
    curve = (1 - t) ** 2 * start + 2 * t * (1 - t) * control + t**2 * end
    return float(np.hypot(*(curve[:, None] - others[None]).transpose(2, 0, 1)).min())


_SHARES = np.linspace(0.02, 0.98, 33)


def _rim(node: FloatArray, toward: FloatArray) -> FloatArray:
    along = toward - node
    return node + along * ((NODE + 1) / max(float(np.hypot(*along)), 1e-9))


def _point(at: FloatArray) -> Point:
    return (float(at[0]), float(at[1]))


def curve(start: Point, control: Point, end: Point, head: bool) -> str:
    """Return the path of a link, with an arrow's head at its end if asked for."""
    path = f"M{_pair(start)}Q{_pair(control)} {_pair(end)}"
    if not head:
        return path
    angle = math.atan2(end[1] - control[1], end[0] - control[0])
    barbs = [
        (end[0] - HEAD * math.cos(angle + turn), end[1] - HEAD * math.sin(angle + turn))
        for turn in (0.5, -0.5)
    ]
    return f"{path}M{_pair(barbs[0])}L{_pair(end)}L{_pair(barbs[1])}"


def _pair(at: Point) -> str:
    return f"{at[0]:.1f} {at[1]:.1f}"


MOST_NODES = 32
"""Ranks of the largest network that is drawn."""
MOST_STEPS = 12
"""Of a schedule that is drawn."""
ROOT = 0
WIDTH = 300.0


@dataclass(frozen=True)
class Step:
    """What is sent of one rank's shard in one comm step.

    Parameters
    ----------
    sent
        Link to the part of the shard that it carries.
    before, after
        Of each rank, the part of the shard that it holds before and after the step.
    """

    sent: dict[int, Fraction]
    before: tuple[Fraction, ...]
    after: tuple[Fraction, ...]


def broadcast_steps(schedule: Schedule, root: int = ROOT) -> list[Step]:
    """Return how one rank's shard spreads in an allgather of the step clock over links."""
    own = schedule.collective.items.start == root
    rows = np.flatnonzero(own[schedule.chunks.item[schedule.chunk]])
    whole = int(schedule.chunks.size[own[schedule.chunks.item]].sum())
    order = np.asarray(schedule.order)
    held = [Fraction(int(rank == root)) for rank in range(schedule.topology.num_ranks)]
    steps = []
    for step in np.unique(order).tolist():
        sent: dict[int, Fraction] = {}
        before = tuple(held)
        for row in rows[order[rows] == step].tolist():
            part, link = Fraction(int(schedule.load[row]), whole), int(schedule.route[row])
            sent[link] = sent.get(link, Fraction(0)) + part
            held[int(schedule.topology.target[link])] += part
        steps.append(Step(sent, before, tuple(held)))
    return steps


def broadcast_panels(results: Results, topology: str) -> list[Panel]:
    """Return a picture a step of the first step schedule for allgather; none for large networks."""
    allgather = Kind.ALLGATHER.value
    for rows in results.of(topology, allgather).values():
        for key, row in rows.items():
            small = row.nodes is not None and row.nodes <= MOST_NODES and not row.switches
            steps = 0 if row.tl_steps is None else int(row.tl_steps)
            path = results.kept(row)
            if row.ok and small and 0 < steps <= MOST_STEPS and path is not None:
                try:
                    schedule = read_schedule(path)
                except (TuttiError, OSError, ValueError, KeyError):
                    continue
                plain = schedule.collective.plain and schedule.topology.num_nodes <= MOST_NODES
                if schedule.clock is Clock.STEP and plain and schedule.routes is None:
                    number = results.collectives.index(allgather)
                    return list(_panels(schedule, results.series[key].label, number))
    return []


def _panels(schedule: Schedule, method: str, number: int) -> Iterator[Panel]:
    steps = broadcast_steps(schedule)
    for place, step in enumerate(steps, 1):
        caption = f"{method}, step {place} of {len(steps)}"
        yield Panel(caption, number, _picture(schedule, step, caption), _sentence(step))


def _sentence(step: Step) -> str:
    amounts = sorted(set(step.sent.values()))
    if not amounts:
        return "Nothing of this rank's shard is sent."
    whole = sum(part == 1 for part in step.after)
    parts = ", ".join("all" if part == 1 else str(part) for part in amounts)
    ranks = f"{whole} of {len(step.after)} ranks then have it all"
    return f"{len(step.sent)} links carry {parts} of the shard; {ranks}."


def _picture(schedule: Schedule, step: Step, caption: str) -> Markup:
    topology = schedule.topology
    places = layout(topology, WIDTH)
    paths: list[list[Markup]] = [[], []]
    for link, way in enumerate(ways(topology, places.at)):
        used = link in step.sent
        name = topology.link_name(link).replace("->", " → ")
        tip = f"{name}: {step.sent[link]} of the shard" if used else name
        look = "link felt" if used else "link"
        paths[used].append(tag("path", class_=look, d=curve(*way, head=used), data_tip=tip))
    nodes = [_node(step, rank, (float(x), float(y))) for rank, (x, y) in enumerate(places.at.tolist())]
    parts = [group(paths[False]), group(paths[True]), group(nodes)]
    return drawing(parts, WIDTH, places.height, f"broadcast of rank {ROOT}, {caption}")


def _node(step: Step, rank: int, at: Point) -> Markup:
    """Return a rank: filled once it has the whole shard, in another colour what it gets now."""
    had, has = step.before[rank], step.after[rank]
    colour = " c0" if had == 1 else " c2" if has == 1 else ""
    tip = f"rank {rank} holds {had if had == has else f'{had}, then {has}'} of the shard"
    circle = tag("circle", class_=f"node{colour}", cx=at[0], cy=at[1], r=NODE, data_tip=tip)
    return Markup("").join([circle, tag("text", rank, class_="node-name mid", x=at[0], y=at[1] + 3.2)])
