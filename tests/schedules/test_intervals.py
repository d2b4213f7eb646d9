"""The buffer as a line: chunks against a line walked unit by unit, and intervals of trees on arcs."""

from fractions import Fraction

import numpy as np
import pytest

from tutti.schedules import collective
from tutti.schedules.intervals import (
    CutLine,
    IntervalTransfers,
    interval_schedule,
    line_width,
    tree_transfers,
)
from tutti.topologies import parse_topology
from tutti.topologies.errors import NoSchedule, TuttiError
from tutti.topologies.trees.forest import Forest, LogicalNetwork


def random_line(seed):
    """Return an allreduce of 2 to 6 items, some empty, a width, and intervals of the line."""
    rng = np.random.default_rng(seed)
    ranks = int(rng.integers(2, 7))
    parts = rng.integers(0, 4, ranks)
    parts[int(rng.integers(ranks))] += 1
    shards = [Fraction(int(part), int(parts.sum())) for part in parts]
    what = collective("allreduce", ranks, shards=shards)
    width = line_width(what, int(rng.integers(1, 6)))
    ends = np.sort(rng.integers(0, width + 1, (2, 8)), axis=0)
    begin, end = ends[:, ends[0] < ends[1]]
    return what, width, begin, end


def units_of(what, width):
    """Return the item of each unit along the line."""
    share = what.items.share
    return [i for i in range(len(share)) for _ in range(int(share[i] * width))]


def test_chunks_tile_the_line_item_by_item_and_are_cut_where_intervals_end():
    for seed in range(60):
        what, width, begin, end = random_line(seed)
        line = CutLine.of(what, width, np.concatenate([begin, end]))
        walked, units = units_of(what, width), []
        for item, start, size in zip(line.item, line.start, line.size, strict=True):
            assert walked[start : start + size] == [item] * int(size), seed
            units += range(start, start + size)
        assert units == list(range(width)), seed
        assert set(begin) | set(end) <= {*line.start.tolist(), width}, seed
        empty = [i for i in range(len(what.items.share)) if not what.items.share[i]]
        assert line.item[line.size == 0].tolist() == empty, seed


def test_runs_have_of_every_item_what_the_interval_has():
    for seed in range(60):
        what, width, begin, end = random_line(seed)
        line = CutLine.of(what, width, np.concatenate([begin, end]))
        walked = units_of(what, width)
        found = {}
        for chunk, count, interval in zip(*line.runs(begin, end), strict=True):
            run = slice(chunk, chunk + count)
            assert len(set(line.item[run].tolist())) == 1, seed
            if line.size[chunk]:
                found[int(interval), int(line.item[chunk])] = int(line.size[run].sum())
        expected = {
            (i, item): walked[a:b].count(item)
            for i, (a, b) in enumerate(zip(begin, end, strict=True))
            for item in set(walked[a:b])
        }
        assert found == expected, seed
        chunks, interval = line.each_chunk(begin, end)
        moved = np.zeros(len(begin), dtype=np.int64)
        np.add.at(moved, interval, line.size[chunks])
        assert moved.tolist() == (end - begin).tolist(), seed


def test_an_empty_item_goes_where_the_unit_goes_at_which_it_would_begin():
    what = collective("allreduce", 3, shards=[Fraction(1, 2), Fraction(0), Fraction(1, 2)])
    line = CutLine.of(what, 4, np.array([1, 3]))
    chunks, interval = line.each_chunk(np.array([0, 2]), np.array([2, 4]))
    assert interval[line.item[chunks] == 1].tolist() == [1]


TWO_ARCS = LogicalNetwork(3, [0, 0, 1], [1, 1, 2], [1, 2, 3], [0, 1, 2, 3], [7, 8, 9])
"""Two arcs lead from 0 to 1, with capacities 1 and 2, and one leads on to 2."""


def test_trees_fill_the_arcs_of_a_pair_in_turn():
    moved = tree_transfers(TWO_ARCS, Forest([0, 0], [2, 1], [[-1, 0, 1], [-1, 0, 1]]), up=False, down=True)
    rows = sorted(zip(*(column.tolist() for column in moved), strict=True))
    assert rows == [(0, 1, 0, 1), (0, 2, 2, 2), (1, 2, 1, 1), (2, 3, 1, 1), (2, 3, 2, 2)]


def test_what_continues_over_one_arc_is_merged():
    moved = tree_transfers(TWO_ARCS, Forest([0, 0], [2, 1], [[-1, 0, 1], [-1, 0, 1]]), up=False, down=True)
    rows = list(zip(*(column.tolist() for column in moved.merged()), strict=True))
    assert rows == [(0, 1, 0, 1), (1, 3, 1, 1), (0, 3, 2, 2)]


def test_reductions_come_first_from_the_deepest_on():
    both = LogicalNetwork(3, [0, 1, 1, 2], [1, 0, 2, 1], [1] * 4, [0, 1, 2, 3, 4], [0, 1, 2, 3])
    moved = tree_transfers(both, Forest([0], [1], [[-1, 0, 1]]), up=True, down=True).in_turn()
    assert moved.turn.tolist() == [-2, -1, 1, 2]
    assert moved.arc.tolist() == [3, 1, 0, 2]


@pytest.mark.parametrize(("weight", "parent", "pair"), [(4, [-1, 0, 1], "0 to 1"), (1, [-1, 2, 0], "2 to 1")])
def test_trees_that_do_not_fit_the_arcs_are_refused(weight, parent, pair):
    with pytest.raises(TuttiError, match=f"need more capacity from rank {pair} than the arcs have"):
        tree_transfers(TWO_ARCS, Forest([0], [weight], [parent]), up=False, down=True)


def test_a_table_that_would_be_too_large_is_refused(monkeypatch):
    monkeypatch.setattr("tutti.schedules.intervals.MOST_TRANSFERS", 3)
    one = np.array([1])
    transfer = IntervalTransfers(0 * one, 4 * one, 0 * one, one)
    with pytest.raises(NoSchedule, match="allreduce on ring:4: 4 transfers; a table has at most 3"):
        interval_schedule(parse_topology("ring:4"), collective("allreduce", 4), transfer, 4)
