"""All-to-all as a multi-commodity flow (dissertation A.1.5): the LP, its proofs, its schedules."""

from models.all_to_all.certificate import FlowError, Interval, SourceFlow, lower_bound, upper_bound
from models.all_to_all.demand import Demand
from models.all_to_all.method import METHOD

__all__ = ["METHOD", "Demand", "FlowError", "Interval", "SourceFlow", "lower_bound", "upper_bound"]
