"""The machines of the TACCL paper, with V100 GPUs: DGX-1, Azure NDv2 and DGX-2.

Bandwidths and α are those that TACCL measured (TACCL, Table 1): a transfer of s MB takes α + β·s, over NVLink
0.7 us + 46 us/MB on NDv2 and DGX-1 (one NVLink) and 0.7 us + 8 us/MB on DGX-2 (all that a GPU has into
NVSwitch), over InfiniBand 1.7 us + 106 us/MB (one adapter). An MB is 10^6 bytes here as everywhere in this
project. The paper measured from GPU to GPU, so where a transfer crosses several links, through a switch or
adapters, its α is shared out: half for each link of NVSwitch, half for each link between an adapter and the
InfiniBand switch, nothing for PCIe.

Links between a GPU and an adapter have the 13 GB/s that the paper gives PCIe (section 4.1), which is more
than the adapter's, so that they never slow anything that goes through it. Adapters are switches (``nic0``,
...) that only forward; they are in their box (`Topology.hosts`), the InfiniBand switch ``ib`` is in none.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from topologies.assembly import Values, assemble, per_class
from topologies.platforms import NO_HOST, checked_name, fabric_of_boxes, two_way
from topologies.topology import Topology

_BYTES_PER_MB = 10**6
_US = Fraction(1, 10**6)


def _bytes_per_second(us_per_mb: int) -> Fraction:
    return _BYTES_PER_MB / (us_per_mb * _US)


_NVLINK = _bytes_per_second(46)
_NVSWITCH = _bytes_per_second(8)
_INFINIBAND = _bytes_per_second(106)
_PCIE = Fraction(13 * 10**9)

_NVLINK_ALPHA = Fraction(7, 10) * _US
_NVSWITCH_ALPHA = _NVLINK_ALPHA / 2
_INFINIBAND_ALPHA = Fraction(17, 10) * _US / 2
_PCIE_ALPHA = Fraction(0)

_DGX1_GPUS = 8
_DGX2_GPUS = 16
_DGX2_GPUS_A_NIC = 2

# fmt: off
_DGX1_FABRIC = (
    (0, 1, 2), (0, 2, 1), (0, 3, 1), (0, 4, 2), (1, 2, 1), (1, 3, 2), (1, 5, 1), (2, 3, 2),
    (2, 6, 2), (3, 7, 1), (4, 5, 2), (4, 6, 1), (4, 7, 1), (5, 6, 1), (5, 7, 2), (6, 7, 2),
)
# fmt: on
"""Pairs of GPUs of a box, and how many NVLinks join them."""


def dgx1(*, bandwidth: Values = None, alpha: Values = None) -> Topology:
    """Return a DGX-1: 8 V100 GPUs joined by NVLinks in two meshes of four, one link each; no switch.

    One of several NVLinks between two GPUs is a link of its own. Source: TACCL, Figure 5(a), Table 1 and
    section 4.2, which says that NDv2's NVLinks are those of DGX-1.

    Parameters
    ----------
    bandwidth, alpha
        Of an NVLink. Bytes/s and seconds, exact.

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
        _DGX1_GPUS,
        [fabric_of_boxes(_DGX1_FABRIC, 1, _DGX1_GPUS)],
        per_class(f"topology {name}: bandwidth", bandwidth, [_NVLINK]),
        per_class(f"topology {name}: alpha", alpha, [_NVLINK_ALPHA]),
        hosts=[0] * _DGX1_GPUS,
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
    name = checked_name("ndv2", boxes, _DGX1_GPUS)
    ranks = boxes * _DGX1_GPUS
    box = np.repeat(np.arange(boxes), _DGX1_GPUS)
    adapters = np.arange(boxes if boxes > 1 else 0)
    wired = np.arange(ranks if boxes > 1 else 0)
    return assemble(
        name,
        ranks,
        [
            fabric_of_boxes(_DGX1_FABRIC, boxes, _DGX1_GPUS),
            two_way(wired, ranks + wired // _DGX1_GPUS),
            two_way(ranks + adapters, np.full(len(adapters), ranks + len(adapters))),
        ],
        per_class(f"topology {name}: bandwidth", bandwidth, [_NVLINK, _PCIE, _INFINIBAND]),
        per_class(f"topology {name}: alpha", alpha, [_NVLINK_ALPHA, _PCIE_ALPHA, _INFINIBAND_ALPHA]),
        switches=[*(f"nic{i}" for i in adapters), *["ib"] * (boxes > 1)],
        hosts=[*box.tolist(), *adapters.tolist(), *[NO_HOST] * (boxes > 1)],
    )


def dgx2(boxes: int, *, bandwidth: Values = None, alpha: Values = None) -> Topology:
    """Return DGX-2 boxes: 16 V100 GPUs each on an NVSwitch, and an InfiniBand adapter for every two GPUs.

    With more than one box, GPUs 2j and 2j + 1 reach adapter j of their box over PCIe, and the adapters are
    joined by one InfiniBand switch. The switches only forward. Source: TACCL, Figure 5(c), Table 1, section
    7.1.1 (every two GPUs share a PCIe switch with an adapter) and appendix A (8 adapters a box).

    Parameters
    ----------
    boxes
        At least 1.
    bandwidth, alpha
        One for all links, or three: NVSwitch, PCIe (GPU and adapter), InfiniBand (adapter and switch).
        Bytes/s and seconds, exact.

    Raises
    ------
    InputError
        If there is no box, or the numbers of values are wrong.
    """
    name = checked_name("dgx2", boxes, _DGX2_GPUS)
    ranks = boxes * _DGX2_GPUS
    gpu, box = np.arange(ranks), np.repeat(np.arange(boxes), _DGX2_GPUS)
    wired = gpu if boxes > 1 else gpu[:0]
    adapters = np.arange(len(wired) // _DGX2_GPUS_A_NIC)
    first = ranks + boxes
    return assemble(
        name,
        ranks,
        [
            two_way(gpu, ranks + box),
            two_way(wired, first + wired // _DGX2_GPUS_A_NIC),
            two_way(first + adapters, np.full(len(adapters), first + len(adapters))),
        ],
        per_class(f"topology {name}: bandwidth", bandwidth, [_NVSWITCH, _PCIE, _INFINIBAND]),
        per_class(f"topology {name}: alpha", alpha, [_NVSWITCH_ALPHA, _PCIE_ALPHA, _INFINIBAND_ALPHA]),
        switches=[
            *(f"nvswitch{i}" for i in range(boxes)),
            *(f"nic{i}" for i in adapters),
            *["ib"] * (boxes > 1),
        ],
        hosts=[
            *box.tolist(),
            *range(boxes),
            *box[::_DGX2_GPUS_A_NIC][: len(adapters)].tolist(),
            *[NO_HOST] * (boxes > 1),
        ],
    )
