"""All-to-all-v between hosts in one-to-one stages (FAST, arXiv 2505.09764).

Bytes from one host to another are first shared out evenly among the ranks of the first: *balance*, over the
links inside the host. Then hosts exchange them in *stages*, in each of which every host sends to at most one
and receives from at most one, rank p of one to rank p of the other, so that no adapter is asked by two. The
stages are a decomposition of the matrix between hosts into permutations (Birkhoff and von Neumann), and take
together as long as the host that sends or receives most. Last, inside the host, all goes to whom it is for.

Read `decomposition` first (the stages), then `pieces` (which rank sends what in them) and `method`.
"""

from tutti.heuristics.birkhoff.method import METHOD

__all__ = ["METHOD"]
