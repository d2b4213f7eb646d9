"""SCCL: exact schedules of given chunks, steps and rounds, and their Pareto frontier (PPoPP 2021).

Read `models.time_expanded` (chunks with their starts and ends, links with what they carry in a round), then
`program` (the integer program, C1 to C6), `search` (which programs are asked, in which order, and the
breadth-first schedule that saves most of them) and `method`. What needs Pyomo is imported from `search` and
`program`.
"""

from tutti.models.sccl.method import METHOD, ScclOptions

__all__ = ["METHOD", "ScclOptions"]
