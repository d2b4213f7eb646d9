"""Exact epochs, TACOS's time-expanded network: the least time is that of brute force, SCCL and CP-SAT."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from tests.models.teccl.cases import epochs_of, made, problem
from tutti.models.optimum import METHOD as OPTIMUM
from tutti.models.sccl.search import in_rounds
from tutti.models.time_expanded import ChunkInstance
from tutti.schedules.retiming import ends
from tutti.topologies import NoSchedule

US = Fraction(1, 10**6)


def least_slots(epochs):
    """Try everything: in each slot every idle link begins any chunk that its target lacks, or nothing.

    A state says when each chunk is at each node (0: there) and when each link is free, in slots from now.
    """
    links, far = epochs.ends, 10**6
    at = tuple(tuple(0 if held else far for held in row) for row in epochs.instance.held.tolist())
    states, slots = {(at, (0,) * len(links))}, 0
    while not any(all(at[c][n] == 0 for c, n in epochs.instance.wanted) for at, _ in states):
        slots += 1
        states = {after for state in states for after in _after(state, links, epochs.lasts, far)}
    return slots


def _after(state, links, lasts, far):
    at, free = state
    choices = [
        [None, *(c for c, row in enumerate(at) if row[a] == 0 and row[b] == far)] if free[e] == 0 else [None]
        for e, (a, b) in enumerate(links)
    ]
    for chosen in product(*choices):
        sent = [(c, links[e][1], e) for e, c in enumerate(chosen) if c is not None]
        if len({(c, b) for c, b, _ in sent}) < len(sent):
            continue  # one copy is enough
        come, busy = [list(row) for row in at], list(free)
        for c, b, e in sent:
            come[c][b] = busy[e] = lasts[e]
        yield (
            tuple(tuple(max(0, t - 1) if t < far else far for t in row) for row in come),
            tuple(max(0, t - 1) for t in busy),
        )


SMALL = [
    ("uniring:4", "allgather", 1),
    ("mesh:3x1?bandwidth=50GB/s&alpha=1us", "allgather", 1),
    ("ring:3?degrade=0>1:1/2,2>0:1/3&alpha=0us", "allgather", 1),
    ("gen_kautz:2,4?degrade=0>2:1/3", "broadcast", 1),
    ("mesh:2x2?bandwidth=50GB/s,25GB/s&alpha=0us", "broadcast", 2),
]


@pytest.mark.parametrize(("text", "kind", "chunks"), SMALL)
def test_the_least_time_is_that_of_trying_everything(text, kind, chunks):
    root = {"root": 0} if kind == "broadcast" else {}
    task = problem(text, kind, size=600_000, **root)
    epochs = epochs_of(task, chunks, "exact")
    found = made(task, epoch="exact", chunks=chunks, cuts=False)
    assert (found.stats["solver_gap"], found.stats["epochs"]) == (0, least_slots(epochs))


@pytest.mark.parametrize("text", ["ring:5", "mesh:2x3", "gen_kautz:2,5", "hypercube:3"])
def test_between_like_links_it_is_the_fewest_steps_of_one_round_each(text):
    """A slot of the network is a step of SCCL in which every link carries one chunk."""
    task = problem(text)
    slots = made(task, epoch="exact", cuts=False).stats["epochs"]
    instance = ChunkInstance(task.topology, task.collective, 1)
    assert in_rounds(instance, slots, slots).ticks == slots
    with pytest.raises(NoSchedule):
        in_rounds(instance, slots - 1, slots - 1)


@pytest.mark.parametrize(
    "text",
    [
        "mesh:2x2?bandwidth=50GB/s,20GB/s&alpha=0us",
        "ring:4?degrade=0-1:0.5&alpha=0us",
        "uniring:4?degrade=1>2:1/3&alpha=0us",
        "mesh:3x1?bandwidth=30GB/s&degrade=0-1:1/2&alpha=0us",
    ],
)
def test_without_alpha_no_message_of_several_chunks_is_faster(text):
    """Its least time over links is CP-SAT's, whose messages carry any number of chunks."""
    task = problem(text)
    options = OPTIMUM.options(chunks=1, start="none", cuts=False)
    least = OPTIMUM.synthesize(task, options, np.random.default_rng(0))
    found = made(task, epoch="exact", cuts=False)
    assert (least.stats["solver_gap"], found.stats["solver_gap"]) == (0, 0)
    assert found.stats["epochs"] * found.tick == ends(least)


def test_nothing_is_rounded_and_a_chunk_goes_alone():
    """Chunks of 100 kB take 1 + 2 us and 1 + 5 us, so a slot is 3 us."""
    epochs = epochs_of(problem("mesh:2x2?bandwidth=50GB/s,20GB/s&alpha=1us", size=400_000), 1, "exact")
    assert epochs.tick == 3 * US
    assert set(epochs.lasts) == {1, 2}
    assert set(epochs.carries) == {1}
