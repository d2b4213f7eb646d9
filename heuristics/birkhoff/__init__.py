"""All-to-all-v between hosts in one-to-one stages (FAST, arXiv 2505.09764).

First, the ranks of a host share the bytes for each other host evenly, over the links inside the host:
*balance*. Then hosts exchange them in *stages*. In each stage every host sends to at most one host and
receives from at most one, rank p of one to rank p of the other, so that no adapter is used twice. The stages
are a decomposition of the matrix between hosts into permutations (Birkhoff and von Neumann). Together they
take as long as the host that sends or receives most. Last, inside the host, all bytes go to their
destinations.

Read `stages` first (the stages, and which rank sends what in them), then `method`.
"""

from tutti.heuristics.birkhoff.method import METHOD

__all__ = ["METHOD"]
