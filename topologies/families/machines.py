"""The machines of the ForestColl and TACCL papers: boxes of GPUs with switches.

Links are numbered by source, then by class (inside a box, InfiniBand), then by target. `Topology.hosts` is
the box of each GPU and of its switch, -1 for the InfiniBand switches, which are shared.

DGX A100, DGX H100 and MI250 are ForestColl's: each link class has its own bandwidth, and α is 0.5 us a link
unless given.

DGX-1, Azure NDv2 and DGX-2 have V100 GPUs and are TACCL's, with the bandwidths and α that it measured (TACCL,
Table 1). A transfer of s MB takes α + β·s. Over NVLink this is 0.7 us + 46 us/MB on NDv2 and DGX-1 (one
NVLink), and 0.7 us + 8 us/MB on DGX-2 (all that a GPU has into NVSwitch). Over InfiniBand it is 1.7 us + 106
us/MB (one adapter). An MB is 10^6 bytes here as everywhere in this project. The paper measured from GPU to
GPU. Where a transfer crosses several links, through a switch or adapters, its α is therefore divided: half
for each link of NVSwitch, half for each link between an adapter and the InfiniBand switch, nothing for PCIe.
Links between a GPU and an adapter have PCIe's 13 GB/s (section 4.1), which is more than the adapter's, so
that they never slow a transfer down. Adapters are switches (``nic0``, ...) that only forward. They are in
their box; the InfiniBand switch ``ib`` is in none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np

from tutti.topologies.assembly import Arcs, Values, assemble, at_least, check_size, per_class
from tutti.topologies.errors import InputError
from tutti.topologies.exact import NONE, IntArray
from tutti.topologies.topology import Topology
from tutti.topologies.units import GIGA, MEGA

Fabric = Sequence[tuple[int, int, int]]
"""The links inside a box: two GPUs, and the number of links that join them."""
BOX_GPUS = 8
"""Number of GPUs in a box of DGX, NDv2 or MI300X."""
_A100_BANDWIDTH = (Fraction(300 * GIGA), Fraction(25 * GIGA))
"""Bytes/s of a GPU's NVLinks together, and of its InfiniBand adapter."""

H100_BANDWIDTH = (Fraction(450 * GIGA), Fraction(50 * GIGA))
"""The same for an H100."""

_MI250_BANDWIDTH = (Fraction(50 * GIGA), Fraction(16 * GIGA))
"""Bytes/s of one Infinity Fabric link, and of a GPU's part of the box's InfiniBand adapters."""

# fmt: off
_MI250_FABRIC = (
    (0, 1, 4), (0, 4, 2), (0, 8, 1), (1, 5, 1), (1, 9, 1), (1, 10, 1), (2, 3, 4),
    (2, 6, 1), (2, 9, 1), (2, 10, 1), (3, 7, 2), (3, 11, 1), (4, 5, 4), (4, 6, 1),
    (5, 6, 1), (5, 7, 1), (6, 7, 4), (8, 9, 4), (8, 12, 2), (9, 13, 1), (10, 11, 4),
    (10, 14, 1), (11, 15, 2), (12, 13, 4), (12, 14, 1), (13, 14, 1), (13, 15, 1), (14, 15, 4),
)
# fmt: on
"""Pairs of GPUs of a box, and the number of Infinity Fabric links that join them; a GPU has seven."""


def dgx_a100(boxes: int, *, rails: int = 1, bandwidth: Values = None, alpha: Values = None) -> Topology:
    """Return DGX A100 boxes: 8 GPUs each, 300 GB/s to and from the box's NVSwitch.

    With more than one box, each GPU also has 25 GB/s to and from an InfiniBand switch. The switches
    (``nvswitch0``, ..., then ``ib``, or ``ib0``, ``ib1``, ... on several rails) only forward: they neither
    multicast nor aggregate. The paper's box has two adapters of 25 GB/s behind a PCIe switch for every two
    GPUs; as in its MI250, adapters and PCIe switches are left out here, and each GPU has one adapter's rate.
    Source: dissertation, section 4.6.2.

    Parameters
    ----------
    boxes
        At least 1.
    rails
        InfiniBand switches: GPU i of each box is on switch i modulo `rails`, so that two rails join the even
        adapters and the odd ones. It divides 8.
    bandwidth, alpha
        One for all links, or two: NVSwitch, InfiniBand. Bytes/s and seconds, exact.

    Raises
    ------
    InputError
        If there is no box, or the number of rails or of values is wrong.
    """
    return platform("dgx_a100", boxes, BOX_GPUS, _A100_BANDWIDTH, bandwidth, alpha, rails=rails)


def dgx_h100(boxes: int, *, rails: int = 1, bandwidth: Values = None, alpha: Values = None) -> Topology:
    """Return DGX H100 boxes: as `dgx_a100`, with 450 GB/s a GPU to NVSwitch and 50 GB/s to InfiniBand.

    Their NVSwitches multicast and aggregate (NVLink SHARP, as the paper's "ForestColl NVLS" uses it);
    the InfiniBand switches only forward. Source: dissertation, section 4.6.3 and Figure 4.12.

    Parameters
    ----------
    boxes, rails, bandwidth, alpha
        As in `dgx_a100`.

    Raises
    ------
    InputError
        If there is no box, or the number of rails or of values is wrong.
    """
    return platform("dgx_h100", boxes, BOX_GPUS, H100_BANDWIDTH, bandwidth, alpha, rails=rails, sharp=True)


def mi250(boxes: int, *, bandwidth: Values = None, alpha: Values = None) -> Topology:
    """Return AMD MI250 boxes: 16 GPUs each, joined by parallel Infinity Fabric links of 50 GB/s.

    With more than one box, each GPU also has 16 GB/s to and from one InfiniBand switch (``ib``, which only
    forwards): its part of the 256 GB/s of the box's eight adapters. The paper's 8+8 setting, GPUs 0 to 7 of
    either box, is ``mi250:2?ranks=8+8``. Source: dissertation, Figure 4.9(a) and section 4.6.2.

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
    return platform("mi250", boxes, 16, _MI250_BANDWIDTH, bandwidth, alpha, fabric=_MI250_FABRIC)


def platform(
    family: str,
    boxes: int,
    gpus: int,
    defaults: tuple[Fraction, Fraction],
    bandwidth: Values,
    alpha: Values,
    *,
    rails: int = 1,
    fabric: Fabric = (),
    sharp: bool = False,
) -> Topology:
    """Return boxes of GPUs; several boxes are joined by one InfiniBand switch per rail.

    Parameters
    ----------
    family, boxes, gpus
        The name before the colon, the number of boxes, and the number of GPUs in each.
    defaults, bandwidth, alpha
        The default bandwidths inside and outside of boxes, and the given values.
    rails
        GPU i of each box is on switch i modulo `rails`.
    fabric
        The links inside a box; empty if its GPUs are on a switch.
    sharp
        Whether the switches of boxes multicast and aggregate; the others only forward.

    Raises
    ------
    InputError
        If there is no box, or the number of rails or of values is wrong.
    """
    name, ranks = _checked_name(family, boxes, gpus), boxes * gpus
    if rails < 1 or gpus % rails:
        allowed = ", ".join(str(count) for count in range(1, gpus + 1) if gpus % count == 0)
        raise InputError(
            f"topology {name}: {rails} rails; allowed: {allowed}, which divide the GPUs of a box"
        )
    inside, nvswitches = _inside(boxes, gpus, fabric)
    rails = rails if boxes > 1 else 0
    infiniband = ["ib"] if rails == 1 else [f"ib{i}" for i in range(rails)]
    adapters = np.arange(ranks if rails else 0)
    on_rail = ranks + len(nvswitches) + adapters % max(rails, 1)
    machine = assemble(
        name,
        ranks,
        [inside, two_way(adapters, on_rail)],
        bandwidth,
        alpha,
        default_bandwidth=defaults,
        switches=nvswitches + infiniband,
        hosts=[*np.repeat(np.arange(boxes), gpus).tolist(), *range(len(nvswitches)), *[NONE] * rails],
    )
    able = frozenset(range(ranks, ranks + len(nvswitches)) if sharp else ())
    return replace(machine, multicast=able, aggregate=able)


def _checked_name(family: str, boxes: int, gpus: int) -> str:
    """Return the name of a platform of `boxes` boxes with `gpus` GPUs each; refuse none or too many."""
    name = f"{family}:{boxes}"
    at_least(name, 1, boxes=boxes)
    check_size(name, boxes * gpus, 0)
    return name


def _inside(boxes: int, gpus: int, fabric: Fabric) -> tuple[Arcs, list[str]]:
    """Return the links inside all boxes, and the labels of their switches: one per box without a fabric."""
    if fabric:
        return _fabric_of_boxes(fabric, boxes, gpus), []
    gpu = np.arange(boxes * gpus)
    return two_way(gpu, boxes * gpus + gpu // gpus), [f"nvswitch{i}" for i in range(boxes)]


def _fabric_of_boxes(fabric: Fabric, boxes: int, gpus: int) -> Arcs:
    """Return the links inside all boxes, by source and target, from one box's (GPU, GPU, links) table."""
    first, second, count = np.array(fabric).T
    offset = np.arange(boxes)[:, None] * gpus
    one, other = ((offset + np.repeat(end, count)).reshape(-1) for end in (first, second))
    source, target = two_way(one, other)
    order = np.lexsort((target, source))
    return source[order], target[order]


def two_way(one: IntArray, other: IntArray) -> Arcs:
    """Return the links from each node of one array to its counterpart in the other, then the links back."""
    return np.concatenate([one, other]), np.concatenate([other, one])


_US = Fraction(1, 10**6)


def _bytes_per_second(us_per_mb: int) -> Fraction:
    return MEGA / (us_per_mb * _US)


_NVLINK = _bytes_per_second(46)
_NVSWITCH = _bytes_per_second(8)
_INFINIBAND = _bytes_per_second(106)
_PCIE = Fraction(13 * 10**9)

_NVLINK_ALPHA = Fraction(7, 10) * _US
_NVSWITCH_ALPHA = _NVLINK_ALPHA / 2
_INFINIBAND_ALPHA = Fraction(17, 10) * _US / 2
_PCIE_ALPHA = Fraction(0)

# fmt: off
_DGX1_FABRIC = (
    (0, 1, 2), (0, 2, 1), (0, 3, 1), (0, 4, 2), (1, 2, 1), (1, 3, 2), (1, 5, 1), (2, 3, 2),
    (2, 6, 2), (3, 7, 1), (4, 5, 2), (4, 6, 1), (4, 7, 1), (5, 6, 1), (5, 7, 2), (6, 7, 2),
)
# fmt: on
"""Pairs of GPUs of a box, and the number of NVLinks that join them."""


def dgx1(*, bandwidth: Values = None, alpha: Values = None) -> Topology:
    """Return a DGX-1: 8 V100 GPUs joined by NVLinks in two meshes of four, one link each; no switch.

    Each of several NVLinks between two GPUs is a separate link. Source: TACCL, Figure 5(a), Table 1 and
    section 4.2, which says that NDv2's NVLinks are those of DGX-1.

    Parameters
    ----------
    bandwidth, alpha
        Those of an NVLink. Bytes/s and seconds, exact.

    Raises
    ------
    InputError
        If there is more than one value.

    Examples
    --------
    >>> machine = dgx1()
    >>> machine.num_ranks, machine.num_links, float(machine.bandwidth[0] / 10**9)
    (8, 48, 21.73913043478261)
    """
    name = "dgx1"
    return assemble(
        name,
        BOX_GPUS,
        [_fabric_of_boxes(_DGX1_FABRIC, 1, BOX_GPUS)],
        per_class(f"topology {name}: bandwidth", bandwidth, [_NVLINK]),
        per_class(f"topology {name}: alpha", alpha, [_NVLINK_ALPHA]),
        hosts=[0] * BOX_GPUS,
    )


def ndv2(boxes: int, *, bandwidth: Values = None, alpha: Values = None) -> Topology:
    """Return Azure NDv2 boxes: each a `dgx1` with one InfiniBand adapter.

    With more than one box, every GPU reaches its box's adapter over PCIe (through host memory, as the paper
    says; so all eight can), and the adapters are joined by one InfiniBand switch. TACCL's sketches choose
    which of the GPUs use the adapter; here that is left to the schedule. Source: TACCL, sections 3.1 and
    4.2, Figure 5 and Table 1.

    Parameters
    ----------
    boxes
        At least 1.
    bandwidth, alpha
        One for all links, or three: NVLink, PCIe (GPU and adapter), InfiniBand (adapter and switch).
        Bytes/s and seconds, exact.

    Raises
    ------
    InputError
        If there is no box, or the numbers of values are wrong.
    """
    inside = _NVLINK, _NVLINK_ALPHA
    return _on_adapters("ndv2", boxes, BOX_GPUS, BOX_GPUS, inside, bandwidth, alpha, _DGX1_FABRIC)


def dgx2(boxes: int, *, bandwidth: Values = None, alpha: Values = None) -> Topology:
    """Return DGX-2 boxes: 16 V100 GPUs each on an NVSwitch, and an InfiniBand adapter for every two GPUs.

    With more than one box, GPUs 2j and 2j + 1 reach adapter j of their box over PCIe, and the adapters are
    joined by one InfiniBand switch. The switches only forward. Source: TACCL, Figure 5(c), Table 1, section
    7.1.1 (every two GPUs share a PCIe switch with an adapter) and appendix A (8 adapters a box).

    Parameters
    ----------
    boxes, bandwidth, alpha
        As in `ndv2`, with NVSwitch in place of NVLink.

    Raises
    ------
    InputError
        If there is no box, or the numbers of values are wrong.
    """
    return _on_adapters("dgx2", boxes, 16, 2, (_NVSWITCH, _NVSWITCH_ALPHA), bandwidth, alpha)


def _on_adapters(
    family: str,
    boxes: int,
    gpus: int,
    sharing: int,
    defaults: tuple[Fraction, Fraction],
    bandwidth: Values,
    alpha: Values,
    fabric: Fabric = (),
) -> Topology:
    """Return boxes of GPUs; the GPUs of several boxes reach an InfiniBand switch over adapters.

    Parameters
    ----------
    family, boxes, gpus, bandwidth, alpha, fabric
        As in `platform`.
    sharing
        Number of GPUs on each adapter.
    defaults
        Bandwidth and α inside a box if none are given.
    """
    name, ranks = _checked_name(family, boxes, gpus), boxes * gpus
    box = np.repeat(np.arange(boxes), gpus)
    inside, nvswitches = _inside(boxes, gpus, fabric)
    wired = np.arange(ranks if boxes > 1 else 0)
    adapters, first = np.arange(len(wired) // sharing), ranks + len(nvswitches)
    infiniband = ["ib"] * (boxes > 1)
    return assemble(
        name,
        ranks,
        [
            inside,
            two_way(wired, first + wired // sharing),
            two_way(first + adapters, np.full(len(adapters), first + len(adapters))),
        ],
        per_class(f"topology {name}: bandwidth", bandwidth, [defaults[0], _PCIE, _INFINIBAND]),
        per_class(f"topology {name}: alpha", alpha, [defaults[1], _PCIE_ALPHA, _INFINIBAND_ALPHA]),
        switches=[*nvswitches, *(f"nic{i}" for i in adapters), *infiniband],
        hosts=[
            *box.tolist(),
            *range(len(nvswitches)),
            *box[::sharing][: len(adapters)].tolist(),
            *[NONE] * len(infiniband),
        ],
    )
