"""SCCL: exact schedules of given chunks and steps (Cai et al., PPoPP 2021), and their Pareto frontier."""

from models.sccl.frontier import Point, frontier
from models.sccl.instance import Instance
from models.sccl.method import METHOD, ScclOptions
from models.sccl.program import Answer, Limits, fewest_rounds, in_rounds

__all__ = [
    "METHOD",
    "Answer",
    "Instance",
    "Limits",
    "Point",
    "ScclOptions",
    "fewest_rounds",
    "frontier",
    "in_rounds",
]
