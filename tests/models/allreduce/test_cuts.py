"""The cuts of (B.5): the throughput of a half by its worst set."""

from fractions import Fraction
from itertools import product

import numpy as np

from models.allreduce.cuts import Half, throughput


def test_throughput_is_the_worst_ratio_of_all_sets():
    for seed in range(20):
        rng = np.random.default_rng(seed)
        ranks, arcs = int(rng.integers(2, 7)), int(rng.integers(4, 16))
        ends = rng.integers(0, ranks, (2, arcs)).astype(np.int32)
        half = Half(*ends, rng.integers(0, 9, arcs), rng.integers(0, 4, ranks) + (np.arange(ranks) == 0))
        ratios = [
            Fraction(half.exit(inside), int(half.roots[inside].sum()))
            for inside in map(np.array, product([False, True], repeat=ranks))
            if half.roots[inside].sum() and not inside.all()
        ]
        assert throughput(half)[0] == min(ratios), seed
