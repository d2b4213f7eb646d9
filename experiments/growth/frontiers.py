"""The frontiers of all N of one degree (Fig. A.4), kept as a table that a later run continues.

All-to-all has the cheapest proofs here: with lengths of 1 the time is at least the sum of all distances over
the number of links, and splitting each demand evenly, node by node, over the shortest paths attains its
largest load. A table of its own has T_B of the generalized Kautz graphs of several degrees (Fig. A.7).
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, fields, replace
from fractions import Fraction
from itertools import groupby
from pathlib import Path
from typing import NamedTuple, TextIO

import numpy as np

from expansions.finder import MOST_DEGREE, MOST_NODES, Candidate, Finder
from expansions.prediction import Prediction, predict
from models.bfb.kautz import kautz_cost
from topologies.errors import InputError, NoSchedule
from topologies.exact import FloatArray, Int32Array
from topologies.families.expressions import Base, Both, Degree, Expression, Line, Power, Product
from topologies.files import read_text, replacing
from topologies.graphs.shortest_paths import Neighbours, breadth_first
from topologies.kernels import kernel
from topologies.topology import Incidence, Topology

KAUTZ_TABLE = "kautz.csv"
FIGURE = (2, 4, 8, 16)
"""Degrees of Fig. A.7."""

FIRST_NODES = 2
TABLE, SETTINGS = "frontiers.csv", "settings.json"
BOTH_WAYS = "bidirectional"
"""Folder beside the table with the frontiers of networks whose links go both ways."""
FAMILIES = {"gen_kautz": "GenKautz", "distance_regular": "DistReg", "circulant": "Circulant"}
"""Names of Fig. A.4."""
OTHER = "OtherBase"
"""What other bases are called."""


def cheap_interval(topology: Topology) -> tuple[float, float]:
    """Return what an all-to-all takes at least and at most, in M/B, on equal links between ranks.

    Examples
    --------
    >>> from topologies.families.grids import complete
    >>> low, high = cheap_interval(complete(5))
    >>> round(low, 9), round(high, 9)
    (0.8, 0.8)
    """
    loads = np.zeros(topology.num_links)
    total = _spread(topology.out_links, topology.in_links, topology.source, topology.target, loads)
    degree = topology.degree or topology.num_links / topology.num_ranks
    scale = degree / topology.num_ranks
    return scale * total / topology.num_links, scale * float(loads.max())


@kernel
def _spread(
    outgoing: Incidence,
    incoming: Incidence,
    tail: Int32Array,
    target: Int32Array,
    loads: FloatArray,
) -> int:
    """Add to loads (links,) what one unit from every node to every other loads; return the sum of distances.

    From the farthest node inwards, what a node needs comes in equal parts over its links on shortest paths.
    """
    num_nodes = len(outgoing.offsets) - 1
    graph, nodes = Neighbours(outgoing.offsets, target[outgoing.links]), np.arange(num_nodes)
    hops, queue = np.empty(num_nodes, np.int32), np.empty(num_nodes, np.int32)
    total = 0
    for source in range(num_nodes):
        breadth_first(graph, nodes[source : source + 1], hops, queue)
        total += hops.sum()
        need = np.ones(num_nodes)
        for place in range(num_nodes - 1, 0, -1):
            node, ways = queue[place], 0
            for position in range(incoming.offsets[node], incoming.offsets[node + 1]):
                ways += hops[tail[incoming.links[position]]] + 1 == hops[node]
            for position in range(incoming.offsets[node], incoming.offsets[node + 1]):
                link = incoming.links[position]
                if hops[tail[link]] + 1 == hops[node]:
                    loads[link] += need[node] / ways
                    need[tail[link]] += need[node] / ways
    return total


@dataclass(frozen=True)
class Growth:
    """What is searched: all N from `FIRST_NODES` to `up_to`.

    Parameters
    ----------
    degree, up_to, bidirectional, most_hops
        d, the largest N, and what the finder is restricted to.
    spans
        Whether the all-to-all intervals are wanted.

    Raises
    ------
    InputError
        If a number is out of range.
    """

    degree: int
    up_to: int
    bidirectional: bool = False
    most_hops: int | None = None
    spans: bool = True

    def __post_init__(self) -> None:
        """Check the numbers."""
        if not FIRST_NODES <= self.up_to <= MOST_NODES:
            raise InputError(
                f"--up-to is {self.up_to}; the finder searches {FIRST_NODES} to {MOST_NODES} nodes"
            )
        if not 1 <= self.degree <= MOST_DEGREE:
            raise InputError(f"--degree is {self.degree}; the finder searches 1 to {MOST_DEGREE}")
        if self.most_hops is not None and self.most_hops < 1:
            raise InputError(f"--max-diameter is {self.most_hops}; it must be at least 1")

    @property
    def searched(self) -> dict[str, object]:
        """What a table must agree in so that it can be continued."""
        return {"degree": self.degree, "bidirectional": self.bidirectional, "most_hops": self.most_hops}


@dataclass(frozen=True)
class FrontierRow:
    """A network on the frontier of N: a row of ``frontiers.csv``.

    Parameters
    ----------
    nodes
        N.
    points, point
        How many networks the frontier has, and which this is, from 1, T_L growing; 0 of 0 where none is.
    topology
        In the papers' notation.
    family
        How it is built, as in Fig. A.4: B (both ways), L (line graph), D (degree), P (power), C (product), or
        the family of a base.
    tl_steps, tb_factor, exact
        T_L in steps and T_B in M/B, exactly or, where `exact` is 0, at most so.
    all_to_all_low, all_to_all_high
        In M/B, of the first and the last network of a frontier: what distances prove, and what an even split
        over the shortest paths attains. Empty for others.
    kautz_tl, kautz_tb
        T_L and T_B of the generalized Kautz graph of this N; empty where there is none.
    """

    nodes: int
    points: int = 0
    point: int = 0
    topology: str = ""
    family: str = ""
    tl_steps: int = 0
    tb_factor: Fraction = Fraction(0)
    exact: bool = True
    all_to_all_low: float | None = None
    all_to_all_high: float | None = None
    kautz_tl: int | None = None
    kautz_tb: Fraction | None = None


COLUMNS = [field.name for field in fields(FrontierRow)]


def write_growth(
    growth: Growth, directory: Path, finder: Finder, report: Callable[[int], None] = lambda nodes: None
) -> None:
    """Search the N that the directory's table lacks, from the smallest, and add them to it.

    Parameters
    ----------
    growth, finder
        What to search, and by what.
    directory
        Of the table; made if it is not there.
    report
        Called with each N that is done.

    Raises
    ------
    InputError
        If the directory has the table of another search, or can't be written.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
        _claim(growth, directory)
        done = {row.nodes for row in _cleaned(directory / TABLE)}
        with (directory / TABLE).open("a", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
            for nodes in range(FIRST_NODES, growth.up_to + 1):
                if nodes not in done:
                    writer.writerows(map(_written, rows_of(nodes, growth, finder)))
                    file.flush()
                report(nodes)
    except OSError as error:
        raise InputError(f"{directory}: can't write there: {error.strerror}") from error


def read_frontiers(directory: Path) -> list[FrontierRow]:
    """Return the rows of all N that are complete, N growing.

    Raises
    ------
    InputError
        If there is no table, or it is none of ours.
    """
    path = directory / TABLE
    try:
        rows = list(_whole(csv.DictReader(io.StringIO(read_text(path), newline=""))))
    except (ArithmeticError, ValueError, TypeError, KeyError) as error:
        raise InputError(f"{path}: not a table of frontiers: {error}") from error
    return sorted(rows, key=lambda row: (row.nodes, row.point))


def rows_of(nodes: int, growth: Growth, finder: Finder) -> list[FrontierRow]:
    """Return the frontier of one N; where it is empty, one row without a network."""
    kautz = _kautz(nodes, growth.degree)
    beside = FrontierRow(nodes)
    if kautz is not None:
        beside = replace(beside, kautz_tl=kautz.tl, kautz_tb=kautz.tb)
    found: list[Candidate] = []
    with suppress(InputError, NoSchedule):  # no network of this size; the numbers are in range
        found = finder.find(nodes, growth.degree)
    ends = {1, len(found)} if growth.spans else set()
    return [_row(beside, found, point, point in ends) for point in range(1, len(found) + 1)] or [beside]


def _row(beside: FrontierRow, found: Sequence[Candidate], point: int, spans: bool) -> FrontierRow:
    expression, cost = found[point - 1].expression, found[point - 1].cost
    low, high = cheap_interval(expression.topology()) if spans else (None, None)
    return replace(
        beside,
        points=len(found),
        point=point,
        topology=str(expression),
        family=family_of(expression),
        tl_steps=cost.tl,
        tb_factor=cost.tb,
        exact=cost.exact,
        all_to_all_low=low,
        all_to_all_high=high,
    )


def _kautz(nodes: int, degree: int) -> Prediction | None:
    return predict(Base("gen_kautz", (degree, nodes))) if degree > 1 and nodes > degree + 1 else None


def family_of(expression: Expression) -> str:
    """Return how a network is built, as in Fig. A.4.

    Examples
    --------
    >>> from topologies.families.expressions import parse_notation
    >>> [family_of(parse_notation(text)) for text in ("L^2(Diamond^2)", "Pi_{4,9}", "K_5")]
    ['LP', 'GenKautz', 'OtherBase']
    """
    letters = _letters(expression)
    if letters:
        return "".join(letter for letter in "BLDPC" if letter in letters)
    return FAMILIES.get(expression.family, OTHER) if isinstance(expression, Base) else OTHER


def _letters(expression: Expression) -> set[str]:
    match expression:
        case Line(of, _):
            return {"L"} | _letters(of)
        case Degree(of, _):
            return {"D"} | _letters(of)
        case Power(of, _):
            return {"P"} | _letters(of)
        case Both(of):
            return {"B"} | _letters(of)
        case Product(factors):
            return {"C"}.union(*map(_letters, factors))
        case _:
            return set()


def _claim(growth: Growth, directory: Path) -> None:
    """Check that a directory's table is of the same search, or say so in a new one."""
    path = directory / SETTINGS
    if path.exists():
        try:
            known = json.loads(read_text(path))
        except ValueError as error:
            raise InputError(f"{path}: not readable: {error}") from error
        if known != growth.searched:
            raise InputError(f"{directory}: has the frontiers of {known}, not of {growth.searched}")
    elif (directory / TABLE).exists():
        raise InputError(f"{directory}: has a {TABLE} without {SETTINGS}; use another directory")
    else:
        with replacing(path) as draft:
            draft.write_text(json.dumps(growth.searched) + "\n", encoding="utf-8")


def _cleaned(path: Path) -> list[FrontierRow]:
    """Return the complete rows and write the file with these alone; a new one gets its header."""
    rows = read_frontiers(path.parent) if path.exists() else []
    with replacing(path) as draft, draft.open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(map(_written, rows))
    return rows


def _written(row: FrontierRow) -> dict[str, object]:
    return asdict(row) | {"exact": int(row.exact)}


def _whole(records: Iterable[Mapping[str, str | None]]) -> Iterator[FrontierRow]:
    """Yield the rows of each N that has as many as it says; only the last can have fewer."""
    for _, group in groupby(records, key=lambda record: record["nodes"]):
        lines = list(group)
        if all(None not in line.values() for line in lines) and len(lines) == max(
            1, int(lines[0]["points"] or 0)
        ):
            yield from map(_read, lines)


def _read(record: Mapping[str, str | None]) -> FrontierRow:
    text = {name: record[name] or "" for name in COLUMNS}
    return FrontierRow(
        nodes=int(text["nodes"]),
        points=int(text["points"]),
        point=int(text["point"]),
        topology=text["topology"],
        family=text["family"],
        tl_steps=int(text["tl_steps"]),
        tb_factor=Fraction(text["tb_factor"]),
        exact=text["exact"] == "1",
        all_to_all_low=float(text["all_to_all_low"]) if text["all_to_all_low"] else None,
        all_to_all_high=float(text["all_to_all_high"]) if text["all_to_all_high"] else None,
        kautz_tl=int(text["kautz_tl"]) if text["kautz_tl"] else None,
        kautz_tb=Fraction(text["kautz_tb"]) if text["kautz_tb"] else None,
    )


class KautzRow(NamedTuple):
    """A row of ``kautz.csv``: d, N, T_L in steps and T_B in M/B, exactly."""

    degree: int
    nodes: int
    tl_steps: int
    tb_factor: Fraction


def write_kautz(
    directory: Path, degrees: Iterable[int], up_to: int, report: Callable[[int], None] = lambda degree: None
) -> None:
    """Measure what the directory's table lacks, all N from d + 2 to `up_to`, degree by degree.

    Raises
    ------
    InputError
        If the table is none of ours or can't be written.
    """
    known = {(row.degree, row.nodes): row for row in read_kautz(directory)}
    for degree in sorted(degrees):
        fresh = [n for n in range(degree + 2, up_to + 1) if (degree, n) not in known]
        known |= {(degree, n): KautzRow(degree, n, *kautz_cost(degree, n)) for n in fresh}
        if fresh:
            _write_rows(directory / KAUTZ_TABLE, known)
        report(degree)


def _write_rows(path: Path, known: Mapping[tuple[int, int], KautzRow]) -> None:
    try:
        with replacing(path) as draft, draft.open("w", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(KautzRow._fields)
            writer.writerows(known[key] for key in sorted(known))
    except OSError as error:
        raise InputError(f"{path}: can't write there: {error.strerror}") from error


def read_kautz(directory: Path) -> list[KautzRow]:
    """Return the rows of the directory's table, by degree and N; none if there is no table.

    Raises
    ------
    InputError
        If it is none of ours.
    """
    path = directory / KAUTZ_TABLE
    if not path.exists():
        return []
    try:
        lines = _kautz_lines(io.StringIO(read_text(path), newline=""))
        return sorted(KautzRow(int(d), int(n), int(tl), Fraction(tb)) for d, n, tl, tb in lines)
    except (ValueError, ZeroDivisionError) as error:
        raise InputError(f"{path}: not a table of generalized Kautz graphs: {error}") from error


def _kautz_lines(file: TextIO) -> list[list[str]]:
    """Return the lines below the header.

    Raises
    ------
    ValueError
        If the header is another one.
    """
    header, *lines = csv.reader(file)
    if header != list(KautzRow._fields):
        raise ValueError(f"its columns are {', '.join(header)}")
    return lines
