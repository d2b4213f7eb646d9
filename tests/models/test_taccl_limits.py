"""TACCL within its time: what a limit leaves, and the cases of Table 3.6 up to 16 ranks."""

import csv
import itertools
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from models.taccl import METHOD, deadline, read_sketch, routing, scheduling, stages
from models.taccl.costs import Costs
from models.taccl.deadline import Deadline
from models.taccl.demand import Paths, _between, _on_shortest_paths, demand_of
from models.taccl.greedy import greedy_routing
from models.taccl.logical import direct_links, sketched_links
from models.taccl.milp import Limits
from models.taccl.options import Contiguity
from models.taccl.routing_model import RoutingModel
from schedules import Problem, collective
from schedules.schedule import Chunks
from schedules.simulate import simulate
from schedules.verify import verify
from topologies.errors import NoSchedule
from topologies.text import parse_topology

REFERENCE = Path(__file__).parents[1] / "data" / "reference"
MEGABYTE = Fraction(10**6)


def made(text, kind, **options):
    """Return a verified schedule of 1 MB."""
    topology = parse_topology(text)
    problem = Problem(topology, collective(kind, topology.num_ranks), MEGABYTE)
    schedule = METHOD.synthesize(problem, METHOD.options(**options), np.random.default_rng(0))
    verify(schedule)
    return schedule


def demand(text, kind="allgather"):
    topology = parse_topology(text)
    what = collective(kind, topology.num_ranks)
    return demand_of(direct_links(topology), what, Chunks.even(what), MEGABYTE, (None, Paths.SKETCH))


@pytest.fixture
def clock(monkeypatch):
    """Return a clock that stands still unless it is moved."""
    now = [0.0]
    monkeypatch.setattr(deadline, "monotonic", lambda: now[0])
    return now


def test_a_deadline_shares_out_what_is_left(clock):
    whole = Deadline.after(8)
    half = whole.share(1 / 2)
    assert (whole.left, half.left, whole.over) == (8, 4, False)
    clock[0] = 4
    assert (whole.left, half.left, half.over) == (4, 0, True)
    assert whole.share(1 / 4).moment == 5
    clock[0] = 9
    assert (whole.left, whole.over) == (0, True)
    never = Deadline.after(None)
    assert never.share(1 / 2) == never
    assert not never.over


@pytest.mark.parametrize("kind", ["allgather", "allreduce"])
def test_all_solves_together_keep_the_limit(clock, monkeypatch, kind):
    """Each solver takes all it is given: the symmetry costs time here, so much is tried, and chunks join."""
    given = []

    def slow(model, solver, options, start=None, real=routing.solve):
        given.append(options.time_limit)
        clock[0] += options.time_limit
        return real(model, solver, options, start=start)

    for module in (routing, scheduling):
        monkeypatch.setattr(module, "solve", slow)
    made("torus:4x4", kind, chunks=2, contiguity="all", time_limit=2, tries=0)
    assert len(given) >= (3 if kind == "allgather" else 4)
    assert clock[0] <= 2 + 1e-9
    assert clock[0] == pytest.approx(sum(given))


@pytest.mark.parametrize("kind", ["allgather", "all-to-all", "reduce-scatter", "allreduce", "gather"])
def test_without_time_there_is_a_schedule_and_nothing_is_called_proven(kind):
    schedule = made("torus:4x4", kind, time_limit=1e-3)
    assert schedule.stats["solver"] == "none: no time for a program"
    assert schedule.stats["variables"] == 0
    assert schedule.stats["solver_gap"] is None


def test_a_model_is_given_up_when_its_time_is_over(clock):
    costs = Costs(demand("mesh:3x3"))
    horizon = greedy_routing(costs)[1] + 1
    assert RoutingModel.within(costs, horizon, Deadline.after(100)) is not None
    assert RoutingModel.within(costs, horizon, Deadline.after(1e-6)) is None, "too large for it"

    class Ticking(Deadline):
        @property
        def left(self):
            clock[0] += 0.04
            return super().left

    assert RoutingModel.within(costs, horizon, Ticking(0.1)) is None, "over half way"


def test_a_symmetry_that_leaves_no_routing_is_left_out(monkeypatch):
    tried = []

    def only_plain(demand, limits, real=routing.route):
        tried.append(bool(demand.symmetry))
        if demand.symmetry:
            raise NoSchedule("taccl: none")
        return real(demand, limits)

    monkeypatch.setattr(stages, "route", only_plain)
    made("hypercube:3", "allgather")
    assert tried == [True, False]
    with pytest.raises(NoSchedule):  # what a sketch asks for is not left out
        made("ndv2:2", "allgather", sketch="ndv2-sk-1")


def test_ranks_on_shortest_paths_are_those_of_the_search():
    for text in ("mesh:3x4", "gen_kautz:2,7", "torus:3x4", "circulant:9,2,3"):
        d = demand(text)
        links = len(d.logical.links)
        ranks = d.logical.topology.num_ranks
        for start, end in itertools.permutations(range(ranks), 2):
            within = np.array([link.target != start and link.source != end for link in d.logical.links])
            for ends in ((end,), (end, (end + 1) % ranks if (end + 1) % ranks != start else end)):
                slow = _on_shortest_paths(
                    d.logical, start, ends, within if len(ends) == 1 else np.ones(links, np.bool_)
                )
                assert np.array_equal(_between(d.logical, start, ends), slow)


def test_words_are_as_good_as_members():
    """Options made in Python may be text: joining chunks everywhere takes less where latency rules."""
    small = {"chunks": 4, "tries": 0, "again": 0}
    apart, words, members = (
        simulate(made("ring:4?alpha=1ms", "allgather", **small, contiguity=how), MEGABYTE).time
        for how in ("none", "all", Contiguity.ALL)
    )
    assert words == members < apart
    topology, what = parse_topology("dgx2:2"), collective("all-to-all", 32)
    sketch = read_sketch("dgx2-sk-1")
    logical = sketched_links(topology, sketch)
    rows = [
        demand_of(logical, what, Chunks.even(what), MEGABYTE, (sketch, paths)).allowed
        for paths in ("sketch", Paths.SKETCH)
    ]
    assert np.array_equal(*rows)


CASES = [
    ("hypercube", 4, "hypercube:2", 2),
    ("hypercube", 8, "hypercube:3", 3),
    ("hypercube", 16, "hypercube:4", 4),
    ("torus2d", 4, "torus:2x2", 2),
    ("torus2d", 9, "torus:3x3", 4),
    ("torus2d", 16, "torus:4x4", 4),
]


@pytest.mark.parametrize("chunks", [1, 2, 3, 4])
@pytest.mark.parametrize(("family", "ranks", "text", "degree"), CASES)
def test_every_case_of_table_3_6_meets_the_bound_of_its_chunks(family, ranks, text, degree, chunks):
    """A rank receives (N - 1) chunks over d links: so many sends one after the other at least."""
    with (REFERENCE / "table_3_6_generation_seconds.csv").open() as file:
        assert any(row["family"] == family and row["n"] == str(ranks) for row in csv.DictReader(file))
    schedule = made(text, "allgather", chunks=chunks, time_limit=30)
    sends = -(-(ranks - 1) * chunks // degree)
    topology = schedule.topology
    send = topology.alpha[0] + MEGABYTE / ranks / chunks / topology.bandwidth[0]
    assert float(simulate(schedule, MEGABYTE).time) == pytest.approx(float(sends * send), rel=1e-12)


def test_limits_have_no_end_unless_given():
    assert Limits().deadline.left == float("inf")
