"""What a collective takes under given α, M and bandwidth of a node, from costs in steps and in M/B."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from topologies.errors import InputError
from topologies.units import format_size, parse_bandwidth, parse_size, parse_time

MICRO = 10**6


@dataclass(frozen=True)
class Workload:
    """α in seconds, M in bytes, and B, a node's bandwidth over all its links, in bytes per second."""

    alpha: Fraction
    size: Fraction
    bandwidth: Fraction

    @classmethod
    def parse(cls, alpha: str, size: str, bandwidth: str) -> Workload:
        """Return the workload of three texts with units.

        Raises
        ------
        InputError
            If one has no unit, or the size is 0.
        """
        made = cls(parse_time(alpha), Fraction(parse_size(size)), parse_bandwidth(bandwidth))
        if made.size <= 0:
            raise InputError(f"--size is {size}; it must be positive")
        return made

    def __str__(self) -> str:
        """Return the size, by which workloads of one page differ."""
        return format_size(self.size)

    def allreduce_us(self, tl: int, tb: Fraction) -> float:
        """Return twice T_L α + T_B, a reduce-scatter and an allgather, in microseconds.

        Examples
        --------
        >>> round(Workload.parse("10us", "1MiB", "100Gb/s").allreduce_us(6, Fraction(102, 100)), 1)
        291.1
        """
        return self.microseconds(2 * (tl * self.alpha + tb * self.size / self.bandwidth))

    def all_to_all_us(self, factor: Fraction | float, divisor: int = 1) -> float:
        """Return what factor / divisor in units of M/B takes, in microseconds."""
        return float(factor) / divisor * self.microseconds(self.size / self.bandwidth)

    def microseconds(self, seconds: Fraction) -> float:
        """Return seconds in microseconds, as a report has them."""
        return float(seconds * MICRO)


def least_hops(nodes: int, degree: int) -> int:
    """Return the least sum of distances from a node to all others: d^k at distance k, while they last.

    Over N it is the least all-to-all time in M/B on any network of degree d (the bound of Table A.1).

    Examples
    --------
    >>> least_hops(1024, 4)
    4667
    """
    left, width, distance, total = nodes - 1, 1, 0, 0
    while left > 0:
        width, distance = width * degree, distance + 1
        here = min(width, left)
        total, left = total + here * distance, left - here
    return total
