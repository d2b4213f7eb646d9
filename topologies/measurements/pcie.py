"""Finding the GPUs that share a PCIe switch, and those near the adapter, by copies to the CPU (TACCL, 4.2).

A virtual machine hides its PCIe tree. A PCIe switch has one link to the CPU. Two GPUs at one switch that copy
at the same time share the bandwidth of this link. So do a GPU's copy and a loopback between the CPU and an
adapter at the same switch.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tutti.topologies.errors import InputError
from tutti.topologies.exact import BoolArray, FloatArray

SHARED = 0.75
"""A copy that has less than this part of its bandwidth alone is taken to share a link. Two copies over one
link have 1/2 each, and over two links 1. A larger value takes more noise for contention."""


class PcieProbes(NamedTuple):
    """The measurements, with bandwidths in bytes/s.

    Parameters
    ----------
    alone
        float64, shape (gpus,): of each GPU's copy to its CPU while nothing else is copied.
    together
        float64, shape (gpus, gpus): of GPU i's copy while GPU j's runs too; the diagonal is not read.
    loopback
        Seconds, float64, shape (cpus,): the latency of a loopback between each CPU and the adapter.
    beside
        float64, shape (gpus,): of each GPU's copy while the CPU nearest to the adapter does such a loopback.
    """

    alone: FloatArray
    together: FloatArray
    loopback: FloatArray
    beside: FloatArray


class PcieLayout(NamedTuple):
    """The GPUs of each PCIe switch, the CPU nearest to the adapter, and the GPUs on the adapter's switch."""

    switches: list[tuple[int, ...]]
    near_cpu: int
    near_gpus: tuple[int, ...]


def infer_pcie(probes: PcieProbes) -> PcieLayout:
    """Return which GPUs share a PCIe switch with one another and with the adapter.

    Raises
    ------
    InputError
        If shapes do not match, a number is not above 0, or the answers contradict one another.

    Examples
    --------
    >>> alone, half = np.full(3, 12e9), 6e9
    >>> together = np.array([[0, 12e9, half], [12e9, 0, 12e9], [half, 12e9, 0]])
    >>> infer_pcie(PcieProbes(alone, together, np.array([5e-6, 3e-6]), np.array([12e9, half, 12e9])))
    PcieLayout(switches=[(0, 2), (1,)], near_cpu=1, near_gpus=(1,))
    """
    alone, together, loopback, beside = map(np.asarray, probes)
    count = len(alone)
    others = ~np.eye(count, dtype=np.bool_)
    if together.shape != (count, count) or beside.shape != (count,) or not len(loopback):
        raise InputError(f"PCIe probes of {count} GPUs: together is no square of them, or others are missing")
    if not all((values > 0).all() for values in (alone, together[others], loopback, beside)):
        raise InputError("PCIe probes: every bandwidth and latency must be above 0")
    slowed = together < SHARED * alone[:, None]
    # Two GPUs share a switch if either slows the other; each shares one with itself.
    sharing = (slowed | slowed.T) & others | ~others
    switches = sorted({_numbers(row) for row in sharing})
    if sum(map(len, switches)) > count:  # sets of GPUs overlap without being equal
        one, other = next((a, b) for a in switches for b in switches if a < b and set(a) & set(b))
        raise InputError(
            f"PCIe probes: GPUs {one} and {other} overlap, so they are no switches; measure again"
        )
    # The loopback slows the GPUs at the adapter's switch: all of one switch, or none.
    near = _numbers(beside < SHARED * alone)
    if near and near not in switches:
        raise InputError(f"PCIe probes: the adapter slows GPUs {near}, which are no switch of {switches}")
    return PcieLayout(switches, int(np.argmin(loopback)), near)


def _numbers(chosen: BoolArray) -> tuple[int, ...]:
    return tuple(np.flatnonzero(chosen).tolist())
