"""Topology and schedule growing together: line graph, degree, Cartesian power and product.

Read `constructions` first: it defines the table of an allgather, and expands such tables. `searched` has the
few bases whose schedule was found by search, and `reversal` says when one schedule serves both halves of an
allreduce. `method` makes the schedule of a network in the papers' notation. `prediction` says what it will
cost before anything is built, and `finder` uses this to search all networks of N nodes and degree d.

Networks themselves are expanded in `topologies.families.products` and read in
`topologies.families.expressions`; of `models` only BFB and the bounds are used. Source: dissertation,
sections 3.5 and A.4.
"""

if __name__ != "tutti.expansions":
    raise ImportError("the package expansions is called tutti.expansions")

from tutti.expansions.method import METHOD
from tutti.expansions.prediction import Prediction, predict

__all__ = ["METHOD", "Prediction", "predict"]
