"""Guesses and the exact algorithms: on small networks the lower trees are taken."""

import numpy as np
import pytest

from models.forestcoll.method import METHOD, ForestcollOptions
from schedules.collective import Kind, collective
from schedules.method import Problem
from schedules.verify import verify
from tests.topologies.eulerian import random_eulerian
from topologies import parse_topology


def made(topology, kind, fast):
    problem = Problem(topology, collective(kind, topology.num_ranks))
    schedule = METHOD.synthesize(problem, ForestcollOptions(fast=fast), np.random.default_rng(0))
    verify(schedule)
    return schedule


def test_trees_of_small_networks_are_no_higher_than_the_exact_algorithms():
    lower = 0
    for seed in range(300, 340):
        topology = random_eulerian(seed)
        fast, exact = (made(topology, Kind.ALLGATHER, way).stats for way in (True, False))
        assert (fast["height"], fast["mean_height"]) <= (exact["height"], exact["mean_height"])
        lower += fast["height"] < exact["height"]
    assert lower >= 1


@pytest.mark.parametrize("text", ["mi250:1", "dgx_h100:2", "dgx_a100:2"])
def test_trees_of_a_single_root_are_the_exact_algorithms(text):
    topology = parse_topology(text)
    fast, exact = (made(topology, Kind.BROADCAST, way) for way in (True, False))
    assert fast.route.tolist() == exact.route.tolist()
    assert fast.chunk.tolist() == exact.chunk.tolist()


def test_boxes_joined_by_infiniband_get_the_guess_which_is_lower():
    topology = parse_topology("dgx_a100:2")
    assert made(topology, Kind.ALLGATHER, True).stats["height"] == 2
