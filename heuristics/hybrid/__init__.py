"""Allreduces of few messages: digit by digit of ranks, scattered where large, summed at once where small.

Read `chains` first (what a part of the vector does, and whose messages carry what), then `method` (which
chains are tried for the parts of a vector).
"""

from tutti.heuristics.hybrid.method import METHOD, HybridOptions

__all__ = ["METHOD", "HybridOptions"]
