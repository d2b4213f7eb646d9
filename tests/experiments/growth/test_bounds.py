"""Bounds over all networks of N ranks and degree d: no schedule is below, certificates prove no less."""

import json
from contextlib import suppress
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

import tutti
from tutti.expansions.finder import Finder
from tutti.experiments.cli import main
from tutti.experiments.growth.networks import CostParameters, all_to_all_bound, allreduce_bound
from tutti.models.bounds import lower_bounds
from tutti.models.bounds.check import proven
from tutti.schedules.collective import collective
from tutti.schedules.simulation.simulate import best_slices
from tutti.topologies import InputError, Link, Topology
from tutti.topologies.errors import TuttiError

SIZES = ("1KB", "1MB", "1GB")
OF = {"allreduce": allreduce_bound, "all-to-all": all_to_all_bound}


def workload(size, degree, alpha="10us"):
    """Links of 30 Gb/s."""
    return CostParameters.parse(alpha, size, f"{30 * degree}Gb/s")


def network(name, alpha="10us"):
    return tutti.topology(f"{name}?bandwidth=30Gb/s&alpha={alpha}")


@pytest.mark.parametrize(
    ("kind", "nodes", "degree", "size", "microseconds"),
    [
        ("allreduce", 8, 4, "1KB", 2 * 10 + 0.08),  # two hops, then all of M into one rank
        ("allreduce", 5, 4, "1KB", 10 + 0.128),  # one hop, 2 * 4/5 of M
        ("allreduce", 4, 1, "1KB", 3 * 10 + 0.08),  # around the ring
        ("all-to-all", 8, 4, "1KB", 2 * 10 + 0.08 * 10 / 8),  # 4 ranks at one hop, 3 at two
        ("all-to-all", 5, 4, "1MB", 10 + 80 * 4 / 5),  # all are neighbours
        ("all-to-all", 16, 2, "1KB", 4 * 10 + 0.08 / 16),  # 1 + 2 + 4 + 8 ranks, and one at four hops
    ],
)
def test_by_hand(kind, nodes, degree, size, microseconds):
    given = CostParameters.parse("10us", size, "100Gb/s")
    assert float(OF[kind](nodes, degree, given) * 10**6) == pytest.approx(microseconds)


def test_large_allreduces_wait_for_each_other():
    """14/8 transfers a byte and rank, 140 us, of which all but 4/8 pay α twice."""
    given = CostParameters.parse("10us", "1MB", "100Gb/s")
    least = float(allreduce_bound(8, 4, given) * 10**6)
    moved = [80 * count / 8 for count in (10, 4)]
    assert moved[0] / (least - 20) + moved[1] / (least - 10) == pytest.approx(1)
    assert least > 140 + 10


@pytest.mark.parametrize(("nodes", "degree"), [(4, 1), (5, 2), (8, 4), (9, 4), (10, 3)])
def test_no_schedule_of_the_finders_networks_is_below(nodes, degree):
    """The fastest of methods that are quick; on the complete bipartite network the bound is nearly met."""
    methods = {
        "allreduce": ("de_bruijn_allreduce", "one_shot_allreduce", "direct", "bfb"),
        "all-to-all": ("direct", "bruck"),
    }
    for found in Finder().find(nodes, degree):
        where = network(found.expression)
        for kind, size in product(methods, SIZES):
            least = float(OF[kind](nodes, degree, workload(size, degree)))
            fastest = min(time for name in methods[kind] for time in times(where, kind, size, name))
            assert fastest >= least * (1 - 1e-12), (where.name, kind, size)
            if (nodes, kind, size) == (8, "allreduce", "1KB"):
                assert fastest < least * 1.02


def times(where, kind, size, method):
    with suppress(TuttiError):  # not all of them do any network
        made = tutti.synthesize(where, kind, size=size, method=method)
        yield best_slices(made.schedule, made.size)[1]


@pytest.mark.parametrize("seed", range(12))
def test_certified_bounds_of_a_network_are_no_less(seed):
    """Any multigraph of degree d at most will do, with parallel links too."""
    rng = np.random.default_rng(seed)
    nodes, degree = int(rng.integers(3, 10)), int(rng.integers(1, 4))
    cycle = rng.permutation(nodes)
    targets = [cycle[(np.argsort(cycle) + 1) % nodes], *(rng.permutation(nodes) for _ in range(degree - 1))]
    bandwidth, alpha = Fraction(30 * 10**9, 8), Fraction(1, 10**5)
    links = [
        Link(rank, int(target), bandwidth, alpha)
        for of_all in targets
        for rank, target in enumerate(of_all)
        if rank != target
    ]
    where = Topology.from_links("any", nodes, links)
    for size in SIZES:
        given = workload(size, degree)
        found = lower_bounds(where, collective("allreduce", nodes), given.size)
        assert max(bound.time(given.size) for bound in found) >= allreduce_bound(nodes, degree, given)


@pytest.mark.parametrize(("name", "nodes", "degree"), [("K_{4,4}", 8, 4), ("DistReg(4,9)", 9, 4)])
@pytest.mark.parametrize("size", SIZES)
def test_relays_prove_that_of_an_all_to_all_where_hops_are_least(name, nodes, degree, size):
    """Every byte pays 1 a link, in any class: what is relayed can't go in the first and the last α."""
    where, given = network(name), workload(size, degree)
    least = all_to_all_bound(nodes, degree, given) * (1 - Fraction(1, 10**12))
    certificate = {
        "size_bytes": str(given.size),
        "time": str(least),
        "distances": ["0", "1/100000"],
        "prices": [[[1, 1], [1, 1]]],
        "rows": [0] * where.num_links,
    }
    assert proven("unicast_price", certificate, where, collective("all-to-all", nodes)) == least
    beyond = certificate | {"time": str(least * (1 + Fraction(2, 10**12)))}
    with pytest.raises(InputError, match="links may earn"):
        proven("unicast_price", beyond, where, collective("all-to-all", nodes))


def test_find_prints_what_any_schedule_takes_and_what_its_times_are(capsys):
    """`walks` takes 20.32 us on the network that it names, less than a reduce-scatter and an allgather."""
    command = ["find", "--nodes", "8", "--degree", "4", "--size", "1KB"]
    assert main([*command, "--all-to-all", "--json"]) == 0
    (line,) = map(json.loads, capsys.readouterr().out.splitlines())
    fastest = tutti.synthesize(
        tutti.topology(f"{line['topology']}?bandwidth=25Gb/s&alpha=10us"),
        "allreduce",
        size="1KB",
        method="de_bruijn_allreduce",
    )
    assert line["any_allreduce_us"] <= fastest.time * 10**6 < line["allreduce_us"]
    assert line["any_all_to_all_us"] > line["all_to_all_us"], "which is without α"
    assert "a reduce-scatter and then an allgather" in line["allreduce_of"]
    assert "without alpha" in line["all_to_all_of"]
    assert main(command) == 0
    said = capsys.readouterr().out
    assert "any schedule, at least" in said
    assert "20.08" in said
    assert "allreduce us: a reduce-scatter and then an allgather in steps" in said
    assert "all-to-all" not in said
    assert main([*command, "--mix", "0.5"]) == 0
    assert "all-to-all us: the best flow, without alpha" in capsys.readouterr().out
