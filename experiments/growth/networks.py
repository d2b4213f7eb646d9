"""The networks of N nodes and degree d: their frontier, networks that have closed forms, and lower bounds.

The rows of a study have the frontier of one N (Fig. A.4) and the generalized Kautz graphs of that size
(Fig. A.7). The time of an all-to-all lies between two numbers that are quick to compute (`cheap_interval`).
It is at least the sum of all distances over the number of links, the dual bound with all lengths 1. A flow
that splits each demand evenly, node by node, over the shortest paths takes as long as its largest load.

The closed forms are those of degree 4 in Fig. 3.7 of the dissertation. Times are those under given α, M and
bandwidth of a node: of an allreduce 2 (T_L α + T_B M/B); of an all-to-all without α, in units of M/B.

- *Torus* a x b: BFB is BW-optimal, T_L = ⌊a/2⌋ + ⌊b/2⌋. All-to-all: the links along a dimension of length a
  carry ⌊a²/4⌋ / a hops a pair over half of B, and routing by dimensions attains the worse of both.
- *Shifted rings*: two bidirectional rings, T_L = N - 1, BW-optimal. All-to-all: N/8, which Table 3.4 prints;
  halves of the nodes are then joined by eight links each way (two rings side by side have four: N/4).
- *Double binary tree*: rank r > 0 with lowest set bit b hangs below r - b + 2b or, where that is none,
  below r - b. The second tree is the first mirrored, or shifted by one where N is odd. So a leaf of one is
  inside the other, and no rank has more than four links. Each tree allreduces M/2 in k slices up and down
  over links of B/4: (2h + k - 1)(α + 2M / (k B)), for the best k. All-to-all: what cuts between ranks k - 1
  and k prove, k (N - k) / N over a quarter of the links across, a lower bound.

Source: Sanders, Speck and Träff 2009 (two trees).

The lower bounds are for every schedule on every network of N ranks and degree d. Each rank has d links out
and d in, each of b = B/d. They may be one-way, parallel, or loops. A schedule may send messages of any size,
at any time and over routes of several links. A message holds each link of its route for α and its bytes over
b, one message at a time, and enters the next link α later or after that. Let D be the least number of hops in
which d links a rank reach N ranks (Moore's bound). Then in every network some rank e is D hops or more from
some rank s.

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

import math
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tutti.expansions.finder import Candidate, Finder
from tutti.expansions.prediction import bandwidth_factor
from tutti.experiments.report.results import frame_of
from tutti.experiments.runner.results import read_rows, typed
from tutti.experiments.runner.study import Row
from tutti.models.bfb.kautz import kautz_cost
from tutti.models.bounds.bandwidth import SINGLE, with_waits
from tutti.schedules.cost import moore_bound, moore_optimal_steps
from tutti.topologies.errors import InputError, NoSchedule
from tutti.topologies.exact import FloatArray, Int32Array, Int64Array
from tutti.topologies.families.expressions import Base, Both, Degree, Expression, LineGraph, Power, Product
from tutti.topologies.kernels import kernel
from tutti.topologies.topology import Incidence, Neighbours, Topology, breadth_first
from tutti.topologies.units import MICRO, format_size, parse_bandwidth, parse_size, parse_time

ANY, BOTH_WAYS, KAUTZ = "any", "bidirectional", "gen_kautz"
"""The search: of all networks, or of those whose links all have one back; or one family was measured."""
FAMILIES = {"gen_kautz": "GenKautz", "distance_regular": "DistReg", "circulant": "Circulant"}
"""Names of Fig. A.4."""
OTHER = "OtherBase"
"""The name of other bases."""
COLUMNS = typed("""
    search text, degree int, nodes int, points int, point int, topology text, family text, tl_steps int,
    tb_factor text, exact bool, all_to_all_low float, all_to_all_high float, status text, message text
""")
"""Name and type of every column of the table. ``search`` is `ANY`, `BOTH_WAYS` or `KAUTZ`. The frontier has
``points`` networks, and ``point`` is the number of this one, from 1, T_L growing. ``family`` is how it is
built, as in Fig. A.4: B (bidirectional), L (line graph), D (degree), P (power), C (product), or the family of
a base. ``tl_steps`` are in steps and ``tb_factor`` in M/B; where ``exact`` is false T_B is at most that.
``all_to_all_low`` and ``all_to_all_high`` are in M/B, of the first and the last network of a frontier: the
bound by distances, and the time of an even split over the shortest paths."""
NONE_FOUND = {"points": 0, "point": 0, "topology": "", "family": "", "tl_steps": 0, "tb_factor": "0"}
NONE_FOUND |= {"exact": True, "all_to_all_low": None, "all_to_all_high": None, "status": "ok"}
"""The columns of the row of an N without a network."""


def read_frontiers(directory: Path) -> pd.DataFrame:
    """Return the rows of a study, N growing, with T_B as fractions.

    Raises
    ------
    InputError
        If there is no table.
    """
    rows = frame_of((row for row in read_rows(directory) if row["status"] == "ok"), COLUMNS)
    counts = ["degree", "nodes", "points", "point", "tl_steps"]
    return rows.astype(dict.fromkeys(counts, int)).assign(tb_factor=rows.tb_factor.map(Fraction))


_finder = cache(Finder)
"""The finder for each set of arguments; it is kept because it also knows other N."""


def frontier_of(
    nodes: int, degree: int, search: str, most_hops: int | None = None, *, spans: bool = False
) -> list[Row]:
    """Return the frontier of one N, a row if it is empty; with `spans` the all-to-all of its ends."""
    found: list[Candidate] = []
    with suppress(InputError, NoSchedule):  # no network of this size; the numbers are in range
        found = _finder(bidirectional=search == BOTH_WAYS, most_hops=most_hops).find(nodes, degree)
    beside = NONE_FOUND | {"search": search, "degree": degree, "nodes": nodes, "points": len(found)}
    rows = []
    for point, candidate in enumerate(found, 1):
        expression, cost = candidate.expression, candidate.cost
        row = beside | {"point": point, "topology": str(expression), "family": family_of(expression)}
        row |= {"tl_steps": cost.tl, "tb_factor": str(cost.tb), "exact": cost.exact}
        if spans and point in (1, len(found)):
            row["all_to_all_low"], row["all_to_all_high"] = cheap_interval(expression.topology())
        rows.append(row)
    return rows or [beside]


def kautz_graphs(nodes: int, degrees: Collection[int]) -> Iterator[Row]:
    """Yield a row of the generalized Kautz graph of N nodes for each of these degrees that has one."""
    for degree in sorted(degrees):
        if degree > 1 and nodes > degree + 1:
            tl, tb = kautz_cost(degree, nodes)
            row = NONE_FOUND | {"search": KAUTZ, "degree": degree, "nodes": nodes, "points": 1, "point": 1}
            row |= {"topology": str(Base("gen_kautz", (degree, nodes))), "family": FAMILIES["gen_kautz"]}
            yield row | {"tl_steps": tl, "tb_factor": str(tb)}


def family_of(expression: Expression) -> str:
    """Return how a network is built, as in Fig. A.4.

    Examples
    --------
    >>> from tutti.topologies.families.expressions import parse_notation
    >>> [family_of(parse_notation(text)) for text in ("L^2(Diamond^2)", "Pi_{4,9}", "K_5")]
    ['LP', 'GenKautz', 'OtherBase']
    """
    letters = _letters(expression)
    if letters:
        return "".join(letter for letter in "BLDPC" if letter in letters)
    return FAMILIES.get(expression.family, OTHER) if isinstance(expression, Base) else OTHER


BUILT = {LineGraph: "L", Degree: "D", Power: "P", Both: "B"}
"""The letters of expansions in Fig. A.4; a product has C."""


def _letters(expression: Any) -> set[str]:
    if isinstance(expression, Product):
        return {"C"}.union(*map(_letters, expression.factors))
    letter = BUILT.get(type(expression))
    return {letter} | _letters(expression.of) if letter else set()


def cheap_interval(topology: Topology) -> tuple[float, float]:
    """Return what an all-to-all takes at least and at most, in M/B, on equal links between ranks.

    Examples
    --------
    >>> from tutti.topologies.families.grids import complete
    >>> low, high = cheap_interval(complete(5))
    >>> round(low, 9), round(high, 9)
    (0.8, 0.8)
    """
    loads = np.zeros(topology.num_links)
    total = _spread(topology.out_links, topology.in_links, topology.source, topology.target, loads)
    degree = topology.degree or topology.num_links / topology.num_ranks
    scale = degree / topology.num_ranks  # a pair's data is M/N and a link has B/d
    return scale * total / topology.num_links, scale * float(loads.max())


@kernel
def _spread(
    outgoing: Incidence, incoming: Incidence, tail: Int32Array, target: Int32Array, loads: FloatArray
) -> int:
    """Add to `loads` (links,) a flow of one unit from each node to each other; return the sum of distances.

    The needs of a node come in equal parts over its in-links on shortest paths, from the farthest node on.
    """
    num_nodes = len(outgoing.offsets) - 1
    graph, nodes = Neighbours(outgoing.offsets, target[outgoing.links]), np.arange(num_nodes)
    hops, queue = np.empty(num_nodes, np.int32), np.empty(num_nodes, np.int32)
    total = 0
    for source in range(num_nodes):
        breadth_first(graph, nodes[source : source + 1], hops, queue)
        total += hops.sum()
        need = np.ones(num_nodes)
        # Invariant: all that farther nodes need through this one has been added to its need.
        for place in range(num_nodes - 1, 0, -1):
            node, parents = queue[place], 0
            for position in range(incoming.offsets[node], incoming.offsets[node + 1]):
                parents += hops[tail[incoming.links[position]]] + 1 == hops[node]
            for position in range(incoming.offsets[node], incoming.offsets[node + 1]):
                link = incoming.links[position]
                if hops[tail[link]] + 1 == hops[node]:
                    loads[link] += need[node] / parents
                    need[tail[link]] += need[node] / parents
    return total


@dataclass(frozen=True)
class CostParameters:
    """α in seconds, M in bytes, and B, a node's bandwidth over all its links, in bytes per second."""

    alpha: Fraction
    size: Fraction
    bandwidth: Fraction

    @classmethod
    def parse(cls, alpha: str, size: str, bandwidth: str) -> CostParameters:
        """Return the workload of three texts with units.

        Raises
        ------
        InputError
            If one has no unit, or the size is 0.
        """
        made = cls(parse_time(alpha), Fraction(parse_size(size)), parse_bandwidth(bandwidth))
        if made.size <= 0:
            raise InputError(f"--size is {size}; it must be positive")
        return made

    def __str__(self) -> str:
        """Return the size, by which workloads of one page differ."""
        return format_size(self.size)

    def allreduce_us(self, tl: int, tb: Fraction) -> float:
        """Return twice T_L α + T_B, a reduce-scatter and an allgather, in microseconds.

        Examples
        --------
        >>> round(CostParameters.parse("10us", "1MiB", "100Gb/s").allreduce_us(6, Fraction(102, 100)), 1)
        291.1
        """
        return self.microseconds(2 * (tl * self.alpha + tb * self.size / self.bandwidth))

    def all_to_all_us(self, factor: Fraction | float, divisor: int = 1) -> float:
        """Return what factor / divisor in units of M/B takes, in microseconds."""
        return float(factor) / divisor * self.microseconds(self.size / self.bandwidth)

    def microseconds(self, seconds: Fraction) -> float:
        """Return seconds in microseconds, as a report has them."""
        return float(seconds * MICRO)


def least_hops(nodes: int, degree: int) -> int:
    """Return the least sum of distances from a node to all others: d^k at distance k, while they last.

    Over N it is the least all-to-all time in M/B on any network of degree d (the bound of Table A.1).

    Examples
    --------
    >>> least_hops(1024, 4)
    4667
    """
    left, width, distance, total = nodes - 1, 1, 0, 0
    while left > 0:
        width, distance = width * degree, distance + 1
        here = min(width, left)
        total, left = total + here * distance, left - here
    return total


DEGREE = 4
"""Degree of the networks that have closed forms here."""


def torus_sides(nodes: int) -> tuple[int, int] | None:
    """Return the sides of the most nearly square torus, the longer first.

    None if the longer would be more than twice the shorter, or the shorter less than 3.

    Examples
    --------
    >>> torus_sides(1024), torus_sides(24), torus_sides(26)
    ((32, 32), (6, 4), None)
    """
    short = next(side for side in range(math.isqrt(nodes), 0, -1) if nodes % side == 0)
    sides = (nodes // short, short)
    return sides if short >= 3 and sides[0] <= 2 * short else None


def torus_allreduce_us(sides: tuple[int, int], workload: CostParameters) -> float:
    """Return the time of BFB's reduce-scatter and allgather."""
    nodes = math.prod(sides)
    return workload.allreduce_us(sum(side // 2 for side in sides), Fraction(nodes - 1, nodes))


def torus_all_to_all(sides: tuple[int, int]) -> Fraction:
    """Return the optimum in M/B."""
    return max(Fraction(2 * (side**2 // 4), side) for side in sides)


def rings_allreduce_us(nodes: int, workload: CostParameters) -> float:
    """Return the time of two bidirectional rings, N - 1 steps each way."""
    return workload.allreduce_us(nodes - 1, Fraction(nodes - 1, nodes))


def rings_all_to_all(nodes: int) -> Fraction:
    """Return the time in M/B; of few nodes the bound of degree 4, where that is larger."""
    return max(Fraction(nodes, 8), Fraction(least_hops(nodes, DEGREE), nodes))


def tree_parents(nodes: int) -> Int64Array:
    """Return each rank's parent in the first of the two trees; the root, 0, has -1.

    Examples
    --------
    >>> tree_parents(6).tolist()
    [-1, 2, 4, 2, 0, 4]
    """
    rank = np.arange(nodes)
    bit = rank & -rank
    above = (rank ^ bit) | (bit << 1)
    parent = np.where(above < nodes, above, rank ^ bit)
    parent[0] = -1
    return parent


def tree_height(nodes: int) -> int:
    """Return the links from the root to the deepest rank."""
    parent = tree_parents(nodes)
    at, height = np.arange(nodes), -1
    while (at >= 0).any():
        at, height = np.where(at >= 0, parent[at], -1), height + 1
    return height


def double_tree_links(nodes: int) -> Int64Array:
    """Return the links of both trees as pairs of ranks, shape (2 (N - 1), 2)."""
    first = np.stack([np.arange(1, nodes), tree_parents(nodes)[1:]], axis=1)
    second = (first + 1) % nodes if nodes % 2 else nodes - 1 - first
    return np.concatenate([first, second])


def double_tree_allreduce_us(nodes: int, workload: CostParameters) -> float:
    """Return the time with the best number of slices."""
    waits, move = 2 * tree_height(nodes) - 1, 2 * workload.size / workload.bandwidth
    if not workload.alpha:
        return workload.microseconds(move)
    best = math.sqrt(waits * move / workload.alpha)
    slices = {max(1, math.floor(best)), math.ceil(best) or 1}
    return min(workload.microseconds((waits + k) * (workload.alpha + move / k)) for k in slices)


def double_tree_all_to_all(nodes: int) -> Fraction:
    """Return a lower bound in M/B, by the cuts between consecutive ranks."""
    ends = np.sort(double_tree_links(nodes), axis=1)
    begin, end = np.stack([np.bincount(side, minlength=nodes) for side in ends.T])
    cuts = enumerate(np.cumsum(begin - end)[: nodes - 1].tolist(), 1)
    return max(Fraction(DEGREE * k * (nodes - k), nodes * links) for k, links in cuts)


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
    distances = range(1, moore_optimal_steps(nodes, degree) + 1)
    arrivals = (hops * alpha + part * (nodes - moore_bound(degree, hops - 1)) for hops in distances)
    return max(waits * alpha + part * least_hops(nodes, degree), *arrivals)


Baseline = tuple[str, str, float, float | Fraction]
"""A network beside the frontier, or the bound: name, text, allreduce in us, and all-to-all in M/B."""


def baselines(nodes: int, degree: int, workload: CostParameters) -> Iterator[Baseline]:
    """Yield the networks that have closed forms, and the bound by T_L and T_B of any network in steps."""
    if degree == DEGREE and nodes > DEGREE:
        if (sides := torus_sides(nodes)) is not None:
            name, time = f"torus:{sides[0]}x{sides[1]}", torus_allreduce_us(sides, workload)
            yield "torus", name, time, torus_all_to_all(sides)
        yield "shifted rings", "", rings_allreduce_us(nodes, workload), rings_all_to_all(nodes)
        time = double_tree_allreduce_us(nodes, workload)
        yield "double binary tree", "", time, double_tree_all_to_all(nodes)
    steps, factor = moore_optimal_steps(nodes, degree), bandwidth_factor(nodes)
    yield "bound", "", workload.allreduce_us(steps, factor), Fraction(least_hops(nodes, degree), nodes)
