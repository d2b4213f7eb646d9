"""How the best networks of a degree grow with N: their frontiers, and what others need (A.1.3, Fig. 3.7)."""

from experiments.growth.frontiers import FIRST_NODES, FrontierRow, Growth, read_frontiers, write_growth
from experiments.growth.workload import Workload, least_hops

__all__ = [
    "FIRST_NODES",
    "FrontierRow",
    "Growth",
    "Workload",
    "least_hops",
    "read_frontiers",
    "write_growth",
]
