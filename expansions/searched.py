"""Allgathers of Diamond and the modified de Bruijn networks: BW-optimal, which BFB's are not.

They were found once by `expansions.step_search` with the loads below, on the networks and on their
transposes, and stand in ``searched_allgathers.csv``, a row (network, turned, owner, part, link, step) each.
Source: dissertation, Table A.3 (T_L), Figs A.8 and A.9 (pictures only); `topologies.searched` tells how the
networks themselves were found.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from expansions.shard_table import ShardTable
from expansions.step_search import search_allgather, table_of
from topologies.expressions import Base
from topologies.topology import Topology

STORED = Path(__file__).with_name("searched_allgathers.csv")


class Searched(NamedTuple):
    """What to search for: P parts a shard, and how many parts each link carries in each step."""

    parts: int
    loads: tuple[int, ...]


SEARCHED: Mapping[Base, Searched] = {
    Base("diamond"): Searched(2, (2, 2, 3)),
    Base("modified_debruijn", (2, 3)): Searched(2, (1, 2, 2, 2)),
    Base("modified_debruijn", (2, 4)): Searched(2, (2, 2, 3, 3, 5)),
    Base("modified_debruijn", (3, 2)): Searched(3, (2, 3, 3)),
    Base("modified_debruijn", (4, 2)): Searched(4, (3, 5, 7)),
}
"""The bases with a schedule of their own."""


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
    """Search for all of them again, half a minute, and write the file."""
    with STORED.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["network", "turned", "owner", "part", "link", "step"])
        for base, (parts, loads) in SEARCHED.items():
            for turned in (False, True):
                found = search_allgather(base.topology(), len(loads), parts, turned=turned, loads=loads)
                for row in zip(found.owner, found.first, found.link, found.step, strict=True):
                    writer.writerow([str(base), int(turned), *map(int, row)])
