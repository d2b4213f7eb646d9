"""The method `refined`: no slower than what it begins with, and what it refuses."""

from fractions import Fraction

import numpy as np
import pytest

from tutti.experiments.registry import METHODS
from tutti.schedules import Problem, collective
from tutti.schedules.simulation.simulate import best_slices, simulate
from tutti.schedules.verify import verify
from tutti.topologies import InputError, Unsupported
from tutti.topologies.text import parse_topology

METHOD = METHODS["local_search"]
SIZE = Fraction(10**6)


def problem(text, kind, **given):
    topology = parse_topology(text)
    return Problem(topology, collective(kind, topology.num_ranks, **given), SIZE)


def made(name, task, **options):
    method = METHODS[name]
    return method.synthesize(task, method.options(**options), np.random.default_rng(0))


@pytest.mark.parametrize(
    ("start", "text", "kind"),
    [
        ("bfb", "mesh:3x3", "allgather"),
        ("bfb", "torus:3x3", "allreduce"),
        ("shortest_path_all_to_all", "gen_kautz:2,6", "all-to-all"),
        ("forestcoll", "switch2d:2x2", "reduce-scatter"),
        ("one_shot_allreduce", "torus:3x3", "allreduce"),  # copies of chunks: nor is this
        ("recursive_doubling", "hypercube:2", "allreduce"),  # no trees to a root: it is not begun with
    ],
)
def test_it_is_no_slower_than_what_it_is_handed(start, text, kind):
    task = problem(text, kind)
    given = made(start, task)
    better = METHOD.improve(task, given, METHOD.options(time_limit="50ms"), np.random.default_rng(0))
    verify(better)
    assert simulate(better, SIZE).time <= best_slices(given, SIZE)[1] * (1 + 1e-9)


def test_links_of_two_speeds_carry_what_suits_them():
    """Shortest paths use the links of half the bandwidth of a DGX-1 as much as the others."""
    task = problem("dgx1", "allgather")
    starts = [simulate(made(name, task), SIZE).time for name in ("bfb", "min_latency")]
    assert simulate(made("local_search", task, time_limit="500ms"), SIZE).time < 0.97 * min(starts)


def test_what_it_refuses():
    with pytest.raises(Unsupported, match="local_search needs bytes in every shard"):
        METHOD.supports(problem("ring:3", "allgather", shards=[1, 0, 1]), METHOD.options())
    with pytest.raises(Unsupported, match="local_search needs at most 65536 items; this has 66049"):
        METHOD.supports(problem("ring:257", "all-to-all"), METHOD.options())
    with pytest.raises(
        InputError, match="local_search option base_methods: unknown method 'bbf'; did you mean 'bfb'"
    ):
        METHOD.supports(problem("ring:3", "allgather"), METHOD.options(base_methods=["bbf"]))
    with pytest.raises(InputError, match="time 'soon' is not a number"):
        METHOD.options(time_limit="soon")
