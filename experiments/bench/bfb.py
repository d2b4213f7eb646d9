"""BFB: workloads by counting, schedules, and the linear programs beside them."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from experiments.bench.making import make, make_timed
from experiments.bench.measurement import Measurement, at_most, exactly, reference, timed
from models.bfb.counting import workloads
from models.bfb.frontiers import frontiers
from models.bfb.model import Programs
from schedules.cost import step_cost
from topologies.text import parse_topology

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
