"""What a device computes in a second: peaks of a data sheet, and the share of them that is reached."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from tutti.experiments.training.workload import Pass
from tutti.topologies.errors import InputError, suggestion


@dataclass(frozen=True)
class Accelerator:
    """Peaks, and the share of the arithmetic one that large products reach.

    Parameters
    ----------
    flops
        16-bit, dense, a second.
    bandwidth
        Of its memory, bytes a second.
    efficiency
        Above 0, at most 1.
    """

    flops: float
    bandwidth: float
    efficiency: float = 0.5

    def __post_init__(self) -> None:
        """Check the share."""
        if not 0 < self.efficiency <= 1:
            raise InputError(
                f"efficiency is {self.efficiency}; it is a share of the peak, above 0 and at most 1"
            )

    def seconds(self, flops: Fraction | float, read: Fraction | float) -> Pass:
        """Return a pass of so many operations and bytes: whichever takes longer (the roofline)."""
        return Pass(max(float(flops) / (self.flops * self.efficiency), float(read) / self.bandwidth))


DEVICES = {
    "v100": (125e12, 900e9),
    "a100": (312e12, 1555e9),
    "a100_80g": (312e12, 2039e9),
    "h100": (989e12, 3350e9),
    "h200": (989e12, 4800e9),
    "b200": (2250e12, 8000e9),
    "mi250": (362e12, 3277e9),
    "mi300x": (1307e12, 5300e9),
    "tpu_v4": (275e12, 1228e9),
}
"""FLOPS (16 bits, dense) and bytes/s of the vendors' data sheets; SXM parts."""


def find_device(name: str, efficiency: float = 0.5) -> Accelerator:
    """Return a device by its name.

    Raises
    ------
    InputError
        If there is none.
    """
    if name not in DEVICES:
        raise InputError(f"unknown device '{name}'{suggestion(name, DEVICES)}")
    return Accelerator(*DEVICES[name], efficiency)
