"""Postal gossip: allgathers for small messages, where the number of messages counts."""

from heuristics.gossip.method import METHOD, PostalOptions

__all__ = ["METHOD", "PostalOptions"]
