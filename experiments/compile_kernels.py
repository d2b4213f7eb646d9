"""Compile the kernels: ``python -m tutti.experiments.compile_kernels`` runs everything once on tiny networks.

A kernel is compiled when it is first called, and kept on disk. The tests and benchmarks use nearly all of
them, so for these they are compiled before, on all cores.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from fractions import Fraction
from functools import partial
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from tutti.experiments.registry import METHODS
from tutti.heuristics.refine import refined
from tutti.heuristics.tacos import TacosOptions
from tutti.heuristics.tacos.on_disk import synthesize_to
from tutti.models.all_to_all import Demand, McfOptions, solve_by_orbits
from tutti.models.allreduce import pack, tree_network
from tutti.models.bfb import workloads
from tutti.models.bfb.kautz import kautz_cost
from tutti.models.bounds import lower_bounds
from tutti.models.bounds.path_price import path_price_bound
from tutti.models.forestcoll.epochs import planned_schedule
from tutti.schedules.collective import KINDS, Kind, collective
from tutti.schedules.compose import BY_ALLGATHER
from tutti.schedules.cost import congestion
from tutti.schedules.files.schedule_file import read_schedule, write_schedule
from tutti.schedules.groups import limited
from tutti.schedules.list_scheduling import Rules, can_be_listed, list_schedule
from tutti.schedules.method import Problem
from tutti.schedules.programs.interpreter import judge
from tutti.schedules.programs.lowering import lower
from tutti.schedules.repair import fastest_repair
from tutti.schedules.schedule import Clock, Schedule
from tutti.schedules.simulation.simulate import simulate
from tutti.schedules.verify import verify
from tutti.topologies.errors import NoSchedule
from tutti.topologies.text import parse_topology

NETWORKS = (
    "hypercube:2",
    "mesh:2x3?bandwidth=50GB/s,25GB/s",
    "dgx_a100:2?drop_nodes=0",
    "dgx_h100:1",
    "switch2d:2x2",
    "rfs:1x2x2",
)
"""Networks of equal and unequal links, switches, switches that multicast and aggregate, and planes."""
SIZE = Fraction(10**6)
QUICK = ("ring", "direct", "mcf")
"""Methods whose schedules are of all three clocks, on most networks."""
WITHOUT_KERNELS = ("best", "list_scheduling", "local_search", "optimum", "sccl", "teccl")
"""Methods that are not run: the first three run the others again, and solvers have nothing to compile."""


def compile_kernels() -> None:
    """Run every method, the verifier, the simulator and the bounds once, on all cores.

    It is done in many parts. Of two parts that need the same kernel, one waits, so that those parts come
    first whose kernels all others need, or no other.
    """
    common: list[Callable[[], None]] = []
    for text in NETWORKS:
        common += [partial(_compile_methods, QUICK, [text], lowered=True), partial(_compile_bounds, text)]
    parts: list[Callable[[], None]] = [*common[:2], _compile_tacos, _compile_others, _compile_flows]
    parts += [partial(_compile_methods, [name]) for name in METHODS if name not in (*QUICK, *WITHOUT_KERNELS)]
    parts += common[2:]
    with ProcessPoolExecutor(mp_context=multiprocessing.get_context("spawn")) as pool:
        for job in [pool.submit(part) for part in parts]:
            job.result()


def _compile_methods(names: Sequence[str], networks: Sequence[str] = NETWORKS, lowered: bool = False) -> None:
    """Run methods, verify and simulate their schedules, and lower them if asked to."""
    for text, kind, name in product(networks, (*BY_ALLGATHER, Kind.ALL_TO_ALL), names):
        topology, method = parse_topology(text), METHODS[name]
        problem = Problem(topology, collective(kind, topology.num_ranks), SIZE)
        options = limited(method.options(), 0.2)
        if not method.refusal(problem, options):
            with suppress(NoSchedule):  # found none in this time: there is nothing more to compile
                schedule = method.synthesize(problem, options, np.random.default_rng(0))
                _use(schedule)
                if lowered:
                    judge(lower(schedule), interleavings=2)


def _compile_bounds(text: str) -> None:
    """Find all bounds on one network."""
    topology = parse_topology(text)
    for kind in KINDS:
        lower_bounds(topology, collective(kind, topology.num_ranks), SIZE)


def _compile_others() -> None:
    """Run what methods do on large networks, or when asked to."""
    parse_topology("least_circulant:6,16")  # searches its offsets
    kautz_cost(2, 5)
    ring = parse_topology("ring:4")
    workloads(ring)  # by counting: as a method BFB solves a model on small networks
    network = tree_network(ring)
    if network is not None:
        pack(network.graph, Fraction(1, 2), products=False)  # greedy trees, of large networks only
    problem = Problem(ring, collective(Kind.ALLGATHER, 4), SIZE)
    planned_schedule(problem, 0.1, np.random.default_rng(0))
    refined(problem, [], 0.1, np.random.default_rng(0), lambda half, until: [])
    direct = METHODS["direct"].synthesize(problem, METHODS["direct"].options(), np.random.default_rng(0))
    fastest_repair(direct, parse_topology("ring:4?drop_links=0-1"), SIZE)
    pair, swap = parse_topology("complete:2"), collective(Kind.ALLREDUCE, 2)
    bound = path_price_bound(pair, swap, Fraction(30_000), Fraction(1, 2 * 10**6))
    if bound is not None:
        bound.check(pair, swap)


def _compile_flows() -> None:
    """Solve an all-to-all by orbits, by columns and by a first-order method, and make its paths."""
    for text in ("ring:4", "mesh:2x3"):
        topology = parse_topology(text)
        problem = Problem(topology, collective(Kind.ALL_TO_ALL, topology.num_ranks))
        METHODS["mcf"].synthesize(problem, McfOptions(by="orbits"), np.random.default_rng(0))
        for by in ("columns", "first_order"):
            solve_by_orbits(Demand.uniform(topology), 0.5, by=by)


def _compile_tacos() -> None:
    """Match in rounds and exactly, which small networks do only when asked to."""
    ring, rng = parse_topology("ring:4"), np.random.default_rng(0)
    for pick in ("sampled", "maximum"):
        problem = Problem(ring, collective(Kind.ALLGATHER, 4), SIZE)
        METHODS["tacos"].synthesize(problem, TacosOptions(chunk_rule=pick), rng)
    with TemporaryDirectory() as folder:
        for kind in (Kind.ALLGATHER, Kind.ALLREDUCE):
            path = Path(folder) / f"{kind}.rounds"
            verify(synthesize_to(path, Problem(ring, collective(kind, 4)), TacosOptions(), rng))


def _use(schedule: Schedule) -> None:
    """Verify, cost, write, read and simulate a schedule, under its own clock and as a flow."""
    verify(schedule)
    congestion(schedule)
    simulate(schedule, SIZE)
    if can_be_listed(schedule):
        list_schedule(schedule, SIZE, Rules(8))
    if schedule.clock is Clock.STEP and schedule.collective.kind is not Kind.ALLREDUCE:
        # in an allreduce two ranks may swap sums within a step, which a flow can't
        flow = schedule.replace(clock=Clock.FLOW, order=None, claims={})
        verify(flow)
        simulate(flow, SIZE)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "schedule.json"
        write_schedule(schedule, path)
        read_schedule(path)


def main() -> None:
    """Warm everything and say how long it took."""
    start = time.perf_counter()
    compile_kernels()
    print(f"kernels compiled in {time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
