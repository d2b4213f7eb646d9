"""Machines: boxes of GPUs with switches, by the ForestColl and TACCL papers or their makers' data sheets.

Links are numbered by source, then by class (inside a box, InfiniBand), then by target. `Topology.hosts` is
the box of each GPU and of its switch, -1 for the InfiniBand switches, which are shared.

DGX A100, DGX H100 and MI250 are ForestColl's: each link class has its own bandwidth, and α is 0.5 us a link
unless given. Other Hopper and Blackwell boxes, MI300X, TPUs and Trainium2 have the bandwidths of their
makers' data sheets in one direction: a vendor's "bidirectional" number is twice as much. No data sheet gives
an α.

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
from itertools import combinations
from typing import NamedTuple

import numpy as np

from tutti.topologies.assembly import Arcs, Values, assemble, at_least, check_size
from tutti.topologies.errors import InputError
from tutti.topologies.exact import NONE
from tutti.topologies.families.grids import torus, two_way
from tutti.topologies.topology import Topology
from tutti.topologies.units import GIGA, MEGA

Fabric = Sequence[tuple[int, int, int]]
"""The links inside a box: two GPUs, and the number of links that join them."""

# fmt: off
_MI250_FABRIC = (
    (0, 1, 4), (0, 4, 2), (0, 8, 1), (1, 5, 1), (1, 9, 1), (1, 10, 1), (2, 3, 4),
    (2, 6, 1), (2, 9, 1), (2, 10, 1), (3, 7, 2), (3, 11, 1), (4, 5, 4), (4, 6, 1),
    (5, 6, 1), (5, 7, 1), (6, 7, 4), (8, 9, 4), (8, 12, 2), (9, 13, 1), (10, 11, 4),
    (10, 14, 1), (11, 15, 2), (12, 13, 4), (12, 14, 1), (13, 14, 1), (13, 15, 1), (14, 15, 4),
)
# fmt: on
"""Pairs of GPUs of a box, and the number of Infinity Fabric links that join them; a GPU has seven."""


class Platform(NamedTuple):
    """Boxes of GPUs that are joined by InfiniBand or Ethernet.

    Parameters
    ----------
    gpus
        The number of GPUs in a box.
    inside
        GB/s from a GPU to its box's switch, or of one link of the fabric.
    outside
        GB/s of a GPU's adapter, or of its part of the box's adapters.
    fabric
        The links inside a box; empty if its GPUs are on a switch.
    sharp
        Whether the switches of boxes multicast and aggregate; the others only forward.
    """

    gpus: int
    inside: int
    outside: int
    fabric: Fabric = ()
    sharp: bool = False


PLATFORMS = {
    "dgx_a100": Platform(8, 300, 25),
    "dgx_h100": Platform(8, 450, 50, sharp=True),
    "dgx_h200": Platform(8, 450, 50, sharp=True),
    "dgx_b200": Platform(8, 900, 50, sharp=True),
    "gb200_nvl72": Platform(72, 900, 50, sharp=True),
    "mi250": Platform(16, 50, 16, _MI250_FABRIC),
    "mi300x": Platform(8, 64, 50, [(*pair, 1) for pair in combinations(range(8), 2)]),
}
"""The platforms by their family. A Blackwell GPU has 18 NVLinks, and outside most have a 400 Gb/s adapter."""


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
    return _platform("dgx_a100", boxes, rails, bandwidth, alpha)


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
    return _platform("dgx_h100", boxes, rails, bandwidth, alpha)


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
    return _platform("mi250", boxes, 1, bandwidth, alpha)


def dgx_h200(boxes: int, *, rails: int = 1, bandwidth: Values = None, alpha: Values = None) -> Topology:
    """Return DGX H200 boxes: the network of `dgx_h100`, whose GPUs have other memory.

    A GPU has 450 GB/s to NVSwitch, which multicasts and aggregates, and 50 GB/s to InfiniBand. Source:
    NVIDIA, DGX H200 data sheet (NVLink: 900 GB/s bidirectional per GPU; eight 400 Gb/s ConnectX-7).

    Parameters
    ----------
    boxes, rails, bandwidth, alpha
        As in `dgx_a100`.

    Raises
    ------
    InputError
        If there is no box, or the number of rails or of values is wrong.
    """
    return _platform("dgx_h200", boxes, rails, bandwidth, alpha)


def dgx_b200(boxes: int, *, rails: int = 1, bandwidth: Values = None, alpha: Values = None) -> Topology:
    """Return DGX B200 boxes: 8 GPUs each, 900 GB/s to and from an NVSwitch that multicasts and aggregates.

    With more than one box, each GPU also has 50 GB/s to and from InfiniBand. Source: NVIDIA, DGX B200 data
    sheet (fifth-generation NVLink, 1.8 TB/s bidirectional per GPU; eight 400 Gb/s ConnectX-7).

    Parameters
    ----------
    boxes, rails, bandwidth, alpha
        As in `dgx_a100`.

    Raises
    ------
    InputError
        If there is no box, or the number of rails or of values is wrong.

    Examples
    --------
    >>> box = dgx_b200(1)
    >>> box.num_ranks, box.labels[8:], int(box.egress[0] / 10**9)
    (8, ('nvswitch0',), 900)
    """
    return _platform("dgx_b200", boxes, rails, bandwidth, alpha)


def gb200_nvl72(racks: int, *, rails: int = 1, bandwidth: Values = None, alpha: Values = None) -> Topology:
    """Return GB200 NVL72 racks: 72 GPUs each, 900 GB/s to and from the rack's NVLink switches.

    The nine switch trays count as one switch (``nvswitch0``, ...), which multicasts and aggregates. With more
    than one rack, each GPU also has 50 GB/s to and from InfiniBand; four GPUs share a tray, so four rails are
    usual. Source: NVIDIA, GB200 NVL72 data sheet (1.8 TB/s bidirectional per GPU, 130 TB/s per rack) and
    reference architecture (a 400 Gb/s ConnectX-7 a GPU).

    Parameters
    ----------
    racks
        At least 1.
    rails
        As in `dgx_a100`; it divides 72.
    bandwidth, alpha
        One for all links, or two: NVLink, InfiniBand. Bytes/s and seconds, exact.

    Raises
    ------
    InputError
        If there is no rack, or the number of rails or of values is wrong.
    """
    return _platform("gb200_nvl72", racks, rails, bandwidth, alpha)


def mi300x(boxes: int, *, rails: int = 1, bandwidth: Values = None, alpha: Values = None) -> Topology:
    """Return AMD MI300X boxes: 8 GPUs each, every two joined by an Infinity Fabric link of 64 GB/s.

    With more than one box, each GPU also has 50 GB/s to and from InfiniBand or Ethernet (``ib``). Source:
    AMD, Instinct MI300X platform data sheet (seven links per GPU, each 128 GB/s bidirectional, 896 GB/s in
    all); Microsoft, ND MI300X v5 (a 400 Gb/s ConnectX-7 a GPU).

    Parameters
    ----------
    boxes
        At least 1.
    rails
        As in `dgx_a100`.
    bandwidth, alpha
        One for all links, or two: Infinity Fabric, outside. Bytes/s and seconds, exact.

    Raises
    ------
    InputError
        If there is no box, or the number of rails or of values is wrong.

    Examples
    --------
    >>> boxes = mi300x(2)
    >>> boxes.num_ranks, boxes.num_links, int(boxes.egress[0] / 10**9)  # 7 · 64 + 50
    (16, 144, 498)
    """
    return _platform("mi300x", boxes, rails, bandwidth, alpha)


def tpu_v4(*lengths: int, bandwidth: Values = None, alpha: Values = None) -> Topology:
    """Return a slice of a TPU v4 pod: a 3D torus with 50 GB/s a link each way, six links a chip.

    Real slices wrap only if they consist of 4x4x4 cubes; ``mesh:2x2x1?bandwidth=50GB/s`` is one that doesn't.
    Slices with twisted wraps are ``twisted_torus``. Source: Jouppi et al., TPU v4: an optically
    reconfigurable supercomputer for machine learning (ISCA 2023), Table 4 and section 2.

    Parameters
    ----------
    *lengths
        A, B and C, as `topologies.families.grids.torus` takes them.
    bandwidth, alpha
        One for all dimensions or one each. Bytes/s and seconds, exact.

    Raises
    ------
    InputError
        If a length is less than 1, there are fewer than two chips, or the number of values is wrong.
    """
    return _torus_of_chips(f"tpu_v4:{'x'.join(map(str, lengths))}", lengths, 50, bandwidth, alpha)


def tpu_v5p(*lengths: int, bandwidth: Values = None, alpha: Values = None) -> Topology:
    """Return a slice of a TPU v5p pod: a 3D torus with 100 GB/s a link each way, six links a chip.

    Source: Google Cloud, TPU v5p (1,200 GB/s bidirectional per chip, 3D torus). Wraps are as those of
    `tpu_v4`.

    Parameters
    ----------
    *lengths, bandwidth, alpha
        As in `tpu_v4`.

    Raises
    ------
    InputError
        As `tpu_v4`.
    """
    return _torus_of_chips(f"tpu_v5p:{'x'.join(map(str, lengths))}", lengths, 100, bandwidth, alpha)


def trn2(*, bandwidth: Values = None, alpha: Values = None) -> Topology:
    """Return an AWS Trn2 instance: 16 Trainium2 chips in a 4x4 torus, 128 GB/s a link each way.

    A chip has 1.28 TB/s of NeuronLink-v3, bidirectional: a fifth for each of its four neighbours, the last
    for the other instances of an UltraServer, which are not here. Source: AWS Neuron documentation, Trn2 and
    Trainium2 architecture; SemiAnalysis, Trainium2 architecture and networking (2024), for the fifths.

    Parameters
    ----------
    bandwidth, alpha
        One for all links, or one a dimension. Bytes/s and seconds, exact.

    Raises
    ------
    InputError
        If the number of values is wrong.
    """
    return _torus_of_chips("trn2", (4, 4), 128, bandwidth, alpha)


def _torus_of_chips(
    name: str, lengths: tuple[int, ...], default: int, bandwidth: Values, alpha: Values
) -> Topology:
    """Return a torus whose links carry `default` GB/s, unless a bandwidth is given."""
    rate = Fraction(default * GIGA) if bandwidth is None else bandwidth
    return replace(torus(*lengths, bandwidth=rate, alpha=alpha), name=name)


def _platform(family: str, boxes: int, rails: int, bandwidth: Values, alpha: Values) -> Topology:
    """Return boxes of a platform; several are joined by a switch per rail, GPU i is on i modulo `rails`."""
    gpus, inside_rate, outside_rate, fabric, sharp = PLATFORMS[family]
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
        default_bandwidth=[Fraction(inside_rate * GIGA), Fraction(outside_rate * GIGA)],
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


_US = Fraction(1, 10**6)


_NVLINK, _NVSWITCH, _INFINIBAND = (MEGA / (us_per_mb * _US) for us_per_mb in (46, 8, 106))
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
    return assemble(
        "dgx1",
        8,
        [_fabric_of_boxes(_DGX1_FABRIC, 1, 8)],
        bandwidth,
        alpha,
        default_bandwidth=[_NVLINK],
        default_alpha=[_NVLINK_ALPHA],
        hosts=[0] * 8,
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
    return _on_adapters("ndv2", boxes, 8, 8, inside, bandwidth, alpha, _DGX1_FABRIC)


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
        The name before the colon, the numbers of boxes and of GPUs in each, the given values, the links
        inside a box (none if its GPUs are on a switch).
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
        bandwidth,
        alpha,
        default_bandwidth=[defaults[0], _PCIE, _INFINIBAND],
        default_alpha=[defaults[1], _PCIE_ALPHA, _INFINIBAND_ALPHA],
        switches=[*nvswitches, *(f"nic{i}" for i in adapters), *infiniband],
        hosts=[
            *box.tolist(),
            *range(len(nvswitches)),
            *box[::sharing][: len(adapters)].tolist(),
            *[NONE] * len(infiniband),
        ],
    )
