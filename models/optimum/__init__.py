"""The least time of given chunks on tiny networks, every message over one link, by CP-SAT.

Read `program` (the instance of `models.time_expanded` in ticks, and the constraint program), then `method`
(its options, first schedules, and the calls of CP-SAT). Time is counted in ticks here, in steps in SCCL and
in epochs in TE-CCL.
"""

from tutti.models.optimum.method import METHOD, OptimumOptions, TickLimits, least_time, optimum
from tutti.models.optimum.program import TimedInstance

__all__ = ["METHOD", "OptimumOptions", "TickLimits", "TimedInstance", "least_time", "optimum"]
