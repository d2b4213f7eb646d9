"""The bound ``path_price``, from the dual of a linear program over time: prices of messages' whole paths.

Read `bound` first. `commodities` lists the pairs of ranks whose data counts and groups those that are
equivalent, `program` finds the best prices for a number of ticks, and `message_pricing` finds messages whose
value exceeds the price of their links.
"""
