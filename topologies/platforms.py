"""Machines: boxes of GPUs with switches, as the papers describe them.

Each link class (inside a box, InfiniBand) has its own bandwidth; α is 0.5 us a link unless given. Links are
numbered by source, then by class, then by target. `Topology.hosts` is the box of each GPU and of its
switch, -1 for the InfiniBand switch, which is shared.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from topologies.assembly import Arcs, Values, assemble, check_size
from topologies.errors import InputError
from topologies.exact import IntArray
from topologies.topology import Topology

_GB = 10**9
_NO_HOST = -1

_A100_GPUS = 8
_A100_BANDWIDTH = (Fraction(300 * _GB), Fraction(25 * _GB))
"""A GPU's NVLinks together, and its InfiniBand adapter."""

_MI250_GPUS = 16
_MI250_BANDWIDTH = (Fraction(50 * _GB), Fraction(16 * _GB))
"""One Infinity Fabric link, and a GPU's part of the box's InfiniBand adapters."""

# fmt: off
_MI250_FABRIC = (
    (0, 1, 4), (0, 4, 2), (0, 8, 1), (1, 5, 1), (1, 9, 1), (1, 10, 1), (2, 3, 4),
    (2, 6, 1), (2, 9, 1), (2, 10, 1), (3, 7, 2), (3, 11, 1), (4, 5, 4), (4, 6, 1),
    (5, 6, 1), (5, 7, 1), (6, 7, 4), (8, 9, 4), (8, 12, 2), (9, 13, 1), (10, 11, 4),
    (10, 14, 1), (11, 15, 2), (12, 13, 4), (12, 14, 1), (13, 14, 1), (13, 15, 1), (14, 15, 4),
)
# fmt: on
"""Pairs of GPUs of a box, and how many Infinity Fabric links join them; seven links a GPU."""


def dgx_a100(boxes: int, *, bandwidth: Values = None, alpha: Values = None) -> Topology:
    """Return DGX A100 boxes: 8 GPUs each, 300 GB/s to and from the box's NVSwitch.

    With more than one box, each GPU also has 25 GB/s to and from one InfiniBand switch. The switches
    (``nvswitch0``, ..., then ``ib``) only forward: they neither multicast nor aggregate.
    Source: dissertation, section 4.6.

    Parameters
    ----------
    boxes
        At least 1.
    bandwidth, alpha
        One for all links, or two: NVSwitch, InfiniBand. Bytes/s and seconds, exact.

    Raises
    ------
    InputError
        If there is no box, or the numbers of values are wrong.
    """
    name = _checked("dgx_a100", boxes, _A100_GPUS)
    ranks = boxes * _A100_GPUS
    gpu, box = np.arange(ranks), np.repeat(np.arange(boxes), _A100_GPUS)
    inside = _two_way(gpu, ranks + box)
    nvswitches = [f"nvswitch{i}" for i in range(boxes)]
    return _platform(name, box, inside, nvswitches, _A100_BANDWIDTH, bandwidth, alpha)


def mi250(boxes: int, *, bandwidth: Values = None, alpha: Values = None) -> Topology:
    """Return AMD MI250 boxes: 16 GPUs each, joined by parallel Infinity Fabric links of 50 GB/s.

    With more than one box, each GPU also has 16 GB/s to and from one InfiniBand switch (``ib``, which only
    forwards). Source: dissertation, Figure 4.9(a) and section 4.6.

    Parameters
    ----------
    boxes
        At least 1.
    bandwidth, alpha
        One for all links, or two: Infinity Fabric, InfiniBand. Bytes/s and seconds, exact.

    Raises
    ------
    InputError
        If there is no box, or the numbers of values are wrong.
    """
    name = _checked("mi250", boxes, _MI250_GPUS)
    box = np.repeat(np.arange(boxes), _MI250_GPUS)
    first, second, count = np.array(_MI250_FABRIC).T
    offset = np.arange(boxes)[:, None] * _MI250_GPUS
    one, other = ((offset + np.repeat(end, count)).reshape(-1) for end in (first, second))
    source, target = _two_way(one, other)
    order = np.lexsort((target, source))
    return _platform(name, box, (source[order], target[order]), [], _MI250_BANDWIDTH, bandwidth, alpha)


def _checked(family: str, boxes: int, gpus: int) -> str:
    name = f"{family}:{boxes}"
    if boxes < 1:
        raise InputError(f"topology {name}: {boxes} boxes; at least 1")
    check_size(name, boxes * gpus, 0)
    return name


def _two_way(one: IntArray, other: IntArray) -> Arcs:
    return np.concatenate([one, other]), np.concatenate([other, one])


def _platform(
    name: str,
    box: IntArray,
    inside: Arcs,
    box_switches: list[str],
    defaults: tuple[Fraction, Fraction],
    bandwidth: Values,
    alpha: Values,
) -> Topology:
    """Return the boxes, joined by one InfiniBand switch if there are several."""
    ranks, boxes = len(box), int(box[-1]) + 1
    switches = box_switches + ["ib"] * (boxes > 1)
    hosts = [*box.tolist(), *range(len(box_switches)), *[_NO_HOST] * (boxes > 1)]
    infiniband = np.full(ranks if boxes > 1 else 0, ranks + len(box_switches))
    return assemble(
        name,
        ranks,
        [inside, _two_way(np.arange(len(infiniband)), infiniband)],
        bandwidth,
        alpha,
        default_bandwidth=defaults,
        switches=switches,
        hosts=hosts,
    )
