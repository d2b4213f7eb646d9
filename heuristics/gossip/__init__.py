"""Postal gossip: allgathers for small messages, where the number of messages counts.

Read `routes` first (of single messages, and the symmetries), then `method` (the search) and `kernel`, the
greedy gossip that it calls. The bound that it is measured against is ``growth`` in `models.bounds`.
"""

from tutti.heuristics.gossip.method import METHOD, PostalOptions

__all__ = ["METHOD", "PostalOptions"]
