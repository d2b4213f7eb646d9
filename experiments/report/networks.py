"""One rank's broadcast in an allgather step by step, on a small network (Figs 3.1, 3.2)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from markupsafe import Markup

from tutti.experiments.report.results import Results
from tutti.experiments.report.tables import Panel
from tutti.experiments.show.drawing import corners, curve, head, picture
from tutti.experiments.show.svg import group, tag
from tutti.schedules.collective import Kind
from tutti.schedules.files.schedule_file import read_schedule
from tutti.schedules.schedule import Clock, Schedule
from tutti.topologies.errors import TuttiError
from tutti.topologies.topology import Topology

MOST_NODES = 32
"""Ranks of the largest network that is drawn."""


@dataclass(frozen=True)
class BroadcastStep:
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


def broadcast_steps(schedule: Schedule, root: int = 0) -> list[BroadcastStep]:
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
        steps.append(BroadcastStep(sent, before, tuple(held)))
    return steps


def broadcast_panels(results: Results, topology: str) -> list[Panel]:
    """Return a picture a step of the first step schedule for allgather; none for large networks.

    A network is small up to `MOST_NODES` ranks, and so is a schedule up to 12 steps.
    """
    allgather = Kind.ALLGATHER.value
    for rows in results.of(topology, allgather).values():
        for key, row in rows.items():
            small = row.nodes is not None and row.nodes <= MOST_NODES and not row.switches
            steps = 0 if row.tl_steps is None else int(row.tl_steps)
            path = results.kept(row)
            if row.ok and small and 0 < steps <= 12 and path is not None:
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
        yield Panel(caption, f"k{number}", _picture(schedule, step, caption), _sentence(step))


def _sentence(step: BroadcastStep) -> str:
    amounts = sorted(set(step.sent.values()))
    if not amounts:
        return "Nothing of this rank's shard is sent."
    whole = sum(part == 1 for part in step.after)
    parts = ", ".join("all" if part == 1 else str(part) for part in amounts)
    ranks = f"{whole} of {len(step.after)} ranks then have it all"
    return f"{len(step.sent)} links carry {parts} of the shard; {ranks}."


def _picture(schedule: Schedule, step: BroadcastStep, caption: str) -> Markup:
    """Return the network: links that carry something, ranks that have all and, in another colour, get it."""

    def link(number: int) -> Mark:
        name, sent = schedule.topology.link_name(number).replace("->", " → "), step.sent.get(number)
        felt = {} if sent is None else {"class_": "link felt"}
        return {"data_tip": name if sent is None else f"{name}: {sent} of the shard", **felt}

    def node(rank: int) -> Mark:
        had, has = step.before[rank], step.after[rank]
        colour = " c0" if had == 1 else " c2" if has == 1 else ""
        told = f"rank {rank} holds {had if had == has else f'{had}, then {has}'} of the shard"
        return {"class_": f"node{colour}", "data_tip": told}

    return marked(schedule.topology, link, node, f"broadcast of rank 0, {caption}")


Mark = Mapping[str, object]
"""Attributes of a link or a node; a class ``felt`` puts a link over the others, with an arrow's head."""


def marked(
    topology: Topology, link: Callable[[int], Mark], node: Callable[[int], Mark], label: str
) -> Markup:
    """Return the picture of a network in which links and nodes are marked; `label` says of what."""
    places = picture(topology)
    r = places.radius
    under, over, nodes = list[Markup](), list[Markup](), list[Markup]()
    for number, way in enumerate(places.ways):
        looks = {"class_": "link", **link(number)}
        felt = "felt" in str(looks["class_"])
        path = curve(way) + (head(way, r) if felt else "")
        (over if felt else under).append(tag("path", d=path, data_link=number, **looks))
    for number, (x, y) in enumerate(places.at.tolist()):
        looks = {"data_node": number, **node(number)}
        if number < topology.num_ranks:
            nodes.append(tag("circle", cx=x, cy=y, r=r, **looks))
            nodes.append(tag("text", number, class_="node-name mid", x=x, y=y + 0.36 * r))
        else:
            nodes.append(tag("rect", x=x - r, y=y - r, width=2 * r, height=2 * r, **looks))
    hosts = group(tag("rect", class_="host", **corners(frame)) for frame in places.frames)
    width, height = places.size
    return tag(
        "svg", hosts, group([*under, *over]), group(nodes, style=f"font-size:{r:.1f}px"),
        class_="chart network", viewBox=f"0 0 {width:.0f} {height:.0f}",
        style=f"max-width:{1.3 * width:.0f}px", role="img", aria_label=label,
    )  # fmt: skip
