"""Demands: those of a collective, and bad ones named."""

from fractions import Fraction

import numpy as np
import pytest

from tutti.models.all_to_all import Demand
from tutti.schedules import collective
from tutti.topologies import InputError, parse_topology


def test_uneven_shards_are_exact_demands():
    """Rank s of shards 1:2:3 sends t its own share of M, a third of it to each; nothing to itself."""
    topology = parse_topology("ring:3")
    demand = Demand.of(topology, collective("scatter", 3, root=1, shards=[1, 2, 3]))
    assert [demand[1, t] for t in range(3)] == [Fraction(1, 6), 0, Fraction(3, 6)]
    assert demand.sources.tolist() == [1]
    assert demand.sinks.tolist() == [0, 2]
    assert demand.reverse[0, 1] == Fraction(1, 6)


@pytest.mark.parametrize(
    ("amounts", "message"),
    [
        ([[0, 1], [1, 0]], r"must be 3 x 3, not of shape \(2, 2\)"),
        (
            [[0, -1, 0], [0, 0, 0], [0, 0, 0]],
            "demand of 0->1 on ring:3 is -1; it must be a number, at least 0",
        ),
        ([[0, 1, 0], [0, 3, 0], [0, 0, 0]], "rank 1 has a demand on itself"),
        ([[0, 2**62, 0], [2**62, 0, 0], [0, 0, 0]], "does not fit 64 bits"),
    ],
)
def test_bad_demands_are_named(amounts, message):
    with pytest.raises(InputError, match=message):
        Demand(parse_topology("ring:3"), np.array(amounts), 1)


def test_bad_collectives_are_named():
    topology = parse_topology("ring:3")
    with pytest.raises(InputError, match="denominator 0"):
        Demand(topology, 1 - np.eye(3, dtype=np.int64), 0)
    with pytest.raises(InputError, match="allgather is no flow between pairs"):
        Demand.of(topology, collective("allgather", 3))
    with pytest.raises(InputError, match="over 4 ranks on ring:3"):
        Demand.of(topology, collective("all-to-all", 4))
