"""T_B against the least that is proven: the bandwidth bound, exact."""

from __future__ import annotations

from fractions import Fraction

from experiments.report.results import Row
from experiments.report.utilisation import Usages
from models.bounds import best_bound


def least_tb(found: Usages) -> Fraction | None:
    """Return the bandwidth bound in units of M/B: no schedule has a smaller T_B.

    Parameters
    ----------
    found
        What was replayed of one collective on one topology; its files have the network and the collective.

    Returns
    -------
    Fraction or None
        None where no schedule was kept, or the network has no B because its links differ.
    """
    if not found.shown:
        return None
    usage = found.shown[0]
    bandwidth = usage.topology.node_bandwidth
    return None if bandwidth is None else best_bound(usage.topology, usage.collective).value * bandwidth


def is_tb_optimal(row: Row, least: Fraction | None) -> bool:
    """Whether a row's T_B is proven to be the least possible, by exact comparison."""
    return row.ok and row.tb_factor is not None and least is not None and Fraction(row.tb_text) == least
