"""Lower bounds on the time of a collective, each with a certificate that proves it.

===============  ========  ===================================================================
kind             unit      what no schedule can beat
===============  ========  ===================================================================
``cut``          s/B of M  what must leave a set of nodes, over the bandwidth that leaves it
``degree``       s/B of M  what must leave (or enter) one rank, over its bandwidth
``partition``    s/B of M  allreduce: 2(k - 1) transfers a byte between k parts
``mcf``          s/B of M  all-to-all: lengths that all routes must cover, over what links offer
``lp``           s/B of M  allreduce over trees: weighted cuts, over what links offer
``distance``     s         the α's on the way from a start to an end
``combined``     s         distance and bandwidth at once, at one size
``growth``       s         how fast data spreads if a message holds each link for α
``crossings``    s         how many ranks messages over a cut can tell of how many others
``messages``     s         how much can have come if a message holds only what its sender had
``neighbours``   s         a link brings what a neighbour has itself, or pays α twice
``transfers``    s         allreduce: ``partition``, and that nearly all of these wait or are waited for
``deliveries``   s         one to all, all to one, allreduce: prices of data where they come and leave
``itineraries``  s         prices of what pairs of ranks hear, in time, and of a message's whole way
``relays``       s         all-to-all: prices of data on links by how far it has come and has to go
===============  ========  ===================================================================

Read `check` first: it states and proves each, and recomputes a bound from its certificate with code of
its own (`reachability` counts for ``growth``, `crossing` for ``crossings``, `receipt` for ``messages``,
`relaying` for ``relays``, `delivery` with the `windows` of time for ``deliveries``, `itinerary` for
``itineraries``). `traffic` sorts what a collective moves; `bandwidth` (by the `bottleneck_cut`),
`partition`, `latency`, `growth`, `crossings`, `messages` and `neighbours` find the bounds; `report` gathers
them. The methods `models.all_to_all` and `models.allreduce` find ``mcf``, ``relays`` and ``lp``,
`models.deliveries` and `models.itineraries` the bounds of these names; ForestColl builds on the bottleneck
cut. A `BoundKind` from outside brings a proof of its own.
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
