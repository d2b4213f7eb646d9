"""Small sizes: as few α as there can be, messages shared by the data of all ranks.

Read `slots` first (which messages: the search for the fewest α in which all can know all), then `loads`
(which datum goes with which message), `alike` (both at once, with
bytes, where all ranks see the same) and `method`. Routes and symmetries are those of `routes`.
"""

from tutti.heuristics.rounds.method import METHOD, RoundsOptions

__all__ = ["METHOD", "RoundsOptions"]
