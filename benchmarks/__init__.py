"""Benchmarks: ``python -m benchmarks [--only NAME] [--large]``, the numbers of docs/results.md.

Each benchmark is a function that yields measurements (`cases`); `circulants` is a study of its own. Times
leave compilation out, and short ones are the best of three: they run one after the other, alone, and not as
tasks of the runner, whose workers share a machine. The table is printed and written to
``results/bench.json``, with versions and machine. Targets that every machine must reach set the exit status;
limits on time and memory are counted.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
import tomllib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import numpy as np

from tutti.expansions.finder import Candidate, Finder
from tutti.expansions.prediction import measured
from tutti.experiments.cli.output import print_table
from tutti.experiments.registry import find_method
from tutti.experiments.runner.results import machine, now, versions
from tutti.experiments.runner.tasks import Stopwatch, Synthesized, synthesize_best
from tutti.heuristics.tacos import TacosOptions
from tutti.heuristics.tacos.on_disk import synthesize_to
from tutti.models.all_to_all.demand import Demand
from tutti.models.all_to_all.optimum import solve_by_model
from tutti.models.all_to_all.orbits import solve_by_orbits
from tutti.models.allreduce import pack, tree_network
from tutti.models.bfb.counting import workloads
from tutti.models.bfb.frontiers import frontiers
from tutti.models.bfb.model import Programs
from tutti.models.bounds.bottleneck_cut import binary_search_cut, bottleneck_cut
from tutti.schedules.collective import collective
from tutti.schedules.cost import congestion, step_cost
from tutti.schedules.method import Problem
from tutti.schedules.schedule import Schedule
from tutti.schedules.simulation.simulate import simulate
from tutti.schedules.verify import verify
from tutti.topologies.errors import TuttiError, suggestion
from tutti.topologies.options import build_options
from tutti.topologies.processes import peak_memory, reset_peak_memory
from tutti.topologies.text import parse_topology
from tutti.topologies.topology import Topology
from tutti.topologies.units import GIBI, GIGA, MICRO

GIBIBYTE = Fraction(GIBI)
REFERENCE = Path(__file__).resolve().parents[1] / "tests" / "data" / "reference"
SHORT_SECONDS = 2.0
"""Longer times are measured once, shorter ones three times. A larger value measures more of them again."""

T = TypeVar("T")


@dataclass(frozen=True)
class Measurement:
    """A line of the table.

    Parameters
    ----------
    case, quantity
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

    case: str
    quantity: str
    value: float | str
    target: str = ""
    reached: bool | None = None
    exact: bool = False
    published: str = ""
    decimals: int | None = None


def at_most(case: str, quantity: str, value: float, most: float, published: str = "") -> Measurement:
    """Return a measurement with an upper limit, which a slow or small machine may miss."""
    return Measurement(case, quantity, value, f"at most {most:g}", value <= most, published=published)


def exactly(case: str, quantity: str, value: object, wanted: object, published: str = "") -> Measurement:
    """Return a measurement that must be an exact number."""
    reached = value == wanted
    return Measurement(case, quantity, str(value), str(wanted), reached, exact=True, published=published)


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


def make(text: str, method: str, seeds: Sequence[int] = (0,), **options: object) -> Synthesized:
    """Return a method's verified allgather at 1 GiB."""
    topology, chosen = parse_topology(text), find_method(method)
    problem = Problem(topology, collective("allgather", topology.num_ranks), GIBIBYTE)
    return synthesize_best(chosen, problem, build_options(chosen, options), seeds, GIBIBYTE)


def reference(table: str, **where: str) -> dict[str, str]:
    """Return the row of a table of published or measured figures that has these values."""
    with (REFERENCE / table).open(newline="") as file:
        return next(row for row in csv.DictReader(file) if where.items() <= row.items())


CUTS = {"dgx_a100:128": "A100 x 1024", "mi250:64": "MI250 x 1024"}
"""Machines of 1,024 GPUs, and their names in the dissertation's Table B.2."""


def bench_cut() -> Iterator[Measurement]:
    """The bottleneck cut by Newton's method and by the papers' binary search."""
    bottleneck_cut(parse_topology("dgx_a100:2"))
    for text, name in CUTS.items():
        topology = parse_topology(text)
        cut, newton = timed(bottleneck_cut, topology)
        other, search = timed(binary_search_cut, topology)
        row = reference("table_B2_forestcoll_1024_seconds.csv", topology=name)
        theirs = f"{row['optimality_search']}, {row['cores']} cores (Table B.2)"
        yield exactly(text, "both, s/GB of a shard (M/N)", cut.ratio * GIGA, other.ratio * GIGA)
        yield at_most(text, "Newton, s", newton, 1.0)
        yield Measurement(text, "binary search, s", search, published=theirs)


TABLE_3_6 = "table_3_6_generation_seconds.csv"
BFB_CASES = {"hypercube:10": ("hypercube", "1024"), "torus:50x50": ("torus2d", "2500")}
"""Topology, and family and N in the dissertation's Table 3.6."""


def bench_bfb() -> Iterator[Measurement]:
    """U of every subproblem by counting, the schedule and its T_B; the linear programs beside it."""
    make("torus:3x3", "bfb", by="counting")  # compiles its kernels; small networks take the model

    def verified(text: str) -> tuple[Schedule, float]:
        made = make(text, "bfb")
        return made.schedule, made.synth_s + made.verify_s

    for text, (family, nodes) in BFB_CASES.items():
        topology = parse_topology(text)
        yield at_most(text, "U, s", timed(workloads, topology)[1], 1.5)
        theirs = f"{reference(TABLE_3_6, family=family, n=nodes)['bfb']} (Table 3.6)"
        schedule, seconds = best_of_three(partial(verified, text))
        yield at_most(text, "verified schedule, s", seconds, 10.0, theirs)
        optimal = Fraction(topology.num_ranks - 1, topology.num_ranks)
        yield exactly(text, "T_B, M/B", step_cost(schedule).tb, optimal)
    text = "torus:10x10"
    topology = parse_topology(text)
    counted, counting = timed(workloads, topology)
    solved, seconds = timed(Programs(frontiers(topology)).loads)
    yield Measurement(text, "U by counting, s", counting)
    yield Measurement(text, "U by Pyomo and HiGHS, s", seconds)
    yield Measurement(text, "ratio", seconds / counting)
    equal = list(solved) == [counted.values[i] for i in counted.of_job]
    yield exactly(text, "both give the same U", "yes" if equal else "no", "yes")


def bench_finder() -> Iterator[Measurement]:
    """The frontier of 1,024 nodes of degree 4."""

    def frontier() -> list[Candidate]:
        measured.cache_clear()
        return Finder().find(1024, 4)

    front, seconds = timed(frontier)
    yield at_most("1,024 nodes, degree 4", "frontier, s", seconds, 10.0)
    yield Measurement("1,024 nodes, degree 4", "networks", len(front))


def bench_forestcoll() -> Iterator[Measurement]:
    """Verified schedules of optimal congestion."""
    for text in ("mi250:1", "dgx_a100:2"):
        make(text, "forestcoll")
    for text in CUTS:
        made = make(text, "forestcoll", search="newton")
        schedule, ranks = made.schedule, made.schedule.topology.num_ranks
        case, bound = f"{text}, {ranks} GPUs", bottleneck_cut(schedule.topology).ratio / ranks
        yield exactly(case, "congestion, s/GB", congestion(schedule) * GIGA, bound * GIGA)
        yield Measurement(case, "height", schedule.stats["height"])
        yield at_most(case, "all, s", made.synth_s + made.verify_s, 20.0)


def bench_allreduce() -> Iterator[Measurement]:
    """Packings whose congestion is the partition bound."""
    for text in ("mesh:20x20", "mesh:100x100"):
        if (network := tree_network(parse_topology(text))) is None:
            raise TuttiError(f"{text} has no links that are equal both ways")
        packing, seconds = timed(pack, network.graph)
        yield at_most(text, "gap of the packing, %", float(100 * packing.gap), 1.0)
        yield at_most(text, "packing, s", seconds, 60.0)


def bench_all_to_all() -> Iterator[Measurement]:
    """The linear program by source, and a vertex-transitive network by its orbits."""
    solve_by_orbits(Demand.uniform(parse_topology("torus:3x3")))
    cases: dict[str, Callable[[Demand], Any]] = {
        "gen_kautz:4,256": solve_by_model,
        "torus:64x64": solve_by_orbits,
    }
    for text, solve in cases.items():
        found, seconds = timed(solve, Demand.uniform(parse_topology(text)))
        yield at_most(text, "proven gap", float(found.interval.gap), 1e-4)
        yield at_most(text, "optimum, s", seconds, 60.0)


def bench_simulate() -> Iterator[Measurement]:
    """Transfers simulated a second, under two clocks."""
    for text, method in (("torus:32x32", "bfb"), ("torus:32x32", "tacos")):
        schedule = make(text, method).schedule
        simulate(make("torus:3x3", method).schedule, GIBIBYTE)
        rate = len(schedule) / timed(simulate, schedule, GIBIBYTE)[1]
        case = f"{method} on {text}, {len(schedule)} transfers"
        yield Measurement(case, "transfers/s", rate, f"at least {MICRO:g}", rate >= MICRO)


def bench_verify() -> Iterator[Measurement]:
    """Ten million transfers."""
    make("ring:4", "ring")
    text, ring = "ring:2240", find_method("ring")
    topology = parse_topology(text)
    problem = Problem(topology, collective("allgather", topology.num_ranks))
    schedule = ring.synthesize(problem, ring.options(), np.random.default_rng(0))
    case = f"ring on {text}, {len(schedule)} transfers"
    reset_peak_memory()
    yield at_most(case, "verify, s", timed(verify, schedule)[1], 10.0)
    yield at_most(case, "peak memory, MB", peak_memory(), 2000.0)


USUAL = "bandwidth=50GiB/s&alpha=0.5us"
TACOS_CASES = tomllib.loads(Path(__file__).with_name("tacos.toml").read_text("utf-8"))
"""The peer's cases, as the reference file calls them, and as ours: topology and chunks a shard."""
SAME = 1 + 1e-6
"""The peer's times are rounded on the way: those that are the same agree to this factor."""


def bench_tacos() -> Iterator[Measurement]:
    """The best of 20 seeds against the public C++ TACOS, and the synthesis time of a large mesh."""
    make("mesh:3x3", "tacos")
    for case, (text, chunks) in TACOS_CASES.items():
        yield from _tacos_case(case, text, chunks)
    theirs = int(_tacos_peer("mesh:32x32 same")["value"]) / 1000
    seconds = min(make(f"mesh:32x32?{USUAL}", "tacos").synth_s for _ in range(3))
    yield at_most("mesh:32x32", "synthesis, s", seconds, 0.1, f"{theirs:g} (TACOS C++)")
    yield at_most("mesh:64x64", "synthesis, s", make("mesh:64x64", "tacos").synth_s, 1.5)


def chunk_bound(topology: Topology, chunks: int) -> int:
    """Return the chunk bound on steps: the most chunks that a rank must receive over its in-links."""
    return -(-(topology.num_ranks - 1) * chunks // int(np.bincount(topology.target).min()))


def _tacos_case(case: str, text: str, chunks: int) -> Iterator[Measurement]:
    peer, schedule = _tacos_peer(case), make(text, "tacos", range(20), chunks=chunks).schedule
    time, theirs, name = simulate(schedule, GIBIBYTE).time * MICRO, peer["value"], f"{text} x{chunks}"
    note, steps = peer["note"].partition("; ")[0].partition(" (")[0], schedule.topology.homogeneous
    yield replace(
        at_most(name, "time, us (to 1e-6 relative)", time, float(theirs) * SAME),
        target=f"at most {theirs}",
        exact=True,
        published="TACOS C++" if steps else f"TACOS C++: {note}",
        decimals=len(theirs.partition(".")[2]),
    )
    if steps:  # all messages take one time, so that they start in rounds
        rounds, least = len(np.unique(np.asarray(schedule.order))), chunk_bound(schedule.topology, chunks)
        yield exactly(name, "steps; the chunk bound", rounds, least, note)


def _tacos_peer(case: str) -> dict[str, str]:
    return reference("peers_measured.csv", peer="TACOS C++", case=case)


LARGE_CASES = {
    ("mesh:128x128", "allgather"): (60.0, ""),
    ("mesh:200x200", "allreduce"): (1800.0, "9072 (TACOS, 64 threads)"),
}
"""Networks and collectives of tables on disk: the most seconds of their synthesis, and published ones."""


def bench_tacos_large() -> Iterator[Measurement]:
    """Tables on disk: 16,384 and 40,000 ranks; minutes, and 8 GB of disk."""
    for (text, kind), (seconds, published) in LARGE_CASES.items():
        topology, case, rng = parse_topology(text), f"{text} {kind}", np.random.default_rng
        problem = Problem(topology, collective(kind, topology.num_ranks))
        with TemporaryDirectory() as folder:
            warm, path = Path(folder) / "warm.rounds", Path(folder) / "table.rounds"
            small = Problem(parse_topology("mesh:3x3"), collective("allreduce", 9))
            verify(synthesize_to(warm, small, TacosOptions(), rng(0)))
            reset_peak_memory()
            with Stopwatch() as watch:
                table = synthesize_to(path, problem, TacosOptions(memory="16GB"), rng(0))
            yield at_most(case, "synthesis, s", watch.seconds, seconds, published)
            least = chunk_bound(topology, 1) * len(table.parts)
            yield exactly(case, "steps; the chunk bound", table.steps, least)
            with Stopwatch() as watch:
                verify(table)
            yield Measurement(case, "verify, streamed, s", watch.seconds)
            yield at_most(case, "peak memory, MB", peak_memory(), 16e3)


OUTPUT = Path("results") / "bench.json"
WORDS = {None: "", True: "yes", False: "NO"}
"""Words of the table for a target that is reached or missed."""

_EVERY = [bench_bfb, bench_cut, bench_tacos, bench_simulate, bench_verify, bench_forestcoll]
_EVERY += [bench_allreduce, bench_all_to_all, bench_finder, bench_tacos_large]
BENCHMARKS = {one.__name__.removeprefix("bench_").replace("_", "-"): one for one in _EVERY}
"""The benchmarks by name, in the order in which they run."""
LARGE = "tacos-large"
"""Needs minutes and gigabytes."""


def summary(done: Sequence[Measurement]) -> str:
    """Return how many targets were missed, of those that no machine may miss and of the others.

    Examples
    --------
    >>> summary([at_most("case", "s", 2.0, 1.0), exactly("case", "T_B", 1, 1)])
    '2 measurements; missed: 0 of 1 exact target, 1 of 1 limit on time or memory (machines differ)'
    """
    said = []
    for name, exact in (("exact target", True), ("limit", False)):
        targets = [m for m in done if m.reached is not None and m.exact == exact]
        several = "" if len(targets) == 1 else "s"
        said.append(f"{sum(not m.reached for m in targets)} of {len(targets)} {name}{several}")
    return f"{len(done)} measurements; missed: {', '.join(said)} on time or memory (machines differ)"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmarks asked for; 1 if an exact target is missed, 2 for an unknown name, else 0."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__, allow_abbrev=False)
    parser.add_argument("--only", action="append", metavar="NAME", help=", ".join(BENCHMARKS))
    parser.add_argument("--large", action="store_true", help="those that need minutes and gigabytes too")
    arguments = parser.parse_args(argv)
    names = arguments.only or [name for name in BENCHMARKS if arguments.large or name != LARGE]
    if (unknown := next((name for name in names if name not in BENCHMARKS), None)) is not None:
        print(f"unknown benchmark '{unknown}'{suggestion(unknown, BENCHMARKS)}", file=sys.stderr)
        return 2
    done: list[Measurement] = []
    lines: list[dict[str, Any]] = []
    for name in names:
        found, rows = list(BENCHMARKS[name]()), []
        for m in found:
            value = m.value if m.decimals is None or isinstance(m.value, str) else f"{m.value:.{m.decimals}f}"
            rows.append((m.case, m.quantity, value, m.target, WORDS[m.reached], m.published))
        print_table(name, ["case", "quantity", "value", "target", "reached", "published"], rows)
        done += found
        lines += [{"benchmark": name, **asdict(m)} for m in found]
    document = {"date": now(), "versions": versions(), "machine": machine(), "measurements": lines}
    OUTPUT.parent.mkdir(exist_ok=True)
    OUTPUT.write_text(json.dumps(document, indent=1) + "\n")
    print(f"{summary(done)}; in {OUTPUT}")
    return 1 if any(m.exact and m.reached is False for m in done) else 0
