"""Shares of a switch: the capacities that are kept, their ends, and how even they are."""

import numpy as np
import pytest

from tutti.topologies.trees.switch_removal_heuristic import Bundles, Side, pair_up, shares


def side(units, block):
    return Side(np.array(units, dtype=np.int64), np.array(block, dtype=np.int64))


def table(result, rows, columns):
    units = np.zeros((rows, columns), dtype=np.int64)
    np.add.at(units, (result.row, result.column), result.units)
    return units


@pytest.mark.parametrize("evenly", [False, True])
def test_no_node_gives_or_takes_more_than_it_has_and_nothing_comes_back_to_a_block(evenly):
    rng = np.random.default_rng(3)
    for _ in range(100):
        blocks = int(rng.integers(2, 5))
        before, after = (np.sort(np.append(rng.integers(0, blocks, 6), range(blocks))) for _ in range(2))
        given, taken = (rng.integers(0, 20, len(block)) for block in (before, after))
        units = table(shares(side(given, before), side(taken, after), blocks, evenly), len(given), len(taken))
        assert (units >= 0).all()
        assert (units.sum(axis=1) <= given).all()
        assert (units.sum(axis=0) <= taken).all()
        assert (units[before[:, None] == after] == 0).all()


@pytest.mark.parametrize(("blocks", "size", "each"), [(2, 3, 7), (3, 8, 23), (4, 2, 10), (5, 1, 13)])
def test_equal_blocks_are_joined_place_by_place_all_units_used_and_shares_apart_by_one(blocks, size, each):
    block = np.repeat(np.arange(blocks), size)
    whole = side([each] * len(block), block)
    units = table(shares(whole, whole, blocks, False), len(block), len(block))
    assert (units.sum(axis=0) == each).all()
    assert (units.sum(axis=1) == each).all()
    place = np.arange(len(block)) % size
    assert (units[place[:, None] != place] == 0).all()
    used = units[(place[:, None] == place) & (block[:, None] != block)]
    assert used.max() - used.min() <= 1


def test_units_are_laid_over_the_arcs_of_both_ends_within_what_they_have():
    rng = np.random.default_rng(4)
    for _ in range(100):
        block = np.repeat(np.arange(3), 2)
        given = rng.integers(1, 9, (6, 2))  # two arcs for each node
        taken = rng.integers(1, 9, (6, 3))
        found = shares(side(given.sum(axis=1), block), side(taken.sum(axis=1), block), 3, True)
        ends = (Bundles(np.arange(7) * a.shape[1], a.reshape(-1).copy()) for a in (given, taken))
        arcs = table(pair_up(found, *ends), 12, 18)
        assert (arcs.sum(axis=1) <= given.reshape(-1)).all()
        assert (arcs.sum(axis=0) <= taken.reshape(-1)).all()
        assert (arcs.reshape(6, 2, 6, 3).sum(axis=(1, 3)) == table(found, 6, 6)).all()
