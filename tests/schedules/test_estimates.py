"""Closed forms against synthesized schedules: T_L, T_B and simulated times."""

from fractions import Fraction

import numpy as np
import pytest

from tutti.experiments.methods.best import BUDGET
from tutti.experiments.registry import METHODS
from tutti.schedules.collective import collective
from tutti.schedules.cost import step_cost
from tutti.schedules.method import Problem
from tutti.schedules.simulation.simulate import best_slices
from tutti.topologies.errors import Unsupported
from tutti.topologies.text import parse_topology

FEWER = {"shortest_path_all_to_all": {"chunks": 1, "search_effort": 0}}
"""Options with which a method computes faster, and its schedules are no better."""
TOLD = [name for name, method in METHODS.items() if method.estimate is not None]
NETWORKS = (
    *(
        "ring:6",
        "uniring:5",
        "torus:4x4",
        "torus:3x4",
        "mesh:3x3",
        "hypercube:3",
        "complete:4",
        "gen_kautz:3,16",
    ),
    *(
        "L(C(6,{1,2}))",
        "mesh:2x4?bandwidth=10GB/s,40GB/s&alpha=2us",
        "dgx_a100:2",
        "mi250:1",
        "circulant:8,1,3",
    ),
)


def cases(name, text, kind, size):
    """Return the estimate, the schedule and the problem; None if the method does not handle it."""
    method, topology = METHODS[name], parse_topology(text)
    problem = Problem(topology, collective(kind, topology.num_ranks), Fraction(size))
    options = method.options(**{**method.fast, **FEWER.get(name, {})})
    try:
        method.supports(problem, options)
    except Unsupported:
        return None
    return (
        method.estimate(problem, options),
        method.synthesize(problem, options, np.random.default_rng(0)),
        problem,
    )


@pytest.mark.parametrize("text", NETWORKS)
@pytest.mark.parametrize("size", [2**10, 2**20])
def test_none_is_left_out_that_is_the_fastest(text, size):
    """Steps may overlap, so closed forms exceed the time, but never enough to leave the fastest out."""
    compared = 0
    for name in TOLD:
        for kind in ("allgather", "allreduce", "all-to-all"):
            case = cases(name, text, kind, size)
            if case is None or case[0] is None:
                continue
            estimate, schedule, problem = case
            assert estimate < BUDGET.hopeless * best_slices(schedule, problem.size)[1], (name, kind)
            compared += 1
    assert compared > 8


@pytest.mark.parametrize("name", ["multitree", "tacos", "forestcoll", "shortest_path_all_to_all", "bfb"])
@pytest.mark.parametrize("text", NETWORKS)
def test_the_least_that_a_schedule_can_take_is_no_more_than_what_it_takes(name, text):
    for kind in ("allgather", "reduce-scatter", "allreduce", "all-to-all"):
        case = cases(name, text, kind, 2**20)
        if case is not None and case[0] is not None:
            assert case[0] <= best_slices(case[1], case[2].size)[1] * (1 + 1e-9), kind


@pytest.mark.parametrize(
    ("name", "text", "kind"),
    [
        *(("ring", text, "allreduce") for text in ("ring:6", "uniring:5")),
        *(
            ("bfb", text, "reduce-scatter")
            for text in ("ring:6", "torus:3x4", "hypercube:3", "circulant:8,1,3")
        ),
        *(
            ("torus_rings", text, "allreduce")
            for text in ("torus:3x4", "mesh:3x4", "mesh:3x3", "torus:2x3x4")
        ),
        *(("expansion", text, "allreduce") for text in ("L(C(6,{1,2}))", "K(3) * 2", "L^2(K(3))", "K(3)^2")),
        *(("swing", text, "allgather") for text in ("torus:4x4", "hypercube:3")),
        *(("rhd", text, "allreduce") for text in ("hypercube:3", "complete:8")),
    ],
)
def test_a_closed_form_is_the_exact_cost_of_the_schedule(name, text, kind):
    """If routes are single links, the closed form is T_L α + T_B M by the verifier's own table of loads."""
    for size in (2**10, 10**9):
        estimate, schedule, problem = cases(name, text, kind, size)
        cost = step_cost(schedule)
        alpha = max(problem.topology.alpha.floats)
        assert estimate == pytest.approx(cost.tl_steps * alpha + float(cost.bandwidth_time * size), rel=1e-9)
