"""What checks of certificates count."""

from fractions import Fraction

import numpy as np
import pytest

from tutti.models.bounds.certificate import items_of, share_out
from tutti.schedules import collective

PROBLEMS = [
    *(collective(kind, 5) for kind in ("allgather", "reduce-scatter", "allreduce", "all-to-all")),
    collective("broadcast", 5, root=2),
    collective("gather", 5, root=2, shards=[1, 0, 2, 3, 1]),
    collective("allgather", 5, groups=[[0, 3], [1, 4]]),
    collective("all-to-all", 5, groups=[[4, 0], [1, 3]]),
]


@pytest.mark.parametrize("problem", PROBLEMS, ids=str)
def test_the_share_out_of_a_set_is_that_of_its_items_one_by_one(problem):
    rng = np.random.default_rng(0)
    for _ in range(40):
        inside = frozenset(np.flatnonzero(rng.random(7) < 0.5).tolist())  # 5 and 6 are switches
        one_by_one = Fraction(0)
        for item in items_of(problem):
            if not item.starts.isdisjoint(inside) and not item.ends <= inside:
                one_by_one += item.share
        assert share_out(problem, inside) == one_by_one
