"""Stages against the theorem: what they send, to whom, and that they take no longer than they must."""

import time

import numpy as np
import pytest

from tutti.heuristics.birkhoff.stages import Stages, sliced, stages


def random_matrix(seed):
    rng = np.random.default_rng(seed)
    size = int(rng.integers(2, 9))
    matrix = rng.integers(0, 10 ** int(rng.integers(1, 15)), (size, size))
    matrix[rng.random((size, size)) < rng.random()] = 0
    np.fill_diagonal(matrix, 0)
    return matrix if matrix.any() else matrix + 1 - np.eye(size, dtype=np.int64)


def sent(found, size):
    total = np.zeros((size, size), dtype=object)
    for target, amount in zip(found.target.tolist(), found.amount.tolist(), strict=True):
        assert sorted(target) == list(range(size))  # one to one
        for host, (other, much) in enumerate(zip(target, amount, strict=True)):
            assert much >= 0
            total[host, other] += much
    return total


def busiest(matrix):
    return max([sum(map(int, row)) for row in matrix] + [sum(map(int, column)) for column in matrix.T])


@pytest.mark.parametrize("seed", range(40))
def test_stages_send_the_matrix_in_the_time_of_the_busiest_host(seed):
    matrix = random_matrix(seed)
    found, size = stages(matrix), len(matrix)
    assert (sent(found, size) == matrix).all()
    assert sum(map(int, found.amount.max(axis=1))) == busiest(matrix)
    assert len(found.target) <= size * size - 2 * size + 2


@pytest.mark.parametrize("seed", range(20))
def test_a_grain_costs_at_most_one_for_each_host(seed):
    matrix = random_matrix(seed)
    grain = busiest(matrix) // 50 + 1
    found, size = stages(matrix, grain), len(matrix)
    assert (sent(found, size) == matrix).all()
    assert sum(map(int, found.amount.max(axis=1))) <= busiest(matrix) + size * grain


@pytest.mark.parametrize("parts", [1, 3, 100])
def test_slices_send_the_same_in_no_more_than_their_part_of_the_time(parts):
    matrix = random_matrix(7)
    whole = stages(matrix)
    found = sliced(whole, parts)
    assert (sent(found, len(matrix)) == matrix).all()
    time_of_all = int(whole.amount.max(axis=1).sum())
    assert found.amount.max() <= -(-time_of_all // parts) + 1


def test_equal_amounts_take_one_stage_for_each_other_host():
    found = stages(1 - np.eye(5, dtype=np.int64))
    assert found.amount.max(axis=1).tolist() == [1] * 4


def test_nothing_to_send_takes_no_stage():
    found = stages(np.zeros((3, 3), np.int64))
    assert found.target.shape == (0, 3)
    assert sliced(found, 10).amount.shape == (0, 3)


def test_forty_hosts_take_milliseconds():
    rng = np.random.default_rng(0)
    matrix = rng.integers(0, 10**9, (40, 40))
    np.fill_diagonal(matrix, 0)
    stages(matrix)  # compiles
    taken = []
    for _ in range(5):
        begin = time.thread_time()
        found = stages(matrix)
        taken.append(time.thread_time() - begin)
    assert isinstance(found, Stages)
    assert min(taken) < 0.05
