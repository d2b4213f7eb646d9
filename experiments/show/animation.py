"""The player as an animated GIF, for talks: frames at equal times, drawn as the page draws."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup

from experiments.show.drawing import MOST_LINKS, Picture, curve, head, layers, picture, seconds
from experiments.show.page import default_size, source
from experiments.show.player import TOO_MUCH, Film, film
from experiments.show.svg import group, tag
from schedules.schedule import Schedule
from topologies.errors import InputError, installing
from topologies.exact import FloatArray
from topologies.files import written
from topologies.topology import Topology
from topologies.units import format_size

FEWEST, MOST = 48, 120
"""Frames; between these four for each moment at which a message starts or ends."""
FRAME, HOLD = 80, 1500
"""Milliseconds that a frame lasts, and the last one."""
LEAST, WIDE, LARGEST = 300.0, 900.0, 1.5
"""Pixels: the width that the line of text needs; of the widest GIF; and over those of a page at most."""
FOOT = 34.0
"""Pixels below the network, for the time."""
COLOURS = 128
SEVERAL = "rgb(128,128,128)"
"""Of a message with the data of several ranks, as on the page."""
MISSING = f"a GIF needs pillow and vl-convert-python: {installing('figures')}"


@dataclass(frozen=True)
class Animation:
    """Frames of a schedule on its network.

    Parameters
    ----------
    topology, film
        The network, and the messages on it.
    title
        What stands below, beside the time.
    """

    topology: Topology
    film: Film
    title: str

    @cached_property
    def drawn(self) -> Picture:
        """Where nodes and links are."""
        return picture(self.topology)

    @property
    def size(self) -> tuple[float, float]:
        """Width and height."""
        width, height = self.drawn.size
        return max(width, LEAST), height + FOOT

    @property
    def times(self) -> FloatArray:
        """Seconds at which there are frames, from the start to the end."""
        moments = len(np.unique([self.film.begin, self.film.end]))
        return np.linspace(0.0, self.film.time, int(np.clip(4 * moments, FEWEST, MOST)) + 1)

    def frame(self, time: float) -> str:
        """Return what is seen at a time in seconds, as SVG: the messages that hold links, where they are."""
        hosts, links, nodes = self._still
        moving = self.film.moving(time).tolist()
        busy = [self._link(bar) for bar in moving] + [self._parcel(bar, time) for bar in moving]
        width, height = self.size
        middle = (width - self.drawn.size[0]) / 2
        now, end = (seconds(float(f"{moment:.3g}")) for moment in (time, self.film.time))
        parts = (
            tag("style", Markup(_style())),
            tag("rect", width=width, height=height, fill="#fff"),
            group((hosts, links, group(busy), nodes), class_="net", transform=f"translate({middle:.1f} 0)"),
            tag("text", f"{self.title}: {now} of {end}", x=8.0, y=height - 14),
            tag("rect", y=height - 6, width=width, height=6.0, fill="#dfe4e8"),
            tag("rect", y=height - 6, width=width * time / self.film.time, height=6.0, fill="#56606a"),
        )
        box = f"0 0 {width:.0f} {height:.0f}"
        return str(tag("svg", *parts, xmlns="http://www.w3.org/2000/svg", viewBox=box))

    def place(self, bar: int, time: float) -> tuple[float, float]:
        """Return where a message is on its link: as far as the time is between its begin and its end."""
        begin, end = self.film.begin[bar], self.film.end[bar]
        s = (time - begin) / (end - begin)
        start, control, stop = self.drawn.ways[self.film.link[bar]]
        x, y = (1 - s) ** 2 * start + 2 * s * (1 - s) * control + s**2 * stop
        return float(x), float(y)

    def write(self, path: Path) -> None:
        """Write the GIF.

        Raises
        ------
        InputError
            If it can't be written, or what is needed for it is not installed.
        """
        first, *others = _pixels(self)
        durations = [FRAME] * len(others) + [HOLD]
        file = io.BytesIO()
        first.save(file, "GIF", save_all=True, append_images=others, duration=durations, loop=0)
        written(path, file.getvalue(), "GIF")

    @cached_property
    def _still(self) -> tuple[Markup, ...]:
        """The network, each rank framed in the colour of its data."""
        hosts, links, nodes = layers(self.topology, self.drawn)
        places = ((rank, *self.drawn.at[rank].tolist()) for rank in self.film.colours)
        rims = [
            tag("circle", cx=x, cy=y, r=self.drawn.radius, stroke=self._colour(rank)) for rank, x, y in places
        ]
        return hosts, links, group([nodes, group(rims, fill="none", stroke_width=3)])

    def _colour(self, *owners: int) -> str:
        return f"rgb{self.film.colours[owners[0]]}" if len(owners) == 1 else SEVERAL

    def _link(self, bar: int) -> Markup:
        way = self.drawn.ways[self.film.link[bar]]
        colour = self._colour(*self.film.owners[bar])
        path = curve(way) + head(way, self.drawn.radius)
        return tag("path", class_="link", d=path, style=f"stroke:{colour};stroke-width:3.5")

    def _parcel(self, bar: int, time: float) -> Markup:
        x, y = self.place(bar, time)
        radius = max(3.0, 0.45 * self.drawn.radius)
        return tag("circle", cx=x, cy=y, r=radius, fill=self._colour(*self.film.owners[bar]), stroke="#fff")


@cache
def _style() -> str:
    """Return the style of networks, light, with values for its variables."""
    styles = (source(f"{name}.css") for name in ("network", "show"))
    rules, page = (re.sub(r"@media.*?\n}", "", style, flags=re.DOTALL) for style in styles)
    values = dict(re.findall(r"--(\w+): ([^;]+);", rules + page))
    plain = re.sub(r"var\(--(\w+)\)", lambda found: values.get(found[1], "none"), rules)
    return plain.replace("system-ui, ", "") + f"text {{ font: 13px sans-serif; fill: {values['ink']}; }}"


def animation(schedule: Schedule, size: Fraction | None = None) -> Animation:
    """Return the frames of a verified schedule.

    Parameters
    ----------
    schedule
        Verified.
    size
        M in bytes; None: what the schedule was made for, or 1 MB.

    Raises
    ------
    InputError
        If nothing moves, or too much to be shown, or the network is too large to be drawn.
    """
    size, topology = default_size(schedule, size), schedule.topology
    if not len(schedule):
        raise InputError("nothing has to move: there is nothing to play")
    shown = film(schedule, size)
    if shown is None:
        raise InputError(TOO_MUCH)
    if topology.num_links > MOST_LINKS:
        raise InputError(f"networks of up to {MOST_LINKS} links are drawn; here are {topology.num_links}")
    return Animation(topology, shown, f"{schedule.collective}, {format_size(size)}")


def _pixels(shown: Animation) -> Iterator[Any]:
    """Yield the frames as pictures in the few colours of one, in which every rank's is."""
    try:
        import vl_convert
        from PIL import Image
    except ModuleNotFoundError as error:
        raise InputError(MISSING) from error
    scale = min(LARGEST, WIDE / shown.size[0])

    def pixels(time: float) -> Any:
        made = io.BytesIO(vl_convert.svg_to_png(shown.frame(time), scale=scale))
        return Image.open(made).convert("RGB")

    palette = pixels(shown.film.time / 2).quantize(COLOURS)
    for time in shown.times.tolist():
        yield pixels(time).quantize(palette=palette, dither=Image.Dither.NONE)
