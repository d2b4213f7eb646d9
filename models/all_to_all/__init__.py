"""All-to-all as a multi-commodity flow (dissertation A.1.5): the program, its proofs, its schedules.

Read `model` first, linear program (A.1) as the paper has it, over a `demand`. Then read `certificate`, which
proves an answer from both sides, and `optimum`, which solves the model and makes integers of its answer
(`rounding`). At scale the program is reduced by symmetry (`reduction`) and solved by `columns` or by a
`first_order` method; `orbits` chooses, and maps the paths of a few sources to all. `paths` makes paths of a
flow and a schedule of paths. `method` is what a user runs. `optimum` has the lower bound of every all-to-all,
too, and `unicast_price` one with α. A second method, whose flows pay α, is `message_flow`; `message_program`
has its linear program.
"""

from tutti.models.all_to_all.certificate import FlowError, Interval, SourceFlow, lower_bound, upper_bound
from tutti.models.all_to_all.demand import Demand
from tutti.models.all_to_all.method import METHOD, McfOptions
from tutti.models.all_to_all.orbits import OrbitOptimum, paths_by_orbits, solve_by_orbits
from tutti.models.all_to_all.paths import PathFlow

__all__ = [
    "METHOD",
    "Demand",
    "FlowError",
    "Interval",
    "McfOptions",
    "OrbitOptimum",
    "PathFlow",
    "SourceFlow",
    "lower_bound",
    "paths_by_orbits",
    "solve_by_orbits",
    "upper_bound",
]
