"""Postal gossip: allgathers for small messages, where the number of messages counts.

Read `method` first (the routes of single messages, the symmetries, the search), then `kernel`, the greedy
gossip that it calls. The bound that it is measured against is ``growth`` in `models.bounds`.
"""

from heuristics.gossip.method import METHOD, PostalOptions

__all__ = ["METHOD", "PostalOptions"]
