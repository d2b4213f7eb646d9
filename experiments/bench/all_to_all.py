"""All-to-all as a flow: proven intervals, and how time grows with N."""

from __future__ import annotations

from collections.abc import Iterator

from experiments.bench.measurement import Measurement, at_most, timed
from models.all_to_all.demand import Demand
from models.all_to_all.optimum import solve_by_model
from models.all_to_all.orbits import solve_by_orbits
from topologies.text import parse_topology

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
        yield Measurement("all-to-all", text, "program by source, s", seconds)
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
