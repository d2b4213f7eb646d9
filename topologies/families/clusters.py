"""Clusters that scale out in tiers: fat-trees, rails, tori of boxes, and those of TACOS's evaluation.

They are generic. Where there is no paper to follow, the defaults are those of today's machines. A GPU has 450
GB/s to its box's switch and 50 GB/s to everything outside, as in DGX H100 (dissertation, section 4.6.3); α is
0.5 us a link. All switches only forward. If a tier is oversubscribed by a factor f, every switch below it has
f times less bandwidth upwards than downwards. Bandwidths are exact fractions, so any factor is exact.

Dragonfly, 2D switch and ring-FC-switch are the topologies of TACOS's evaluation (MICRO 2024, Tables IV and
V), tiers of links or switches of different bandwidths. Ranks are numbered row-major in the dimensions of the
text: the last one varies fastest. Every tier has a bandwidth (bytes/s) and an α (s) of its own; one number
serves all tiers.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from tutti.topologies.assembly import Arcs, Values, assemble, at_least, check_size, per_class
from tutti.topologies.errors import InputError
from tutti.topologies.exact import NONE
from tutti.topologies.families.grids import there_and_back, torus, two_way
from tutti.topologies.topology import DEFAULT_BANDWIDTH, Topology
from tutti.topologies.units import GIGA

_BOX_BANDWIDTH = Fraction(450 * 10**9)


def fat_tree(
    leaves: int,
    ports: int,
    spines: int = 1,
    factor: int = 1,
    *,
    bandwidth: Values = None,
    alpha: Values = None,
) -> Topology:
    """Return the two-tier fat-tree: ranks on leaf switches, every leaf linked to every spine switch.

    A rank has one link to its leaf (``leaf0``, ...); a leaf has one link to each spine (``spine0``, ...) of
    bandwidth ports · b / (factor · spines), where b is the rank's. With factor 1 no tier is narrower than the
    one below; with factor f, 1/f of what the ranks of a leaf can send leaves it. The leaf is their host.
    Source: Leiserson, Fat-trees (IEEE Transactions on Computers 34(10), 1985), in the folded-Clos form of
    data centres.

    Parameters
    ----------
    leaves, ports
        Leaf switches, and ranks on each; at least 1.
    spines
        Spine switches, at least 1; with a single leaf there are none.
    factor
        The factor of oversubscription, at least 1.
    bandwidth
        The bandwidth of a rank's link in bytes/s, exact.
    alpha
        One for all links, or two: ranks' links, leaves' links. Seconds, exact.

    Raises
    ------
    InputError
        If an argument is too small or the number of values is wrong.

    Examples
    --------
    >>> half = fat_tree(2, 4, 2, 2)
    >>> half.labels[8:], int(half.bandwidth[9] / 10**9)
    (('leaf0', 'leaf1', 'spine0', 'spine1'), 50)
    """
    name = f"fat_tree:{leaves},{ports},{spines},{factor}"
    at_least(name, 1, leaves=leaves, ports=ports, spines=spines, factor=factor)
    spines = spines if leaves > 1 else 0
    ranks = leaves * ports
    check_size(name, ranks + leaves + spines, 2 * (ranks + leaves * spines))
    leaf, rank = np.arange(leaves), np.arange(ranks)
    up, across = np.repeat(leaf, spines), np.tile(np.arange(spines), leaves)
    port = per_class(f"topology {name}: bandwidth", bandwidth, [DEFAULT_BANDWIDTH])[0]
    return assemble(
        name,
        ranks,
        [two_way(rank, ranks + rank // ports), two_way(ranks + up, ranks + leaves + across)],
        [port, port * ports / (factor * max(spines, 1))],
        alpha,
        switches=[*(f"leaf{i}" for i in range(leaves)), *(f"spine{i}" for i in range(spines))],
        hosts=[*(rank // ports).tolist(), *leaf.tolist(), *[NONE] * spines],
    )


def rail_only(boxes: int, gpus: int, *, bandwidth: Values = None, alpha: Values = None) -> Topology:
    """Return boxes whose GPUs share a switch, with GPU i of all boxes on rail switch i, and no tier above.

    Rails (``rail0``, ...) meet only inside boxes (``box0``, ...). Source: Wang et al., Rail-only (IEEE HOTI
    2024), the dissertation's [150].

    Parameters
    ----------
    boxes, gpus
        Boxes, at least 2, and GPUs in each, at least 1.
    bandwidth, alpha
        One for all links, or two: box switch, rail. Bytes/s and seconds, exact.

    Raises
    ------
    InputError
        If an argument is too small or the numbers of values are wrong.
    """
    name = f"rail_only:{boxes},{gpus}"
    return _rails(name, boxes, gpus, None, bandwidth, alpha)


def rail_spine(
    boxes: int, gpus: int, factor: int = 1, *, bandwidth: Values = None, alpha: Values = None
) -> Topology:
    """Return `rail_only` with a spine switch above the rails, oversubscribed by a factor.

    Each rail has one link to the spine (``spine``), of bandwidth boxes · b / factor, where b is that of a
    GPU's rail link.

    Parameters
    ----------
    boxes, gpus
        Boxes, at least 2, and GPUs in each, at least 1.
    factor
        The factor of oversubscription, at least 1.
    bandwidth
        One for box switch and rail, or one each. Bytes/s, exact.
    alpha
        One for all links, or three: box switch, rail, spine. Seconds, exact.

    Raises
    ------
    InputError
        If an argument is too small or the numbers of values are wrong.
    """
    name = f"rail_spine:{boxes},{gpus},{factor}"
    at_least(name, 1, factor=factor)
    return _rails(name, boxes, gpus, factor, bandwidth, alpha)


def torus_of_boxes(gpus: int, *lengths: int, bandwidth: Values = None, alpha: Values = None) -> Topology:
    """Return boxes in a torus: GPUs of a box share a switch, GPU i is linked to GPU i of the next boxes.

    Boxes are numbered row-major, as the ranks of `topologies.families.grids.torus`, and so are their switches
    (``box0``, ...).

    Parameters
    ----------
    gpus
        GPUs in a box, at least 1.
    *lengths
        Lengths of the torus of boxes, as in `topologies.families.grids.torus`.
    bandwidth, alpha
        One for all links, or two: box switch, torus. Bytes/s and seconds, exact.

    Raises
    ------
    InputError
        If an argument is too small or the numbers of values are wrong.

    Examples
    --------
    >>> cluster = torus_of_boxes(4, 3, 3)
    >>> cluster.num_ranks, cluster.num_switches, cluster.num_links  # a GPU has 4 torus links and 1 to its box
    (36, 9, 216)
    """
    name = f"torus_of_boxes:{','.join(map(str, (gpus, *lengths)))}"
    at_least(name, 1, gpus=gpus)
    boxes = math.prod(lengths)
    check_size(name, boxes * (gpus + 1), 2 * boxes * gpus * (len(lengths) + 1))
    outside = torus(*lengths)
    gpu = np.arange(gpus)
    lifted = [(end[:, None] * gpus + gpu).reshape(-1) for end in (outside.source, outside.target)]
    return assemble(
        name,
        boxes * gpus,
        [_on_box_switches(boxes, gpus), (lifted[0], lifted[1])],
        bandwidth,
        alpha,
        default_bandwidth=[_BOX_BANDWIDTH, DEFAULT_BANDWIDTH],
        switches=[f"box{i}" for i in range(boxes)],
        hosts=[*np.repeat(np.arange(boxes), gpus).tolist(), *range(boxes)],
    )


def _rails(
    name: str, boxes: int, gpus: int, factor: int | None, bandwidth: Values, alpha: Values
) -> Topology:
    """Return boxes and rails, and a spine oversubscribed by a factor if there is one."""
    at_least(name, 1, gpus=gpus)
    if boxes < 2:
        raise InputError(f"topology {name}: {boxes} boxes; rails join at least 2")
    ranks = boxes * gpus
    check_size(name, ranks + boxes + gpus, 4 * ranks)
    rank, rail = np.arange(ranks), ranks + boxes + np.arange(gpus)
    classes = [_on_box_switches(boxes, gpus), two_way(rank, rail[rank % gpus])]
    rates = per_class(f"topology {name}: bandwidth", bandwidth, [_BOX_BANDWIDTH, DEFAULT_BANDWIDTH])
    if factor is not None:
        classes.append(two_way(rail, np.full(gpus, ranks + boxes + gpus)))
        rates.append(rates[1] * boxes / factor)
    above = ["spine"] * (factor is not None)
    return assemble(
        name,
        ranks,
        classes,
        rates,
        alpha,
        switches=[*(f"box{i}" for i in range(boxes)), *(f"rail{i}" for i in range(gpus)), *above],
        hosts=[*np.repeat(np.arange(boxes), gpus).tolist(), *range(boxes), *[NONE] * (gpus + len(above))],
    )


def _on_box_switches(boxes: int, gpus: int) -> Arcs:
    gpu = np.arange(boxes * gpus)
    return two_way(gpu, boxes * gpus + gpu // gpus)


def dragonfly(per_group: int, groups: int, *, bandwidth: Values = None, alpha: Values = None) -> Topology:
    """Return G groups of A fully connected ranks, with one global link between every two groups.

    Rank a·G + g is number a of group g. The global links of a group go to the groups g + 1, g + 2, ...
    (modulo G), and its ranks take them in turn: the one to group g + j starts at its rank (j - 1) modulo A.
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
    >>> network.num_ranks, network.num_links  # each rank has 3 local links and 1 global
    (20, 80)
    """
    name = f"dragonfly:{per_group}x{groups}"
    at_least(name, 1, group_size=per_group)
    at_least(name, 2, groups=groups)
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
        default_bandwidth=[Fraction(400 * GIGA), Fraction(200 * GIGA)],
        hosts=np.tile(np.arange(groups), per_group).tolist(),
    )


def switch2d(per_box: int, boxes: int, *, bandwidth: Values = None, alpha: Values = None) -> Topology:
    """Return B boxes of A ranks on a switch each, and for each index a switch that joins all boxes.

    Rank a·B + b is number a of box b. The box switches are ``box0``, ..., the others ``rail0``, .... A port
    is the two links between a rank and a switch. Source: TACOS, Table IV.

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
    at_least(name, 1, box_size=per_box, boxes=boxes)
    ranks = per_box * boxes
    check_size(name, ranks + per_box + boxes, 4 * ranks)
    rank = np.arange(ranks)
    return assemble(
        name,
        ranks,
        [two_way(rank, ranks + rank % boxes), two_way(rank, ranks + boxes + rank // boxes)],
        bandwidth,
        alpha,
        default_bandwidth=[Fraction(300 * GIGA), Fraction(25 * GIGA)],
        switches=[*(f"box{i}" for i in range(boxes)), *(f"rail{i}" for i in range(per_box))],
        hosts=[*(rank % boxes).tolist(), *range(boxes), *[NONE] * per_box],
    )


def ring_fc_switch(
    ring: int, full: int, switch: int, *, bandwidth: Values = None, alpha: Values = None
) -> Topology:
    """Return the 3D network of a ring of R, a complete network of F and a switch of S ranks.

    Rank (r, f, s) has links to (r ± 1, f, s) (one bidirectional link where R = 2) and to (r, f', s) for every
    other f'. It also has a port to the switch of (r, f); the switches are called ``switch0``, ... in the
    order of (r, f). Source: TACOS, Table V.

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
    at_least(name, 1, ring_length=ring, fully_connected_length=full, switch_length=switch)
    ranks = math.prod((ring, full, switch))
    check_size(name, ranks * 2, ranks * (full + 3))
    rank = np.arange(ranks)
    columns, stride = ring * full if switch > 1 else 0, full * switch
    around = there_and_back(rank, (rank + stride) % ranks, (rank - stride) % ranks)
    place = rank // switch % full
    heads = [rank + ((place + step) % full - place) * switch for step in range(1, full)]
    full_links = np.tile(rank, len(heads)), np.concatenate([rank[:0], *heads])
    ports = rank if switch > 1 else rank[:0]
    return assemble(
        name,
        ranks,
        [around, full_links, two_way(ports, ranks + ports // switch)],
        bandwidth,
        alpha,
        default_bandwidth=[Fraction(b * GIGA) for b in (200, 100, 50)],
        switches=[f"switch{i}" for i in range(columns)],
        hosts=[*(rank % switch).tolist(), *[NONE] * columns],
    )
