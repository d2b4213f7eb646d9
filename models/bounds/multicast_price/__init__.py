"""The bound ``multicast_price``: prices in time of data that goes from one rank to all, or from all to one.

By some time links can earn less than moving the data costs. Read `bound` first: `symmetry_classes` finds
equivalent nodes and links, and `program` the best prices for a time between moments.
"""
