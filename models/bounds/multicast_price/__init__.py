"""The bound ``multicast_price``, by prices in time of data that go from one rank to all, or from all to one.

Links can earn too little by a time for what must be moved. Read `bound` first: `symmetry_classes` finds
nodes and links that are equivalent, `program` the best prices for a time between moments (`time_bins`), and
`search` the time.
"""
