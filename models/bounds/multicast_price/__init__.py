"""The bound ``deliveries``, by prices in time of data that go from one rank to all, or from all to one.

Links can earn too little by a time for what must be moved. `bound` is the way in: `views` finds what looks
alike, `program` the best prices for a time between moments (`windows`), `search` the time.
"""
