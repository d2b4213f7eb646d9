"""BW-optimal allgathers in T steps by CP-SAT, for the small bases whose best schedule is not BFB.

Every shard is cut into P equal parts. With D(v, u) the distance in hops,

    s[v, i, e, t] = 1  where part i of v's shard crosses link e = (a, b) in step t > D(v, a), b not v.
    sum over links e into u and t of s[v, i, e, t] = 1      every part reaches every node once.
    s[v, i, e, t] <= sum over links f into a and q < t of s[v, i, f, q]     after it has reached a.
    sum over v and i of s[v, i, e, t] = U_t for every e,    sum over t of U_t = P (N - 1) / d.

The last line is Theorem 5: in each step all links carry the same number of parts, in sum only what they must.

BFB is not BW-optimal on Diamond and on the modified de Bruijn networks. Their allgathers, and those of their
transposes, were found by this search. ``searched_allgathers.csv`` has them, with the columns network, turned,
owner, part, link and step. `topologies.families.direct` tells how the networks themselves were found.
Source: dissertation, Table A.3 (T_L), Figs A.8 and A.9 (pictures only).
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tutti.expansions.constructions import ShardTable
from tutti.topologies.errors import InputError, NoSchedule
from tutti.topologies.exact import Int64Array
from tutti.topologies.families.expressions import Base
from tutti.topologies.graphs.shortest_paths import hop_distances
from tutti.topologies.topology import Topology
from tutti.topologies.transforms import transpose

if TYPE_CHECKING:
    from ortools.sat.python import cp_model


Key = tuple[int, int, int, int]
"""Owner, part, link, step from 0."""


def search_allgather(
    topology: Topology,
    steps: int,
    parts: int,
    *,
    turned: bool = False,
    loads: Sequence[int] | None = None,
    effort: float = 60.0,
) -> ShardTable:
    """Return a BW-optimal allgather of `steps` steps, on the network or, if `turned`, on its transpose.

    Parameters
    ----------
    topology
        Regular, without switches, small: there are about N · P · links · steps variables.
    steps, parts
        T and P; the degree must divide P (N - 1).
    turned
        Whether the schedule is for the transpose.
    loads
        U_1, ..., U_T in parts, if they are known: that saves much of the search.
    effort
        Limit of CP-SAT's deterministic time, about seconds; the same on any machine.

    Raises
    ------
    InputError
        If the network is not regular, or the degree does not divide P (N - 1).
    NoSchedule
        If there is none, or none was found.
    """
    from ortools.sat.python import cp_model  # slow to import and rarely needed: the results are stored

    degree = topology.degree
    if degree is None or parts * (topology.num_ranks - 1) % degree:
        raise InputError(f"{topology.name}: the degree must divide {parts} x {topology.num_ranks - 1} parts")
    sending = transpose(topology) if turned else topology
    model = cp_model.CpModel()
    sends = _variables(model, sending, steps, parts)
    _arrive_once_in_order(model, sending, sends, parts)
    _carry_equally(model, sending, sends, loads or steps, parts * (topology.num_ranks - 1) // degree)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.max_deterministic_time = effort
    status = solver.solve(model)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        verdict = "there is none" if status == cp_model.INFEASIBLE else f"none found with effort {effort:g}"
        what = f"allgather of {steps} steps and {parts} parts a shard"
        raise NoSchedule(f"BW-optimal {what} on {sending.name}: {verdict}")
    rows = sorted((t + 1, v, i, e) for (v, i, e, t), sent in sends.items() if solver.value(sent))
    return table_of(topology, turned, parts, np.array([(v, i, e, t) for t, v, i, e in rows]))


def table_of(topology: Topology, turned: bool, parts: int, rows: Int64Array) -> ShardTable:
    """Return the table with these rows: owner, part, link, step from 1."""
    owner, part, link, step = rows.T.astype(np.int64)
    sizes = np.ones(parts, dtype=np.int64)
    return ShardTable(topology, turned, sizes, owner, part, np.ones_like(part), link, step)


def _variables(
    model: cp_model.CpModel, topology: Topology, steps: int, parts: int
) -> dict[Key, cp_model.IntVar]:
    hops = hop_distances(topology)
    return {
        (v, i, e, t): model.new_bool_var("")
        for v in range(topology.num_ranks)
        for i in range(parts)
        for e, (a, b) in enumerate(_ends(topology))
        for t in range(hops[v, a], steps)
        if b != v
    }


def _arrive_once_in_order(
    model: cp_model.CpModel, topology: Topology, sends: Mapping[Key, cp_model.IntVar], parts: int
) -> None:
    into: dict[tuple[int, int, int], list[Key]] = {}
    ends = _ends(topology)
    for key in sends:
        into.setdefault((key[0], key[1], ends[key[2]][1]), []).append(key)
    for v in range(topology.num_ranks):
        for i in range(parts):
            for u in set(range(topology.num_ranks)) - {v}:
                model.add_exactly_one(sends[key] for key in into.get((v, i, u), []))
    for (v, i, e, t), sent in sends.items():
        a = ends[e][0]
        if a != v:
            model.add(sent <= sum(sends[key] for key in into[v, i, a] if key[3] < t))


def _carry_equally(
    model: cp_model.CpModel,
    topology: Topology,
    sends: Mapping[Key, cp_model.IntVar],
    loads: Sequence[int] | int,
    total: int,
) -> None:
    steps = loads if isinstance(loads, int) else len(loads)
    width = [model.new_int_var(1, total, "") for _ in range(steps)] if isinstance(loads, int) else loads
    model.add(sum(width) == total)
    carried: dict[tuple[int, int], list[cp_model.IntVar]] = {}
    for (_, _, e, t), sent in sends.items():
        carried.setdefault((e, t), []).append(sent)
    for e in range(topology.num_links):
        for t in range(steps):
            model.add(sum(carried.get((e, t), [])) == width[t])


def _ends(topology: Topology) -> list[tuple[int, int]]:
    return list(zip(topology.source.tolist(), topology.target.tolist(), strict=True))


STORED = Path(__file__).with_name("searched_allgathers.csv")


class Searched(NamedTuple):
    """The number P of parts a shard, and the number of parts that each link carries in each step."""

    parts: int
    loads: tuple[int, ...]


SEARCHED: Mapping[Base, Searched] = {
    Base("diamond"): Searched(2, (2, 2, 3)),
    Base("modified_debruijn", (2, 3)): Searched(2, (1, 2, 2, 2)),
    Base("modified_debruijn", (2, 4)): Searched(2, (2, 2, 3, 3, 5)),
    Base("modified_debruijn", (3, 2)): Searched(3, (2, 3, 3)),
    Base("modified_debruijn", (4, 2)): Searched(4, (3, 5, 7)),
}
"""The bases whose schedule was found by search."""


def stored_allgather(base: Base, topology: Topology, turned: bool) -> ShardTable:
    """Return the allgather of one of `SEARCHED`, or of its transpose, as it is stored."""
    return table_of(topology, turned, SEARCHED[base].parts, np.array(_stored()[str(base), turned]))


@cache
def _stored() -> dict[tuple[str, bool], list[tuple[int, ...]]]:
    tables: dict[tuple[str, bool], list[tuple[int, ...]]] = {}
    with STORED.open(newline="") as file:
        for row in csv.DictReader(file):
            key = row["network"], row["turned"] == "1"
            values = (int(row[name]) for name in ("owner", "part", "link", "step"))
            tables.setdefault(key, []).append(tuple(values))
    return tables


def store() -> None:
    """Search for all stored allgathers again, which takes half a minute, and write the file."""
    with STORED.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["network", "turned", "owner", "part", "link", "step"])
        for base, (parts, loads) in SEARCHED.items():
            for turned in (False, True):
                found = search_allgather(base.topology(), len(loads), parts, turned=turned, loads=loads)
                for row in zip(found.owner, found.first, found.link, found.step, strict=True):
                    writer.writerow([str(base), int(turned), *map(int, row)])
