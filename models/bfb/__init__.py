"""BFB, breadth-first broadcast: exact loads and optimal schedules (dissertation, sections 3.6.1 and A.5).

Read `frontiers` first. It defines the subproblems: which node gets which shards in which step, and over which
links they can come. `model` has the linear programs that balance the links, as Pyomo models. `counting` finds
the same optima without them, also where links have different bandwidths and α. `schedule` places whole
sources within them, and lays the shares out as transfers. `method` is the method itself. `kautz` and
`counting.transitive_cost` give costs of large symmetric networks without any schedule, for the expansions and
their finder.
"""

from tutti.models.bfb.counting import Workloads, workloads
from tutti.models.bfb.method import METHOD, BfbOptions

__all__ = ["METHOD", "BfbOptions", "Workloads", "workloads"]
