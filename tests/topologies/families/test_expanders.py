"""Random regular networks: regular, simple, connected, the same for a seed, and of small diameter."""

from collections import Counter

import pytest

from tests.sweep import for_each
from tutti.topologies import InputError, complete, diameter
from tutti.topologies.families.direct import random_regular, xpander


def assert_simple_regular(topology, ranks, degree):
    links = Counter(zip(topology.source.tolist(), topology.target.tolist(), strict=True))
    assert max(links.values()) == 1
    assert all((v, u) in links for u, v in links)
    assert (topology.num_ranks, topology.degree, topology.num_links) == (ranks, degree, ranks * degree)


@for_each(("degree", "ranks"), [(3, 4), (3, 10), (4, 5), (4, 64), (5, 8), (7, 30), (8, 9)])
@for_each("seed", [0, 1])
def test_a_random_regular_network_is_simple_regular_and_connected(degree, ranks, seed):
    assert_simple_regular(random_regular(degree, ranks, seed), ranks, degree)


@pytest.mark.parametrize(("degree", "copies"), [(3, 1), (3, 5), (4, 16), (6, 2), (7, 11)])
def test_a_lift_of_the_complete_network_is_simple_regular_and_connected(degree, copies):
    built = xpander(degree, copies, 3)
    assert_simple_regular(built, (degree + 1) * copies, degree)
    ends = {(u // copies, v // copies) for u, v in zip(built.source, built.target, strict=True)}
    assert ends == {(i, j) for i in range(degree + 1) for j in range(degree + 1) if i != j}
    for rank in range(built.num_ranks):  # one neighbour among the copies of every other node
        assert len(set(built.target[built.source == rank] // copies)) == degree


def test_a_lift_of_one_copy_is_the_complete_network():
    assert xpander(4, 1) == complete(5)


@pytest.mark.parametrize("build", [random_regular, xpander])
def test_a_seed_is_a_network(build):
    assert build(4, 20, 5) == build(4, 20, 5)
    assert build(4, 20, 5) != build(4, 20, 6)
    assert build(4, 20) == build(4, 20, 0)


def test_random_networks_have_the_low_diameter_of_expanders():
    # A torus of 400 ranks has 20; random 4-regular graphs have about log_3(400) + O(log log) (Bollobas 1982).
    assert diameter(random_regular(4, 400)) <= 9
    assert diameter(xpander(4, 80)) <= 9


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: random_regular(2, 10), "degree 2 is too small; at least 3"),
        (lambda: random_regular(4, 4), "4 ranks; more than the degree, and one of the two even"),
        (lambda: random_regular(3, 7), "7 ranks; more than the degree, and one of the two even"),
        (lambda: xpander(2, 10), "degree 2 is too small; at least 3"),
        (lambda: xpander(4, 0), "copies 0 is too small; at least 1"),
        (lambda: xpander(4, 10**6), "too many nodes"),
    ],
)
def test_wrong_arguments_are_refused_in_one_line(build, message):
    with pytest.raises(InputError, match=message):
        build()
