"""ForestColl: forests of spanning trees that meet the bottleneck cut (dissertation, chapter 4 and B.5)."""

from models.forestcoll.method import METHOD, ForestcollOptions
from models.forestcoll.multicast import multicast
from models.forestcoll.schedule import forest_schedule

__all__ = ["METHOD", "ForestcollOptions", "forest_schedule", "multicast"]
