"""What NCCL's model and the simulator say of NCCL, beside published bandwidths of DGX A100 and DGX H100.

``python -m experiments.bench.nccl`` prints the tables of docs/nccl.md: by size, the times of rings and trees
by NCCL's model and those of their schedules; and for each row of
``tests/data/reference/published_bandwidth.csv`` the times of NCCL, of its schedule and of the portfolio's
best one over the time that was measured, of MSCCL++ but for the one row of NCCL.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np

from tutti.experiments.bench.measurement import MICRO, REFERENCE
from tutti.experiments.printable import say
from tutti.experiments.registry import find_method
from tutti.schedules.collective import collective
from tutti.schedules.method import Problem
from tutti.schedules.schedule import Schedule
from tutti.schedules.simulation.pipelining import best_slices
from tutti.schedules.verify import verify
from tutti.topologies.errors import Unsupported
from tutti.topologies.text import parse_topology
from tutti.topologies.units import format_size

FAMILIES = {"A100": "dgx_a100", "H100": "dgx_h100", "H200": "dgx_h100"}
"""The networks of machines; the NVLinks and adapters of an H200 are those of an H100."""
HOSTS = (1, 2, 3, 4)
SIZES = tuple(4**power for power in range(5, 16))


def made(network: str, kind: str, size: int, method: str, **options: Any) -> tuple[Schedule, float]:
    """Return a method's verified schedule, and its simulated microseconds."""
    topology = parse_topology(network)
    problem = Problem(topology, collective(kind, topology.num_ranks), Fraction(size))
    how = find_method(method)
    given = how.options(**options)
    how.supports(problem, given)
    schedule = how.synthesize(problem, given, np.random.default_rng(0))
    verify(schedule)
    return schedule, best_slices(schedule, Fraction(size))[1] * MICRO


def by_size(family: str, hosts: int) -> Iterator[list[str]]:
    """Yield for each size NCCL's choice, and for rings, trees and it the model's and the schedule's time."""
    network = f"{family}:{hosts}"
    for size in SIZES:
        chosen, simulated = made(network, "allreduce", size, "nccl")
        cells = [f"{chosen.stats['algorithm']} {chosen.stats['protocol']}"]
        for algorithm in ("ring", "tree"):
            one, time = made(network, "allreduce", size, "nccl", algorithm=algorithm)
            cells.append(f"{one.stats['nccl_us']:.4g} / {time:.4g}")
        yield [format_size(size), *cells, f"{chosen.stats['nccl_us']:.4g} / {simulated:.4g}"]


def published(limit: str) -> Iterator[list[str]]:
    """Yield for each published row what the model, its schedule and the best take over what was measured."""
    with (REFERENCE / "published_bandwidth.csv").open() as file:
        rows = list(csv.DictReader(file))
    rows.sort(key=lambda one: (one["machine"], one["hosts"], one["collective"], int(one["bytes"])))
    for row in rows:
        size, kind = int(row["bytes"]), row["collective"].replace("alltoall", "all-to-all")
        network = f"{FAMILIES[row['machine'][:4]]}:{row['hosts']}"
        measured = float(row["time_us"] or size / float(row["algbw_gbps"]) / 1000)
        cells = [over_measured(network, kind, size, measured, name) for name in ("ring", "tree", None)]
        best, least = made(network, kind, size, "best", time_limit=limit)
        whose = f"{least / measured:.2f} {best.stats['algorithm']}"
        yield [network, kind, format_size(size), f"{measured:.4g}", *cells, whose]


def over_measured(network: str, kind: str, size: int, measured: float, algorithm: str | None) -> str:
    """Return the model's and the schedule's time over what was measured, and which is NCCL's choice."""
    try:
        schedule, simulated = made(network, kind, size, "nccl", algorithm=algorithm)
    except Unsupported:
        return ""
    reckoned = schedule.stats["nccl_us"]
    which = "" if algorithm else f" {schedule.stats['algorithm']} {schedule.stats['protocol']}"
    return f"{reckoned / measured:.2f} / {simulated / measured:.2f}{which}"


def table(heads: list[str], rows: Iterator[list[str]]) -> None:
    """Print a table in Markdown, row by row."""
    for row in (heads, ["---"] * len(heads)):
        say(f"| {' | '.join(row)} |")
    for row in rows:
        say(f"| {' | '.join(row)} |")
    say("")


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--limit", default="15s", help="the portfolio's time for a case")
    limit = parser.parse_args().limit
    heads = ["M", "NCCL takes", "ring, us: model / simulated", "tree", "its choice"]
    for family in ("dgx_a100", "dgx_h100"):
        for hosts in HOSTS:
            say(f"{family}:{hosts}")
            table(heads, by_size(family, hosts))
    heads = ["ring: model / simulated, over measured", "tree", "NCCL's choice", "`best` over measured"]
    table(["network", "collective", "M", "measured, us", *heads], published(limit))


if __name__ == "__main__":
    main()
