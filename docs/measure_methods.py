"""Measure how the time of each method grows with N, and write docs/methods/costs.csv for the methods' pages.

``python docs/measure_methods.py [METHOD ...]`` measures all methods (ten minutes), or the named ones.
A method takes the first row of `SERIES` whose smallest network it handles, with the first of `KINDS` that it
supports there. Each network runs twice, and the second run counts, without compilation. The current numbers
were measured on one of two cores at a load of 2 to 4.
"""

import csv
import sys
from contextlib import suppress
from pathlib import Path

import tutti
from tutti.experiments.registry import METHODS
from tutti.topologies.errors import Unsupported

COSTS = Path(__file__).parent / "methods" / "costs.csv"
COLUMNS = ("method", "collective", "network", "ranks", "transfers", "seconds")
SERIES = (
    [f"torus:{n}x{n}" for n in (4, 8, 16, 32)],
    ["C(16,{3,4})", "L(C(16,{3,4}))", "L^2(C(16,{3,4}))", "L^3(C(16,{3,4}))"],
    [f"circulant:{n},1,3" for n in (16, 64, 256, 1024)],
    [f"dgx_a100:{n}" for n in (2, 8, 32)],
    [f"dgx_h100:{n}" for n in (2, 8, 32)],
    [f"mesh:{n}x{n}" for n in (4, 8, 16, 32)],
    ["dgx1"],
    [f"ring:{n}" for n in (3, 4, 5, 6)],
)
SMALL = ([f"torus:{n}x{n}" for n in (2, 3, 4, 5)], *SERIES[-1:])
"""For methods that solve mixed-integer programs."""
INTEGER_PROGRAMS = {"sccl", "teccl", "taccl", "optimum"}
KINDS = ("allgather", "allreduce", "all-to-all")
SIZE = "1MB"
ENOUGH = 6.0
"""Seconds after which no larger network is tried."""
LIMIT = "20s"
"""Time limit of integer programs, which otherwise search without end."""


def measure(name: str) -> list[tuple[str, ...]]:
    """Return a row a network."""
    rows: list[tuple[str, ...]] = []
    for series in SMALL if name in INTEGER_PROGRAMS else SERIES:
        for kind in KINDS:
            for network in series:
                with suppress(Unsupported):
                    seconds, transfers = _timed(name, kind, network)
                    ranks = tutti.topology(network).num_ranks
                    rows.append((name, kind, network, str(ranks), str(transfers), f"{seconds:.2g}"))
                    if seconds > ENOUGH:
                        break
            if rows:
                return rows
    raise LookupError(name)


def _timed(name: str, kind: str, network: str) -> tuple[float, int]:
    options = dict(METHODS[name].quick)
    if name in INTEGER_PROGRAMS:
        options["time_limit"] = LIMIT
    for _ in range(2):
        result = tutti.synthesize(network, kind, size=SIZE, method=name, **options)
        if result.seconds > ENOUGH:
            break
    return result.seconds, len(result.schedule)


def main(names: list[str]) -> None:
    """Measure these, or all, and write the table."""
    kept = list(csv.reader(COSTS.open()))[1:] if names and COSTS.exists() else []
    rows = {row[0]: [other for other in kept if other[0] == row[0]] for row in kept}
    for name in names or METHODS:
        rows[name] = measure(name)
    with COSTS.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows(row for name in METHODS for row in rows.get(name, []))


if __name__ == "__main__":
    main(sys.argv[1:])
