"""The frontier of one N (Fig. A.4), and the generalized Kautz graphs of that size (Fig. A.7), as rows.

The time of an all-to-all lies between two numbers that are quick to compute (`cheap_interval`). It is at
least the sum of all distances over the number of links, the dual bound with all lengths 1. A flow that splits
each demand evenly, node by node, over the shortest paths takes as long as its largest load.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import suppress
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tutti.expansions.finder import Candidate, Finder
from tutti.experiments.report.results import frame_of
from tutti.experiments.runner.results import read_rows, typed
from tutti.experiments.runner.study import Row
from tutti.models.bfb.kautz import kautz_cost
from tutti.topologies.errors import InputError, NoSchedule
from tutti.topologies.exact import FloatArray, Int32Array
from tutti.topologies.families.expressions import Base, Both, Degree, Expression, LineGraph, Power, Product
from tutti.topologies.kernels import kernel
from tutti.topologies.topology import Incidence, Neighbours, Topology, breadth_first

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
    InputError, ValueError
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
