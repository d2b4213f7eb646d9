"""One rank's broadcast in an allgather step by step, on a small network (Figs 3.1, 3.2)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from markupsafe import Markup

from experiments.report.panels import Panel
from experiments.report.results import Results
from experiments.show.drawing import Picture, curve, head, picture
from experiments.show.svg import drawing, group, tag
from schedules.collective import Kind
from schedules.files.schedule_file import read_schedule
from schedules.schedule import Clock, Schedule
from topologies.errors import TuttiError

MOST_NODES = 32
"""Ranks of the largest network that is drawn."""
MOST_STEPS = 12
"""Of a schedule that is drawn."""
ROOT = 0


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
    places = picture(topology)
    paths: list[list[Markup]] = [[], []]
    for link, way in enumerate(places.ways):
        used = link in step.sent
        name = topology.link_name(link).replace("->", " → ")
        tip = f"{name}: {step.sent[link]} of the shard" if used else name
        path = curve(way) + (head(way, places.radius) if used else "")
        paths[used].append(tag("path", class_="link felt" if used else "link", d=path, data_tip=tip))
    nodes = [_node(step, rank, places) for rank in range(topology.num_ranks)]
    parts = [group(paths[False]), group(paths[True]), group(nodes, style=type_size(places))]
    return drawing(parts, places.size, f"broadcast of rank {ROOT}, {caption}")


def type_size(places: Picture) -> str:
    """Return the style of the nodes' names, which fit into the nodes."""
    return f"font-size:{places.radius:.1f}px"


def _node(step: Step, rank: int, places: Picture) -> Markup:
    """Return a rank: filled once it has the whole shard, in another colour what it gets now."""
    had, has = step.before[rank], step.after[rank]
    colour = " c0" if had == 1 else " c2" if has == 1 else ""
    tip = f"rank {rank} holds {had if had == has else f'{had}, then {has}'} of the shard"
    x, y = places.at[rank].tolist()
    circle = tag("circle", class_=f"node{colour}", cx=x, cy=y, r=places.radius, data_tip=tip)
    name = tag("text", rank, class_="node-name mid", x=x, y=y + 0.36 * places.radius)
    return Markup("").join([circle, name])
