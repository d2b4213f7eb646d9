"""Benchmarks: ``python -m tutti.experiments.bench [--only NAME] [--large]``, the numbers of docs/overview.md.

Each benchmark is a function that yields measurements (`cases`); `circulants` is a study of its own. Times
leave compilation out, and short ones are the best of three: they run one after the other, alone, and not as
tasks of the runner, whose workers share a machine. The table is printed and written to
``results/bench.json``, with versions and machine. Targets that every machine must reach set the exit status;
limits on time and memory are counted.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from tutti.experiments.bench.cases import (
    Measurement,
    at_most,
    bench_all_to_all,
    bench_allreduce,
    bench_bfb,
    bench_cut,
    bench_finder,
    bench_forestcoll,
    bench_simulate,
    bench_tacos,
    bench_tacos_large,
    bench_verify,
    exactly,
)
from tutti.experiments.cli.output import print_table
from tutti.experiments.runner.manifest import machine, now, versions
from tutti.topologies.errors import suggestion

__all__ = ["BENCHMARKS", "LARGE", "Measurement", "at_most", "exactly", "main", "run", "summary"]

OUTPUT = Path("results") / "bench.json"
WORDS = {None: "", True: "yes", False: "NO"}
"""Whether a target is reached."""

BENCHMARKS: dict[str, Callable[[], Iterator[Measurement]]] = {
    "bfb": bench_bfb,
    "cut": bench_cut,
    "tacos": bench_tacos,
    "simulate": bench_simulate,
    "verify": bench_verify,
    "forestcoll": bench_forestcoll,
    "allreduce": bench_allreduce,
    "all-to-all": bench_all_to_all,
    "finder": bench_finder,
}
LARGE: dict[str, Callable[[], Iterator[Measurement]]] = {
    "tacos-large": bench_tacos_large,
}


def run(names: Sequence[str]) -> list[Measurement]:
    """Run benchmarks, printing the table of each as it ends."""
    done = []
    for name in names:
        found = list({**BENCHMARKS, **LARGE}[name]())
        rows = [(m.case, m.quantity, _shown(m), m.target, WORDS[m.reached], m.published) for m in found]
        print_table(name, ["case", "quantity", "value", "target", "reached", "published"], rows)
        done += found
    return done


def _shown(m: Measurement) -> float | str:
    return m.value if m.decimals is None or isinstance(m.value, str) else f"{m.value:.{m.decimals}f}"


def summary(done: Sequence[Measurement]) -> str:
    """Return how many targets were missed, of those that no machine may miss and of the others.

    Examples
    --------
    >>> summary([at_most("x", "case", "s", 2.0, 1.0), exactly("x", "case", "T_B", 1, 1)])
    '2 measurements; missed: 0 of 1 exact target, 1 of 1 limit on time or memory (machines differ)'
    """
    exact = [m for m in done if m.reached is not None and m.exact]
    limits = [m for m in done if m.reached is not None and not m.exact]
    return (
        f"{len(done)} measurements; missed: {_missed(exact, 'exact target')}, "
        f"{_missed(limits, 'limit')} on time or memory (machines differ)"
    )


def _missed(targets: Sequence[Measurement], name: str) -> str:
    return f"{sum(not m.reached for m in targets)} of {len(targets)} {name}{'' if len(targets) == 1 else 's'}"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmarks asked for; 1 if an exact target is missed, 2 for an unknown name, else 0."""
    parser = argparse.ArgumentParser(
        prog="python -m tutti.experiments.bench", description=__doc__, allow_abbrev=False
    )
    parser.add_argument("--only", action="append", metavar="NAME", help=", ".join([*BENCHMARKS, *LARGE]))
    parser.add_argument("--large", action="store_true", help="those that need minutes and gigabytes too")
    arguments = parser.parse_args(argv)
    names = arguments.only or [*BENCHMARKS, *(LARGE if arguments.large else ())]
    unknown = next((name for name in names if name not in {**BENCHMARKS, **LARGE}), None)
    if unknown is not None:
        print(f"unknown benchmark '{unknown}'{suggestion(unknown, [*BENCHMARKS, *LARGE])}", file=sys.stderr)
        return 2
    done = run(names)
    document = {"date": now(), "versions": versions(), "machine": machine()}
    OUTPUT.parent.mkdir(exist_ok=True)
    OUTPUT.write_text(json.dumps({**document, "measurements": [asdict(m) for m in done]}, indent=1) + "\n")
    print(f"{summary(done)}; in {OUTPUT}")
    return 1 if any(m.exact and m.reached is False for m in done) else 0
