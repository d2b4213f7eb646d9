"""Allgathers that are the same seen from every rank."""

from fractions import Fraction

import numpy as np
import pytest

from tests.sweep import for_each
from tutti.heuristics.rounds import METHOD
from tutti.heuristics.rounds.vertex_transitive import VertexTransitiveNetwork
from tutti.models.bounds import best_bound
from tutti.schedules import Problem, collective
from tutti.schedules.simulation.simulate import simulate
from tutti.schedules.verify import verify
from tutti.topologies.errors import Unsupported
from tutti.topologies.text import parse_topology


@pytest.mark.parametrize("kind", ["allgather", "all-to-all"])
@pytest.mark.parametrize("shard", [1, 30_000])
@for_each("text", ["switch2d:2x2", "dgx_a100:1", "rfs:2x2x2", "switch2d:3x2?alpha=0us,0.5us", "dgx_a100:9"])
def test_what_one_rank_does_is_a_schedule_of_all(text, shard, kind):
    """It is legal, and takes as long as one rank's timeline says, or little less, as there each message waits
    for those before it in the list. Of 72 ranks there is more than a word."""
    network, what = parse_topology(text), collective(kind, parse_topology(text).num_ranks)
    time, schedule = of_all(network, what, shard)
    verify(schedule)
    assert 0.99 * time < simulate(schedule, Fraction(shard) * network.num_ranks).time < time * (1 + 1e-9)


def of_all(network, what, shard):
    """The time and the schedule that are found."""
    alike, each = VertexTransitiveNetwork.of(network), what.kind == "all-to-all"
    time, played = alike.searched(float(shard), np.random.default_rng(0), each=each)
    return time, (alike.all_to_all if each else alike.allgather)(what, played)


def test_one_switch_takes_what_is_least_by_hand():
    """Four ranks, a port each, α = 1 s there and back, a second a shard.

    Three messages of a shard each hold a port for 2 s each, and the last needs α more: 7 s. A message of two
    shards would come after 3 s at the soonest, and take 4.
    """
    network = parse_topology("dgx_a100:1?ranks=4&bandwidth=1B/s&alpha=1s")
    time, _ = VertexTransitiveNetwork.of(network).searched(1.0, np.random.default_rng(0))
    assert time == pytest.approx(7)


@pytest.mark.parametrize("text", ["mesh:2x3", "dgx_h100:2", "ndv2:2", "ring:2", "torus:32x33"])
def test_ranks_that_differ_copying_switches_and_many_ranks_have_none(text):
    assert VertexTransitiveNetwork.of(parse_topology(text)) is None


@pytest.mark.parametrize("kind", ["allgather", "reduce-scatter"])
def test_bytes_count_beside_alpha(kind):
    """A shard of 32 KB takes a sixth of α on an adapter: where messages wait, 10.9 % above the bound."""
    network, size = parse_topology("dgx_a100:2"), Fraction(32000)
    problem = Problem(network, collective(kind, 16), size)
    schedule = METHOD.synthesize(problem, METHOD.options(), np.random.default_rng(0))
    verify(schedule)
    bound = best_bound(network, problem.collective, size).time(size)
    assert simulate(schedule, size).time < 1.1 * float(bound)


def test_an_all_to_all_behind_switches_is_near_the_fewest_alpha():
    """Sixteen ranks with 32 KB: five α (2.5 us) are proven; where each datum goes alone it takes 3.3 us."""
    network, size = parse_topology("dgx_a100:2"), Fraction(32000)
    problem = Problem(network, collective("all-to-all", 16), size)
    schedule = METHOD.synthesize(problem, METHOD.options(), np.random.default_rng(0))
    verify(schedule)
    assert simulate(schedule, size).time < 3.1e-6


def test_many_ranks_are_refused_unless_alike():
    options = METHOD.options()
    METHOD.supports(Problem(parse_topology("dgx_a100:33"), collective("allgather", 264)), options)
    refused = pytest.raises(Unsupported, match="at most 256 ranks, or 1024 equivalent ones behind switches")
    with refused:
        METHOD.supports(Problem(parse_topology("torus:17x16"), collective("allgather", 272)), options)
    with refused:
        problem = Problem(parse_topology("mi250:17"), collective("allgather", 272))
        METHOD.synthesize(problem, options, np.random.default_rng(0))
