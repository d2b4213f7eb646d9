"""Finds where a falling number reaches 1, by secants of its reciprocal."""

from __future__ import annotations

from collections.abc import Sequence

STEP = 1.2
"""Factor from the first time to the second, and beyond times for which there is no maximum."""


def secant(times: Sequence[float], reciprocals: Sequence[float]) -> float:
    """Return where the line through the last two reaches 1, no less than the first time.

    Examples
    --------
    >>> secant([1.0, 2.0], [0.5, 0.75])
    3.0
    """
    if len(times) > 1 and reciprocals[-1] != reciprocals[-2]:
        slope = (reciprocals[-1] - reciprocals[-2]) / (times[-1] - times[-2])
        return min(max(times[-1] + (1 - reciprocals[-1]) / slope, times[0]), 2 * times[-1])
    return times[-1] * STEP
