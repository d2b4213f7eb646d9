"""Benchmarks of the exact methods and of the topology finder, of the verifier and the simulator.

They time the bottleneck cut by Newton's method and by the papers' binary search; BFB by counting, beside its
linear programs; the finder, and expansions of schedules; ForestColl up to 4,096 GPUs, its cut by Newton's
method; the strength of a network and the allreduce trees that meet it; all-to-all as a flow, with proven
intervals, as N grows; and how fast schedules are verified and simulated.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from functools import partial

import numpy as np

from tutti.expansions import METHOD, predict
from tutti.expansions.finder import Candidate, Finder
from tutti.expansions.prediction import measured
from tutti.experiments.bench.measurement import (
    GIBIBYTE,
    GIGA,
    MICRO,
    Measurement,
    at_most,
    exactly,
    make,
    make_timed,
    reference,
    timed,
)
from tutti.experiments.registry import find_method
from tutti.models.all_to_all.demand import Demand
from tutti.models.all_to_all.optimum import solve_by_model
from tutti.models.all_to_all.orbits import solve_by_orbits
from tutti.models.allreduce import allreduce_optimum, pack, tree_network
from tutti.models.bfb.counting import workloads
from tutti.models.bfb.frontiers import frontiers
from tutti.models.bfb.model import Programs
from tutti.models.bounds import lower_bounds
from tutti.models.bounds.bottleneck_cut import binary_search_cut, bottleneck_cut
from tutti.schedules.collective import collective
from tutti.schedules.cost import congestion, step_cost
from tutti.schedules.method import Problem
from tutti.schedules.schedule import Schedule
from tutti.schedules.simulation.simulate import simulate
from tutti.schedules.verify import verify
from tutti.topologies.errors import TuttiError
from tutti.topologies.families.expressions import parse_notation
from tutti.topologies.processes import peak_memory, reset_peak_memory
from tutti.topologies.text import parse_topology

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


TABLE_3_6 = "table_3_6_generation_seconds.csv"
BFB_CASES = {
    "hypercube:10": ("hypercube", "1024"),
    "torus:50x50": ("torus2d", "2500"),
    "torus:12x13x14": None,
}
"""Topology, and family and N in the dissertation's Table 3.6 where it is there."""
LARGEST = "twisted_torus:100x100?twist=50"


def bench_bfb() -> Iterator[Measurement]:
    """U of every subproblem by counting, the schedule and its T_B; the linear programs beside it."""
    make("torus:3x3", "bfb", by="counting")  # compiles its kernels; small networks take the model
    for text, row in BFB_CASES.items():
        topology = parse_topology(text)
        yield at_most("bfb", text, "U, s", timed(workloads, topology)[1], 1.5)
        theirs = "" if row is None else f"{reference(TABLE_3_6, family=row[0], n=row[1])['bfb']} (Table 3.6)"
        schedule, seconds = make_timed(text, "bfb")
        yield at_most("bfb", text, "verified schedule, s", seconds, 10.0, theirs)
        optimal = Fraction(topology.num_ranks - 1, topology.num_ranks)
        yield exactly("bfb", text, "T_B, M/B", step_cost(schedule).tb, optimal)
    work, seconds = timed(workloads, parse_topology(LARGEST))
    yield at_most("bfb", LARGEST, "U, s", seconds, 30.0)
    yield exactly("bfb", LARGEST, "T_B, M/B", work.tb, Fraction(9999, 10000))
    for text, printed in (("gen_kautz:4,64", "1.3125"), ("gen_kautz:4,1024", "1.33203125")):
        yield exactly("bfb", text, "T_B, M/B", workloads(parse_topology(text)).tb, Fraction(printed))
    yield from _bfb_by_programs("torus:10x10")


def _bfb_by_programs(text: str) -> Iterator[Measurement]:
    topology = parse_topology(text)
    counted, counting = timed(workloads, topology)
    programs = Programs(frontiers(topology))
    solved, seconds = timed(programs.loads)
    yield Measurement("bfb", text, "U by counting, s", counting)
    yield Measurement("bfb", text, "U by Pyomo and HiGHS, s", seconds)
    yield Measurement("bfb", text, "ratio", seconds / counting)
    equal = list(solved) == [counted.values[i] for i in counted.of_job]
    yield Measurement("bfb", text, "both give the same U", "yes" if equal else "no", "yes", equal, exact=True)


EXPANDED = ["L^3(C(16,{3,4}))", "L^2(Diamond^2)", "L(DBJMod(2,4)^2)"]
"""Of 1,024 nodes, in the dissertation's Table 3.4."""


def bench_finder() -> Iterator[Measurement]:
    """The frontier of 1,024 nodes of degree 4, and the schedules of the dissertation's."""
    front, seconds = timed(_frontier)
    yield at_most("finder", "1,024 nodes, degree 4", "frontier, s", seconds, 10.0)
    yield Measurement("finder", "1,024 nodes, degree 4", "networks", len(front))
    for text in EXPANDED:
        schedule, seconds = timed(_verified, text)
        cost = predict(parse_notation(text))
        yield exactly("finder", text, "T_L, steps", step_cost(schedule).tl_steps, cost.tl)
        yield exactly("finder", text, "T_B, M/B", step_cost(schedule).tb, cost.tb)
        yield Measurement("finder", text, "verified schedule, s", seconds)


def _frontier() -> list[Candidate]:
    measured.cache_clear()
    return Finder().find(1024, 4)


def _verified(text: str) -> Schedule:
    topology = parse_topology(text)
    problem = Problem(topology, collective("allgather", topology.num_ranks))
    schedule = METHOD.synthesize(problem, METHOD.options(), np.random.default_rng(0))
    verify(schedule)
    return schedule


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
        made = (
            make(text, "forestcoll", search="newton"),
            make(text, "forestcoll", search="newton", fast=False),
        )
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
    made = make(text, "forestcoll", search="newton")
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


MESHES = ["mesh:3x3", "mesh:5x5", "mesh:8x8", "mesh:10x10", "mesh:4x4x4", "mesh:5x5x5", "mesh:20x20"]
LINEAR_PROGRAMS = ["dgx_a100:2", "dgx_a100:4", "mi250:2", "gen_kautz:4,64"]


def bench_allreduce() -> Iterator[Measurement]:
    """Packings whose congestion is the partition bound, and the LP (B.5) against twice the allgather."""
    for text in MESHES:
        topology = parse_topology(text)
        found = lower_bounds(topology, collective("allreduce", topology.num_ranks))
        bound = next(bound for bound in found if bound.kind == "partition")
        network = tree_network(topology)
        if network is None:
            raise TuttiError(f"{text} has no links alike both ways")
        packing, seconds = timed(pack, network.graph)
        yield exactly("allreduce", text, "packed over the strength", packing.ratio / packing.bound, 1)
        yield Measurement("allreduce", text, "partition bound, s/GB", float(bound.value * GIGA))
        yield Measurement("allreduce", text, "packing, s", seconds)
    yield from _large_mesh("mesh:100x100")
    for text in LINEAR_PROGRAMS:
        yield from _program(text)


def _large_mesh(text: str) -> Iterator[Measurement]:
    network = tree_network(parse_topology(text))
    if network is None:
        raise TuttiError(f"{text} has no links alike both ways")
    packing, seconds = timed(pack, network.graph)
    yield at_most("allreduce", text, "gap of the packing, %", float(100 * packing.gap), 1.0)
    yield at_most("allreduce", text, "packing, s", seconds, 60.0)


def _program(text: str) -> Iterator[Measurement]:
    topology = parse_topology(text)
    optimum, seconds = timed(partial(allreduce_optimum, by="cuts"), topology)
    halves = 2 * bottleneck_cut(topology).ratio / topology.num_ranks
    proven = "yes" if optimum.exact else "no"
    yield Measurement("allreduce", text, "LP (B.5) solved exactly", proven, "yes", optimum.exact, exact=True)
    yield Measurement("allreduce", text, "both halves over the LP", str(Fraction(halves / optimum.upper)))
    yield Measurement("allreduce", text, "LP, s", seconds)


PROGRAMS = ["gen_kautz:4,64", "gen_kautz:4,128", "gen_kautz:4,256"]
SYMMETRIC = {
    "torus:32x32": 5.0,
    "circulant:1024,22,23": 5.0,
    "torus:64x64": 60.0,
    "circulant:4096,45,46": 60.0,
}
"""Seconds asked."""
LARGE = {"random_regular:4,512": 1e-4, "random_regular:4,1024": 5e-4, "gen_kautz:4,1024": 5e-4}
"""Widths of the interval asked."""


def bench_all_to_all() -> Iterator[Measurement]:
    """The linear program by source, and vertex-transitive networks by their orbits."""
    solve_by_orbits(Demand.uniform(parse_topology("torus:3x3")))
    for text in PROGRAMS:
        found, seconds = timed(solve_by_model, Demand.uniform(parse_topology(text)))
        yield at_most("all-to-all", text, "proven gap", float(found.interval.gap), 1e-4)
        yield Measurement("all-to-all", text, "Pyomo model by source, s", seconds)
    for text, most in SYMMETRIC.items():
        yield from _by_orbits(text, most, 1e-4)


def bench_all_to_all_large() -> Iterator[Measurement]:
    """Networks without symmetry, or with little."""
    for text, width in LARGE.items():
        yield from _by_orbits(text, 600.0, width)


def _by_orbits(text: str, most: float, width: float) -> Iterator[Measurement]:
    found, seconds = timed(lambda: solve_by_orbits(Demand.uniform(parse_topology(text)), width))
    yield at_most("all-to-all", text, "proven gap", float(found.interval.gap), width)
    yield at_most("all-to-all", text, "symmetries and optimum, s", seconds, most)


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
