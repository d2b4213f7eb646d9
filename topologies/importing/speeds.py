"""Bandwidths by the model of a device, as NCCL and RCCL take them; bytes per second, one way.

Source: NCCL 2.30.7 (src/graph/topo.h, topo.cc) and RCCL (topo.h); what they measured, less than data sheets.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from fractions import Fraction

from tutti.topologies.units import GIGA

_NVLINK = ((100, "40.1"), (90, "20.6"), (87, "20"), (86, "12"), (70, "20"), (60, "18"))
"""GIGA/s of one NVLink, from this compute capability (times ten) on."""
_XGMI = (
    (re.compile("gfx95|950"), "48"),
    (re.compile("gfx94|94[0-2]"), "48"),
    (re.compile("gfx90a|910"), "36"),
    (re.compile("(gfx)?90[0-8]"), "24"),
)
"""GIGA/s of one Infinity Fabric link, by the start of the GPU's architecture as RCCL writes it."""
_GENERATIONS = {"2.5": 15, "5": 30, "8": 60, "16": 120, "32": 240, "64": 480}
"""What a PCIe lane carries, in 100 Mb/s, by its GT/s."""
_UNKNOWN_GENERATION = 60
PCIE_WIDTH = 16
UNKNOWN_NIC = 10_000
"""Mb/s of an adapter that doesn't tell."""
_POWER, _ARM, _AMD = Fraction(32 * GIGA), Fraction(6 * GIGA), Fraction(16 * GIGA)
_INTEL = ((0xCF, 40), (0x8F, 22), (0x55, 10), (0, 6))
"""GIGA/s between two Intel CPUs, from this model of family 6 on: Emerald Rapids, Sapphire Rapids, Skylake."""


def nvlink_bandwidth(capability: int) -> Fraction | None:
    """Return the bandwidth of one NVLink of a GPU of a compute capability (times ten), or None.

    Examples
    --------
    >>> nvlink_bandwidth(90)
    Fraction(20600000000, 1)
    """
    speed = next((speed for least, speed in _NVLINK if capability >= least), None)
    return None if speed is None else Fraction(speed) * GIGA


def xgmi_bandwidth(architecture: str) -> Fraction | None:
    """Return the bandwidth of one Infinity Fabric link of a GPU by its ``gcn``, or None."""
    speed = next((speed for name, speed in _XGMI if name.match(architecture)), None)
    return None if speed is None else Fraction(speed) * GIGA


def pcie_bandwidth(speed: str, width: int) -> Fraction:
    """Return the bandwidth of a PCIe link of so many lanes; 8 GT/s where the speed is none that is known.

    Parameters
    ----------
    speed
        Such as ``16 GT/s`` or ``16.0 GT/s PCIe``.
    width
        Lanes; 0, as virtual machines report it, means 16.

    Examples
    --------
    >>> pcie_bandwidth("32.0 GT/s PCIe", 16)
    Fraction(48000000000, 1)
    """
    words = speed.split() or [""]
    lane = _GENERATIONS.get(words[0].removesuffix(".0"), _UNKNOWN_GENERATION)
    return Fraction((width or PCIE_WIDTH) * lane * GIGA, 80)


def nic_bandwidth(megabits: int) -> Fraction:
    """Return the bandwidth of an adapter of so many Mb/s; 10 Gb/s where it is none."""
    return Fraction((megabits if megabits > 0 else UNKNOWN_NIC) * 10**6, 8)


def cpu_bandwidth(cpu: Mapping[str, str]) -> Fraction | None:
    """Return the bandwidth between two CPUs (NUMA nodes) by the attributes of a ``cpu``, or None."""
    architecture, vendor = cpu.get("arch", ""), cpu.get("vendor", "")
    if architecture.startswith("ppc"):
        return _POWER
    if architecture in ("arm64", "aarch64"):
        return _ARM
    if vendor == "AuthenticAMD":
        return _AMD
    if vendor != "GenuineIntel":
        return None
    family, model = (_integer(cpu.get(name, "")) for name in ("familyid", "modelid"))
    return next(Fraction(speed * GIGA) for least, speed in _INTEL if least <= model * (family == 6))


def _integer(text: str) -> int:
    return int(text) if re.fullmatch("[0-9]{1,9}", text) else 0
