"""The search for a number of pieces, and even cuts."""

from typing import NamedTuple

import numpy as np

from tutti.schedules.list_scheduling.piece_counts import FINE, cut, improved


class Took(NamedTuple):
    """The time of a candidate."""

    seconds: int
    candidate: int


def test_the_search_ends_after_so_many_that_do_not_help():
    times = {1: 9, 2: 7, 3: 8, 4: 6, 5: 6, 6: 7, 7: 1}
    for patience, best, last in ((1, 2, 3), (2, 4, 6), (None, 7, 7)):
        tried = []

        def attempt(candidate, tried=tried):
            tried.append(candidate)
            return Took(times[candidate], candidate)

        found = improved(Took(9, 0), range(1, 8), attempt, patience=patience)
        assert found.candidate == best if patience != 1 else found.candidate == 0
        assert tried[-1] == (last if patience != 1 else 1)


def test_what_cannot_help_is_not_tried():
    found = improved(
        Took(5, 0), [4, 6, 3], lambda each: Took(each, each), floor=lambda each: each, patience=None
    )
    assert found.candidate == 3


def test_pieces_follow_each_other_and_differ_by_one_unit_at_most():
    for seed in range(40):
        rng = np.random.default_rng(seed)
        weight, counts = rng.integers(1, 20, 5), rng.integers(1, 30, 5)
        for finest in (1, 10**9):
            pieces = cut(weight, counts, int(weight.sum()), finest)
            assert pieces.begin[0] == 0, seed
            assert pieces.end[-1] == pieces.units, seed
            assert (pieces.begin[1:] == pieces.end[:-1]).all(), seed
            for part, number in enumerate(counts.tolist()):
                own = pieces.part == part
                size = (pieces.end - pieces.begin)[own]
                assert pieces.place[own].tolist() == list(range(number)), seed
                assert sum(size.tolist()) * int(weight.sum()) == pieces.units * int(weight[part]), seed
                assert size.max() - size.min() <= (finest == 1), seed
            assert finest > 1 or pieces.units in (int(weight.sum()), int(weight.sum()) * FINE), seed
