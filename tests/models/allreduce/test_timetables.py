"""The bound `timetables`: against a time by hand, schedules on many networks, and forged certificates."""

import json
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import models.allreduce.timetables as timetables
from experiments.registry import METHODS
from models.allreduce.timetables import timetables_bound
from models.bounds import Bound, BoundError, bound_document, lower_bounds, report
from schedules import Problem, collective
from schedules.simulation.simulate import simulate
from tests.models.networks import MICRO, network_of, times_of
from tests.sweep import for_each
from topologies import Link, Topology
from topologies.text import parse_topology

METHODS_OF_ALLREDUCE = ("one_shot", "walks", "bfb", "ring", "direct", "swing", "recursive_doubling", "rhd")


@pytest.fixture(autouse=True)
def coarse(monkeypatch):
    """Programs of a second."""
    monkeypatch.setattr(timetables, "MOST_KNOTS", 16)
    monkeypatch.setattr(timetables, "MOST_COLUMNS", 250)
    monkeypatch.setattr(timetables, "MOST_PROGRAMS", 4)


def bound_of(topology, size):
    """The bound, as if all others were a tenth less, or None."""
    what = collective("allreduce", topology.num_ranks)
    others = max(bound.time(Fraction(size)) for bound in lower_bounds(topology, what, size))
    return timetables_bound(topology, what, Fraction(size), others * Fraction(9, 10))


def checked(topology, bound):
    bound.check(topology, collective("allreduce", topology.num_ranks))
    return bound.value


@pytest.mark.parametrize("ranks", [3, 5])
def test_where_there_is_no_time_to_pass_anything_on(ranks):
    """In less than 2 α all goes directly: each link carries the vector, 0.4 us at 50 GB/s; α is 0.5 us."""
    topology = parse_topology(f"complete:{ranks}")
    optimum = Fraction(9, 10) * MICRO
    assert optimum * Fraction(93, 100) < checked(topology, bound_of(topology, 20_000)) <= optimum


def test_a_ring_can_t_do_both_halves_in_the_time_of_one(monkeypatch):
    """`transfers` knows of two α; the farthest pairs need four hops, half of the vector on each side."""
    monkeypatch.setattr(report, "PROGRAMS", ("timetables",))
    topology = parse_topology("ring:8")
    what = collective("allreduce", 8)
    size = Fraction(200_000)
    found = {bound.kind: bound for bound in lower_bounds(topology, what, size, lp=True)}
    made = METHODS["bfb"]
    schedule = made.synthesize(Problem(topology, what, size), made.options(), np.random.default_rng(0))
    value = checked(topology, found["timetables"])
    assert found["transfers"].value * Fraction(14, 10) < value <= simulate(schedule, size).time


@for_each("seed", range(6))
def test_no_schedule_is_faster(seed):
    topology = network_of(seed)
    what = collective("allreduce", topology.num_ranks)
    for size in (Fraction(1500), Fraction(9000)):
        bound = bound_of(topology, size)
        if bound is None:
            continue
        value = checked(topology, bound)
        for name, time in times_of(METHODS_OF_ALLREDUCE, Problem(topology, what, size), size, seed):
            assert value <= time * (1 + 1e-9), name


def test_links_without_alpha_only_take_bytes():
    """Four transfers of 9 us over the three links into a switch: 12 us each, and α at least."""
    links = [Link(rank, 3, Fraction(10**9), MICRO) for rank in range(3)]
    links += [Link(3, rank, Fraction(10**9), Fraction(0)) for rank in range(3)]
    topology = Topology.from_links("star", 3, links, num_switches=1)
    what = collective("allreduce", 3)
    size = Fraction(9000)
    made = METHODS["direct"]
    schedule = made.synthesize(Problem(topology, what, size), made.options(), np.random.default_rng(0))
    assert (
        Fraction(129, 10) * MICRO
        < checked(topology, bound_of(topology, 9000))
        <= simulate(schedule, size).time
    )


@pytest.mark.parametrize("text", ["complete:2?alpha=0us", "dgx_h100:1", "torus:40x40"])
def test_none_where_it_does_not_hold_or_is_too_large(text):
    """Without α, where switches add, and with too many pairs."""
    topology = parse_topology(text)
    what = collective("allreduce", topology.num_ranks)
    assert timetables_bound(topology, what, Fraction(10**5), MICRO) is None


def test_none_for_other_collectives_and_groups():
    topology = parse_topology("ring:4")
    for what in (collective("allgather", 4), collective("allreduce", 4, groups=[[0, 1], [2, 3]])):
        assert timetables_bound(topology, what, Fraction(10**5), MICRO) is None


def forged(bound, **changes):
    certificate = json.loads(json.dumps(bound.certificate)) | changes
    value = Fraction(str(certificate["time"]))
    return replace(bound, value=value, certificate=certificate)


def test_forged_certificates_prove_nothing():
    topology = parse_topology("complete:3")
    what = collective("allreduce", 3)
    bound = bound_of(topology, 20_000)
    certificate = bound.certificate
    rising = [list(range(len(row))) for row in certificate["prices"]]
    longer = Fraction(str(bound.certificate["time"])) * Fraction(101, 100)
    knots = [knot * 101 for knot in certificate["knots"]]
    for changes in (
        {"time": str(longer)},
        {"time": str(longer), "unit": str(Fraction(certificate["unit"]) / 100), "knots": knots},
        {"transfer": certificate["transfer"] * 2 + 10**9},
        {"transfer": -1},
        {"earned": [[0] * len(knots)] * len(certificate["earned"])},
        {"earned": [[number * 98 // 100 for number in row] for row in certificate["earned"]]},
        {"earned": [row[::-1] for row in certificate["earned"]]},
        {"links": [0]},
        {"prices": rising},
        {"prices": [[10 * price for price in row] for row in certificate["prices"]]},
        {"knots": certificate["knots"][::-1]},
        {"unit": "1/1000000"},
        {"size_bytes": 19_000},
        {"pairs": [[0, 0]] * len(certificate["pairs"])},
    ):
        with pytest.raises(BoundError):
            _check(forged(bound, **changes), topology, what)


def _check(bound: Bound, topology: Topology, what: object) -> None:
    try:
        bound.check(topology, what)
    except Exception as error:
        raise BoundError(str(error)) from error


def test_a_document_with_it_can_be_checked_again(monkeypatch):
    monkeypatch.setattr(report, "PROGRAMS", ("timetables",))
    topology = parse_topology("ring:4")
    what = collective("allreduce", 4)
    document = json.loads(json.dumps(bound_document(topology, what, 60_000, lp=True)))
    entry = next(entry for entry in document["bounds"] if entry["kind"] == "timetables")
    value = Fraction(entry["exact"])
    Bound(entry["kind"], value, entry["unit"], entry["certificate"]).check(topology, what)
    assert document["best"]["kind"] == "timetables"
