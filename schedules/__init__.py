"""Schedules: what moves when. They are checked, costed and simulated by one piece of code each.

Read `collective` first (which ranks hold what before and after), then `schedule` (the table of transfers and
its three clocks) and `method` (a problem goes in, a schedule comes out; `capabilities` is what a method
declares). `verify` replays a table, `cost` gives T_L, T_B and congestion as fractions, `simulation` gives
seconds at a size, and `files` stores schedules. `reversal` and `compose` make schedules of schedules,
`retiming` gives messages new times, and `reversal` also finds which transfers are useful. Methods that cut M
into pieces share `intervals`, `message_durations` and `list_scheduling`.

The folder builds on `topologies` and knows no method; `models` and `heuristics` build on it.
"""

if __name__ != "tutti.schedules":
    raise ImportError("the package schedules is called tutti.schedules")

from tutti.schedules.collective import KINDS, Collective, Kind, collective, concurrent
from tutti.schedules.compose import compose_allreduce, from_allgather
from tutti.schedules.cost import (
    StepCost,
    congestion,
    is_bandwidth_optimal,
    is_moore_optimal,
    link_loads,
    moore_bound,
    moore_optimal_steps,
    step_cost,
)
from tutti.schedules.method import Method, NoOptions, Problem
from tutti.schedules.schedule import Chunks, Clock, Routes, Schedule
from tutti.schedules.simulation.simulate import Simulation, SimulationOptions
from tutti.schedules.verify import VerificationError

__all__ = [
    "KINDS",
    "Chunks",
    "Clock",
    "Collective",
    "Kind",
    "Method",
    "NoOptions",
    "Problem",
    "Routes",
    "Schedule",
    "Simulation",
    "SimulationOptions",
    "StepCost",
    "VerificationError",
    "collective",
    "compose_allreduce",
    "concurrent",
    "congestion",
    "from_allgather",
    "is_bandwidth_optimal",
    "is_moore_optimal",
    "link_loads",
    "moore_bound",
    "moore_optimal_steps",
    "step_cost",
]
