"""The network type: its arrays, totals and checks."""

from fractions import Fraction

import pytest

from tutti.topologies import DEFAULT_ALPHA, DEFAULT_BANDWIDTH, InputError, Link, Topology


def two_way(pairs, bandwidth=DEFAULT_BANDWIDTH):
    return [Link(a, b, bandwidth) for x, y in pairs for a, b in ((x, y), (y, x))]


@pytest.fixture
def star():
    """Return three ranks around a switch, the last with half the bandwidth."""
    slow = Fraction(25 * 10**9)
    links = [*two_way([(0, 3), (1, 3)]), *two_way([(2, 3)], slow)]
    return Topology.from_links("star", 3, links, num_switches=1, multicast=[3])


def test_links_default_to_50_gb_per_second_and_half_a_microsecond():
    link = Link(0, 1)
    assert (link.bandwidth, link.alpha) == (50 * 10**9, Fraction(5, 10**7))
    assert (link.bandwidth, link.alpha) == (DEFAULT_BANDWIDTH, DEFAULT_ALPHA)


def test_incidence_lists_every_link_once_at_each_end(star):
    for (offsets, links), ends in ((star.out_links, star.source), (star.in_links, star.target)):
        assert sorted(links.tolist()) == list(range(star.num_links))
        for node in range(star.num_nodes):
            assert all(ends[link] == node for link in links[offsets[node] : offsets[node + 1]])


def test_totals_are_exact(star):
    assert list(star.egress) == [50 * 10**9, 50 * 10**9, 25 * 10**9, 125 * 10**9]
    assert star.ingress == star.egress
    assert star.eulerian_defect() is None


def test_an_uneven_node_is_the_eulerian_defect():
    ring = [Link(0, 1), Link(1, 2), Link(2, 0), Link(1, 0)]
    assert Topology.from_links("uneven", 3, ring).eulerian_defect() == 0


def test_node_bandwidth_is_degree_times_link_bandwidth_of_a_regular_network(star):
    ring = Topology.from_links("ring", 3, two_way([(0, 1), (1, 2), (2, 0)]))
    assert (ring.degree, ring.node_bandwidth) == (2, 100 * 10**9)
    assert star.node_bandwidth is None
    path = Topology.from_links("path", 3, two_way([(0, 1), (1, 2)]))
    assert (path.degree, path.node_bandwidth) == (None, None)


def test_a_nominal_degree_counts_links_that_a_family_dropped():
    ring = Topology.from_links("ring", 3, two_way([(0, 1), (1, 2), (2, 0)]), nominal_degree=4)
    assert ring.node_bandwidth == 200 * 10**9


def test_arrays_cannot_be_written(star):
    with pytest.raises(ValueError, match="read-only"):
        star.source[0] = 1


def test_networks_are_equal_by_what_they_are_and_not_by_name(star):
    pairs = [(0, 1), (1, 2)]
    assert Topology.from_links("a", 3, two_way(pairs)) == Topology.from_links("b", 3, two_way(pairs))
    assert Topology.from_links("a", 3, two_way(pairs)) != star


@pytest.mark.parametrize(
    ("links", "message"),
    [
        ([Link(0, 1)], r"topology bad is not strongly connected: rank 0 can't be reached from 1"),
        ([Link(1, 0)], r"topology bad is not strongly connected: rank 0 can't reach 1"),
        ([Link(0, 2), Link(2, 0)], r"a link ends at node 2; nodes are 0\.\.1"),
        ([Link(0, 0), *two_way([(0, 1)])], r"link 0->0 joins a node to itself"),
        (two_way([(0, 1)], Fraction(0)), r"bandwidth of link 0->1 is 0 B/s; it must be positive"),
        (two_way([(0, 1)], Fraction(-3)), r"bandwidth of link 0->1 is -3 B/s; it must be positive"),
        (
            [Link(0, 1, alpha=Fraction(-1)), Link(1, 0)],
            r"alpha of link 0->1 is -1 s; it must not be negative",
        ),
    ],
)
def test_a_wrong_network_is_refused_in_one_line(links, message):
    with pytest.raises(InputError, match=message) as caught:
        Topology.from_links("bad", 2, links)
    assert "\n" not in str(caught.value)


def test_one_rank_is_no_network():
    with pytest.raises(InputError, match=r"1 rank\(s\); a collective needs at least 2"):
        Topology.from_links("lonely", 1, [])


def test_labels_must_differ_and_only_switches_multicast():
    with pytest.raises(InputError, match="node labels must differ"):
        Topology.from_links("twins", 2, two_way([(0, 1)]), labels=["a", "a"])
    with pytest.raises(InputError, match="only switches"):
        Topology.from_links("ranks", 2, two_way([(0, 1)]), multicast=[0])


def test_a_network_is_shown_in_a_line():
    ring = Topology.from_links("ring", 3, two_way([(0, 1), (1, 2), (2, 0)]))
    assert repr(ring) == "<Topology ring: 3 ranks, 0 switches, 6 links>"
