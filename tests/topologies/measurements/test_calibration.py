"""Networks with measured values, by hand."""

from fractions import Fraction

import numpy as np
import pytest

from tutti.topologies import InputError, Link, Topology, parse_topology
from tutti.topologies.measurements.regression import calibrated, fit, measured_network

GB = 10**9
US = Fraction(1, 10**6)
SIZES = np.array([1e3, 1e6, 1e9])


def line(us, gb):
    return fit(SIZES, us * 1e-6 + SIZES / (gb * 1e9))


def links(topology):
    """Return the GB/s and us of each link, by name."""
    names = map(topology.link_name, range(topology.num_links))
    values = map(topology.link, range(topology.num_links))
    return {
        name: (float(link.bandwidth / GB), float(link.alpha / US))
        for name, link in zip(names, values, strict=True)
    }


def test_pairs_are_a_network():
    network = measured_network({("10", "2"): line(3, 20), ("2", "10"): line(4, 25)}, "n", "a.csv")
    assert network.labels == ("2", "10")
    assert links(network) == {"10->2": (20, 3), "2->10": (25, 4)}
    assert "a.csv" in network.notes[0]
    named = measured_network({("b", "a"): line(3, 20), ("a", "b"): line(4, 25)}, "n", "a.csv")
    assert named.labels == ("b", "a")


def test_pairs_that_do_not_join_all_are_no_network():
    with pytest.raises(InputError, match="not strongly connected"):
        measured_network({("0", "1"): line(3, 20)}, "n", "a.csv")


def test_a_direct_link_gets_what_was_measured_and_others_keep_theirs():
    ring = calibrated(parse_topology("ring:4"), {("0", "1"): line(3, 20)}, "a.csv", alike=False)
    assert links(ring)["0->1"] == (20, 3)
    assert {value for name, value in links(ring).items() if name != "0->1"} == {(50, 0.5)}
    assert ring.notes == ("alpha and bandwidth of 1 of 8 links are measured (a.csv)",)


def test_parallel_links_share_it():
    ring = calibrated(parse_topology("ring:4?links=2"), {("0", "1"): line(3, 20)}, "a.csv", alike=False)
    between = [ring.link(i) for i in range(ring.num_links) if ring.link_name(i) == "0->1"]
    assert [(float(link.bandwidth / GB), float(link.alpha / US)) for link in between] == [(10, 3)] * 2


def test_a_route_shares_its_alpha_and_is_as_fast_as_its_narrowest_link():
    # 0 -> a switch at 100 GB/s and 1 us, on at 25 GB/s and 3 us; the measured 8 us are divided 1 : 3.
    both = [(0, 2, 100, 1), (2, 0, 100, 1), (2, 1, 25, 3), (1, 2, 25, 3)]
    net = Topology.from_links(
        "n", 2, [Link(a, b, Fraction(g * GB), u * US) for a, b, g, u in both], num_switches=1
    )
    found = links(calibrated(net, {("0", "1"): line(8, 20)}, "a.csv", alike=False))
    assert found == {"0->s0": (100, 2), "s0->1": (20, 6), "s0->0": (100, 1), "1->s0": (25, 3)}
    faster = links(calibrated(net, {("0", "1"): line(8, 120)}, "a.csv", alike=False))
    assert (faster["0->s0"], faster["s0->1"]) == ((120, 2), (120, 6))


def test_a_link_of_several_pairs_gets_the_median():
    pairs = {("0", "1"): line(4, 200), ("0", "2"): line(6, 210), ("0", "3"): line(20, 100)}
    found = links(calibrated(parse_topology("dgx_a100:1"), pairs, "a.csv", alike=False))
    assert found["0->nvswitch0"] == (200, 3)  # half of 6 us; 0.5 us at either end were given
    assert found["nvswitch0->2"] == (210, 3)


def test_links_alike_get_the_same():
    boxes = parse_topology("dgx_a100:2")
    found = links(calibrated(boxes, {("0", "8"): line(10, 20)}, "a.txt", alike=True))
    assert {value for name, value in found.items() if "ib" in name} == {(20, 5)}
    assert {value for name, value in found.items() if "nvswitch" in name} == {(300, 0.5)}


def test_what_cannot_be_put_on_a_network():
    with pytest.raises(InputError, match="ring:4 has no node 'gpu0'"):
        calibrated(parse_topology("ring:4"), {("gpu0", "1"): line(3, 20)}, "a.csv", alike=False)
    flat = fit(SIZES, np.array([3e-6, 2e-6, 1e-6]))
    with pytest.raises(InputError, match="0 -> 1: the times do not grow with size"):
        calibrated(parse_topology("ring:4"), {("0", "1"): flat}, "a.csv", alike=False)
    with pytest.raises(InputError, match="to itself"):
        calibrated(parse_topology("ring:4"), {("1", "1"): line(3, 20)}, "a.csv", alike=False)
    with pytest.raises(InputError, match=r"a bandwidth of 1e\+18 B/s"):
        calibrated(parse_topology("ring:4"), {("0", "1"): line(3, 1e9)}, "a.csv", alike=False)
