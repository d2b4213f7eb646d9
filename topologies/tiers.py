"""Networks of tiers, of links or switches of different bandwidths: Dragonfly, 2D switch, ring-FC-switch.

The topologies of TACOS's evaluation (MICRO 2024, Tables IV and V). Ranks are numbered
row-major in the dimensions of the text: the last one varies fastest. Every tier has a bandwidth (bytes/s)
and an α (s) of its own; one number serves all tiers.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from topologies.assembly import Arcs, Values, assemble, check_size, per_class
from topologies.errors import InputError
from topologies.exact import Int64Array
from topologies.platforms import NO_HOST, two_way
from topologies.topology import Topology

_GB = 10**9


def dragonfly(per_group: int, groups: int, *, bandwidth: Values = None, alpha: Values = None) -> Topology:
    """Return G groups of A fully connected ranks, with one global link between every two groups.

    Rank a·G + g is number a of group g. The global links of a group go to the groups g + 1, g + 2, ...
    (modulo G), and its ranks take them in turn: the one to group g + j is at rank (j - 1) modulo A of it.
    Links are numbered by source; the local ones come first. Source: Kim et al., Technology-driven,
    highly-scalable Dragonfly (ISCA 2008); TACOS, Table IV.

    Parameters
    ----------
    per_group, groups
        A, at least 1, and G, at least 2.
    bandwidth, alpha
        One for all links, or two: local, global. Defaults 400 and 200 GB/s.

    Raises
    ------
    InputError
        If an argument is too small or the number of values is wrong.

    Examples
    --------
    >>> network = dragonfly(4, 5)
    >>> network.num_ranks, network.num_links  # 3 local links a rank, one global
    (20, 80)
    """
    name = f"dragonfly:{per_group}x{groups}"
    _at_least(name, "ranks a group", per_group, 1)
    _at_least(name, "groups", groups, 2)
    ranks = per_group * groups
    check_size(name, ranks, ranks * per_group + groups**2)
    a, b, g = (axis.reshape(-1) for axis in np.indices((per_group, per_group, groups)))
    local = a != b
    group, step = (axis.reshape(-1) for axis in np.indices((groups, groups - 1)))  # to group + step + 1
    back = groups - 2 - step  # the other end's own step
    tail = step % per_group * groups + group
    head = back % per_group * groups + (group + step + 1) % groups
    return assemble(
        name,
        ranks,
        [(a[local] * groups + g[local], b[local] * groups + g[local]), (tail, head)],
        bandwidth,
        alpha,
        default_bandwidth=[Fraction(400 * _GB), Fraction(200 * _GB)],
        hosts=np.tile(np.arange(groups), per_group).tolist(),
    )


def switch2d(per_box: int, boxes: int, *, bandwidth: Values = None, alpha: Values = None) -> Topology:
    """Return B boxes of A ranks on a switch each, and for each index a switch that joins all boxes.

    Rank a·B + b is number a of box b. The box switches are ``box0``, ..., the others ``rail0``, ...; the two
    links of a rank to a switch, one each way, are a port. Source: TACOS, Table IV.

    Parameters
    ----------
    per_box, boxes
        A and B, at least 1 each, at least two ranks in all.
    bandwidth, alpha
        One for all ports, or two: to the box switch, to the rail. Defaults 300 and 25 GB/s.

    Raises
    ------
    InputError
        If an argument is too small or the number of values is wrong.
    """
    name = f"switch2d:{per_box}x{boxes}"
    _at_least(name, "ranks a box", per_box, 1)
    _at_least(name, "boxes", boxes, 1)
    ranks = per_box * boxes
    check_size(name, ranks + per_box + boxes, 4 * ranks)
    rank = np.arange(ranks)
    return assemble(
        name,
        ranks,
        [two_way(rank, ranks + rank % boxes), two_way(rank, ranks + boxes + rank // boxes)],
        bandwidth,
        alpha,
        default_bandwidth=[Fraction(300 * _GB), Fraction(25 * _GB)],
        switches=[*(f"box{i}" for i in range(boxes)), *(f"rail{i}" for i in range(per_box))],
        hosts=[*(rank % boxes).tolist(), *range(boxes), *[NO_HOST] * per_box],
    )


def ring_fc_switch(
    ring: int, full: int, switch: int, *, bandwidth: Values = None, alpha: Values = None
) -> Topology:
    """Return the 3D network of a ring of R, a complete network of F and a switch of S ranks.

    Rank (r, f, s) has links to (r ± 1, f, s) (one bidirectional link where R = 2), to (r, f', s) for every
    other f', and a port to the switch of (r, f), called ``switch0``, ... in their order. Source: TACOS,
    Table V.

    Parameters
    ----------
    ring, full, switch
        R, F and S, at least 1 each; a dimension of length 1 has no links.
    bandwidth, alpha
        One for all, or three: ring link, full link, switch port. Defaults 200, 100 and 50 GB/s.

    Raises
    ------
    InputError
        If an argument is too small or the number of values is wrong.

    Examples
    --------
    >>> network = ring_fc_switch(2, 4, 8)
    >>> network.num_ranks, network.num_switches
    (64, 8)
    """
    name = f"rfs:{ring}x{full}x{switch}"
    for what, length in (("ring", ring), ("fully connected", full), ("switch", switch)):
        _at_least(name, f"{what} length", length, 1)
    ranks = math.prod((ring, full, switch))
    check_size(name, ranks * 2, ranks * (full + 3))
    rank = np.arange(ranks)
    columns = ring * full if switch > 1 else 0
    ports = rank if switch > 1 else rank[:0]
    return assemble(
        name,
        ranks,
        [_ring_links(rank, ring), _full_links(rank, full, switch), two_way(ports, ranks + ports // switch)],
        per_class(f"topology {name}: bandwidth", bandwidth, [Fraction(b * _GB) for b in (200, 100, 50)]),
        alpha,
        switches=[f"switch{i}" for i in range(columns)],
        hosts=[*(rank % switch).tolist(), *[NO_HOST] * columns],
    )


def _ring_links(rank: Int64Array, length: int) -> Arcs:
    """Return the links up and down the first dimension; one of them where they agree."""
    stride = len(rank) // length
    steps = {1 % length, -1 % length} - {0}
    heads = [(rank + step * stride) % len(rank) for step in sorted(steps)]
    return np.tile(rank, len(heads)), np.concatenate([rank[:0], *heads])


def _full_links(rank: Int64Array, length: int, stride: int) -> Arcs:
    """Return the links to all ranks that differ in the second dimension alone."""
    place = rank // stride % length
    heads = [rank + ((place + step) % length - place) * stride for step in range(1, length)]
    return np.tile(rank, len(heads)), np.concatenate([rank[:0], *heads])


def _at_least(name: str, what: str, value: int, least: int) -> None:
    if value < least:
        raise InputError(f"topology {name}: {value} {what}; at least {least}")
