"""TACOS: greedy link-chunk matching over the time-expanded network."""

from heuristics.tacos.method import METHOD, TacosOptions

__all__ = ["METHOD", "TacosOptions"]
