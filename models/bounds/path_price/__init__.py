"""The bound ``path_price``, from the dual of a linear program over time: prices of messages' whole paths.

Read `bound` first: it has the linear program, and the search for the time. `commodities` lists the pairs of
ranks whose data counts and groups those that are equivalent. `message_pricing` finds messages whose value
exceeds the price of their links.
"""
