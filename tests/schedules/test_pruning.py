"""Pruning against walks back from every postcondition, on random histories."""

import random

import numpy as np
import pytest

from tutti.schedules.reversal import useful_transfers


def history(rng, chunks, nodes, rows):
    """Return transfers, each to a node that lacks the chunk, and the chunks that nodes must have."""
    held = [{rng.randrange(nodes)} for _ in range(chunks)]
    sends = []
    for _ in range(rows):
        c = rng.randrange(chunks)
        lacking = sorted(set(range(nodes)) - held[c])
        if lacking:
            a, b = rng.choice(sorted(held[c])), rng.choice(lacking)
            held[c].add(b)
            sends.append((c, a, b))
    wanted = np.zeros((chunks, nodes), np.bool_)
    for c, there in enumerate(held):
        wanted[c, rng.sample(sorted(there), rng.randint(0, len(there)))] = True
    return sends, wanted


@pytest.mark.parametrize("seed", range(20))
def test_what_is_left_are_the_walks_to_the_postconditions(seed):
    """Each node has a chunk from one transfer at most, so there is one walk back from it."""
    rng = random.Random(seed)
    sends, wanted = history(rng, rng.randint(1, 4), rng.randint(2, 6), rng.randint(1, 20))
    brought = {(c, b): row for row, (c, _, b) in enumerate(sends)}
    walked = set()
    for c, node in np.argwhere(wanted).tolist():
        while (c, node) in brought:
            row = brought[c, node]
            walked.add(row)
            node = sends[row][1]
    chunk, source, target = np.array(sends).T
    assert set(np.flatnonzero(useful_transfers(chunk, source, target, wanted)).tolist()) == walked


def test_where_nothing_is_wanted_nothing_is_left():
    none = np.zeros(0, np.int64)
    assert len(useful_transfers(none, none, none, np.ones((1, 2), np.bool_))) == 0
    assert not useful_transfers(*np.array([[0], [0], [1]]), np.zeros((1, 2), np.bool_)).any()
