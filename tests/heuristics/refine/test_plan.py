"""Plans: their times are those of the simulator, for whatever was changed, with symmetry and without."""

from fractions import Fraction

import numpy as np
import pytest

from tutti.experiments.registry import METHODS
from tutti.heuristics.refine.instance import RefineInstance, RoutedNetwork, by_steps, of_schedule
from tutti.heuristics.refine.plan import NEVER, play, room
from tutti.heuristics.refine.refinement import AnnealingSearch
from tutti.schedules import Problem, collective
from tutti.schedules.reversal import reverse
from tutti.schedules.simulation.simulate import simulate
from tutti.schedules.verify import verify
from tutti.topologies.graphs.free_action import free_group
from tutti.topologies.graphs.symmetry import automorphisms
from tutti.topologies.text import parse_topology
from tutti.topologies.topology import Link, Topology

SIZE = Fraction(10**6)
NETWORKS = [
    "ring:5",
    "torus:3x3",
    "mesh:2x3",
    "mesh:3x3",
    "gen_kautz:2,6",
    "switch2d:2x2",
    "dgx1",
    "torus:3x3?bandwidth=50GB/s,20GB/s",
]
KINDS = ["allgather", "broadcast", "allreduce", "all-to-all", "scatter"]


GROUPS = {
    "none": lambda topology: None,
    "free": free_group,
    "all": lambda topology: automorphisms(topology).some_elements(64),
}
"""Groups of symmetries: all keep the rank in the middle of a mesh, and the links on its axes."""


def instance(text, kind, *, group="free", pieces=3):
    topology = parse_topology(text)
    what = collective(kind, topology.num_ranks)
    elements = GROUPS[group](topology) if what.root is None else None
    return RefineInstance(Problem(topology, what, SIZE), RoutedNetwork.of(topology, elements), pieces)


def changed(problem, rounds, pieces=2):
    """A search after some changes, all of them accepted that can be played."""
    search = AnnealingSearch(problem, by_steps(problem, pieces), np.random.default_rng(1))
    search.change(rounds, np.inf)
    return search


@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("text", NETWORKS)
def test_a_plan_takes_as_long_as_its_schedule(text, kind, group):
    problem = instance(text, kind, group=group)
    search = changed(problem, 100)
    for plan in (search.plans[0], search.plans[-1]):
        end = play(problem.roads, problem.parcels.of, plan, search.times[0], NEVER)[0]
        schedule = problem.schedule(plan)
        verify(schedule)
        assert simulate(schedule, SIZE).time == pytest.approx(end, rel=1e-9)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("text", NETWORKS)
def test_a_schedule_is_followed(text, kind):
    """Its own plan, found again from the table alone, takes as long."""
    problem = instance(text, kind)
    search = changed(problem, 100)
    schedule = problem.schedule(search.plans[-1])
    again = of_schedule(problem, schedule)
    assert again is not None
    times = room(
        len(again.plan.slot), len(again.parcels.root) * again.parcels.cells, int(problem.roads.link.max()) + 1
    )
    assert play(problem.roads, again.parcels.of, again.plan, times, NEVER)[0] == pytest.approx(
        search.end, rel=1e-9
    )


def test_parcels_of_an_item_may_have_several_roots():
    """Blink sums a shard up at one rank or two, not its owner; empty parcels copy their routes."""
    problem = instance("mesh:3x3", "allreduce", group="none", pieces=4)
    start = METHODS["blink"].synthesize(problem.problem, METHODS["blink"].options(), np.random.default_rng(0))
    followed = of_schedule(problem, start)
    assert followed is not None
    roots = followed.parcels.root.reshape(-1, 4)
    assert (roots[:, 2:] == roots[:, :2]).all()
    assert (roots[:, 0] != np.arange(9)).any()
    search = AnnealingSearch(problem, followed, np.random.default_rng(0))
    search.change(500, np.inf)
    for plan in (search.plans[0], search.plans[-1]):
        verify(problem.schedule(plan))


@pytest.mark.parametrize(
    ("text", "items", "links"), [("mesh:3x3", 3, 4), ("mesh:5x5", 6, 12), ("mesh:2x3", 2, 4)]
)
def test_one_item_and_one_timeline_of_each_orbit(text, items, links):
    """Burnside's lemma: each of two reflections keeps 8 of 80 links of `mesh:5x5`, those on its axis."""
    problem = instance(text, "allgather", group="all")
    assert len(problem.items) == items
    assert problem.roads.link.max() + 1 == links


def test_messages_by_hand():
    """Around a directed ring of 3, M = 3 MB, 1 us and 1 MB/us a link: own shard, then the next, 2 us each."""
    topology = parse_topology("uniring:3?bandwidth=1TB/s&alpha=1us")
    problem = RefineInstance(
        Problem(topology, collective("allgather", 3), Fraction(3 * 10**6)),
        RoutedNetwork.of(topology, free_group(topology)),
        1,
    )
    start = by_steps(problem, 1)
    assert len(problem.network.nodes) == 3
    assert play(problem.roads, problem.parcels.of, start.plan, room(3, 3, 1), NEVER)[0] == pytest.approx(4e-6)


def test_messages_that_wait_for_each_other_never_end():
    """Down a path of three, the message to the last rank cannot carry what it waits for itself."""
    topology = parse_topology("mesh:3x1")
    problem = RefineInstance(
        Problem(topology, collective("broadcast", 3), SIZE), RoutedNetwork.of(topology), 1
    )
    plan = by_steps(problem, 1).plan
    plan.origin[plan.slot[0]] = plan.goal[plan.slot[1]]
    assert play(problem.roads, problem.parcels.of, plan, room(3, 3, 4), NEVER)[0] == np.inf


def test_backwards_links_are_left_with_the_data():
    """8 and 1 MB to rank 2 over links of 1 MB/us and one of 8 that both share, α = 1 us.

    Planned backwards with the 8 MB in front: forwards the 1 MB holds the shared link from 1 to 2 1/8 us, so
    that the 8 MB start at 1 1/8 and take 2 + 8. (With the 8 MB first it is 10 us; the simulator finds that.)
    """
    links = [
        Link(a, b, speed * 10**12, Fraction(1, 10**6)) for a, b, speed in [(0, 3, 1), (1, 3, 1), (3, 2, 8)]
    ]
    links += [Link(link.target, link.source, link.bandwidth, link.alpha) for link in links]
    topology = Topology.from_links("by hand", 3, links, num_switches=1)
    what = collective("gather", 3, root=2, shards=[8, 1, 1])
    back = RoutedNetwork.of(topology).reversed()
    problem = RefineInstance(Problem(back.topology, what.reverse, 10 * SIZE), back, 1)
    start = by_steps(problem, 1)
    end = play(problem.roads, problem.parcels.of, start.plan, room(20, 20, 6), NEVER)[0]
    assert end == pytest.approx(11.125e-6)
    schedule = reverse(problem.schedule(start.plan), topology)
    verify(schedule)
    assert simulate(schedule, 10 * SIZE).time == pytest.approx(10e-6)
