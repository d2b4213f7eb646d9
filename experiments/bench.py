"""Benchmarks: ``python -m experiments.bench [--only NAME] [--large]``, the numbers that the README claims.

Each benchmark is a function that yields measurements; times leave compilation out, and short ones are the
best of three. The table is printed and written to ``results/bench.json``, with versions and machine. Targets
that every machine must reach set the exit status; limits on time and memory are counted.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from experiments.cli.output import print_table
from experiments.manifest import machine, now, versions
from experiments.measure import Stopwatch, peak_memory, reset_peak_memory
from experiments.options import build_options
from experiments.registry import find_method
from experiments.synthesis import Made, synthesize_best
from models.bfb.counting import workloads
from models.bfb.measure import compare
from models.cut import binary_search_cut, bottleneck_cut
from schedules.collective import collective
from schedules.cost import congestion, step_cost
from schedules.method import Problem
from schedules.schedule import Schedule
from schedules.simulate import simulate
from schedules.verify import verify
from topologies.errors import suggestion
from topologies.text import parse_topology

GIGA, MICRO = 10**9, 10**6
GIBIBYTE = Fraction(2**30)
REFERENCE = Path(__file__).resolve().parent.parent / "tests" / "data" / "reference"
TABLE_3_6 = "table_3_6_generation_seconds.csv"
SHORT_SECONDS = 2.0
"""What takes longer is measured once."""
OUTPUT = Path("results") / "bench.json"

T = TypeVar("T")


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
    exact
        Whether every machine gives this value: to miss its target is a fault then.
    published
        What others report of the same.
    decimals
        How many of the value to print; None: six significant digits.
    """

    benchmark: str
    case: str
    quantity: str
    value: float | str
    target: str = ""
    reached: bool | None = None
    exact: bool = False
    published: str = ""
    decimals: int | None = None


def at_most(
    name: str, case: str, quantity: str, value: float, most: float, published: str = ""
) -> Measurement:
    """Return a measurement with an upper limit, which a slow or small machine may miss."""
    return Measurement(name, case, quantity, value, f"at most {most:g}", value <= most, published=published)


def exactly(
    name: str, case: str, quantity: str, value: Fraction | int | None, wanted: Fraction | int
) -> Measurement:
    """Return a measurement that must be an exact number."""
    return Measurement(name, case, quantity, str(value), str(wanted), value == wanted, exact=True)


def best_of_three(measure: Callable[[], tuple[T, float]]) -> tuple[T, float]:
    """Return a result and the seconds that it took: the least of three, of one if that is long."""
    result, least = measure()
    if least < SHORT_SECONDS:
        least = min(least, measure()[1], measure()[1])
    return result, least


def timed(function: Callable[..., T], *arguments: Any) -> tuple[T, float]:
    """Return what a call gives, and its seconds as `best_of_three`."""

    def once() -> tuple[T, float]:
        with Stopwatch() as watch:
            result = function(*arguments)
        return result, watch.seconds

    return best_of_three(once)


def reference(table: str, **where: str) -> dict[str, str]:
    """Return the row of a table of published or measured figures that has these values."""
    with (REFERENCE / table).open(newline="") as file:
        return next(row for row in csv.DictReader(file) if where.items() <= row.items())


def make(text: str, method: str, **options: object) -> Made:
    """Return a method's verified allgather at 1 GiB."""
    topology, chosen = parse_topology(text), find_method(method)
    problem = Problem(topology, collective("allgather", topology.num_ranks), GIBIBYTE)
    return synthesize_best(chosen, problem, build_options(chosen, options), [0], GIBIBYTE)


def make_timed(text: str, method: str) -> tuple[Schedule, float]:
    """Return the same, and the seconds of synthesis and verification."""

    def once() -> tuple[Schedule, float]:
        made = make(text, method)
        return made.schedule, made.synth_s + made.verify_s

    return best_of_three(once)


BFB_CASES = {
    "hypercube:10": ("hypercube", "1024"),
    "torus:50x50": ("torus2d", "2500"),
    "torus:12x13x14": None,
}
"""Topology, and family and N in the dissertation's Table 3.6 where it is there."""


def bench_bfb() -> Iterator[Measurement]:
    """U of every subproblem by counting, the schedule and its T_B; the linear programs beside it."""
    make("torus:3x3", "bfb")
    for text, row in BFB_CASES.items():
        topology = parse_topology(text)
        yield at_most("bfb", text, "U, s", timed(workloads, topology)[1], 1.5)
        theirs = "" if row is None else f"{reference(TABLE_3_6, family=row[0], n=row[1])['bfb']} (Table 3.6)"
        schedule, seconds = make_timed(text, "bfb")
        yield at_most("bfb", text, "verified schedule, s", seconds, 10.0, theirs)
        optimal = Fraction(topology.num_ranks - 1, topology.num_ranks)
        yield exactly("bfb", text, "T_B, M/B", step_cost(schedule).tb, optimal)
    for text, printed in (("gen_kautz:4,64", "1.3125"), ("gen_kautz:4,1024", "1.33203125")):
        yield exactly("bfb", text, "T_B, M/B", workloads(parse_topology(text)).tb, Fraction(printed))
    yield from _bfb_by_programs("torus:10x10")


def _bfb_by_programs(text: str) -> Iterator[Measurement]:
    topology = parse_topology(text)
    found, counting = compare(topology, "highs"), timed(workloads, topology)[1]
    yield Measurement("bfb", text, "U by counting, s", counting)
    yield Measurement("bfb", text, "U by Pyomo and HiGHS, s", found.lp_s)
    yield Measurement("bfb", text, "ratio", found.lp_s / counting)
    same = "yes" if found.equal else "no"
    yield Measurement("bfb", text, "both give the same U", same, "yes", found.equal, exact=True)


CUTS: dict[str, Fraction | str] = {
    "dgx_a100:1": Fraction(2400, 7),
    "dgx_a100:2": Fraction(1040, 3),
    "dgx_a100:4": Fraction(800, 3),
    "dgx_a100:16": Fraction(640, 3),
    "dgx_a100:128": Fraction(25600, 127),
    "mi250:2": "354.133",
    "mi250:64": "260.063",
}
"""Bound on algbw in GB/s; a text is rounded to its places."""
CUTS_PUBLISHED = {"dgx_a100:128": "A100 x 1024", "mi250:64": "MI250 x 1024"}
"""Topologies in the dissertation's Table B.2."""


def bench_cut() -> Iterator[Measurement]:
    """The bottleneck cut by Newton's method and by the papers' binary search."""
    bottleneck_cut(parse_topology("dgx_a100:2"))
    for text, printed in CUTS.items():
        topology = parse_topology(text)
        cut, newton = timed(bottleneck_cut, topology)
        other, search = timed(binary_search_cut, topology)
        yield _algbw(text, topology.num_ranks / cut.ratio / GIGA, printed)
        per_shard = "binary search, s/GB of a shard (M/N)"
        yield exactly("cut", text, per_shard, other.ratio * GIGA, cut.ratio * GIGA)
        if text == "dgx_a100:128":
            yield at_most("cut", text, "Newton, s", newton, 1.0)
        else:
            yield Measurement("cut", text, "Newton, s", newton)
        yield Measurement("cut", text, "binary search, s", search, published=_cut_published(text))


def _algbw(text: str, algbw: Fraction, printed: Fraction | str) -> Measurement:
    """Compare exactly, or where the source rounds after the same rounding."""
    quantity = "algbw, GB/s of M"
    if isinstance(printed, Fraction):
        return exactly("cut", text, quantity, algbw, printed)
    places = len(printed.partition(".")[2])
    near = round(algbw, places) == Fraction(printed)
    return Measurement("cut", text, quantity, float(algbw), printed, near, exact=True, decimals=places)


def _cut_published(text: str) -> str:
    if text not in CUTS_PUBLISHED:
        return ""
    row = reference("table_B2_forestcoll_1024_seconds.csv", topology=CUTS_PUBLISHED[text])
    return f"{row['optimality_search']}, {row['cores']} cores (Table B.2)"


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
"""The peer's times are rounded on the way: those that are the same agree to this factor."""


def bench_tacos() -> Iterator[Measurement]:
    """The best of 20 seeds against the public C++ TACOS, and the synthesis time of a large mesh.

    The chunk bound on steps is the most chunks that a rank must receive over its in-links.
    """
    make("mesh:3x3", "tacos")
    for case, (text, chunks) in TACOS_CASES.items():
        yield from _tacos_case(case, text, chunks)
    theirs = int(_tacos_peer("mesh:32x32 same")["value"]) / 1000
    seconds = min(make(f"mesh:32x32?{USUAL}", "tacos").synth_s for _ in range(3))
    yield at_most("tacos", "mesh:32x32", "synthesis, s", seconds, 0.5, f"{theirs:g} (TACOS C++)")


def _tacos_case(case: str, text: str, chunks: int) -> Iterator[Measurement]:
    tacos, topology, peer = find_method("tacos"), parse_topology(text), _tacos_peer(case)
    problem = Problem(topology, collective("allgather", topology.num_ranks), GIBIBYTE)
    options = build_options(tacos, {"chunks": chunks})
    schedule = synthesize_best(tacos, problem, options, SEEDS, GIBIBYTE).schedule
    time, theirs, name = simulate(schedule, GIBIBYTE).time * MICRO, peer["value"], f"{text} x{chunks}"
    note = peer["note"].partition("; ")[0].partition(" (")[0]
    steps = topology.homogeneous
    yield Measurement(
        "tacos",
        name,
        "time, us (to 1e-6 relative)",
        time,
        f"at most {theirs}",
        time <= float(theirs) * SAME,
        exact=True,
        published="TACOS C++" if steps else f"TACOS C++: {note}",
        decimals=len(theirs.partition(".")[2]),
    )
    if steps:  # all messages take one time, so that they start in rounds
        rounds = len(np.unique(np.asarray(schedule.order)))
        least = -(-(topology.num_ranks - 1) * chunks // int(np.bincount(topology.target).min()))
        found = exactly("tacos", name, "steps; the chunk bound", rounds, least)
        yield replace(found, published=note)


def _tacos_peer(case: str) -> dict[str, str]:
    return reference("peers_measured.csv", peer="TACOS C++", case=case)


def bench_simulate() -> Iterator[Measurement]:
    """Transfers simulated a second, under two clocks."""
    for text, method in (("torus:32x32", "bfb"), ("torus:32x32", "tacos")):
        schedule = make(text, method).schedule
        simulate(make("torus:3x3", method).schedule, GIBIBYTE)
        rate = len(schedule) / timed(simulate, schedule, GIBIBYTE)[1]
        case = f"{method} on {text}, {len(schedule)} transfers"
        yield Measurement("simulate", case, "transfers/s", rate, f"at least {MICRO:g}", rate >= MICRO)


def _verify(name: str, text: str, seconds: float, megabytes: float) -> Iterator[Measurement]:
    make("ring:4", "ring")
    topology, ring = parse_topology(text), find_method("ring")
    problem = Problem(topology, collective("allgather", topology.num_ranks))
    schedule = ring.synthesize(problem, ring.options(), np.random.default_rng(0))
    case = f"ring on {text}, {len(schedule)} transfers"
    reset_peak_memory()
    yield at_most(name, case, "verify, s", timed(verify, schedule)[1], seconds)
    yield at_most(name, case, "peak memory, MB", peak_memory(), megabytes)


def bench_verify() -> Iterator[Measurement]:
    """Ten million transfers."""
    yield from _verify("verify", "ring:2240", 10.0, 2000.0)


def bench_verify_large() -> Iterator[Measurement]:
    """A hundred million transfers."""
    yield from _verify("verify-large", "ring:7072", 60.0, 6000.0)


FORESTS = [f"dgx_a100:{2**i}" for i in range(8)] + [f"mi250:{2**i}" for i in range(7)]
"""Up to 1,024 GPUs each, as in the dissertation's Figure 4.14."""
LARGE_FORESTS = ["dgx_a100:512", "mi250:256"]
EXACT_FORESTS = ["dgx_a100:8", "mi250:4"]
"""64 GPUs each, by the exact algorithms alone."""
MOST_SECONDS = {"dgx_a100:128": 20.0, "mi250:64": 20.0}
PARTS = {"search_s": "search", "removal_s": "switch removal", "packing_s": "trees", "build_s": "schedule"}


def bench_forestcoll() -> Iterator[Measurement]:
    """Verified schedules of optimal congestion, and the exact algorithms against the guesses."""
    for text in ("mi250:1", "dgx_a100:2"):
        make(text, "forestcoll")
        make(text, "forestcoll", fast=False)
    for text in FORESTS:
        yield from _forest(text)
    for text in EXACT_FORESTS:
        made = (make(text, "forestcoll"), make(text, "forestcoll", fast=False))
        fast, exact = (one.synth_s + one.verify_s for one in made)
        yield at_most("forestcoll", text, "exact algorithms alone, s", exact, 60.0)
        yield Measurement("forestcoll", text, "times as long as with guesses", exact / fast)


def bench_forestcoll_large() -> Iterator[Measurement]:
    """4,096 GPUs."""
    make("mi250:1", "forestcoll")
    make("dgx_a100:2", "forestcoll")
    for text in LARGE_FORESTS:
        yield from _forest(text)


def _forest(text: str) -> Iterator[Measurement]:
    made = make(text, "forestcoll")
    schedule, stats, seconds = made.schedule, made.schedule.stats, made.synth_s + made.verify_s
    case = f"{text}, {schedule.topology.num_ranks} GPUs"
    bound = bottleneck_cut(schedule.topology).ratio / schedule.topology.num_ranks
    yield exactly("forestcoll", case, "congestion, s/GB", congestion(schedule) * GIGA, bound * GIGA)
    yield Measurement("forestcoll", case, "trees a root", stats["trees"])
    yield Measurement("forestcoll", case, "height", stats["height"])
    yield Measurement("forestcoll", case, "mean height", stats["mean_height"])
    for name, word in PARTS.items():
        yield Measurement("forestcoll", case, f"{word}, s", stats[name])
    yield Measurement("forestcoll", case, "verification, s", made.verify_s)
    if text in MOST_SECONDS:
        yield at_most("forestcoll", case, "all, s", seconds, MOST_SECONDS[text])
    else:
        yield Measurement("forestcoll", case, "all, s", seconds)


BENCHMARKS: dict[str, Callable[[], Iterator[Measurement]]] = {
    "bfb": bench_bfb,
    "cut": bench_cut,
    "tacos": bench_tacos,
    "simulate": bench_simulate,
    "verify": bench_verify,
    "forestcoll": bench_forestcoll,
}
LARGE: dict[str, Callable[[], Iterator[Measurement]]] = {
    "verify-large": bench_verify_large,
    "forestcoll-large": bench_forestcoll_large,
}


def run(names: Sequence[str]) -> list[Measurement]:
    """Run benchmarks, printing the table of each as it ends."""
    done = []
    for name in names:
        found = list({**BENCHMARKS, **LARGE}[name]())
        rows = [(m.case, m.quantity, _shown(m), m.target, _word(m.reached), m.published) for m in found]
        print_table(name, ["case", "quantity", "value", "target", "reached", "published"], rows)
        done += found
    return done


def _shown(m: Measurement) -> float | str:
    return m.value if m.decimals is None or isinstance(m.value, str) else f"{m.value:.{m.decimals}f}"


def _word(reached: bool | None) -> str:
    return "" if reached is None else "yes" if reached else "NO"


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
    print(f"{summary(done)}; in {OUTPUT}")
    return 1 if any(m.exact and m.reached is False for m in done) else 0


if __name__ == "__main__":
    sys.exit(main())
