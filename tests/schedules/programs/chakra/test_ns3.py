"""The network for ASTRA-sim's ns-3 back-end."""

import re
from fractions import Fraction

import pytest

from tutti.schedules.programs.chakra import to_ns3
from tutti.topologies.errors import InputError
from tutti.topologies.text import parse_topology
from tutti.topologies.topology import Link, Topology

US = Fraction(1, 10**6)


def test_ns3_has_a_switch_as_astra_sims_example_has_it():
    """examples/network/ns3/topology/8_nodes_1_switch_topology.txt: counts, switches, one line per link."""
    lines = to_ns3(parse_topology("dgx_a100:1")).splitlines()
    assert lines[:2] == ["9 1 8", "8"]
    assert lines[2:] == [f"{rank} 8 2400Gbps 500ns 0" for rank in range(8)]  # 300 GB/s


def test_ns3_without_switches_has_a_blank_line():
    assert to_ns3(parse_topology("ring:3")) == (
        "3 0 3\n\n0 1 400Gbps 500ns 0\n0 2 400Gbps 500ns 0\n1 2 400Gbps 500ns 0\n"
    )


def test_ns3_joins_parallel_links():
    links = [Link(a, b, Fraction(speed)) for a, b in [(0, 1), (1, 0)] for speed in (1000, 500)]
    assert to_ns3(Topology.from_links("two", 2, links)).splitlines()[2] == "0 1 12000bps 500ns 0"


@pytest.mark.parametrize(
    ("links", "text"),
    [
        ([Link(0, 1), Link(1, 0, alpha=US)], "0->1 has 50GB/s and 0.5us, but 50GB/s and 1us back"),
        ([Link(0, 1), Link(1, 2), Link(2, 0)], "0->1 has 50GB/s and 0.5us, but nothing back"),
        ([Link(0, 1), Link(1, 0), Link(0, 1, alpha=US)], "parallel links 0->1 have several α"),
        ([Link(0, 1, alpha=US / 3), Link(1, 0, alpha=US / 3)], "α of 0->1 is 1/3us; ns-3 counts nanoseconds"),
    ],
)
def test_ns3_refuses_what_it_has_no_words_for(links, text):
    with pytest.raises(InputError, match=f"does not fit: {re.escape(text)}"):
        to_ns3(Topology.from_links("bad", max(link.source for link in links) + 1, links))
