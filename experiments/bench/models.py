"""Benchmarks of the exact methods and of the topology finder, of the verifier and the simulator.

They time the bottleneck cut by Newton's method and by the papers' binary search; BFB by counting, beside its
linear programs; the finder; ForestColl for 1,024 GPUs; the allreduce trees of meshes; all-to-all as a flow,
with proven intervals; and how fast schedules are verified and simulated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import numpy as np

from tutti.expansions.finder import Candidate, Finder
from tutti.expansions.prediction import measured
from tutti.experiments.bench.measurement import (
    GIBIBYTE,
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
from tutti.models.allreduce import pack, tree_network
from tutti.models.bfb.counting import workloads
from tutti.models.bfb.frontiers import frontiers
from tutti.models.bfb.model import Programs
from tutti.models.bounds.bottleneck_cut import binary_search_cut, bottleneck_cut
from tutti.schedules.collective import collective
from tutti.schedules.cost import congestion, step_cost
from tutti.schedules.method import Problem
from tutti.schedules.simulation.simulate import simulate
from tutti.schedules.verify import verify
from tutti.topologies.errors import TuttiError
from tutti.topologies.processes import peak_memory, reset_peak_memory
from tutti.topologies.text import parse_topology
from tutti.topologies.units import GIGA, MICRO

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
        yield exactly("cut", text, "both, s/GB of a shard (M/N)", cut.ratio * GIGA, other.ratio * GIGA)
        yield at_most("cut", text, "Newton, s", newton, 1.0)
        yield Measurement("cut", text, "binary search, s", search, published=theirs)


TABLE_3_6 = "table_3_6_generation_seconds.csv"
BFB_CASES = {"hypercube:10": ("hypercube", "1024"), "torus:50x50": ("torus2d", "2500")}
"""Topology, and family and N in the dissertation's Table 3.6."""


def bench_bfb() -> Iterator[Measurement]:
    """U of every subproblem by counting, the schedule and its T_B; the linear programs beside it."""
    make("torus:3x3", "bfb", by="counting")  # compiles its kernels; small networks take the model
    for text, (family, nodes) in BFB_CASES.items():
        topology = parse_topology(text)
        yield at_most("bfb", text, "U, s", timed(workloads, topology)[1], 1.5)
        theirs = f"{reference(TABLE_3_6, family=family, n=nodes)['bfb']} (Table 3.6)"
        schedule, seconds = make_timed(text, "bfb")
        yield at_most("bfb", text, "verified schedule, s", seconds, 10.0, theirs)
        optimal = Fraction(topology.num_ranks - 1, topology.num_ranks)
        yield exactly("bfb", text, "T_B, M/B", step_cost(schedule).tb, optimal)
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


def bench_finder() -> Iterator[Measurement]:
    """The frontier of 1,024 nodes of degree 4."""
    front, seconds = timed(_frontier)
    yield at_most("finder", "1,024 nodes, degree 4", "frontier, s", seconds, 10.0)
    yield Measurement("finder", "1,024 nodes, degree 4", "networks", len(front))


def _frontier() -> list[Candidate]:
    measured.cache_clear()
    return Finder().find(1024, 4)


def bench_forestcoll() -> Iterator[Measurement]:
    """Verified schedules of optimal congestion."""
    for text in ("mi250:1", "dgx_a100:2"):
        make(text, "forestcoll")
    for text in CUTS:
        yield from _forest(text)


def _forest(text: str) -> Iterator[Measurement]:
    made = make(text, "forestcoll", search="newton")
    schedule, seconds = made.schedule, made.synth_s + made.verify_s
    case = f"{text}, {schedule.topology.num_ranks} GPUs"
    bound = bottleneck_cut(schedule.topology).ratio / schedule.topology.num_ranks
    yield exactly("forestcoll", case, "congestion, s/GB", congestion(schedule) * GIGA, bound * GIGA)
    yield Measurement("forestcoll", case, "height", schedule.stats["height"])
    yield at_most("forestcoll", case, "all, s", seconds, 20.0)


def bench_allreduce() -> Iterator[Measurement]:
    """Packings whose congestion is the partition bound."""
    for text in ("mesh:20x20", "mesh:100x100"):
        network = tree_network(parse_topology(text))
        if network is None:
            raise TuttiError(f"{text} has no links alike both ways")
        packing, seconds = timed(pack, network.graph)
        yield at_most("allreduce", text, "gap of the packing, %", float(100 * packing.gap), 1.0)
        yield at_most("allreduce", text, "packing, s", seconds, 60.0)


def bench_all_to_all() -> Iterator[Measurement]:
    """The linear program by source, and a vertex-transitive network by its orbits."""
    solve_by_orbits(Demand.uniform(parse_topology("torus:3x3")))
    cases: dict[str, Callable[[Demand], Any]] = {
        "gen_kautz:4,256": solve_by_model,
        "torus:64x64": solve_by_orbits,
    }
    for text, solve in cases.items():
        found, seconds = timed(solve, Demand.uniform(parse_topology(text)))
        yield at_most("all-to-all", text, "proven gap", float(found.interval.gap), 1e-4)
        yield at_most("all-to-all", text, "optimum, s", seconds, 60.0)


def bench_simulate() -> Iterator[Measurement]:
    """Transfers simulated a second, under two clocks."""
    for text, method in (("torus:32x32", "bfb"), ("torus:32x32", "tacos")):
        schedule = make(text, method).schedule
        simulate(make("torus:3x3", method).schedule, GIBIBYTE)
        rate = len(schedule) / timed(simulate, schedule, GIBIBYTE)[1]
        case = f"{method} on {text}, {len(schedule)} transfers"
        yield Measurement("simulate", case, "transfers/s", rate, f"at least {MICRO:g}", rate >= MICRO)


def bench_verify() -> Iterator[Measurement]:
    """Ten million transfers."""
    make("ring:4", "ring")
    text, ring = "ring:2240", find_method("ring")
    topology = parse_topology(text)
    problem = Problem(topology, collective("allgather", topology.num_ranks))
    schedule = ring.synthesize(problem, ring.options(), np.random.default_rng(0))
    case = f"ring on {text}, {len(schedule)} transfers"
    reset_peak_memory()
    yield at_most("verify", case, "verify, s", timed(verify, schedule)[1], 10.0)
    yield at_most("verify", case, "peak memory, MB", peak_memory(), 2000.0)
