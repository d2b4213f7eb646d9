"""The exact solution of sparse systems in rationals."""

from fractions import Fraction

import numpy as np
from scipy.sparse import csr_array

from tutti.models.allreduce.certificate import solve_exactly


def test_rational_systems_are_solved_exactly():
    for seed in range(8):
        rng = np.random.default_rng(seed)
        size = int(rng.integers(1, 30))
        sparse = rng.integers(-1, 2, (size, size)) * (rng.random((size, size)) < 0.3)
        dense = sparse + 3 * np.eye(size, dtype=int)
        right = rng.integers(-100, 100, size).tolist()
        found = solve_exactly(csr_array(dense.astype(float)), right)
        assert found is not None, seed
        values = [Fraction(value, found[1]) for value in found[0]]
        for row, goal in zip(dense.tolist(), right, strict=True):
            assert sum(a * value for a, value in zip(row, values, strict=True)) == goal, seed


def test_a_singular_system_is_refused():
    assert solve_exactly(csr_array(np.ones((2, 2))), [1, 2]) is None
