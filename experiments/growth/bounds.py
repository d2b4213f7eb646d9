"""Lower bounds for every schedule on every network of N ranks and degree d.

Each rank has d links out and d in, each of b = B/d. They may be one-way, parallel, or loops. A schedule may
send messages of any size, at any time and over routes of several links. A message holds each link of its
route for α and its bytes over b, one message at a time, and enters the next link α later or after that. Let D
be the least number of hops in which d links a rank reach N ranks (Moore's bound). Then in every network some
rank e is D hops or more from some rank s.

*Allreduce*. T is at least the larger of

- D α + M/B. The result at e depends on all M bytes of s. A message that brings part of it enters a link into
  e only after the earlier hops have taken (D - 1) α, and holds that link for α and its bytes. So at most
  b (T - D α) bytes arrive over a link and B (T - D α) over all d links, and that must be at least M. The
  distance counts once: no reduce-scatter has to end before an allgather begins.
- the time of 2 (N - 1) transfers a byte between the N ranks over N B, with their α (kinds *partition* and
  *partition_latency* in ``docs/proofs.md``, each rank a part).

*All-to-all*, M/N from each to each. Let H be the least sum of hops from one rank to all others
(`least_hops`). T is at least the largest of

- h α + M/B · (ranks that must be h hops away or more) / N, for each h up to D. What these send to one rank
  enters a link into it after (h - 1) α or later, as above.
- w α + M/B · H/N. All links together carry at least M H bytes, and at most N B bytes in a second. Each link
  is also held for α, so w = 1. Where not all ranks can be neighbours (N > d + 1), w = 2: take a link with a
  byte that came over another link, or continues over another. Before (or after) that byte's message the link
  idles for α, or has another message that costs α. So it carries b (T - 2 α) bytes at most. Links without
  such bytes carry M/N at most for each pair of neighbours. If b (T - 2 α) were less than M/N, all links
  together would carry d M at most, but M H is more.
"""

from __future__ import annotations

from fractions import Fraction

from tutti.experiments.growth.baselines import CostParameters, least_hops
from tutti.models.bounds.partition import SINGLE, with_waits
from tutti.schedules.cost import moore_bound, moore_optimal_steps


def allreduce_bound(nodes: int, degree: int, workload: CostParameters) -> Fraction:
    """Return a lower bound, in seconds, on an allreduce by any schedule on any network.

    Examples
    --------
    >>> float(allreduce_bound(8, 4, CostParameters.parse("10us", "1KB", "100Gb/s")) * 10**6)
    20.08
    """
    alpha, whole = workload.alpha, workload.size / workload.bandwidth
    transfers = 2 * (nodes - 1)
    every, single = (whole * Fraction(count, nodes) for count in (transfers, min(SINGLE, transfers)))
    return max(moore_optimal_steps(nodes, degree) * alpha + whole, with_waits(every, single, alpha))


def all_to_all_bound(nodes: int, degree: int, workload: CostParameters) -> Fraction:
    """Return a lower bound, in seconds, on an all-to-all by any schedule on any network.

    Examples
    --------
    >>> float(all_to_all_bound(8, 4, CostParameters.parse("10us", "1MB", "100Gb/s")) * 10**6)
    120.0
    """
    alpha, part = workload.alpha, workload.size / workload.bandwidth / nodes
    waits = 2 if nodes > degree + 1 else 1
    arrivals = (
        hops * alpha + part * (nodes - moore_bound(degree, hops - 1))
        for hops in range(1, moore_optimal_steps(nodes, degree) + 1)
    )
    return max(waits * alpha + part * least_hops(nodes, degree), *arrivals)
