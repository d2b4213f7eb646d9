"""Lower bounds on the time of a collective, each with a certificate that proves it.

=====================  ========  ===================================================================
kind                   unit      what no schedule can beat
=====================  ========  ===================================================================
``cut``                s/B of M  what must leave a set of nodes, over the bandwidth that leaves it.
``degree``             s/B of M  what must leave (or enter) one rank, over its bandwidth.
``partition``          s/B of M  allreduce: 2(k - 1) transfers a byte between k parts.
``mcf``                s/B of M  all-to-all: lengths that all routes must cover, over what links offer.
``lp``                 s/B of M  allreduce over trees: weighted cuts, over what links offer.
``distance``           s         the α's of a path from a start to an end.
``combined``           s         distance and bandwidth together, at one size.
``broadcast_growth``   s         how fast data spreads if a message holds each link for α.
``cut_gossip``         s         how many pairs of ranks the messages over a cut can serve.
``message_count``      s         how much can have arrived if a message holds only what its sender had.
``first_hop``          s         a link brings only data of its sender, or pays α twice.
``partition_latency``  s         allreduce: ``partition``, where nearly all transfers wait for another.
``multicast_price``    s         one to all, all to one, allreduce: prices of data at nodes over time.
``path_price``         s         prices of the data of pairs of ranks, over a message's whole route.
``unicast_price``      s         all-to-all: prices of data on links by the distance behind and ahead of it.
=====================  ========  ===================================================================

``docs/proofs.md`` states and proves each. ``X.py`` finds a bound. ``check_X.py``, or `check` where that is
short, recomputes it from its certificate with code of its own. `certificate` holds what the checks share.
`bandwidth` (by the `bottleneck_cut`) finds ``cut``, ``degree``, ``partition`` and ``partition_latency``, and
`latency` finds ``distance``, ``combined``, ``broadcast_growth`` and ``first_hop``. Each other bound that is
found here has a file of its name. `traffic` sorts the items of a collective, `spreading` counts how far data
can have come by a time, `symmetry_classes` finds what is equivalent, and `message_pricing` the messages that
``path_price`` needs. `report` gathers the bounds, and writes and reads the lines of ``tutti bound --json``.
`bound` has the class `Bound`, which all return, and the sentence that says what a certificate proves. Methods
(`models.all_to_all`, `models.allreduce`) find ``mcf``, ``unicast_price`` and ``lp`` with their own models;
ForestColl builds on the bottleneck cut. A `BoundKind` of a plug-in brings its own proof.
"""

from tutti.models.bounds.bound import Bound, BoundError, BoundKind, FoundBounds, found_bounds, own_bounds
from tutti.models.bounds.report import best_bound, bound_document, each_bound, lower_bounds, program_bounds

__all__ = [
    "Bound",
    "BoundError",
    "BoundKind",
    "FoundBounds",
    "best_bound",
    "bound_document",
    "each_bound",
    "found_bounds",
    "lower_bounds",
    "own_bounds",
    "program_bounds",
]
