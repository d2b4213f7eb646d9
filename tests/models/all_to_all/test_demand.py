"""Demands: exact, whatever they are given as; bad ones are named."""

from fractions import Fraction

import numpy as np
import pytest

from models.all_to_all import Demand
from schedules import collective
from topologies import InputError, parse_topology


def test_demands_of_a_matrix_are_exact_and_the_diagonal_is_ignored():
    demand = Demand.from_matrix(parse_topology("ring:3"), [[9, 0.1, "1/3"], [0, float("nan"), 2], [1, 0, 0]])
    assert demand[0, 1] == Fraction(1, 10)
    assert demand[0, 2] == Fraction(1, 3)
    assert demand[1, 1] == 0
    assert demand.total == 3 + Fraction(13, 30)


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        ([[0, 1], [1, 0]], "must be 3 x 3"),
        (
            [[0, -1, 0], [0, 0, 0], [0, 0, 0]],
            "demand of 0->1 on ring:3 is -1; it must be a number, at least 0",
        ),
        ([[0, 1, 0], [0, 0, float("nan")], [0, 0, 0]], "demand of 1->2 on ring:3 is nan"),
        ([[0, 1, 0], [0, 0, 0], [float("inf"), 0, 0]], "demand of 2->0 on ring:3 is inf"),
        ([[0, 1, 0], [0, 0, "many"], [0, 0, 0]], "demand of 1->2 on ring:3 is 'many'"),
        ([[0, 0, 0], [0, 0, 0], [0, 0, 0]], "nothing is to be sent"),
        ([[0, 2**62, 0], [2**62, 0, 0], [0, 0, 0]], "does not fit 64 bits"),
    ],
)
def test_bad_demands_are_named(matrix, message):
    with pytest.raises(InputError, match=message):
        Demand.from_matrix(parse_topology("ring:3"), matrix)


def test_bad_arrays_of_demands_are_named():
    topology = parse_topology("ring:3")
    with pytest.raises(InputError, match=r"not of shape \(2, 2\)"):
        Demand(topology, np.ones((2, 2), dtype=np.int64), 1)
    with pytest.raises(InputError, match="rank 0 has a demand on itself"):
        Demand(topology, np.ones((3, 3), dtype=np.int64), 1)
    with pytest.raises(InputError, match="denominator 0"):
        Demand(topology, 1 - np.eye(3, dtype=np.int64), 0)
    with pytest.raises(InputError, match="allgather is no flow between pairs"):
        Demand.of(topology, collective("allgather", 3))
    with pytest.raises(InputError, match="over 4 ranks on ring:3"):
        Demand.of(topology, collective("all-to-all", 4))
