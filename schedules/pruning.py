"""Pruning: transfers that serve no postcondition are dropped.

A transfer is of use if the rank that it goes to must have the chunk in the end, or sends it on in a transfer
that is of use. What is sent on is sent later, so one pass from the last transfer to the first finds all.

A solver leaves such transfers where they cost its objective nothing. They cost time where they end last, and
have no reverse: backwards, a rank would add what it does not have (`schedules.reversal`).
"""

from __future__ import annotations

import numpy as np

from tutti.topologies.exact import BoolArray, IntArray


def useful_transfers(chunk: IntArray, source: IntArray, target: IntArray, wanted: BoolArray) -> BoolArray:
    """Return which transfers serve a postcondition, bool (transfers,).

    Parameters
    ----------
    chunk, source, target
        Shape (transfers,): what each transfer copies from where to where; each comes before those that send
        on what it brings, and brings what is not there yet, as in a schedule that is verified.
    wanted
        Shape (chunks, nodes): who must have each chunk in the end.

    Examples
    --------
    A chunk goes from 0 to 1, which passes it on to 2, and to 3; only 2 must have it.

    >>> wanted = np.array([[False, False, True, False]])
    >>> useful_transfers(np.array([0, 0, 0]), np.array([0, 1, 0]), np.array([1, 2, 3]), wanted).tolist()
    [True, True, False]
    """
    needed = wanted.copy()
    useful = np.zeros(len(chunk), np.bool_)
    rows = zip(chunk.tolist(), source.tolist(), target.tolist(), strict=True)
    for row, (c, a, b) in reversed(list(enumerate(rows))):
        if needed[c, b]:
            useful[row] = needed[c, a] = True
    return useful
