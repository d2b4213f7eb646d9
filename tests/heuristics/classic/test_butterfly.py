"""Butterflies: the data that ranks hold, with partners given by hand."""

import numpy as np

from tutti.heuristics.classic.butterfly import doubling, exchanging, holdings

SQUARE = [np.array([1, 0, 3, 2]), np.array([2, 3, 0, 1])]


def test_what_ranks_hold_doubles():
    assert [set(map(frozenset, held.tolist())) for held in holdings(SQUARE)] == [
        {frozenset({rank}) for rank in range(4)},
        {frozenset({0, 1}), frozenset({2, 3})},
    ]


def test_partners_send_all_that_they_have():
    rows = list(zip(*(column.tolist() for column in doubling(SQUARE)), strict=True))
    assert sorted(row for row in rows if row[1] == 0) == [(1, 0, 1, 0), (2, 0, 2, 0), (2, 0, 2, 1)]


def test_partners_exchange_all_chunks_in_every_step():
    rows = list(zip(*(column.tolist() for column in exchanging(SQUARE, np.array([5, 7]))), strict=True))
    assert sorted(row for row in rows if row[1] == 3) == [
        (1, 3, 2, 5),
        (1, 3, 2, 7),
        (2, 3, 1, 5),
        (2, 3, 1, 7),
    ]
