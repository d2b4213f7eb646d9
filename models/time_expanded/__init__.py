"""The base of the exact methods over steps, epochs and ticks: SCCL, TE-CCL and the optimum.

Read `instance` (chunks with their starts and ends, links, routes, and the least time), then `horizon` (the
search for the fewest steps, epochs or ticks). The programs themselves stand with their methods.
"""
