"""Benchmarks of the verifier and the simulator."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from experiments.bench.measurement import GIBIBYTE, MICRO, Measurement, at_most, make, timed
from experiments.registry import find_method
from schedules.collective import collective
from schedules.method import Problem
from schedules.simulation.simulate import simulate
from schedules.verify import verify
from topologies.processes import peak_memory, reset_peak_memory
from topologies.text import parse_topology


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
