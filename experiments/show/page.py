"""The page of a network, or of a schedule on one: one file that needs nothing else.

A `Film` is what the page's player shows: a schedule's messages on their links, as the simulator times them.
"""

from __future__ import annotations

import html
import os
import sys
import tempfile
import webbrowser
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tutti.experiments.printable import printable
from tutti.experiments.show.drawing import (
    LEVELS,
    LOOKS,
    MOST_LINKS,
    TEMPLATES,
    amount,
    draw,
    levels,
    rates,
    seconds,
    templates,
)
from tutti.schedules.cost import link_loads
from tutti.schedules.files.schedule_file import read_schedule, write_text
from tutti.schedules.message_durations import messages
from tutti.schedules.programs.formats import FORMATS
from tutti.schedules.programs.interpreter import judge
from tutti.schedules.programs.mscclpp.reader import is_plan
from tutti.schedules.programs.raising import implied_network, to_schedule
from tutti.schedules.schedule import Clock, Schedule
from tutti.schedules.simulation.simulate import SimulationOptions, best_slices, watch
from tutti.schedules.verify import verify
from tutti.topologies.errors import InputError
from tutti.topologies.exact import FloatArray, Int64Array
from tutti.topologies.files import exact_json, read_text
from tutti.topologies.importing import formats
from tutti.topologies.text import parse_topology
from tutti.topologies.topology import DEFAULT_ALPHA, DEFAULT_BANDWIDTH, Topology
from tutti.topologies.units import format_bandwidth, format_size

DEFAULT_SIZE = Fraction(10**6)
"""M in bytes, of schedules that are for any."""


SUFFIXES = (".json", ".json.gz", ".npz", ".csv", ".rounds", ".xml")
"""Endings of the names of files that may hold more than a network."""


def read_source(text: str) -> Topology | Schedule:
    """Return the network, or the schedule, verified, that a text describes or a file holds.

    A program is the schedule that it carries out, on the network that it implies.

    Raises
    ------
    InputError, VerificationError, ProgramError
        If it is none of these, or wrong.
    """
    if not text.endswith(SUFFIXES) or text.partition(":")[0] in formats.FORMATS:
        return parse_topology(text)
    path = Path(text)
    for form in FORMATS.values():
        if form.imported and form.suffix == path.suffix:
            program = form.read(path)
            judge(program)
            return to_schedule(program, implied_network(program, DEFAULT_BANDWIDTH, DEFAULT_ALPHA))
    if path.suffix == ".json":
        if is_plan((content := read_text(path)).encode()):
            raise InputError(f"{path}: a plan of MSCCL++ makes no schedule; show the one it was made from")
        document = exact_json(content, text, "schedule or network")
        if isinstance(document, dict) and "nodes" in document:
            return parse_topology(text)
    schedule = read_schedule(path)
    verify(schedule)
    return schedule


@dataclass(frozen=True, repr=False)
class Page:
    """A page to look at; a notebook shows it below its cell.

    Parameters
    ----------
    title
        The title of the page.
    html
        All of it.
    """

    title: str
    html: str

    def save(self, path: Path | str) -> None:
        """Write the page to a file, which is there whole or not at all.

        Raises
        ------
        InputError
            If it can't be written.
        """
        write_text(Path(path), self.html)

    def show(self, path: Path | str | None = None) -> Page:
        """Show the page: in a notebook below the cell that returns it, else in the browser, and return it.

        Parameters
        ----------
        path
            Where to write it; None: to a new file among the system's temporary ones, where there is a
            browser that can open it.

        Raises
        ------
        InputError
            If it can't be written.
        """
        visible = has_display() and not in_notebook()
        if path is None and visible:
            path = Path(tempfile.mkdtemp(prefix="tutti-")) / "show.html"
        if path is not None:
            self.save(path)
            if visible:
                open_page(Path(path))
        return self

    def _repr_html_(self) -> str:
        """Return the page in a frame of its own, for a notebook."""
        return (
            f'<iframe title="{html.escape(self.title)}" srcdoc="{html.escape(self.html)}" '
            f'sandbox="allow-scripts" style="width:100%;height:860px;border:0"></iframe>'
        )

    def __repr__(self) -> str:
        return f"<Page {printable(self.title)}>"


def has_display() -> bool:
    """Return whether a browser would have a screen; ``BROWSER`` names one that needs none."""
    names = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")
    return sys.platform in ("darwin", "win32") or any(os.environ.get(name) for name in names)


def open_page(path: Path) -> None:
    """Open a file in the browser, if there is one and a display."""
    with suppress(webbrowser.Error, OSError):
        if has_display():
            webbrowser.open(path.resolve().as_uri())


def in_notebook() -> bool:
    """Return whether a notebook shows what a cell returns."""
    shell = sys.modules.get("IPython")
    return shell is not None and hasattr(shell.get_ipython(), "kernel")


def page_of(what: Topology | Schedule, size: Fraction | None = None) -> Page:
    """Return the page of a network, with its links as a table, or of a verified schedule at a size."""
    if isinstance(what, Schedule):
        return schedule_page(what, size)
    count = what.num_switches
    switches = f", {count} switch{'es' * (count > 1)}" if count else ""
    lead = f"{what.num_ranks} ranks{switches}, {what.num_links} links"
    return _page(what.name, what, lead, list(what.notes), None, None)


def schedule_page(schedule: Schedule, size: Fraction | None = None) -> Page:
    """Return the page of a verified schedule: the player, and what each link carries.

    Parameters
    ----------
    schedule
        Verified.
    size
        M in bytes; None: what the schedule was made for, or 1 MB.

    Raises
    ------
    InputError
        As `schedules.simulation.simulate.simulate`.
    """
    size = size or schedule.size or DEFAULT_SIZE
    topology, shown = schedule.topology, film(schedule, size)
    moves = "one transfer" if len(schedule) == 1 else f"{len(schedule)} transfers"
    lead = f"M = {format_size(size)}, {moves}, {schedule.clock} clock"
    lead += "" if shown is None else f", {seconds(shown.time)} simulated"
    loads = np.multiply(link_loads(schedule), float(size / schedule.chunks.denominator), dtype=np.float64)
    notes = [*topology.notes, *_said(schedule, shown)]
    return _page(f"{schedule.collective} on {topology.name}", topology, lead, notes, loads, shown)


def _said(schedule: Schedule, shown: Film | None) -> list[str]:
    """Return what is left out of the player, or played otherwise than it would run."""
    if not len(schedule):
        return ["Nothing has to move."]
    if shown is None:
        return [TOO_MUCH]
    slices, best = shown.slices
    if slices == best:
        return [f"The flow is played in {slices} slices, in which it is fastest."] * (slices > 1)
    return [f"The flow is played in {slices} slices, so as not to show too much; it is fastest in {best}."]


def _page(
    title: str, topology: Topology, lead: str, notes: list[str], loads: FloatArray | None, film: Film | None
) -> Page:
    if not (drawn := topology.num_links <= MOST_LINKS):
        text = f"Networks of up to {MOST_LINKS} links are drawn; here are {topology.num_links}."
        film, notes = None, [*notes, text]
    page = templates(TEMPLATES).get_template("page.html")
    text = page.render(
        title=title,
        lead=lead,
        notes=notes,
        network=draw(topology) if drawn and (film is not None or loads is None) else None,
        loaded=draw(topology, loads) if drawn and loads is not None else None,
        levels=LEVELS,
        busiest=None if loads is None else seconds(float((loads / rates(topology)).max(initial=0))),
        rows=_rows(topology, loads) if drawn else [],
        data=None if film is None else film.document(topology),
        scripts=["network.js"] * drawn + ["show.js"] * (film is not None),
    )
    return Page(title, text)


def _rows(topology: Topology, loads: FloatArray | None) -> list[list[str]]:
    """Return the table of links, the busiest first."""
    rows = []
    for link in np.argsort(-levels(topology, loads), kind="stable").tolist():
        costs = (format_bandwidth(topology.bandwidth[link]), seconds(float(topology.alpha[link])))
        rows.append([topology.link_name(link), *costs, *([] if loads is None else [amount(loads[link])])])
    return rows


MOST_BARS = 4096
"""Messages, each once for every link of its route, that are played: some 2,000 through a switch each."""
TOO_MUCH = f"The player shows up to {MOST_BARS} messages, counted on each link; this schedule has more."


@dataclass(frozen=True, eq=False)
class Film:
    """The times at which each message holds a link, in order. Arrays are of one length, a bar each.

    Parameters
    ----------
    time
        Seconds until the last message is complete.
    slices
        In which a flow is played, and in which it is fastest; 1 of the other clocks.
    message, link
        int64: numbers, of `simulate` and of the topology.
    begin, end
        Seconds.
    bytes
        The bytes of the message.
    step
        int64: the comm step, 0 in the other clocks.
    owners
        The ranks whose data the message carries, increasing.
    """

    time: float
    slices: tuple[int, int]
    message: Int64Array
    link: Int64Array
    begin: FloatArray
    end: FloatArray
    bytes: FloatArray
    step: Int64Array
    owners: Sequence[tuple[int, ...]]

    @cached_property
    def colours(self) -> dict[int, list[int]]:
        """Red, green and blue of each owner."""
        ranks = sorted({rank for owners in self.owners for rank in owners})
        few, scale = LOOKS["ranks"]["few"], LOOKS["ranks"]["scale"]
        if len(ranks) <= len(few):
            return dict(zip(ranks, few, strict=False))
        places = np.linspace(0, len(scale) - 1, len(ranks))
        parts = [np.interp(places, np.arange(len(scale)), part) for part in zip(*scale, strict=True)]
        return dict(zip(ranks, np.rint(parts).astype(int).T.tolist(), strict=True))

    def document(self, topology: Topology) -> dict[str, Any]:
        """Return the page's data: ``bars`` are message, link, begin, end, bytes, step and owners each.

        ``colours`` are an owner and its colour each, ``links`` and ``ranks`` the names of the network's.
        """
        columns = (self.message, self.link, self.begin, self.end, self.bytes, self.step)
        return {
            "time": self.time,
            "bars": list(zip(*(column.tolist() for column in columns), self.owners, strict=True)),
            "colours": list(self.colours.items()),
            "links": [topology.link_name(link) for link in range(topology.num_links)],
            "ranks": topology.labels[: topology.num_ranks],
        }


def film(schedule: Schedule, size: Fraction) -> Film | None:
    """Return what a player shows of a schedule at a size, None if it is too much.

    A flow is played in its best number of slices, or in fewer where these would be too many messages.

    Parameters
    ----------
    schedule
        Verified.
    size
        M in bytes.

    Raises
    ------
    InputError
        As `schedules.simulation.simulate.simulate`.
    """
    grouped = messages(schedule)
    if not 0 < int(np.diff(schedule.route_table.offsets)[grouped.route].sum()) <= MOST_BARS:
        return None
    best = best_slices(schedule, size)[0] if schedule.clock is Clock.FLOW else 1
    slices = best_slices(schedule, size, MOST_BARS)[0] if best > 1 else 1
    simulation, held = watch(schedule, size, SimulationOptions(slices))
    order = np.lexsort((held.message, held.begin))
    group = held.message[order] // slices
    owner = schedule.collective.items.owner[schedule.chunks.item[schedule.chunk]]  # whose data it is
    owners = [tuple(sorted(own.tolist())) for own in pd.Series(owner).groupby(grouped.of_row).unique()]
    return Film(
        simulation.time,
        (slices, best),
        held.message[order],
        held.link[order].astype(np.int64),
        held.begin[order],
        held.end[order],
        held.bytes[order],
        grouped.order[group] * (schedule.clock is Clock.STEP),
        [owners[message] for message in group.tolist()],
    )
