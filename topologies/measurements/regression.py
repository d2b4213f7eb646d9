r"""The line α + β·s through measured times, by least squares of relative errors.

.. math:: \min_{α, β} \sum_i \left(\frac{m_i α + β s_i}{t_i} - 1\right)^2

A sample is s bytes in m messages that follow one another, each of which pays α. n chunks of c bytes thus take
n (α + β c) one after the other (m = n), and α + β n c sent as one buffer (m = 1; TACCL, section 4.1). Every
size has the same weight: with plain least squares the largest times alone would determine α. The intervals
are those of 95 % by Student's distribution, for relative errors that are independent and identically
distributed. Measured errors are so only roughly: the sizes at which the line is off say more.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tutti.topologies.errors import InputError
from tutti.topologies.exact import FloatArray

TOLERANCE = 0.1
"""Relative error above which a size does not fit the line. A larger value reports fewer sizes."""

Interval = tuple[float, float]


@dataclass(frozen=True)
class AlphaBetaLine:
    """The α and β of measured times.

    Parameters
    ----------
    alpha, beta
        Seconds, and seconds per byte.
    alpha_interval, beta_interval
        The 95 % intervals; None if there are only two samples, or if the value is at its limit.
    samples
        The number of times.
    off
        The sizes of a message (bytes) at which the line is off by more than the tolerance on average, each
        with the error as a fraction of the measured time; it is positive if the line is above it.
    worst
        The error of largest absolute value, of any size.
    note
        What was done if the plain line makes no sense; or nothing.
    """

    alpha: float
    beta: float
    alpha_interval: Interval | None
    beta_interval: Interval | None
    samples: int
    off: tuple[tuple[float, float], ...]
    worst: float
    note: str = ""

    @property
    def bandwidth(self) -> float | None:
        """Bytes per second, 1/β."""
        return 1 / self.beta if self.beta > 0 else None

    @property
    def bandwidth_interval(self) -> Interval | None:
        """The 95 % interval of the bandwidth; None also if the slope may be zero."""
        if self.beta_interval is None or self.beta_interval[0] <= 0:
            return None
        low, high = self.beta_interval
        return 1 / high, 1 / low


def fit(
    size: FloatArray, seconds: FloatArray, tolerance: float = TOLERANCE, messages: FloatArray | float = 1.0
) -> AlphaBetaLine:
    """Return the line through measured times.

    Neither α nor β is negative: if one would be, it is 0, and the other is fitted alone.

    Parameters
    ----------
    size, seconds
        float64, shape (samples,): bytes, and the times that they took, above 0.
    tolerance
        The relative error above which a size does not fit.
    messages
        m, float64, shape (samples,) or one for all: how many messages carry the bytes, one after the other.

    Raises
    ------
    InputError
        If all messages have one size, so that α and β can't be separated.

    Examples
    --------
    >>> line = fit(np.array([1e3, 1e6, 1e9]), 5e-6 + np.array([1e3, 1e6, 1e9]) / 20e9)
    >>> round(line.alpha * 1e6, 6), round(line.bandwidth / 1e9, 6), line.off
    (5.0, 20.0, ())
    """
    each = size / messages
    if len(np.unique(each)) < 2:
        raise InputError(f"all times are of one size, {each[0]:g} B: alpha and bandwidth can't be told apart")
    scale = size.max()
    design = np.stack([messages / seconds, size / scale / seconds], axis=1)
    values, intervals = _solve(design)
    note = ""
    if values.min() < 0:
        free = int(np.argmax(values))
        one, interval = _solve(design[:, [free]])
        values, intervals = np.zeros(2), [None, None]
        values[free], intervals[free] = one[0], interval[0]
        note = ("the times do not grow with size", "alpha would be negative, so it is 0")[free]
    sizes, which, count = np.unique(each, return_inverse=True, return_counts=True)
    errors = np.bincount(which, weights=design @ values - 1) / count
    worst = float(errors[np.argmax(np.abs(errors))])
    large = np.flatnonzero(np.abs(errors) > tolerance)
    off = tuple(zip(sizes[large].tolist(), errors[large].tolist(), strict=True))
    beta = intervals[1] and (intervals[1][0] / scale, intervals[1][1] / scale)
    return AlphaBetaLine(
        float(values[0]), float(values[1] / scale), intervals[0], beta, len(size), off, worst, note
    )


def _solve(design: FloatArray) -> tuple[FloatArray, list[Interval | None]]:
    """Return the factors of the columns that make their sum closest to ones, with intervals."""
    from scipy.special import stdtrit  # slow to import, and few commands need it

    unit = np.linalg.norm(design, axis=0)  # normalized columns, as their magnitudes differ a lot
    columns = design / unit
    values = np.linalg.lstsq(columns, np.ones(len(design)))[0]
    free = len(design) - len(unit)
    if free < 1:
        return values / unit, [None] * len(unit)
    residual = float(((columns @ values - 1) ** 2).sum()) / free
    deviation = np.sqrt(residual * np.diag(np.linalg.pinv(columns.T @ columns)))
    reach = float(stdtrit(free, 0.975)) * deviation
    return values / unit, [
        (float((value - width) / length), float((value + width) / length))
        for value, width, length in zip(values, reach, unit, strict=True)
    ]
