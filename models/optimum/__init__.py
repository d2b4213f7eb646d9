"""The least time of given chunks on tiny networks, every message over one link, by CP-SAT.

Read `program` (the instance of `models.time_expanded` in ticks, and the constraint program), then `method`
(its options, first schedules, and the calls of CP-SAT). The folders of SCCL and TE-CCL are about steps and
epochs.
"""

from tutti.models.optimum.method import METHOD, OptimumOptions, TickLimits, least_time, optimum
from tutti.models.optimum.program import TimedInstance

__all__ = ["METHOD", "OptimumOptions", "TickLimits", "TimedInstance", "least_time", "optimum"]
