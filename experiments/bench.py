"""Benchmarks: ``python -m experiments.bench [--only NAME] [--large]``, the numbers that the README claims.

Each benchmark is a function that yields measurements; times leave compilation out. The table is printed and
written to ``results/bench.json``, with versions and machine.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np

from experiments.cli.output import print_table
from experiments.manifest import machine, now, versions
from experiments.measure import Stopwatch, peak_memory, reset_peak_memory
from experiments.options import build_options
from experiments.registry import find_method
from experiments.synthesis import synthesize_best
from models.bfb.counting import workloads
from models.bfb.measure import compare
from models.cut import binary_search_cut, bottleneck_cut
from schedules.collective import collective
from schedules.cost import step_cost
from schedules.method import Problem
from schedules.schedule import Schedule
from schedules.simulate import simulate
from schedules.verify import verify
from topologies.errors import suggestion
from topologies.text import parse_topology

GIGA, MICRO = 10**9, 10**6
GIBIBYTE = Fraction(2**30)
PEERS = Path(__file__).resolve().parent.parent / "tests" / "data" / "reference" / "peers_measured.csv"
OUTPUT = Path("results") / "bench.json"


@dataclass(frozen=True)
class Measurement:
    """A line of the table.

    Parameters
    ----------
    benchmark, case, quantity
        What was measured of what.
    value
        A number, or an exact one as text.
    target
        What it must reach, as text; empty where nothing is asked.
    reached
        Whether it does; None where nothing is asked.
    """

    benchmark: str
    case: str
    quantity: str
    value: float | str
    target: str = ""
    reached: bool | None = None


def at_most(name: str, case: str, quantity: str, value: float, most: float) -> Measurement:
    """Return a measurement with an upper limit."""
    return Measurement(name, case, quantity, value, f"at most {most:g}", value <= most)


def exactly(name: str, case: str, quantity: str, value: Fraction | None, wanted: Fraction) -> Measurement:
    """Return a measurement that must be an exact number."""
    return Measurement(name, case, quantity, str(value), str(wanted), value == wanted)


def make(text: str, method: str, **options: object) -> tuple[Schedule, float]:
    """Return a method's verified allgather at 1 GiB, and the seconds of synthesis and verification."""
    topology, chosen = parse_topology(text), find_method(method)
    problem = Problem(topology, collective("allgather", topology.num_ranks), GIBIBYTE)
    made = synthesize_best(chosen, problem, build_options(chosen, options), [0], GIBIBYTE)
    return made.schedule, made.synth_s + made.verify_s


def bench_bfb() -> Iterator[Measurement]:
    """U of every subproblem by counting, the schedule and its T_B; the linear programs beside it."""
    make("torus:3x3", "bfb")
    for text in ("hypercube:10", "torus:50x50", "torus:12x13x14"):
        topology = parse_topology(text)
        with Stopwatch() as watch:
            workloads(topology)
        yield at_most("bfb", text, "U, s", watch.seconds, 1.5)
        schedule, seconds = make(text, "bfb")
        yield at_most("bfb", text, "verified schedule, s", seconds, 10.0)
        optimal = Fraction(topology.num_ranks - 1, topology.num_ranks)
        yield exactly("bfb", text, "T_B, M/B", step_cost(schedule).tb, optimal)
    for text, printed in (("gen_kautz:4,64", "1.3125"), ("gen_kautz:4,1024", "1.33203125")):
        yield exactly("bfb", text, "T_B, M/B", workloads(parse_topology(text)).tb, Fraction(printed))
    yield from _bfb_by_programs("torus:10x10")


def _bfb_by_programs(text: str) -> Iterator[Measurement]:
    found = compare(parse_topology(text), "highs")
    yield Measurement("bfb", text, "U by counting, s", found.counting_s)
    yield Measurement("bfb", text, "U by Pyomo and HiGHS, s", found.lp_s)
    yield Measurement("bfb", text, "ratio", found.ratio)
    same = "yes" if found.equal else "no"
    yield Measurement("bfb", text, "both give the same U", same, "yes", found.equal)


CUTS = {
    "dgx_a100:1": Fraction(2400, 7),
    "dgx_a100:2": Fraction(1040, 3),
    "dgx_a100:4": Fraction(800, 3),
    "dgx_a100:16": Fraction(640, 3),
    "dgx_a100:128": Fraction(25600, 127),
    "mi250:2": Fraction("354.133"),
    "mi250:64": Fraction("260.063"),
}
"""Bound on algbw in GB/s; those of MI250 are rounded to three places."""
PRINTED = Fraction(1, 2000)


def bench_cut() -> Iterator[Measurement]:
    """The bottleneck cut by Newton's method and by the papers' binary search."""
    bottleneck_cut(parse_topology("dgx_a100:2"))
    for text, printed in CUTS.items():
        topology = parse_topology(text)
        with Stopwatch() as newton:
            cut = bottleneck_cut(topology)
        with Stopwatch() as search:
            other = binary_search_cut(topology)
        algbw = topology.num_ranks / cut.ratio / GIGA
        near = abs(algbw - printed) <= PRINTED
        yield Measurement("cut", text, "algbw, GB/s", str(algbw), f"{float(printed):.3f}", near)
        yield exactly("cut", text, "binary search, s/GB", other.ratio * GIGA, cut.ratio * GIGA)
        if text == "dgx_a100:128":
            yield at_most("cut", text, "Newton, s", newton.seconds, 1.0)
        else:
            yield Measurement("cut", text, "Newton, s", newton.seconds)
        yield Measurement("cut", text, "binary search, s", search.seconds)


USUAL = "bandwidth=50GiB/s&alpha=0.5us"
TACOS_CASES = {
    "mesh:3x3 1 chunk 1024 MiB 50 GiB/s 0.5 us allgather": (f"mesh:3x3?{USUAL}", 1),
    "mesh:5x5 same": (f"mesh:5x5?{USUAL}", 1),
    "mesh:10x10 same": (f"mesh:10x10?{USUAL}", 1),
    "mesh:16x16 same": (f"mesh:16x16?{USUAL}", 1),
    "torus:8x8 same": (f"torus:8x8?{USUAL}", 1),
    "torus:5x5 same": (f"torus:5x5?{USUAL}", 1),
    "torus:6x6x6 same": (f"torus:6x6x6?{USUAL}", 1),
    "mesh:5x5?bandwidth=50GiB/s,75GiB/s 0.5 us 1 chunk 1024 MiB": (
        "mesh:5x5?bandwidth=50GiB/s,75GiB/s&alpha=0.5us",
        1,
    ),
    "mesh:8x5?bandwidth=80GiB/s,35GiB/s 1 us 2 chunks 1024 MiB": (
        "mesh:8x5?bandwidth=80GiB/s,35GiB/s&alpha=1us",
        2,
    ),
    "mesh:10x10 100 GiB/s 1 us 2 chunks 1024 MiB": ("mesh:10x10?bandwidth=100GiB/s&alpha=1us", 2),
    "torus:3x3x3 50 GiB/s 0.5 us 1 chunk 1024 MiB": (f"torus:3x3x3?{USUAL}", 1),
    "grid 3x3x3 (mesh) same": (f"mesh:3x3x3?{USUAL}", 1),
}
"""The peer's cases, as the reference file calls them, and as ours: topology and chunks a shard."""
SEEDS = range(20)
SAME = 1 + 1e-6


def bench_tacos() -> Iterator[Measurement]:
    """The best of 20 seeds against the public C++ TACOS, and the synthesis time of a large mesh."""
    with PEERS.open(newline="") as file:
        peer = {row["case"]: row["value"] for row in csv.DictReader(file) if row["peer"] == "TACOS C++"}
    tacos = find_method("tacos")
    make("mesh:3x3", "tacos")
    for case, (text, chunks) in TACOS_CASES.items():
        topology, options = parse_topology(text), build_options(tacos, {"chunks": chunks})
        problem = Problem(topology, collective("allgather", topology.num_ranks), GIBIBYTE)
        made = synthesize_best(tacos, problem, options, SEEDS, GIBIBYTE)
        time = simulate(made.schedule, GIBIBYTE).time * MICRO
        theirs = float(peer[case])
        yield Measurement(
            "tacos", f"{text} x{chunks}", "time, us", time, f"at most {theirs}", time <= theirs * SAME
        )
    topology = parse_topology(f"mesh:32x32?{USUAL}")
    problem = Problem(topology, collective("allgather", topology.num_ranks), GIBIBYTE)
    made = synthesize_best(tacos, problem, tacos.options(), [0], GIBIBYTE)
    yield at_most("tacos", "mesh:32x32", "synthesis, s (the peer: 66)", made.synth_s, 0.5)


def bench_simulate() -> Iterator[Measurement]:
    """Transfers simulated a second, under two clocks."""
    for text, method in (("torus:32x32", "bfb"), ("torus:32x32", "tacos")):
        schedule, _ = make(text, method)
        simulate(make("torus:3x3", method)[0], GIBIBYTE)
        with Stopwatch() as watch:
            simulate(schedule, GIBIBYTE)
        rate = len(schedule) / watch.seconds
        case = f"{method} on {text}, {len(schedule)} transfers"
        yield Measurement("simulate", case, "transfers/s", rate, f"at least {MICRO:g}", rate >= MICRO)


def _verify(name: str, text: str, seconds: float, megabytes: float) -> Iterator[Measurement]:
    make("ring:4", "ring")
    topology, ring = parse_topology(text), find_method("ring")
    problem = Problem(topology, collective("allgather", topology.num_ranks))
    schedule = ring.synthesize(problem, ring.options(), np.random.default_rng(0))
    case = f"ring on {text}, {len(schedule)} transfers"
    reset_peak_memory()
    with Stopwatch() as watch:
        verify(schedule)
    yield at_most(name, case, "verify, s", watch.seconds, seconds)
    yield at_most(name, case, "peak memory, MB", peak_memory(), megabytes)


def bench_verify() -> Iterator[Measurement]:
    """Ten million transfers."""
    yield from _verify("verify", "ring:2240", 10.0, 2000.0)


def bench_verify_large() -> Iterator[Measurement]:
    """A hundred million transfers."""
    yield from _verify("verify-large", "ring:7072", 60.0, 6000.0)


BENCHMARKS: dict[str, Callable[[], Iterator[Measurement]]] = {
    "bfb": bench_bfb,
    "cut": bench_cut,
    "tacos": bench_tacos,
    "simulate": bench_simulate,
    "verify": bench_verify,
}
LARGE: dict[str, Callable[[], Iterator[Measurement]]] = {"verify-large": bench_verify_large}


def run(names: Sequence[str]) -> list[Measurement]:
    """Run benchmarks, printing the table of each as it ends."""
    done = []
    for name in names:
        found = list({**BENCHMARKS, **LARGE}[name]())
        rows = [(m.case, m.quantity, m.value, m.target, _word(m.reached)) for m in found]
        print_table(name, ["case", "quantity", "value", "target", "reached"], rows)
        done += found
    return done


def _word(reached: bool | None) -> str:
    return "" if reached is None else "yes" if reached else "NO"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmarks asked for; 0 if every target is reached, 1 if not, 2 for an unknown name."""
    parser = argparse.ArgumentParser(prog="python -m experiments.bench", description=__doc__)
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
    missed = [m for m in done if m.reached is False]
    print(f"{len(done)} measurements, {len(missed)} targets missed; in {OUTPUT}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
