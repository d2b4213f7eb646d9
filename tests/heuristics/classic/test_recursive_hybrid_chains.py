"""Chains: the messages and items that each rank sends in each exchange, counted by hand."""

import numpy as np
import pytest

from tutti.heuristics.classic.recursive_hybrid import Chain, exchanges


def sent(chain):
    """Return for each exchange the numbers of messages and of items that each rank sends."""
    ranks = np.arange(np.prod(chain.radices))
    found = []
    for one in exchanges(chain, ranks):
        pairs = np.unique(np.stack([one.source, one.target]), axis=1)
        messages, items = (np.bincount(sources, minlength=len(ranks)) for sources in (pairs[0], one.source))
        found.append((messages.tolist(), items.tolist()))
    return found


@pytest.mark.parametrize(
    ("chain", "messages", "items"),
    [
        # all eight in one exchange: seven messages with all eight items; or an item each, and back
        (Chain((8,), (0,), 0, (8,)), [7], [56]),
        (Chain((8,), (0,), 1, (8,)), [7, 7], [7, 7]),
        # doubling, and halving: 4 + 2 + 1 items
        (Chain((2, 2, 2), (2, 1, 0), 0, (2, 2, 2)), [1, 1, 1], [8, 8, 8]),
        (Chain((2, 2, 2), (0, 2, 1), 3, (2, 2, 2)), [1] * 6, [4, 2, 1, 1, 2, 4]),
        # a quarter each, summed with the other four, and gathered
        (Chain((2, 4), (1, 0), 1, (2, 4)), [3, 1, 3], [6, 2, 6]),
    ],
)
def test_each_rank_sends_to_those_of_other_digits(chain, messages, items):
    each = [[[number] * 8 for number in pair] for pair in zip(messages, items, strict=True)]
    assert [list(one) for one in sent(chain)] == each


def test_a_folded_digit_has_fewer_ranks_with_sums():
    """The first two of four ranks get two items each, sum them alone, and send them to all."""
    (up, up_items), (down, down_items) = sent(Chain((4,), (0,), 1, (2,)))
    assert (up, up_items) == ([1, 1, 2, 2], [2, 2, 4, 4])
    assert (down, down_items) == ([3, 3, 0, 0], [6, 6, 0, 0])


def test_places_are_those_of_the_grid():
    """Rank 2 stands beside rank 0 if the grid says so."""
    first = exchanges(Chain((2, 2), (1, 0), 0, (2, 2)), np.array([0, 2, 1, 3]))[0]
    assert set(zip(first.source.tolist(), first.target.tolist(), strict=True)) == {
        (0, 2),
        (2, 0),
        (1, 3),
        (3, 1),
    }


@pytest.mark.parametrize(
    ("radices", "scattered", "rows"), [((8,), 0, 448), ((2, 4), 1, 160), ((2, 2, 2), 3, 112)]
)
def test_transfers_are_counted_before_they_are_made(radices, scattered, rows):
    """8 ranks times 56, times 4 + 3 · 4 + 4, times 4 + 2 + 1 + 1 + 2 + 4: as many where digits are folded."""
    chain = Chain(radices, tuple(range(len(radices))), scattered, radices)
    for one in (chain, chain._replace(folds=(1,) * len(radices))):
        assert one.transfers == rows == sum(len(exchange.item) for exchange in exchanges(one, np.arange(8)))
