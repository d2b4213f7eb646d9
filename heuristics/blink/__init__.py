"""Blink (MLSys 2020): all data over trees of one root."""

from heuristics.blink.method import METHOD, BlinkOptions

__all__ = ["METHOD", "BlinkOptions"]
