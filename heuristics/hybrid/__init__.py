"""Allreduces of few messages, digit by digit of ranks: large data is scattered, small data summed whole."""

from tutti.heuristics.hybrid.method import METHOD, HybridOptions

__all__ = ["METHOD", "HybridOptions"]
