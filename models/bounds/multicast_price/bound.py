"""The bound ``multicast_price`` for data that goes from one rank to several, or is reduced at one rank."""

from __future__ import annotations

import math
from fractions import Fraction

from tutti.models.bounds.bound import SECONDS, Bound
from tutti.models.bounds.multicast_price.program import DeliveryProgram
from tutti.models.bounds.multicast_price.search import largest_time
from tutti.models.bounds.multicast_price.symmetry_classes import Views
from tutti.models.bounds.multicast_price.time_bins import graded
from tutti.schedules.collective import Collective
from tutti.topologies.exact import json_number
from tutti.topologies.topology import Topology

MOST_BINS = 128
"""Largest number of bins of time. A larger value takes longer and proves more."""
MOST_ROWS = 2**18
"""Largest number of rows of a program, approximately, which takes seconds to minutes. If there would be more,
there are fewer bins."""


def multicast_price_bound(
    topology: Topology, collective: Collective, size: Fraction, least: Fraction
) -> Bound | None:
    """Return the bound by the prices that the linear programs find, within seconds.

    The certificate has the size, the time, the length of a tick, and the moments in ticks. It has the
    direction (``out`` for reduced data, on the network backwards) and the start of each item. For each item
    it has its row of prices for each node (``nodes``) and link (``links``). The rows have prices at ends,
    prices of what passes, by bin, and prices of what leaves, by bin.

    Parameters
    ----------
    topology, collective
        The problem.
    size
        M, bytes.
    least
        Seconds: the largest of the other bounds.

    Returns
    -------
    Bound or None
        None where it is no larger than the others, for scatters, gathers and all-to-alls, where no link has
        an α, and on large networks.
    """
    seen = Views.of(topology, collective)
    alphas = topology.alpha.numerators[topology.alpha.numerators > 0]
    if seen is None or not len(alphas):
        return None
    alpha = Fraction(int(alphas.min()), topology.alpha.denominator)
    most = min(MOST_BINS, math.isqrt(MOST_ROWS // sum(map(len, seen.uses))))
    found = largest_time(
        lambda moments: DeliveryProgram(seen, size, moments), lambda time: graded(time, alpha, most), least
    )
    if found is None:
        return None
    prices, moments = found
    certificate = {
        "size_bytes": json_number(size),
        "time": json_number(moments.time),
        "tick": json_number(moments.tick),
        "moments": moments.at[:-1].tolist(),
        "direction": "out" if seen.backwards else "in",
        "starts": [item.start for item in seen.items],
        "nodes": seen.node.tolist(),
        "links": seen.way.tolist(),
        "ends": prices.end.tolist(),
        "passing": prices.passing[:, : moments.bins].tolist(),
        "leaving": prices.leaving[..., : moments.bins].tolist(),
    }
    return Bound("multicast_price", moments.time, SECONDS, certificate)
