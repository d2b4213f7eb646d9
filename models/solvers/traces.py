r"""Incumbents and bounds over time, read from the logs of solvers that tell them nowhere else.

OR-Tools' interface to CP-SAT and SCIP by arrays has no callbacks. CP-SAT writes a line for each better
solution and each better bound,

.. code-block:: text

    #1       0.12s best:7     next:[3,6]      main
    #Bound   0.13s best:7     next:[6,6]      main

with what the next solution may be worth in brackets: nothing, once the last one is optimal. SCIP writes a
table, with seconds to a tenth and its two bounds to six digits; ``--`` stands for none,

.. code-block:: text

     time | node  | left  |LP iter| ... |  dualbound   | primalbound  |  gap   | compl.
    p 3.3s|     1 |     0 |     0 | ... | 4.000000e+00 | 2.900000e+01 | 625.00%| unknown
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from models.solvers.start import Progress

CPSAT_LINE = re.compile(
    r"^#(?:\d+|Bound|Done)\s+([\d.]+)s (?:.*?best:(\S+)\s+next:\[([^\]]*)\])?", re.MULTILINE
)
SCIP_HEAD = "dualbound"
INFINITE = 1e20
"""SCIP's infinity."""


def cpsat_trace(log: str, *, maximize: bool) -> Iterator[Progress]:
    """Yield what a log of CP-SAT tells, in order.

    Parameters
    ----------
    log
        With ``log_search_progress``.
    maximize
        The model's sense: which end of what is still possible is the bound.

    Examples
    --------
    >>> list(cpsat_trace("#Bound 0.1s best:inf next:[3,15] main", maximize=False))
    [Progress(seconds=0.1, incumbent=None, bound=3.0)]
    """
    incumbent: float | None = None
    bound: float | None = None
    for seconds, best, left in CPSAT_LINE.findall(log):
        if best:
            incumbent = _finite(best)
            ends = [_finite(end) for end in left.split(",")] if left else [incumbent]
            bound = ends[-1] if maximize else ends[0]
        yield Progress(float(seconds), incumbent, bound)


def scip_trace(log: str) -> Iterator[Progress]:
    """Yield what the table in a log of SCIP tells, in order."""
    places: tuple[int, int] | None = None
    for line in log.splitlines():
        cells = [cell.strip() for cell in line.split("|")]
        if SCIP_HEAD in cells:
            places = cells.index(SCIP_HEAD), cells.index("primalbound")
        elif places is not None and len(cells) > max(places):
            seconds = re.search(r"([\d.]+)s$", cells[0])
            if seconds is not None:
                dual, primal = (_finite(cells[place]) for place in places)
                yield Progress(float(seconds[1]), primal, dual)


def _finite(text: str) -> float | None:
    """Return a number, or None for one that is infinite or none."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and abs(value) < INFINITE else None
