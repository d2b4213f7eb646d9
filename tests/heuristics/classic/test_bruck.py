"""Bruck's algorithm: as many steps as the logarithm of the ranks."""

import pytest

from experiments.registry import METHODS
from tests.sweep import for_each
from topologies.text import parse_topology


@for_each("text", ["ring:5", "complete:7", "torus:3x3", "gen_kautz:2,6"])
@pytest.mark.parametrize("kind", ["allgather", "reduce-scatter", "allreduce", "all-to-all"])
def test_bruck_is_legal_for_any_number_of_ranks(made, text, kind):
    steps = {5: 3, 6: 3, 7: 3, 9: 4}[parse_topology(text).num_ranks]  # ceil(log2 N)
    assert made(METHODS["bruck"], text, kind).order.max() == steps * (2 if kind == "allreduce" else 1)
