"""Clusters that scale out in tiers: fat-trees, rails and tori of boxes.

They are generic, so their defaults are those of today's machines where there is no paper to follow: 450 GB/s
between a GPU and its box's switch and 50 GB/s for everything outside, as DGX H100 has (dissertation, section
4.6.3); α is 0.5 us a link. All switches only forward. A tier that is oversubscribed by a factor f offers, on
every switch below it, f times less bandwidth upwards than that switch has downwards. Bandwidths are exact
fractions, so any factor is.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from topologies.assembly import Arcs, Values, assemble, check_size, per_class
from topologies.errors import InputError
from topologies.exact import IntArray
from topologies.families import torus
from topologies.platforms import NO_HOST, two_way
from topologies.topology import DEFAULT_ALPHA, DEFAULT_BANDWIDTH, Topology

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
    bandwidth ports · b / (factor · spines), b being the rank's. With factor 1 no tier is narrower than the
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
        Oversubscription, at least 1.
    bandwidth
        Of a rank's link, bytes/s, exact.
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
    _at_least_one(name, leaves=leaves, ports=ports, spines=spines, factor=factor)
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
        per_class(f"topology {name}: alpha", alpha, [DEFAULT_ALPHA] * 2),
        switches=[*(f"leaf{i}" for i in range(leaves)), *(f"spine{i}" for i in range(spines))],
        hosts=[*(rank // ports).tolist(), *leaf.tolist(), *[NO_HOST] * spines],
    )


def rail_only(boxes: int, gpus: int, *, bandwidth: Values = None, alpha: Values = None) -> Topology:
    """Return boxes whose GPUs share a switch, with GPU i of all boxes on rail switch i, and nothing above.

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

    Each rail has one link to the spine (``spine``), of bandwidth boxes · b / factor, b being that of a GPU's
    rail link.

    Parameters
    ----------
    boxes, gpus
        Boxes, at least 2, and GPUs in each, at least 1.
    factor
        Oversubscription, at least 1.
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
    _at_least_one(name, factor=factor)
    return _rails(name, boxes, gpus, factor, bandwidth, alpha)


def torus_of_boxes(gpus: int, *lengths: int, bandwidth: Values = None, alpha: Values = None) -> Topology:
    """Return boxes in a torus: GPUs of a box share a switch, GPU i is linked to GPU i of the next boxes.

    Boxes are numbered row-major, as the ranks of `topologies.families.torus`, and so are their switches
    (``box0``, ...).

    Parameters
    ----------
    gpus
        In a box, at least 1.
    *lengths
        Of the torus of boxes, as `topologies.families.torus` takes them.
    bandwidth, alpha
        One for all links, or two: box switch, torus. Bytes/s and seconds, exact.

    Raises
    ------
    InputError
        If an argument is too small or the numbers of values are wrong.

    Examples
    --------
    >>> cluster = torus_of_boxes(4, 3, 3)
    >>> cluster.num_ranks, cluster.num_switches, cluster.num_links  # 4 torus links and one to the box a GPU
    (36, 9, 216)
    """
    name = f"torus_of_boxes:{','.join(map(str, (gpus, *lengths)))}"
    _at_least_one(name, gpus=gpus)
    boxes = math.prod(lengths)
    check_size(name, boxes * (gpus + 1), 2 * boxes * gpus * (len(lengths) + 1))
    outside = torus(*lengths)
    gpu = np.arange(gpus)
    lifted = [(end[:, None] * gpus + gpu).reshape(-1) for end in (outside.source, outside.target)]
    rates = per_class(f"topology {name}: bandwidth", bandwidth, [_BOX_BANDWIDTH, DEFAULT_BANDWIDTH])
    return assemble(
        name,
        boxes * gpus,
        [_on_box_switches(boxes, gpus), (lifted[0], lifted[1])],
        rates,
        per_class(f"topology {name}: alpha", alpha, [DEFAULT_ALPHA] * 2),
        switches=[f"box{i}" for i in range(boxes)],
        hosts=[*_box_of_gpu(boxes, gpus).tolist(), *range(boxes)],
    )


def _rails(
    name: str, boxes: int, gpus: int, factor: int | None, bandwidth: Values, alpha: Values
) -> Topology:
    """Return boxes and rails, and a spine oversubscribed by a factor if there is one."""
    _at_least_one(name, gpus=gpus)
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
        per_class(f"topology {name}: alpha", alpha, [DEFAULT_ALPHA] * len(classes)),
        switches=[*(f"box{i}" for i in range(boxes)), *(f"rail{i}" for i in range(gpus)), *above],
        hosts=[*_box_of_gpu(boxes, gpus).tolist(), *range(boxes), *[NO_HOST] * (gpus + len(above))],
    )


def _on_box_switches(boxes: int, gpus: int) -> Arcs:
    return two_way(np.arange(boxes * gpus), boxes * gpus + _box_of_gpu(boxes, gpus))


def _box_of_gpu(boxes: int, gpus: int) -> IntArray:
    return np.repeat(np.arange(boxes), gpus)


def _at_least_one(name: str, **arguments: int) -> None:
    for what, value in arguments.items():
        if value < 1:
            raise InputError(f"topology {name}: {what} {value} is too small; at least 1")
