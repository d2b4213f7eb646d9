"""SCCL: exact schedules of given chunks, steps and rounds, and their Pareto frontier (PPoPP 2021).

Read `models.time_expanded` first: chunks with their starts and ends, and what links carry in a round. Then
read `program` (the integer program, C1 to C6), `search` (the order of programs, and the breadth-first
schedule that saves most of them) and `method`. What needs Pyomo is imported from `search` and `program`.
"""

from tutti.models.sccl.method import METHOD, ScclOptions

__all__ = ["METHOD", "ScclOptions"]
