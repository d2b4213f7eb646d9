"""The transfer table, and the properties that follow from its columns."""

import numpy as np
import pytest

from tutti.schedules import Chunks, Clock, Routes, Schedule, collective
from tutti.topologies import Link, Topology


@pytest.fixture
def path():
    """Return the path 0 - 1 - 2 with links 0->1, 1->0, 1->2, 2->1."""
    return Topology.from_links("path", 3, [Link(0, 1), Link(1, 0), Link(1, 2), Link(2, 1)])


def one_row(path, **columns):
    what = collective("broadcast", 3)
    table = {"chunk": [0], "route": [0], "order": np.array([1])} | columns
    return Schedule(path, what, Clock.STEP, Chunks.even(what, 4), **table)


def test_source_and_target_follow_from_the_route(path):
    schedule = one_row(path, routes=Routes.of([[0, 2], [3]]))
    assert (schedule.source.tolist(), schedule.target.tolist()) == ([0], [2])


def test_a_route_table_that_is_the_identity_is_dropped(path):
    assert one_row(path, routes=Routes.of([[0], [1], [2], [3]])).routes is None
    assert one_row(path, routes=Routes.of([[0], [1], [3], [2]])).routes is not None
    assert len(one_row(path).route_table) == path.num_links


def test_a_run_carries_the_sum_of_its_chunks(path):
    assert one_row(path, count=[3]).load.tolist() == [3]
    assert one_row(path).load.tolist() == [1]


def test_columns_cannot_be_written(path):
    schedule = one_row(path)
    with pytest.raises(ValueError, match="read-only"):
        schedule.chunk[0] = 1


def test_replacing_a_column_leaves_the_schedule_as_it_was(path):
    schedule = one_row(path)
    assert schedule.replace(order=np.array([2])).order.tolist() == [2]
    assert schedule.order.tolist() == [1]


def test_copies_are_of_the_chunk_before_them():
    chunks = Chunks(np.array([0, 0, 0, 0, 1]), np.array([1, 1, 1, 2, 3]), 6, np.array([-1, 0, 1, -1, -1]))
    assert chunks.original.tolist() == [0, 0, 0, 3, 4]
    assert chunks.tiling_size.tolist() == [1, 0, 0, 2, 3]
    assert Chunks(chunks.item, chunks.size, 6, np.full(5, -1)).copy_of is None
