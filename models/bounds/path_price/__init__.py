"""The bound ``itineraries``, by prices in time of what pairs of ranks hear and of a message's whole way.

`bound` is the way in: `pairs` says who must hear from whom and what looks alike, `program` finds the best
prices for a number of ticks, and `travel` the messages that are worth more than their way costs.
"""
