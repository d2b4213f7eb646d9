"""Verified allgathers, and what they took."""

from __future__ import annotations

from fractions import Fraction

from experiments.bench.measurement import best_of_three
from experiments.registry import find_method
from experiments.runner.options import build_options
from experiments.runner.tasks import Synthesized, synthesize_best
from schedules.collective import collective
from schedules.method import Problem
from schedules.schedule import Schedule
from topologies.text import parse_topology

GIGA, MICRO = 10**9, 10**6
GIBIBYTE = Fraction(2**30)


def make(text: str, method: str, **options: object) -> Synthesized:
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
