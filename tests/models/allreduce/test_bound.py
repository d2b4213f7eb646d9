"""The bound ``lp`` of allreduce: what it claims, its certificate, and that it is never the best."""

import copy
from fractions import Fraction

import numpy as np
import pytest

from tests.models.allreduce.oracles import random_network
from tests.topologies.eulerian import random_eulerian
from tutti.models.allreduce import allreduce_optimum
from tutti.models.allreduce.optimum import ANY, TREES, lp_bound
from tutti.models.bounds import Bound, BoundError, best_bound, bound_document, lower_bounds
from tutti.models.bounds.bound import sentence
from tutti.schedules import collective
from tutti.topologies import InputError, Topology
from tutti.topologies.text import parse_topology

GB = 10**9


def allreduce(topology: Topology):
    return collective("allreduce", topology.num_ranks)


def partition(topology: Topology) -> Bound:
    return next(b for b in lower_bounds(topology, allreduce(topology)) if b.kind == "partition")


def bound(topology: Topology) -> Bound:
    found = lp_bound(topology, allreduce(topology), partition(topology))
    assert found is not None
    return found


@pytest.fixture(scope="module")
def beyond():
    """A network whose trees are slower than its partition bound, switch-free; found by trying seeds."""
    for seed in range(400):
        topology = random_network(seed)
        if allreduce_optimum(topology, by="cuts").lower > partition(topology).value:
            return topology
    raise AssertionError


def test_the_certificate_proves_the_optimum():
    for seed in range(15):
        for topology in (random_network(seed), random_eulerian(seed)):
            found = bound(topology)
            found.check(topology, allreduce(topology))
            assert found.value == allreduce_optimum(topology).upper, (seed, topology.name)


@pytest.mark.parametrize("text", ["dgx_a100:2", "mi250:2", "mesh:5x5"])
def test_the_partition_bound_makes_it_a_bound_on_any_schedule(text):
    topology = parse_topology(text)
    found = bound(topology)
    found.check(topology, allreduce(topology))
    assert found.certificate["scope"] == ANY
    assert found.value == partition(topology).value


def test_it_bounds_trees_only_where_the_partition_bound_is_smaller(beyond):
    found = bound(beyond)
    found.check(beyond, allreduce(beyond))
    assert found.certificate["scope"] == TREES
    assert "partition" not in found.certificate
    assert found.value > partition(beyond).value


def test_it_is_never_the_best_and_in_no_gap(beyond):
    document = bound_document(beyond, allreduce(beyond), 10**9)
    kinds = [entry["kind"] for entry in document["bounds"]]
    assert kinds[-1] == "lp"
    assert document["best"]["kind"] != "lp"
    exact = {entry["kind"]: Fraction(entry["exact"]) for entry in document["bounds"]}
    assert exact["lp"] > exact["partition"]
    assert document["algbw_gbps"] >= float(1 / exact["lp"])
    assert all(b.kind != "lp" for b in lower_bounds(beyond, allreduce(beyond), 10**9))
    assert best_bound(beyond, allreduce(beyond)).kind != "lp"


def test_large_networks_get_it_when_asked():
    topology = parse_topology("mesh:9x8")
    kinds = [
        [entry["kind"] for entry in bound_document(topology, allreduce(topology), lp=lp)["bounds"]]
        for lp in (False, True)
    ]
    assert [("lp" in kind) for kind in kinds] == [False, True]


def test_other_problems_do_not_have_it():
    topology = parse_topology("ring:4")
    for what in (collective("allgather", 4), collective("allreduce", 4, groups=[[0, 1], [2, 3]])):
        assert lp_bound(topology, what, None) is None
        assert all(entry["kind"] != "lp" for entry in bound_document(topology, what)["bounds"])


def spoil_weight(certificate):
    certificate["cuts"][0]["weight"] *= 2


def spoil_length(certificate):
    longest = int(np.argmax(certificate["lengths"]))
    certificate["lengths"][longest] -= 1


def spoil_set(certificate):
    certificate["cuts"].append({"direction": "out", "weight": 1, "ranks": [0, 1, 2, 3]})


def spoil_sign(certificate):
    certificate["lengths"][0] = -1


def spoil_count(certificate):
    certificate["lengths"].append(1)


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (spoil_weight, "weigh more than the distance"),
        (spoil_length, "weigh more than the distance"),
        (spoil_set, "some of the ranks, but not all"),
        (spoil_sign, "none negative"),
        (spoil_count, "one a link"),
    ],
)
def test_a_spoilt_certificate_is_refused(spoil, words):
    topology = parse_topology("ring:4")
    found = bound(topology)
    certificate = copy.deepcopy(dict(found.certificate))
    spoil(certificate)
    with pytest.raises(InputError, match=f"^lp bound: .*{words}"):
        Bound("lp", found.value, found.unit, certificate).check(topology, allreduce(topology))


def test_a_value_that_is_not_proven_is_refused():
    topology = parse_topology("ring:4")
    found = bound(topology)
    with pytest.raises(BoundError, match=r"^lp bound: the certificate proves"):
        Bound("lp", found.value * 2, found.unit, found.certificate).check(topology, allreduce(topology))


def test_a_scope_that_the_partition_does_not_prove_is_refused(beyond):
    found = bound(beyond)
    claimed = {**found.certificate, "scope": ANY, "partition": partition(beyond).certificate}
    with pytest.raises(InputError, match=r"^lp bound: the partition does not prove it for any schedule$"):
        Bound("lp", found.value, found.unit, claimed).check(beyond, allreduce(beyond))


def test_the_certificate_is_for_allreduce():
    topology = parse_topology("ring:4")
    with pytest.raises(
        InputError, match=r"^lp bound: it is for an allreduce of all ranks, not for allgather"
    ):
        bound(topology).check(topology, collective("allgather", 4))


def test_what_it_holds_for_is_said(beyond):
    """A ring's partition bound is as large as the LP's, so that this holds for any schedule."""
    for topology, scope in ((beyond, TREES), (parse_topology("ring:4"), ANY)):
        entries = bound_document(topology, allreduce(topology), 10**9)["bounds"]
        told = {entry["kind"]: entry["holds_for"] for entry in entries}
        assert told.pop("lp") == scope
        assert set(told.values()) == {ANY}
        also = sentence("lp", bound(topology).certificate, topology).endswith(
            "the partition bound is as large"
        )
        assert also == (scope == ANY)
