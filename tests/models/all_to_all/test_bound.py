"""The bound `mcf`: against pairwise LPs and cuts by hand, and from its certificate alone."""

import json
from dataclasses import replace
from fractions import Fraction
from itertools import count

import networkx as nx
import pytest

from tests.models.flows import pairwise_time, random_network
from tutti.models.all_to_all import Demand
from tutti.models.all_to_all.optimum import mcf_bound
from tutti.models.bounds import BoundError, bound_document, lower_bounds
from tutti.schedules import Problem, collective
from tutti.topologies import InputError, parse_topology

NEAR = 1e-7
"""Relative: the oracles are floating-point LPs."""


B = Fraction(50 * 10**9)
"""Default bandwidth of a link."""


def problem(text, kind="all-to-all", **given):
    topology = parse_topology(text) if isinstance(text, str) else text
    return Problem(topology, collective(kind, topology.num_ranks, **given))


def bound_on(topology, **given):
    asked = problem(topology, **given)
    bounds = {bound.kind: bound for bound in lower_bounds(asked.topology, asked.collective)}
    return asked, bounds


@pytest.mark.parametrize("seed", range(8))
def test_the_bound_is_the_optimum_and_above_all_cuts(seed):
    asked, bounds = bound_on(random_network(seed))
    if "mcf" not in bounds:
        assert asked.topology.num_ranks == 2
        return
    mcf = bounds["mcf"]
    json.dumps(dict(mcf.certificate))
    mcf.check(asked.topology, asked.collective)
    assert mcf.value >= bounds["cut"].value
    assert float(mcf.value) == pytest.approx(
        pairwise_time(Demand.of(asked.topology, asked.collective)), rel=NEAR
    )


def test_a_bound_of_a_cut_names_it():
    topology = parse_topology("mesh:3x4")
    mcf = mcf_bound(topology, collective("all-to-all", 12))
    assert sorted(mcf.certificate["cut"]["ranks"]) in ([0, 1, 4, 5, 8, 9], [2, 3, 6, 7, 10, 11])
    crossing = {(r, r + 1) for r in (1, 5, 9)}
    ends = [
        tuple(sorted((int(topology.source[e]), int(topology.target[e])))) for e in mcf.certificate["links"]
    ]
    assert set(ends) == crossing


def test_a_bound_of_no_cut_names_none():
    """Its LP bound is above that of every cut tried by the `cut` bound, so no cut can prove it."""
    found = mcf_bound(parse_topology("gen_kautz:4,24"), collective("all-to-all", 24))
    assert "cut" not in found.certificate


def test_a_large_network_has_a_bound_without_a_linear_program():
    topology = parse_topology("gen_kautz:3,20")
    asked = collective("all-to-all", 20)
    cheap, full = mcf_bound(topology, asked, most_variables=0), mcf_bound(topology, asked)
    cheap.check(topology, asked)
    hops = sum(sum(row.values()) for _, row in nx.all_pairs_shortest_path_length(graph_of(topology)))
    assert cheap.value == Fraction(hops, 20) / (topology.num_links * B)
    assert cheap.value < full.value


def test_a_time_limit_keeps_the_best_bound_so_far(monkeypatch):
    """Each look at the clock is a second: after ten of them the lengths are better than equal ones."""
    topology, asked = parse_topology("gen_kautz:3,20"), collective("all-to-all", 20)
    seconds = count()
    monkeypatch.setattr("tutti.models.all_to_all.columns.now", lambda: next(seconds))
    found = [mcf_bound(topology, asked, time_limit=limit) for limit in (0, 10, None)]
    for bound in found:
        bound.check(topology, asked)
    assert found[0].value < found[1].value < found[2].value
    assert found[0].value == mcf_bound(topology, asked, most_variables=0).value
    limited = {bound.kind: bound.value for bound in lower_bounds(topology, asked, 2**20, time_limit=10)}
    assert limited["mcf"] == found[1].value


@pytest.mark.parametrize("seed", range(4))
def test_a_bound_that_is_asked_for_is_the_optimum_of_a_pairwise_lp(seed):
    """The network counts as beyond the linear program's limit; the answer is proven to within 1e-4."""
    topology = random_network(seed, most_ranks=6)
    asked = collective("all-to-all", topology.num_ranks, shards=[1 + r for r in range(topology.num_ranks)])
    found = mcf_bound(topology, asked, most_variables=0, asked=True)
    if found is None:
        assert topology.num_ranks == 2
        return
    found.check(topology, asked)
    time = pairwise_time(Demand.of(topology, asked))
    assert time * (1 - 1.1e-4) <= float(found.value) <= time * (1 + NEAR)


def test_a_document_with_lp_has_the_bound_that_is_asked_for():
    topology, asked = parse_topology("random_regular:3,90"), collective("all-to-all", 90)
    plain, full = (bound_document(topology, asked, lp=lp) for lp in (False, True))
    values = [
        next(Fraction(bound["exact"]) for bound in document["bounds"] if bound["kind"] == "mcf")
        for document in (plain, full)
    ]
    assert values[0] < values[1], "90 sources and 270 links are beyond the limit for a linear program"


@pytest.mark.parametrize("factor", [1, 7, 2**60])
def test_lengths_of_any_size_prove_the_same(factor):
    topology, asked = parse_topology("mesh:3x3?bandwidth=50GB/s,25GB/s"), collective("all-to-all", 9)
    found = mcf_bound(topology, asked)
    certificate = {**found.certificate, "lengths": [factor * n for n in found.certificate["lengths"]]}
    replace(found, certificate=certificate).check(topology, asked)


def test_what_was_solved_for_one_network_is_not_taken_for_another():
    asked = collective("all-to-all", 6)
    by_hand = {  # s/GB: pairs across the worse cut, M/6 each, over its links
        "mesh:2x3": Fraction(2 * 4, 6 * 2 * 50),
        "mesh:2x3?bandwidth=25GB/s": Fraction(2 * 4, 6 * 2 * 25),
        "mesh:3x2": Fraction(2 * 4, 6 * 2 * 50),
        "mesh:2x3?bandwidth=25GB/s,50GB/s": Fraction(3 * 3, 6 * 3 * 25),
    }
    for _ in range(2):
        for text, seconds in by_hand.items():
            assert mcf_bound(parse_topology(text), asked).value == seconds / 10**9


def graph_of(topology):
    return nx.DiGraph(list(zip(topology.source.tolist(), topology.target.tolist(), strict=True)))


@pytest.mark.parametrize("kind", ["allgather", "allreduce", "scatter", "gather", "broadcast"])
def test_other_collectives_have_no_such_bound(kind):
    topology = parse_topology("ring:4")
    assert mcf_bound(topology, collective(kind, 4)) is None


def test_a_changed_certificate_proves_something_else():
    topology, asked = parse_topology("mesh:3x3"), collective("all-to-all", 9)
    bound = mcf_bound(topology, asked)
    lengths = [length + (i == 0) * 5 for i, length in enumerate(bound.certificate["lengths"])]
    with pytest.raises(BoundError, match="proves"):
        replace(bound, certificate={**bound.certificate, "lengths": lengths}).check(topology, asked)
    for wrong in ([1], [-1] * topology.num_links, [0] * topology.num_links, [0.5] * topology.num_links):
        with pytest.raises(InputError, match="lengths must be whole numbers"):
            replace(bound, certificate={"lengths": wrong}).check(topology, asked)
    with pytest.raises(InputError, match="from one rank to one rank"):
        bound.check(topology, collective("allgather", 9))
