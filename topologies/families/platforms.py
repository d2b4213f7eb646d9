"""Platforms by their makers' data sheets: Hopper and Blackwell boxes, MI300X, TPUs, Trainium2.

Bandwidths are those of the data sheets, in one direction: a vendor's "bidirectional" number is twice as much.
No data sheet gives an α, so it is 0.5 us a link by default, as everywhere here. Boxes are as in
`topologies.families.machines`: one class of links inside, one outside, and one switch (or `rails`) outside.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from tutti.topologies.assembly import Values
from tutti.topologies.families.grids import torus
from tutti.topologies.families.machines import BOX_GPUS, H100_BANDWIDTH, platform
from tutti.topologies.topology import Topology
from tutti.topologies.units import GIGA

_CONNECTX7 = Fraction(50 * GIGA)
"""Bytes/s of a 400 Gb/s adapter."""
_NVLINK5 = (Fraction(900 * GIGA), _CONNECTX7)
"""Bytes/s of the 18 NVLinks of a Blackwell GPU together, and of its adapter."""
_MI300X = (Fraction(64 * GIGA), _CONNECTX7)
"""Bytes/s of one Infinity Fabric link, and of a GPU's adapter."""
_MI300X_FABRIC = [(a, b, 1) for a in range(BOX_GPUS) for b in range(a + 1, BOX_GPUS)]
"""One link between any two GPUs of a box."""
_TPU_V4 = Fraction(50 * GIGA)
"""Bytes/s of one of a chip's six links."""
_TPU_V5P = Fraction(100 * GIGA)
"""Bytes/s of one of a chip's six links."""
_NEURONLINK3 = Fraction(128 * GIGA)
"""Bytes/s from one chip to a neighbour, over all NeuronLinks between them."""


def dgx_h200(boxes: int, *, rails: int = 1, bandwidth: Values = None, alpha: Values = None) -> Topology:
    """Return DGX H200 boxes: the network of `dgx_h100`, whose GPUs have other memory.

    A GPU has 450 GB/s to NVSwitch, which multicasts and aggregates, and 50 GB/s to InfiniBand. Source:
    NVIDIA, DGX H200 data sheet (NVLink: 900 GB/s bidirectional per GPU; eight 400 Gb/s ConnectX-7).

    Parameters
    ----------
    boxes, rails, bandwidth, alpha
        As in `topologies.families.machines.dgx_a100`.

    Raises
    ------
    InputError
        If there is no box, or the number of rails or of values is wrong.
    """
    return platform("dgx_h200", boxes, BOX_GPUS, H100_BANDWIDTH, bandwidth, alpha, rails=rails, sharp=True)


def dgx_b200(boxes: int, *, rails: int = 1, bandwidth: Values = None, alpha: Values = None) -> Topology:
    """Return DGX B200 boxes: 8 GPUs each, 900 GB/s to and from an NVSwitch that multicasts and aggregates.

    With more than one box, each GPU also has 50 GB/s to and from InfiniBand. Source: NVIDIA, DGX B200 data
    sheet (fifth-generation NVLink, 1.8 TB/s bidirectional per GPU; eight 400 Gb/s ConnectX-7).

    Parameters
    ----------
    boxes, rails, bandwidth, alpha
        As in `topologies.families.machines.dgx_a100`.

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
    return platform("dgx_b200", boxes, BOX_GPUS, _NVLINK5, bandwidth, alpha, rails=rails, sharp=True)


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
        As in `topologies.families.machines.dgx_a100`; it divides 72.
    bandwidth, alpha
        One for all links, or two: NVLink, InfiniBand. Bytes/s and seconds, exact.

    Raises
    ------
    InputError
        If there is no rack, or the number of rails or of values is wrong.
    """
    return platform("gb200_nvl72", racks, 72, _NVLINK5, bandwidth, alpha, rails=rails, sharp=True)


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
        As in `topologies.families.machines.dgx_a100`.
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
    return platform("mi300x", boxes, BOX_GPUS, _MI300X, bandwidth, alpha, rails=rails, fabric=_MI300X_FABRIC)


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
    return _tpu("tpu_v4", lengths, _TPU_V4, bandwidth, alpha)


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
    return _tpu("tpu_v5p", lengths, _TPU_V5P, bandwidth, alpha)


def _tpu(
    family: str, lengths: tuple[int, ...], default: Fraction, bandwidth: Values, alpha: Values
) -> Topology:
    chips = torus(*lengths, bandwidth=default if bandwidth is None else bandwidth, alpha=alpha)
    return replace(chips, name=f"{family}:{'x'.join(map(str, lengths))}")


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
    chips = torus(4, 4, bandwidth=_NEURONLINK3 if bandwidth is None else bandwidth, alpha=alpha)
    return replace(chips, name="trn2")
