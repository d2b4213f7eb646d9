"""Small sizes: as few α as possible, with messages that the data of all ranks share.

Read `slots` first: the search for messages by which all ranks have all data in the fewest α. `loads` chooses
the messages of each datum. `vertex_transitive` does both together, with bytes, where all ranks have the same
view. It also has an allreduce whose messages are whole partial sums. `method` uses them. `slots` has the
routes and the symmetries.
"""

from tutti.heuristics.rounds.method import METHOD, RoundsOptions

__all__ = ["METHOD", "RoundsOptions"]
