"""TE-CCL's routes: links, and what passes switches."""

from fractions import Fraction

import pytest

from models.teccl.routes import routes_of
from schedules import Problem, collective
from tests.models.teccl.cases import METHOD, SIZE, made_on, network
from topologies import Unsupported
from topologies.text import parse_topology


def test_routes_are_links_or_pass_switches():
    """Two machines of two ranks: within one over its own switch or the network, else over the network."""
    topology = parse_topology("dgx_a100:2?ranks=2+2")
    routes = routes_of(topology)
    ends = sorted(routes.ends)
    near = [(0, 1), (1, 0), (2, 3), (3, 2)]
    far = [(a, b) for a in range(4) for b in range(4) if a // 2 != b // 2]
    assert ends == sorted([*near, *near, *far])
    for links, (a, b) in zip(routes.links, routes.ends, strict=True):
        nodes = [a, *topology.target[list(links)].tolist()]
        assert nodes[1:-1] == topology.source[list(links[1:])].tolist()
        assert all(node >= 4 for node in nodes[1:-1])
        assert nodes[-1] == b
    assert not routes.are_links
    assert routes_of(parse_topology("ring:4")).are_links


def test_routes_through_too_many_switches_are_not_supported():
    topology = parse_topology("dgx_a100:32")
    task = Problem(topology, collective("allgather", topology.num_ranks), Fraction(SIZE))
    with pytest.raises(Unsupported, match=r"^teccl: dgx_a100:32 has over 16384 routes through switches$"):
        METHOD.supports(task, METHOD.options())


@pytest.mark.parametrize("kind", ["broadcast", "allreduce"])
def test_links_to_a_switch_that_no_way_passes_do_not_shift_the_others(kind):
    """Both ranks are joined directly, so nothing goes over the switch, whose links come first."""
    where = network(2, [(0, 2, 1, 1), (2, 1, 1, 1), (0, 1, 1, 1), (1, 0, 1, 1)], num_switches=1)
    schedule = made_on(where, kind)
    table = schedule.route_table
    assert set(table.links[table.offsets[schedule.route]].tolist()) <= {2, 3}
