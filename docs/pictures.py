"""Pictures of methods: a small network with the path of one rank's data, and with the load of all links."""

from fractions import Fraction

import numpy as np
from markupsafe import Markup

from tutti.experiments.show.drawing import LEVELS, draw, picture, rates, seconds
from tutti.experiments.show.page import Film, film
from tutti.schedules.collective import Kind
from tutti.schedules.cost import link_loads
from tutti.schedules.schedule import Schedule
from tutti.topologies.exact import Int64Array
from tutti.topologies.units import format_size

SPREADS = {Kind.ALLGATHER, Kind.BROADCAST, Kind.ALL_TO_ALL, Kind.GATHER, Kind.SCATTER}
"""Collectives that move the data of ranks. The others move parts of sums."""
WIDE = 1.7
"""Ratio of width to height above which pictures stand one below the other."""


def method_picture(schedule: Schedule, size: Fraction) -> str:
    """Return the picture of a schedule: one line of HTML, whose style is ``site.css`` and ``network.css``."""
    topology, shown = schedule.topology, film(schedule, size)
    panels = []
    if shown is not None:
        owner = min(shown.owners)[0]
        label = topology.labels[owner]
        spreads = schedule.collective.kind in SPREADS
        data = f"the data of rank {label}" if spreads else f"part {label} of the buffer"
        what = f"When each link first carries {data}."
        shades = _first_use(shown, owner, topology.num_links)
        said = f"{topology.name}. {what} {int((shades > 0).sum())} links do."
        panels.append((draw(topology, shades=shades, said=said), what, ("early", "late", "never")))
    loads = np.multiply(link_loads(schedule), float(size / schedule.chunks.denominator), dtype=np.float64)
    busiest = float((loads / rates(topology)).max())
    what = f"How long each link sends at {format_size(size)}, without α: the busiest for {seconds(busiest)}."
    panels.append((draw(topology, loads), what, ("short", "long", "idle")))
    width, height = picture(topology).size
    wide = " wide" if width > WIDE * height else ""
    return f'<div class="pictures{wide}">{"".join(_figure(*panel) for panel in panels)}</div>'


def _figure(svg: Markup, text: str, ends: tuple[str, str, str]) -> Markup:
    """Return a picture with its caption and the key of its shades: the first, the last, and that of 0."""
    scale = Markup("").join(Markup('<i class="q{}"></i>').format(shade) for shade in range(1, LEVELS + 1))
    least, most, none = ends
    key = Markup('<span class="key">{} {} {}, <i class="q0"></i> {}</span>').format(least, scale, most, none)
    return Markup("<figure>{}<figcaption>{} {}</figcaption></figure>").format(svg, text, key)


def _first_use(shown: Film, owner: int, links: int) -> Int64Array:
    """Return the shade of each link by when it begins to carry data of that owner; 0 where it never does."""
    begin = np.full(links, np.inf)
    bars = [bar for bar, owners in enumerate(shown.owners) if owner in owners]
    np.minimum.at(begin, shown.link[bars], shown.begin[bars])
    used = np.isfinite(begin)
    shades = np.zeros(links, np.int64)
    latest = max(begin[used].max(), 1e-300)
    shades[used] = 1 + np.minimum(LEVELS - 1, (LEVELS * begin[used] / latest).astype(np.int64))
    return shades
