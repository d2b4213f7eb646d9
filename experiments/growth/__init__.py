"""How the best networks of a degree grow with N: their frontiers, and what others need (A.1.3, Fig. 3.7).

This is ``tutti find --up-to``. Read `frontiers` first, which searches all N and keeps what it finds, also of
the generalized Kautz graphs; `baselines` has the closed forms beside them, and `report` draws the page. The
finder is `expansions.finder`.
"""

from experiments.growth.baselines import Workload, least_hops
from experiments.growth.frontiers import (
    BOTH_WAYS,
    FIGURE,
    FIRST_NODES,
    FrontierRow,
    Growth,
    KautzRow,
    read_frontiers,
    read_kautz,
    write_growth,
    write_kautz,
)

__all__ = [
    "BOTH_WAYS",
    "FIGURE",
    "FIRST_NODES",
    "FrontierRow",
    "Growth",
    "KautzRow",
    "Workload",
    "least_hops",
    "read_frontiers",
    "read_kautz",
    "write_growth",
    "write_kautz",
]
