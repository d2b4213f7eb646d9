"""Kept schedules replayed: which links are busy when, what multicast saves, how a shard spreads.

The utilisation of a link is the share of a schedule's time in which it is busy, replayed from the schedule's
file; its course is the share of the links that is busy, from start to end. What switches that multicast or
aggregate take off ranks and links is drawn in percent of what is without.
"""

from __future__ import annotations

import math
from contextlib import suppress
from fractions import Fraction
from functools import lru_cache, partial
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import pandas as pd
from markupsafe import Markup

from tutti.experiments.report.charts import Figure
from tutti.experiments.report.results import LOOKS, Results, Row, Series
from tutti.experiments.report.tables import TEXTS, Panel, number, panel_of, seconds, size
from tutti.experiments.show.drawing import MOST_LINKS, Mark, link_names, marked
from tutti.models.bounds import best_bound
from tutti.schedules.collective import Collective, Kind
from tutti.schedules.files.schedule_file import read_schedule
from tutti.schedules.schedule import Clock, Schedule
from tutti.schedules.simulation.simulate import SimulationOptions, watch
from tutti.topologies.errors import TuttiError
from tutti.topologies.exact import FloatArray, Int64Array
from tutti.topologies.topology import Topology

LEVELS = len(LOOKS["levels"]) - 1
"""Shades between 0 and 100 %."""


DRAWN = SimpleNamespace(**LOOKS["limits"]["utilisation"])
"""Limits on what is drawn of a schedule's utilisation."""


class LinkUtilisation(NamedTuple):
    """The utilisation of one row's schedule.

    Parameters
    ----------
    series
        Its method.
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

    series: Series
    size_bytes: float
    topology: Topology
    collective: Collective
    share: FloatArray
    time: float
    course: FloatArray


class Usages(NamedTuple):
    """The utilisations that can be shown of one collective on one topology, and why others can't."""

    shown: tuple[LinkUtilisation, ...]
    notes: tuple[str, ...]


def usages(results: Results, topology: str, collective: str) -> Usages:
    """Return the utilisation of each series' schedule at the largest size that it has a time for."""
    shown: list[LinkUtilisation] = []
    missing: dict[str, list[str]] = {}
    largest = results.timed(topology, collective).drop_duplicates("number", keep="last")
    for row in largest.sort_values("number").itertuples():
        answer = _usage(results.kept(row), results.series[row.number], row)
        if isinstance(answer, LinkUtilisation):
            shown.append(answer)
        else:
            missing.setdefault(answer, []).append(results.series[row.number].label)
    return Usages(tuple(shown), tuple(f"{reason}: {', '.join(names)}." for reason, names in missing.items()))


def _usage(path: Path | None, series: Series, row: Row) -> LinkUtilisation | str:
    """Return the usage, or the reason why there is none."""
    if path is None:
        return "No schedule was kept"
    if path.stat().st_size > DRAWN.file:
        return f"Not replayed, the schedule's file being larger than {size(DRAWN.file)}"
    try:
        schedule = _read(path)
        options = SimulationOptions(slices=1 if math.isnan(row.slices) else int(row.slices))
        simulation, holding = watch(schedule, Fraction(row.size_bytes), options)
    except (TuttiError, OSError, ValueError, KeyError) as error:
        return f"The kept schedule can't be replayed ({' '.join(str(error).split())})"
    time = simulation.time
    share = np.clip(np.asarray(simulation.busy, dtype=np.float64) / time, 0.0, 1.0)
    course = holding.share_busy(np.linspace(0.0, time, DRAWN.moments + 1))
    network, what = schedule.topology, schedule.collective
    return LinkUtilisation(series, row.size_bytes, network, what, share, time, course)


_read = lru_cache(maxsize=4)(read_schedule)


def usage_panels(results: Results, topology: str, collective: str, found: Usages) -> list[Panel]:
    """Return a small picture a method, and why there is none of others."""
    looks, largest = f"k{results.collectives.index(collective)}", max(results.panel(topology, collective))
    panels = []
    for usage in found.shown:
        one, told = usage.series, f"{usage.series.label}, {collective}"
        drawn = (_matrix if has_matrix(usage.topology) else _histogram)(usage, told)
        panels.append(Panel(told, f"{looks} s{one.number}", drawn, caption(usage, largest), one))
    notes = found.notes if found.shown or found.notes else ("No method has a time.",)
    return panels + [Panel(collective, looks, None, " ".join(notes))] * bool(notes)


def has_matrix(topology: Topology) -> bool:
    """Whether a network is small enough for a matrix."""
    return topology.num_nodes <= DRAWN.nodes and topology.num_links <= MOST_LINKS


def _matrix(usage: LinkUtilisation, label: str) -> Figure:
    """Return source (down) x destination (across), parallel links as one; pairs without a link stay blank."""
    ends = {"source": usage.topology.source, "destination": usage.topology.target}
    links = pd.DataFrame(ends | {"busy": 100 * usage.share})
    data = links.groupby(list(ends), as_index=False).mean()
    data["from"], data["to"] = (data[end].map(usage.topology.labels.__getitem__) for end in ends)
    data["level"] = levels_of(data["busy"].to_numpy() / 100)
    return Figure("matrix", f"link utilisation, source by destination, {label}", data=data)


def levels_of(share: FloatArray) -> Int64Array:
    """Return 0 for idle, else 1..`LEVELS`: the tenth that each share falls into."""
    return np.where(share > 0, np.clip(np.ceil(share * LEVELS - 1e-9), 1, LEVELS), 0).astype(np.int64)


def _histogram(usage: LinkUtilisation, label: str) -> Figure:
    """Return how many links fall into each tenth, idle ones apart."""
    counts = np.bincount(levels_of(usage.share), minlength=LEVELS + 1)
    names = [level_name(level).removeprefix("busy ") for level in range(LEVELS + 1)]
    data = {"level": names, "links": counts, "percent": 100 * counts / max(1, counts.sum())}
    return Figure("histogram", f"histogram of link utilisation, {label}", data=pd.DataFrame(data))


def level_name(level: int) -> str:
    """Return what a shade stands for."""
    return "idle" if level == 0 else f"busy {100 * (level - 1) // LEVELS}–{100 * level // LEVELS}%"


def caption(usage: LinkUtilisation, largest: float) -> str:
    """Return mean and maximum, and the size where it is not the largest of all."""
    share = 100 * usage.share
    text = f"mean {share.mean():.0f}%, max {share.max():.0f}%"
    if not has_matrix(usage.topology):
        text += "; the network is too large for a matrix: how many links are how busy"
    return text if usage.size_bytes == largest else f"{text}, at {size(usage.size_bytes)}"


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
    largest = max((usage.size_bytes for usage in found.shown), default=0.0)
    shown = [usage for usage in found.shown if usage.size_bytes == largest and usage.time > 0]
    if not shown:
        return None
    fastest = min(usage.time for usage in shown)
    curves = []
    for usage in shown:
        ends = np.linspace(0.0, usage.time / fastest, len(usage.course) + 1)
        curve = pd.DataFrame({"time": ends, "busy": 100 * np.append(usage.course, 0.0)})
        own = {**usage.series.columns, "mean": 100 * float(usage.course.mean())}
        curves.append(curve[curve.time <= DRAWN.time].assign(**own))
    data = pd.concat(curves)  # from each moment on, as far as the chart goes
    figure = Figure("course", f"links busy over time, {topology}, {collective}", data=data)
    return panel_of(results, collective, figure, f"The fastest takes {seconds(fastest)} at {size(largest)}.")


def traffic_panel(results: Results, topology: str, collective: str) -> Panel | None:
    """Return what is left of each measure with multicast and aggregation; None without such schedules."""
    frame = results.frame[(results.frame.topology == topology) & (results.frame.collective == collective)]
    last = frame.sort_values("size_bytes", kind="stable").drop_duplicates("number", keep="last")
    last = last.sort_values("number")  # a schedule is the same at every size
    saved = TEXTS["traffic"]["saved"]
    columns = {what: last[["number", own, f"{own}_unicast"]] for what, own in saved.items()}
    parts = {what: own.set_axis(["series", "less", "whole"], axis=1) for what, own in columns.items()}
    data = pd.concat(parts, names=["what"]).reset_index("what")
    data = data.sort_values("series", kind="stable").dropna()
    if data.empty:
        return None
    if data.series.nunique() > 1:
        data["what"] = data.series.map(lambda number: results.series[number].label) + ": " + data.what
    data["percent"] = (100 * data.less / data.whole).where(data.whole > 0, 100.0)
    data["told"] = data.less.map(_three_digits) + " of " + data.whole.map(_three_digits) + " M"
    told = f"traffic with in-network multicast, {topology}, {collective}"
    return panel_of(results, collective, Figure("parts", told, data=data.drop(columns=["less", "whole"])))


_three_digits = partial(number, digits=3)


class BroadcastStep(NamedTuple):
    """The parts of one rank's shard that are sent in one comm step.

    Parameters
    ----------
    sent
        Link to the part of the shard that it carries.
    before, after
        The part of the shard that each rank holds before and after the step.
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
    timed = results.timed(topology, Kind.ALLGATHER)
    stepped = timed.tl_steps.between(1, DRAWN.steps) & (timed.switches.fillna(0) == 0)
    for row in timed[stepped & (timed.nodes <= DRAWN.ranks)].itertuples():
        path = results.kept(row)
        with suppress(TuttiError, OSError, ValueError, KeyError):
            if path is None:
                continue
            schedule, panels = read_schedule(path), list[Panel]()
            plain = schedule.clock is Clock.STEP and schedule.routes is None
            if plain and schedule.collective.plain and schedule.topology.num_nodes <= DRAWN.ranks:
                steps = broadcast_steps(schedule)
                for place, step in enumerate(steps, 1):
                    told = f"{results.series[row.number].label}, step {place} of {len(steps)}"
                    picture = _picture(schedule.topology, step, told)
                    panels.append(panel_of(results, row.collective, picture, _sentence(step), told))
                return panels
    return []


def _sentence(step: BroadcastStep) -> str:
    amounts = sorted(set(step.sent.values()))
    if not amounts:
        return "Nothing of this rank's shard is sent."
    whole = sum(part == 1 for part in step.after)
    parts = ", ".join("all" if part == 1 else str(part) for part in amounts)
    ranks = f"{whole} of {len(step.after)} ranks then have it all"
    return f"{len(step.sent)} links carry {parts} of the shard; {ranks}."


def _picture(topology: Topology, step: BroadcastStep, caption: str) -> Markup:
    """Return the network: links that carry something, ranks that have all and, in another colour, get it."""
    sent = {link: f": {part} of the shard" for link, part in step.sent.items()}
    names = enumerate(link_names(topology))
    links = [Mark(name + sent.get(link, ""), "felt" if link in sent else "") for link, name in names]
    nodes = []
    for rank, (had, has) in enumerate(zip(step.before, step.after, strict=True)):
        held = f"rank {rank} holds {had if had == has else f'{had}, then {has}'} of the shard"
        nodes.append(Mark(held, "c0" if had == 1 else "c2" if has == 1 else "", str(rank)))
    return marked(topology, links, nodes, f"broadcast of rank 0, {caption}")
