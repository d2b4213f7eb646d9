"""Postal gossip: allgathers for small messages, where the number of messages counts."""

from heuristics.postal.method import METHOD, PostalOptions

__all__ = ["METHOD", "PostalOptions"]
