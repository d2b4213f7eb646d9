"""Places of the nodes of a network in a picture, by what the network is.

Hosts are frames. The frames stand as ranks would if each host were one, and in each frame the host's nodes
stand as a network of their own. Ranks that are joined to each other stand as a grid if they are one; a
dimension in which all are joined to all is a circle, and so is a single ring. Other ranks stand on a circle
if rotating their numbers changes no link, else where Kamada and Kawai's springs draw them. Ranks that only
switches join stand in rows. Switches stand above what they join, by tier; those that lead nowhere outside
their host stand below its ranks.

The unit is the distance of two neighbours in a row; y points down.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
from scipy.spatial.distance import pdist

from tutti.topologies.errors import InputError
from tutti.topologies.exact import NONE, BoolArray, FloatArray, Int64Array
from tutti.topologies.graphs.grid_structure import Hosts, LineKind, grid_of, hosts_of
from tutti.topologies.topology import Link, Topology

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
