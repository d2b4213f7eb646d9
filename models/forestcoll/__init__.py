"""ForestColl: forests of spanning trees that meet the bottleneck cut (dissertation, chapter 4 and B.5).

Read `method` first, which has the steps in order and says which ranks the trees span. `fixed_k` finds the
best forest with a given number of trees a root. `schedule` turns trees into transfers, and `multicast`
removes transfers to switches that can copy or add themselves. The bottleneck cut is in `models.bounds`,
switch removal and tree packing are in `topologies`. `epochs` makes trees together with the times of their
edges.
"""

from tutti.models.forestcoll.method import METHOD, ForestcollOptions
from tutti.models.forestcoll.multicast import multicast
from tutti.models.forestcoll.schedule import forest_schedule

__all__ = ["METHOD", "ForestcollOptions", "forest_schedule", "multicast"]
