"""The exact cost of a table of rounds, read block by block: every block is whole steps, so that costs add."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from schedules.cost import StepCost, link_loads, step_cost
from schedules.round_table import RoundTable


@dataclass(frozen=True)
class RoundCost:
    """What a table costs.

    Parameters
    ----------
    steps
        T_L and T_B.
    congestion
        As of `schedules.cost.congestion`: seconds per byte of M.
    """

    steps: StepCost
    congestion: Fraction


def round_cost(table: RoundTable) -> RoundCost:
    """Return the exact cost, in one pass over the rows."""
    tl_steps, seconds = 0, Fraction(0)
    loads = np.zeros(table.topology.num_links, np.int64)
    for block in table.blocks():
        cost = step_cost(block)
        tl_steps, seconds = tl_steps + cost.tl_steps, seconds + cost.bandwidth_time
        loads += link_loads(block)
    bandwidth = table.topology.node_bandwidth
    steps = StepCost(tl_steps, seconds, None if bandwidth is None else seconds * bandwidth)
    return RoundCost(steps, _congestion(table, loads))


def _congestion(table: RoundTable, loads: np.ndarray) -> Fraction:
    rates, kind = np.unique(table.topology.bandwidth.numerators, return_inverse=True)
    most = [int(loads[kind.ravel() == k].max(initial=0)) for k in range(len(rates))]
    scale = Fraction(table.topology.bandwidth.denominator, table.chunks.denominator)
    return (
        max((Fraction(load, int(rate)) for load, rate in zip(most, rates, strict=True)), default=Fraction(0))
        * scale
    )
