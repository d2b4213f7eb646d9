"""BFB schedule generation (dissertation, sections 3.6.1 and A.5): exact workloads and optimal schedules."""

from models.bfb.counting import Workloads, workloads
from models.bfb.method import METHOD, BfbOptions

__all__ = ["METHOD", "BfbOptions", "Workloads", "workloads"]
