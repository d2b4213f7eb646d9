"""A network as one SVG picture: where its nodes stand, by what it is, and links coloured by what they carry.

Hosts are frames. The frames stand as ranks would if each host were one, and in each frame the host's nodes
stand as a network of their own. Ranks that are joined to each other stand as a grid if they are one; a
dimension in which all are joined to all is a circle, and so is a single ring. Other ranks stand on a circle
if rotating their numbers changes no link, else where Kamada and Kawai's springs draw them. Ranks that only
switches join stand in rows. Switches stand above what they join, by tier; those that lead nowhere outside
their host stand below its ranks. The unit is the distance of two neighbours in a row; y points down.

A link bends to its right, so that the two directions of a pair lie side by side; it bends further where it
would run through another node, as the links around a torus do.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from itertools import repeat
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from scipy.spatial import cKDTree
from scipy.spatial.distance import pdist

from tutti.topologies.errors import InputError
from tutti.topologies.exact import NONE, BoolArray, FloatArray, Int64Array
from tutti.topologies.graphs.grid_structure import Hosts, LineKind, grid_of, hosts_of
from tutti.topologies.topology import Link, Topology
from tutti.topologies.units import MICRO, duration, format_bandwidth

TEMPLATES = Path(__file__).parent / "templates"
LOOKS: Mapping[str, Any] = tomllib.loads((TEMPLATES / "looks.toml").read_text(encoding="utf-8"))
"""Measures of pictures, and colours of ranks."""
SPACING = SimpleNamespace(**LOOKS["spacing"])
"""Distances in a picture, in units of the distance of two neighbours in a row."""


class Frame(NamedTuple):
    """A host: the corner with the least x and y of the rectangle around it, the opposite one, its number."""

    low: FloatArray
    high: FloatArray
    host: int


class NodeLayout(NamedTuple):
    """Places of nodes.

    Parameters
    ----------
    at
        Shape (nodes, 2): x and y, different for all nodes.
    frames
        The frames of the hosts, disjoint; none if the network has no hosts, or one.
    """

    at: FloatArray
    frames: tuple[Frame, ...] = ()


def layout(topology: Topology) -> NodeLayout:
    """Return where each node of a network stands; the same for the same network.

    Examples
    --------
    >>> from tutti.topologies.text import parse_topology
    >>> layout(parse_topology("mesh:2x3")).at.tolist()
    [[0.0, 0.0], [1.0, 0.0], [2.0, 0.0], [0.0, 1.0], [1.0, 1.0], [2.0, 1.0]]
    """
    if (hosts := _hosts(topology)) is not None:
        return _in_frames(topology, hosts)
    every = np.arange(topology.num_nodes)
    return NodeLayout(_block(topology, every, np.zeros(topology.num_nodes, np.bool_), SPACING.columns))


def _hosts(topology: Topology) -> Int64Array | None:
    """Return the host of each node, -1 for none; None unless there are several and one has two ranks."""
    hosts = hosts_of(topology, infer=True)
    found = hosts.of if isinstance(hosts, Hosts) else topology.hosts
    if found is None:
        return None
    ranks = found[: topology.num_ranks]
    if (ranks == NONE).any() or not 1 < len(np.unique(ranks)) < topology.num_ranks:
        return None
    return np.where(np.isin(found, ranks), found, NONE).astype(np.int64)


def _in_frames(topology: Topology, hosts: Int64Array) -> NodeLayout:
    """Place each host's nodes, then the hosts as if each were a rank, then the switches outside."""
    names = np.unique(hosts[: topology.num_ranks])
    away = hosts[topology.source] != hosts[topology.target]
    leading = np.zeros(topology.num_nodes, np.bool_)
    leading[topology.source[away]] = leading[topology.target[away]] = True
    members = [np.flatnonzero(hosts == name) for name in names]
    blocks = [_block(topology, nodes, ~leading[nodes], SPACING.columns // len(names)) for nodes in members]
    blocks = [block - (block.min(axis=0) + block.max(axis=0)) / 2 for block in blocks]
    half = np.max([np.abs(block).max(axis=0) for block in blocks], axis=0) + SPACING.margin
    middles = _places(topology, np.where(hosts == NONE, NONE, np.searchsorted(names, hosts)), len(names))
    middles *= (2 * half + SPACING.gap) / pdist(middles, "chebyshev").min()
    at = np.zeros((topology.num_nodes, 2))
    for nodes, block, middle in zip(members, blocks, middles, strict=True):
        at[nodes] = block + middle
    _add_tiers(topology, at, hosts != NONE, np.arange(topology.num_nodes), -SPACING.margin)
    hosts_at = zip(names.tolist(), middles, strict=True)
    return NodeLayout(at, tuple(Frame(middle - half, middle + half, name) for name, middle in hosts_at))


def _block(topology: Topology, nodes: Int64Array, below: BoolArray, columns: int) -> FloatArray:
    """Return the places of some nodes, of which switches that are `below` stand below the ranks."""
    ranks = nodes[nodes < topology.num_ranks]
    local, at = np.full(topology.num_nodes, NONE), np.zeros((topology.num_nodes, 2))
    local[ranks] = np.arange(len(ranks))
    at[ranks] = _places(topology, local, columns)
    placed = np.zeros(topology.num_nodes, np.bool_)
    placed[ranks] = True
    _add_tiers(topology, at, placed, nodes[~below])
    at[:, 1] *= -1  # upside down, so that the next tiers stand below
    _add_tiers(topology, at, placed, nodes)
    at[:, 1] *= -1
    return at[nodes]


def _add_tiers(
    topology: Topology, at: FloatArray, placed: BoolArray, wanted: Int64Array, top: float = 0.0
) -> None:
    """Place the wanted switches above what is placed, tier by tier.

    A switch belongs to the tier after the first one to which it is joined. In a tier, switches are in the
    order of the mean x of the nodes that they join. The first tier stands above `top`, relative to the
    highest node.
    """
    mine = placed.copy()
    mine[wanted] = True
    ends = np.stack([topology.source, topology.target])
    ends = ends[:, mine[ends].all(axis=0)]
    while len(left := wanted[~placed[wanted]]):
        up = placed[ends[0]] & ~placed[ends[1]]
        weight = np.bincount(ends[1, up], minlength=topology.num_nodes)
        total = np.bincount(ends[1, up], at[ends[0, up], 0], minlength=topology.num_nodes)
        tier = left[weight[left] > 0] if weight[left].any() else left
        tier = tier[np.argsort(total[tier] / np.maximum(weight[tier], 1), kind="stable")]
        low, high = at[placed].min(axis=0), at[placed].max(axis=0)
        width = max(high[0] - low[0], len(tier) - 1.0)
        share = (np.arange(len(tier)) + 0.5) / len(tier) - 0.5
        rise = max(SPACING.rise, SPACING.slope * width)
        at[tier, 0], at[tier, 1] = (low[0] + high[0]) / 2 + share * width, low[1] + top - rise
        placed[tier] = True
        top = 0.0


def _places(topology: Topology, of: Int64Array, columns: int) -> FloatArray:
    """Return the places of ranks, or of hosts, by the links between them alone.

    Parameters
    ----------
    of
        Shape (nodes,): the number of each node's rank or host; NONE for other nodes.
    columns
        Places in a row if only switches join them.
    """
    count, pairs = int(of.max()) + 1, of[np.stack([topology.source, topology.target])]
    kinds = np.unique(pairs[:, (pairs != NONE).all(axis=0) & (pairs[0] != pairs[1])], axis=1)
    if count == 1 or not kinds.size:
        return _rows(count, columns)
    try:
        network = Topology.from_links("ranks", count, [Link(a, b) for a, b in kinds.T.tolist()])
    except InputError:  # only switches join them all
        return _circle(count)
    if (grid := grid_of(network)) is not None and grid.lines != (LineKind.RING,):
        return _product(grid.shape, grid.lines)
    if count > SPACING.sprung or np.array_equal(np.unique((kinds + 1) % count, axis=1), kinds):
        return _circle(count)
    return _springs(count, kinds)


def _rows(count: int, columns: int) -> FloatArray:
    """Return places in rows, every other one shifted by half, so that a link up passes between two nodes."""
    columns = max(columns, math.isqrt(max(count - 1, 0)) + 1)
    row, column = np.divmod(np.arange(count), math.ceil(count / math.ceil(count / columns)))
    return np.stack([column + row % 2 / 2, row * 1.0], axis=1)


def _circle(count: int) -> FloatArray:
    """Return places clockwise on a circle, neighbours 1 apart: two side by side, four in the corners."""
    radius = 0.5 / math.sin(math.pi / count) if count > 1 else 0.0
    start = {2: math.pi, 4: 1.25 * math.pi}.get(count, -math.pi / 2)
    angles = start + 2 * math.pi * np.arange(count) / count
    return radius * np.stack([np.cos(angles), np.sin(angles)], axis=1)


def _product(shape: Sequence[int], lines: Sequence[LineKind]) -> FloatArray:
    """Return the places of a grid: each dimension repeats the faster ones, along a line or on a circle.

    Lines go right, down, and into the picture. Further ones go right and down again, past the picture so far.
    """
    at, straight = np.zeros((1, 2)), 0
    for size, line in zip(reversed(shape), reversed(lines), strict=True):
        extent = np.ptp(at, axis=0)
        if line is LineKind.COMPLETE:
            own = _circle(size) * (math.hypot(*extent) + 1)
        elif straight == 2 and extent.min() >= 1:
            own = np.outer(np.arange(size) / size, SPACING.depth)
        else:
            axis = (straight - (straight > 2)) % 2
            own = np.outer(np.arange(size), np.eye(2)[axis] * (extent[axis] + 1))
        straight += line is not LineKind.COMPLETE
        at = (own[:, None] + at[None]).reshape(-1, 2)
    return at


def _springs(count: int, pairs: Int64Array) -> FloatArray:
    """Return places by springs whose lengths are hop distances, from a circle; the closest are 1 apart."""
    import networkx as nx

    found = nx.kamada_kawai_layout(nx.Graph(pairs.T.tolist()), pos=dict(enumerate(_circle(count))))
    at = np.array([found[node] for node in range(count)])
    apart = pdist(at).min()
    return _circle(count) if apart < 1e-3 * np.ptp(at) else at / apart


MOST_LINKS = 4096
"""Most links of a network that is drawn."""
LEVELS = 5
"""Shades of links that carry something; the last is that of the busiest."""
DETOURS = (0.0, *(sign * 0.02 * times for times in range(1, 16) for sign in (1, -1)))
"""Detours of a link around nodes in its way, over its length; tried first to last."""
_SHARES = np.linspace(0.02, 0.98, 33)[:, None, None]


LOOK = SimpleNamespace(**LOOKS["picture"])
"""Measures of the picture."""


class Picture(NamedTuple):
    """A network in pixels.

    Parameters
    ----------
    at
        Shape (nodes, 2): the middle of each node.
    radius
        The radius of a node.
    curves
        Shape (links, 3, 2): start, control point and end of each link's quadratic curve, between the rims.
    frames
        The frames of the hosts.
    size
        Width and height.
    """

    at: FloatArray
    radius: float
    curves: FloatArray
    frames: tuple[Frame, ...]
    size: tuple[float, float]

    def curve(self, link: int) -> str:
        """Return the path of a link."""
        start, control, end = map(_pair, self.curves[link])
        return f"M{start}Q{control} {end}"

    def head(self, link: int) -> str:
        """Return the path of the arrow's head at the end of a link."""
        _, control, end = self.curves[link]
        angle = math.atan2(end[1] - control[1], end[0] - control[0]) + np.array([[0.5], [-0.5]])
        barbs = end - max(3.0, 0.4 * self.radius) * np.hstack([np.cos(angle), np.sin(angle)])
        return f"M{_pair(barbs[0])}L{_pair(end)}L{_pair(barbs[1])}"


def _pair(at: FloatArray) -> str:
    return f"{at[0]:.1f} {at[1]:.1f}"


def picture(topology: Topology) -> Picture:
    """Return a network's places in pixels."""
    found = layout(topology)
    corners = np.array([corner for frame in found.frames for corner in frame[:2]]).reshape(-1, 2)
    extent = np.maximum(np.ptp(np.concatenate([found.at, corners]), axis=0), 1e-9)
    cell = min(LOOK.cell / pdist(found.at).min(), LOOK.wide / extent[0], LOOK.high / extent[1])
    at = found.at * cell
    radius = float(np.clip(LOOK.share * pdist(at).min(), *LOOK.radii))
    curves = _curves(topology, at, radius)
    middles = (curves[:, 0] + 2 * curves[:, 1] + curves[:, 2]) / 4
    marks = np.concatenate([at - radius, at + radius, middles, corners * cell])
    low, high = marks.min(axis=0) - LOOK.edge, marks.max(axis=0) + LOOK.edge
    frames = tuple(Frame(one.low * cell - low, one.high * cell - low, one.host) for one in found.frames)
    return Picture(at - low, radius, curves - low, frames, tuple((high - low).tolist()))


def _curves(topology: Topology, at: FloatArray, radius: float) -> FloatArray:
    """Return the curve of each link: the first of its detours that keeps clear, or that which does best."""
    ends = np.stack([topology.source, topology.target]).astype(np.int64)
    start, end = at[ends]
    along = end - start
    length = np.hypot(*along.T)[:, None]
    right = np.stack([-along[:, 1], along[:, 0]], axis=1) / length
    parallel = pd.DataFrame(ends.T).groupby([0, 1]).cumcount().to_numpy()  # links before with the same ends
    least = np.minimum(LOOK.bend * length, 0.5 * radius) + LOOK.apart * radius * parallel[:, None]
    controls, best = np.empty_like(start), np.full(len(start), -1.0)
    left, tree = np.arange(len(start)), cKDTree(at)
    for detour in DETOURS if len(at) <= LOOK.avoided else DETOURS[:1]:
        # The middle of a curve is half as far off the straight line as its control point.
        bend = 2 * (least + detour * length)[left] * right[left]
        tried = (start[left] + end[left]) / 2 + bend
        apart = _apart(tree, ends[:, left], tried)
        better = apart > best[left]
        controls[left[better]], best[left[better]] = tried[better], apart[better]
        left = left[best[left] < LOOK.clear * radius]
    return np.stack([_rim(start, controls, radius), controls, _rim(end, controls, radius)], axis=1)


def _apart(tree: cKDTree, ends: Int64Array, controls: FloatArray) -> FloatArray:
    """Return the distance of each link's curve from the nearest node that it does not join."""
    start, end = (tree.data[nodes] for nodes in ends)
    curve = (1 - _SHARES) ** 2 * start + 2 * _SHARES * (1 - _SHARES) * controls + _SHARES**2 * end
    distance, node = tree.query(curve, 3)  # of the three nearest at least one is no end
    distance[(node == ends[0][:, None]) | (node == ends[1][:, None])] = math.inf
    return np.asarray(distance.min(axis=(0, 2)))


def _rim(node: FloatArray, toward: FloatArray, radius: float) -> FloatArray:
    along = toward - node
    return node + along * (radius + 1) / np.hypot(*along.T)[:, None]


@cache
def templates(*folders: Path) -> Environment:
    """Return the templates of folders, looked for in order.

    Values are escaped, and a name that is not given is an error. In a template ``file("report.css")`` is a
    file of these folders as it is.
    """
    files = FileSystemLoader(folders)
    made = Environment(
        loader=files, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    made.policies["json.dumps_kwargs"] = {"separators": (",", ":")}  # columns of rows stay in order
    made.globals["file"] = lambda name: Markup(files.get_source(made, name)[0])
    return made


class Mark(NamedTuple):
    """A link or a node as it is drawn.

    Parameters
    ----------
    tip
        What is said on pointing at it.
    looks
        Further style classes. A link that is ``felt`` has an arrow's head, and lies over the others.
    text
        What stands in a node.
    more
        Further attributes.
    """

    tip: str
    looks: str = ""
    text: str = ""
    more: Mapping[str, object] = {}


def marked(
    topology: Topology, links: Iterable[Mark], nodes: Iterable[Mark], said: str, looks: str = "chart network"
) -> Markup:
    """Return the picture of a network in which links and nodes are marked.

    Parameters
    ----------
    topology
        A network of at most `MOST_LINKS` links.
    links, nodes
        One mark each.
    said
        The text alternative.
    looks
        Style classes. With ``net`` the style is ``network.css``, all links have heads, and hosts their names.
    """
    drawn, net = picture(topology), "net" in looks.split()
    shown = {
        "links": sorted(enumerate(links), key=lambda entry: entry[1].looks),  # the busiest, or felt, on top
        "nodes": zip(nodes, drawn.at.tolist(), strict=True),
        "ranks": topology.num_ranks,
        "least": LOOK.labelled if net else 0.0,
    }
    page = templates(TEMPLATES).get_template("network.html")
    return Markup(page.render(drawn=drawn, net=net, said=said, looks=looks, **shown))


def draw(
    topology: Topology,
    loads: FloatArray | None = None,
    *,
    shades: Int64Array | None = None,
    said: str | None = None,
) -> Markup:
    """Return the picture of a network; its style is ``network.css``.

    Parameters
    ----------
    topology
        A network of at most `MOST_LINKS` links.
    loads
        Shape (links,): bytes that each carries; None: links are coloured alike.
    shades
        Shape (links,): 0 to `LEVELS`; None: by the loads.
    said
        The text alternative; None: a description of the network and the loads.

    Returns
    -------
    Markup
        An ``<svg>``; each link is a path that has the link's number in ``data-link`` and says on hovering
        which it is.

    Examples
    --------
    >>> from tutti.topologies.text import parse_topology
    >>> draw(parse_topology("ring:4")).count("data-link")
    8
    """
    looks = "net" if loads is None and shades is None else "net loaded"
    shades = levels(topology, loads) if shades is None else shades
    thick = 0.8 + 1.2 * np.sqrt(rates(topology) / rates(topology).max())
    links = []
    for link in range(topology.num_links):
        width = {"stroke-width": f"{thick[link]:.1f}"}
        links.append(Mark(link_text(topology, link, loads), f"q{shades[link]}", more=width))
    nodes = map(Mark, node_names(topology), repeat(""), map(_fitting, topology.labels))
    return marked(topology, links, nodes, said or _said(topology, loads), looks)


def levels(topology: Topology, loads: FloatArray | None) -> Int64Array:
    """Return the shade of each link, 0 to `LEVELS`: bytes over bandwidth, compared with the busiest link."""
    if loads is None:
        return np.zeros(topology.num_links, np.int64)
    time = loads / rates(topology)
    return np.ceil(LEVELS * time / max(time.max(), 1e-300) - 1e-9).astype(np.int64)


def rates(topology: Topology) -> FloatArray:
    """Return the bandwidth of each link in bytes/s."""
    return np.asarray(topology.bandwidth.numerators / topology.bandwidth.denominator)


def _said(topology: Topology, loads: FloatArray | None) -> str:
    name = f"{topology.name}: {topology.num_ranks} ranks, {topology.num_links} links"
    if loads is None or not loads.any():
        return name
    busiest = int(np.argmax(loads / rates(topology)))
    idle = int((loads == 0).sum())
    return f"{name}; {link_text(topology, busiest, loads)}, the most for its bandwidth; {idle} links are idle"


def link_text(topology: Topology, link: int, loads: FloatArray | None = None) -> str:
    """Return what there is to say of a link: its ends, bandwidth, α and what it carries."""
    rate, alpha = format_bandwidth(topology.bandwidth[link]), seconds(float(topology.alpha[link]))
    text = f"{topology.link_name(link)}: {rate}, α {alpha}"
    if loads is None:
        return text
    time = loads[link] / float(topology.bandwidth[link])
    return f"{text}, carries {amount(loads[link])} in {seconds(time)}"


def seconds(time: float) -> str:
    """Return a time for people."""
    return duration(time * MICRO).replace(" us", " µs")


def amount(load: float, digits: int = 6) -> str:
    """Return bytes in the largest unit that leaves a number of at least 1.

    Examples
    --------
    >>> amount(62500.0), amount(1e9 / 3), amount(0.0), amount(3.2e6 / 17, 4)
    ('62.5 KB', '333.333 MB', '0 B', '188.2 KB')
    """
    units = {"GB": 1e9, "MB": 1e6, "KB": 1e3}
    unit, size = next(((unit, size) for unit, size in units.items() if load >= size), ("B", 1.0))
    return f"{load / size:.{digits}g} {unit}"


def node_names(topology: Topology) -> list[str]:
    """Return what each node is called: ``rank 0``, or ``switch nvswitch0``."""
    kinds = ["rank"] * topology.num_ranks + ["switch"] * topology.num_switches
    return [f"{kind} {label}" for kind, label in zip(kinds, topology.labels, strict=True)]


def link_names(topology: Topology) -> list[str]:
    """Return what each link is called: ``0 → 1``."""
    return [topology.link_name(link).replace("->", " → ") for link in range(topology.num_links)]


def _fitting(label: str) -> str:
    """Return a label, or its number at the end, if it fits in a node."""
    number = label[len(label.rstrip("0123456789")) :]
    return next((text for text in (label, number) if len(text) <= LOOK.letters), "")
