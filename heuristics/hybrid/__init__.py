"""Allreduces of few messages: digit by digit of ranks, scattered where large, summed at once where small."""

from tutti.heuristics.hybrid.method import METHOD, HybridOptions

__all__ = ["METHOD", "HybridOptions"]
