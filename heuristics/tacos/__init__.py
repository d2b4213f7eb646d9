"""TACOS: greedy link-chunk matching over the time-expanded network."""

from heuristics.tacos.method import METHOD
from heuristics.tacos.options import TacosOptions

__all__ = ["METHOD", "TacosOptions"]
