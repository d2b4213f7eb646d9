"""What kept schedules do: which links are busy when, what multicast saves, how a shard spreads.

The utilisation of a link is the share of a schedule's time in which it is busy, replayed from the schedule's
file; its course is the share of the links that is busy, from start to end. What switches that multicast or
aggregate take off ranks and links is drawn in percent of what is without.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from markupsafe import Markup

from tutti.experiments.report.charts import LEVEL_COLOURS, Figure
from tutti.experiments.report.panels import panel_of
from tutti.experiments.report.results import Results, Row
from tutti.experiments.report.series import Series
from tutti.experiments.report.tables import Panel, number, seconds, size
from tutti.experiments.show.drawing import MOST_LINKS, Mark, marked
from tutti.models.bounds import best_bound
from tutti.schedules.collective import Collective, Kind
from tutti.schedules.files.schedule_file import read_schedule
from tutti.schedules.schedule import Clock, Schedule
from tutti.schedules.simulation.simulate import SimulationOptions, watch
from tutti.topologies.errors import TuttiError
from tutti.topologies.exact import FloatArray, Int64Array
from tutti.topologies.topology import Topology
from tutti.topologies.units import MEGA

LEVELS = len(LEVEL_COLOURS) - 1
"""Shades between 0 and 100 %."""


class UsageLimits(NamedTuple):
    """Limits on what is drawn of a schedule's utilisation."""

    nodes: int
    """Most nodes of a network with a matrix: its cells must be large enough to be seen."""
    links: int
    """Most links of such a network: the page has each of them."""
    file: int
    """Bytes of the largest file of a schedule that is replayed for a picture."""
    moments: int
    """Equal parts of a schedule's time, each of which is a point of the curve of its utilisation."""
    time: float
    """Time at which the chart of curves ends, in units of the fastest schedule's time."""
    ranks: int
    """Most nodes of a network on which an allgather is drawn step by step."""
    steps: int
    """Most steps of such an allgather: each is a picture."""


DRAWN = UsageLimits(nodes=128, links=MOST_LINKS, file=64 * MEGA, moments=120, time=3.0, ranks=32, steps=12)


@dataclass(frozen=True)
class LinkUtilisation:
    """The utilisation of one row's schedule.

    Parameters
    ----------
    series
        Its number.
    size_bytes
        M that it was simulated at.
    topology
        The network, as the schedule's file has it.
    collective
        What the schedule does.
    share
        One a link, from 0 to 1.
    time
        Seconds.
    course
        The share of the links that are busy in each of `DRAWN.moments` equal parts of the time, from 0 to 1.
    """

    series: int
    size_bytes: float
    topology: Topology
    collective: Collective
    share: FloatArray
    time: float
    course: FloatArray


@dataclass(frozen=True)
class Usages:
    """What can be shown of one collective on one topology, and why not of the others."""

    shown: tuple[LinkUtilisation, ...]
    notes: tuple[str, ...]


def usages(results: Results, topology: str, collective: str) -> Usages:
    """Return the utilisation of each series' schedule at the largest size that it has a time for."""
    shown: list[LinkUtilisation] = []
    missing: dict[str, list[str]] = {}
    largest = {
        key: row for rows in results.of(topology, collective).values() for key, row in rows.items() if row.ok
    }
    for key in sorted(largest):
        answer = _usage(results.kept(largest[key]), key, largest[key])
        if isinstance(answer, LinkUtilisation):
            shown.append(answer)
        else:
            missing.setdefault(answer, []).append(results.series[key].label)
    return Usages(tuple(shown), tuple(f"{reason}: {', '.join(names)}." for reason, names in missing.items()))


def _usage(path: Path | None, series: int, row: Row) -> LinkUtilisation | str:
    """Return the usage, or the reason why there is none."""
    if path is None:
        return "No schedule was kept"
    if path.stat().st_size > DRAWN.file:
        return f"Not replayed, the schedule's file being larger than {size(DRAWN.file)}"
    try:
        schedule = _read(path)
        options = SimulationOptions(slices=int(row.slices or 1))
        simulation, holding = watch(schedule, Fraction(row.size_bytes), options)
    except (TuttiError, OSError, ValueError, KeyError) as error:
        return f"The kept schedule can't be replayed ({' '.join(str(error).split())})"
    share = np.clip(np.asarray(simulation.busy, dtype=np.float64) / simulation.time, 0.0, 1.0)
    course = holding.share_busy(np.linspace(0.0, simulation.time, DRAWN.moments + 1))
    return LinkUtilisation(
        series, row.size_bytes, schedule.topology, schedule.collective, share, simulation.time, course
    )


_read = lru_cache(maxsize=4)(read_schedule)


def usage_panels(results: Results, topology: str, used: Mapping[str, Usages]) -> list[Panel]:
    """Return a small picture a collective and method, and why there is none of others."""
    panels = []
    for collective, found in used.items():
        looks, sizes = f"k{results.collectives.index(collective)}", list(results.of(topology, collective))
        for usage in found.shown:
            one = results.series[usage.series]
            told = f"{one.label}, {collective}"
            drawn = (_matrix if has_matrix(usage.topology) else _histogram)(usage, told)
            panels.append(Panel(told, f"{looks} s{one.number}", drawn, caption(usage, sizes), one))
        notes = found.notes if found.shown or found.notes else ("No method has a time.",)
        panels += [Panel(collective, looks, None, " ".join(notes))] if notes else []
    return panels


def has_matrix(topology: Topology) -> bool:
    """Whether a network is small enough for a matrix."""
    return topology.num_nodes <= DRAWN.nodes and topology.num_links <= DRAWN.links


def _matrix(usage: LinkUtilisation, label: str) -> Figure:
    """Return source (down) x destination (across), parallel links as one; pairs without a link stay blank."""
    ends = {"source": usage.topology.source, "destination": usage.topology.target}
    links = pd.DataFrame(ends | {"busy": 100 * usage.share})
    data = links.groupby(list(ends), as_index=False).mean()
    names = dict(enumerate(usage.topology.labels))
    data["from"], data["to"] = (data[end].map(names) for end in ends)
    data["level"] = levels_of(data["busy"].to_numpy() / 100)
    return Figure("matrix", f"link utilisation, source by destination, {label}", data=data)


def levels_of(share: FloatArray) -> Int64Array:
    """Return 0 for idle, else 1..`LEVELS`: the tenth that each share falls into."""
    return np.where(share > 0, np.clip(np.ceil(share * LEVELS - 1e-9), 1, LEVELS), 0).astype(np.int64)


def _histogram(usage: LinkUtilisation, label: str) -> Figure:
    """Return how many links fall into each tenth, idle ones apart."""
    counts = np.bincount(levels_of(usage.share), minlength=LEVELS + 1)
    data = {
        "level": [level_name(level).removeprefix("busy ") for level in range(LEVELS + 1)],
        "links": counts,
        "percent": 100 * counts / max(1, counts.sum()),
    }
    return Figure("histogram", f"histogram of link utilisation, {label}", data=pd.DataFrame(data))


def level_name(level: int) -> str:
    """Return what a shade stands for."""
    return "idle" if level == 0 else f"busy {100 * (level - 1) // LEVELS}–{100 * level // LEVELS}%"


def caption(usage: LinkUtilisation, sizes: Sequence[float]) -> str:
    """Return mean and maximum, and the size where it is not the largest of all."""
    share = 100 * usage.share
    text = f"mean {share.mean():.0f}%, max {share.max():.0f}%"
    if not has_matrix(usage.topology):
        text += "; the network is too large for a matrix: how many links are how busy"
    return text if usage.size_bytes == max(sizes) else f"{text}, at {size(usage.size_bytes)}"


def least_tb(found: Usages) -> Fraction | None:
    """Return the bandwidth bound in units of M/B: no schedule has a smaller T_B.

    Parameters
    ----------
    found
        What was replayed of one collective on one topology; its files have the network and the collective.

    Returns
    -------
    Fraction or None
        None where no schedule was kept, or the network has no B because its links differ.
    """
    if not found.shown:
        return None
    usage = found.shown[0]
    bandwidth = usage.topology.node_bandwidth
    return None if bandwidth is None else best_bound(usage.topology, usage.collective).value * bandwidth


def course_panel(results: Results, topology: str, collective: str, found: Usages) -> Panel | None:
    """Return busy links against time, a line a series (TACOS, Figs. 16b and 18); None without schedules.

    Time is in units of the fastest schedule's, as in the paper.
    """
    largest = max((usage.size_bytes for usage in found.shown), default=None)
    shown = [usage for usage in found.shown if usage.size_bytes == largest and usage.time > 0]
    if largest is None or not shown:
        return None
    fastest = min(usage.time for usage in shown)
    data = pd.concat([_course(results.series[usage.series], usage, fastest) for usage in shown])
    figure = Figure("course", f"links busy over time, {topology}, {collective}", data=data)
    note = f"The fastest takes {seconds(fastest)} at {size(largest)}."
    return panel_of(results, collective, figure, note)


def _course(series: Series, usage: LinkUtilisation, fastest: float) -> pd.DataFrame:
    """Return the share of the links that is busy from each moment on, as far as the chart goes."""
    ends = np.linspace(0.0, usage.time / fastest, len(usage.course) + 1)
    data = pd.DataFrame({"time": ends, "busy": 100 * np.append(usage.course, 0.0)})
    mean = 100 * float(usage.course.mean())
    return data[data.time <= DRAWN.time].assign(**series.columns, mean=mean)


def course_panels(results: Results, topology: str, found: Sequence[tuple[str, Usages]]) -> list[Panel]:
    """Return the panel of each collective that has one."""
    panels = (course_panel(results, topology, collective, usages) for collective, usages in found)
    return [panel for panel in panels if panel is not None]


class Saving(NamedTuple):
    """One measure of a schedule's traffic, in units of M, with its switches' help and without."""

    what: str
    less: float
    whole: float


def traffic_panels(results: Results, topology: str, collectives: Sequence[str]) -> list[Panel]:
    """Return a panel for each collective that a schedule multicasts or aggregates in."""
    panels = []
    for collective in collectives:
        last: dict[int, Row] = {}
        for rows in results.of(topology, collective).values():
            last |= rows
        entries = [(results.series[key], _savings(row)) for key, row in sorted(last.items())]
        entries = [(series, savings) for series, savings in entries if savings]
        if entries:
            told = f"traffic with in-network multicast, {topology}, {collective}"
            panels.append(panel_of(results, collective, Figure("parts", told, data=_left(entries))))
    return panels


def _left(entries: Sequence[tuple[Series, Sequence[Saving]]]) -> pd.DataFrame:
    """Return what is left of each measure of each series, in percent of the traffic without."""
    return pd.DataFrame(
        {
            "what": saving.what if len(entries) == 1 else f"{series.label}: {saving.what}",
            "series": series.number,
            "percent": 100 * saving.less / saving.whole if saving.whole else 100.0,
            "told": f"{number(saving.less, 3)} of {number(saving.whole, 3)} M",
        }
        for series, savings in entries
        for saving in savings
    )


def _savings(row: Row) -> list[Saving]:
    """Return the measures that a row has both ways; the schedule is the same at every size."""
    pairs = (
        ("busiest rank sends", row.rank_egress, row.rank_egress_unicast),
        ("busiest rank receives", row.rank_ingress, row.rank_ingress_unicast),
        ("all links carry", row.link_traffic, row.link_traffic_unicast),
    )
    return [Saving(what, a, b) for what, a, b in pairs if a is not None and b is not None]


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

    A network is small up to `DRAWN.ranks` ranks, and so is a schedule up to `DRAWN.steps` steps.
    """
    allgather = Kind.ALLGATHER.value
    for rows in results.of(topology, allgather).values():
        for key, row in rows.items():
            small = row.nodes is not None and row.nodes <= DRAWN.ranks and not row.switches
            steps = 0 if row.tl_steps is None else int(row.tl_steps)
            path = results.kept(row)
            if row.ok and small and 0 < steps <= DRAWN.steps and path is not None:
                try:
                    schedule = read_schedule(path)
                except (TuttiError, OSError, ValueError, KeyError):
                    continue
                plain = schedule.collective.plain and schedule.topology.num_nodes <= DRAWN.ranks
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
