"""Every method on every small instance: legal, and never faster than what is proven."""

import csv
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from experiments.registry import METHODS
from models.bounds import lower_bounds
from schedules import Problem, Schedule, collective
from schedules.cost import congestion
from schedules.files import content_hash, read_schedule, write_schedule
from schedules.reverse import reverse
from schedules.simulate import simulate
from schedules.verify import verify
from topologies import Unsupported
from topologies.text import parse_topology

REFERENCE = Path(__file__).parent / "data" / "reference" / "instances.csv"
SIZE = Fraction(2**20)
KINDS = ("allgather", "reduce-scatter", "allreduce")
SINGLE = [name for name in METHODS if name != "best"]  # that one returns a schedule of another
QUICK = {"teccl": {"start": "multitree", "gap": 0.25}}
"""Options of those that search long with their defaults."""
LATE = 1e-9
"""Relative: a simulated time is a float, a bound is exact."""


def tiny():
    with REFERENCE.open() as file:
        return [row["topology"] for row in csv.DictReader(file) if row["set"] == "tiny"]


TOPOLOGIES = {text: parse_topology(text) for text in [*tiny(), "dgx_a100:2"]}


def synthesize(name: str, topology, what) -> Schedule | None:
    """Return the method's schedule with seed 0, None where it is unsupported."""
    method = METHODS[name]
    problem, options = Problem(topology, what, SIZE), method.options(**QUICK.get(name, {}))
    try:
        method.supports(problem, options)
    except Unsupported:
        return None
    return method.synthesize(problem, options, np.random.default_rng(0))


def instances():
    return [(name, text, kind) for name in SINGLE for text in TOPOLOGIES for kind in KINDS]


@pytest.mark.parametrize(("name", "text", "kind"), instances())
def test_a_schedule_is_legal_and_no_faster_than_any_bound(name, text, kind):
    topology = TOPOLOGIES[text]
    what = collective(kind, topology.num_ranks)
    schedule = synthesize(name, topology, what)
    if schedule is None:
        assert name not in {"ring", "direct"}, "these two are defined everywhere"
        return
    assert schedule.topology == topology
    assert schedule.collective == what
    verify(schedule)
    time = simulate(schedule, SIZE).time
    load = congestion(schedule)
    for bound in lower_bounds(topology, what, SIZE):
        assert time >= float(bound.time(SIZE)) * (1 - LATE), bound.kind
        if bound.unit == "s/B":
            assert load >= bound.value, bound.kind


def each_clock():
    torus = TOPOLOGIES["torus:3x3"]
    for name in SINGLE:
        for kind in KINDS:
            schedule = synthesize(name, torus, collective(kind, 9))
            if schedule is not None:
                yield pytest.param(schedule, id=f"{name}-{kind}")


@pytest.mark.parametrize("schedule", list(each_clock()))
@pytest.mark.parametrize("suffix", [".json", ".json.gz", ".npz"])
def test_a_schedule_survives_its_file(schedule, suffix, tmp_path):
    path = tmp_path / f"schedule{suffix}"
    write_schedule(schedule, path)
    again = read_schedule(path)
    verify(again)
    assert content_hash(again) == content_hash(schedule)
    assert simulate(again, SIZE).time == simulate(schedule, SIZE).time
    assert congestion(again) == congestion(schedule)


@pytest.mark.parametrize("schedule", list(each_clock()))
def test_reversing_twice_is_the_identity(schedule):
    twice = reverse(reverse(schedule))
    assert content_hash(twice) == content_hash(schedule)
