"""Lower bounds on the time of a collective, each with a certificate that proves it.

=====================  ========  ===================================================================
kind                   unit      what no schedule can beat
=====================  ========  ===================================================================
``cut``                s/B of M  what must leave a set of nodes, over the bandwidth that leaves it
``degree``             s/B of M  what must leave (or enter) one rank, over its bandwidth
``partition``          s/B of M  allreduce: 2(k - 1) transfers a byte between k parts
``mcf``                s/B of M  all-to-all: lengths that all routes must cover, over what links offer
``lp``                 s/B of M  allreduce over trees: weighted cuts, over what links offer
``distance``           s         the α's on the way from a start to an end
``combined``           s         distance and bandwidth together, at one size
``broadcast_growth``   s         how fast data spreads if a message holds each link for α
``cut_gossip``         s         how many ranks messages over a cut can tell of how many others
``message_count``      s         how much can have come if a message holds only what its sender had
``first_hop``          s         a link brings what its sender has itself, or pays α twice
``partition_latency``  s         allreduce: ``partition``, and that nearly all of these wait or are waited for
``multicast_price``    s         one to all, all to one, allreduce: prices of data where they come and leave
``path_price``         s         prices of what pairs of ranks send each other, over a message's whole path
``unicast_price``      s         all-to-all: prices of data on links by how far it has come and has to go
=====================  ========  ===================================================================

``docs/proofs.md`` states and proves each. ``X.py`` (or the folder ``X``) finds a bound, and ``check_X.py``
recomputes it from its certificate with code of its own; `check` calls the right one, and `certificate` holds
what they share. `bandwidth` (by the `bottleneck_cut`) finds ``cut`` and ``degree``, `latency` finds
``distance`` and ``combined``, and `partition` finds ``partition`` and ``partition_latency``; every other file
has the name of its bound. `traffic` sorts what a collective moves, `report` gathers the bounds, `sentences`
says what a certificate proves, and `written` proves again what was written down. Methods
(`models.all_to_all`, `models.allreduce`) find ``mcf``, ``unicast_price`` and ``lp`` with their own models;
ForestColl builds on the bottleneck cut. A `BoundKind` from outside brings a proof of its own.
"""

from tutti.models.bounds.bound import Bound, BoundError, BoundKind, own_bounds
from tutti.models.bounds.report import best_bound, bound_document, each_bound, lower_bounds, program_bounds

__all__ = [
    "Bound",
    "BoundError",
    "BoundKind",
    "best_bound",
    "bound_document",
    "each_bound",
    "lower_bounds",
    "own_bounds",
    "program_bounds",
]
