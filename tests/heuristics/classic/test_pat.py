"""PAT: steps, messages and what has to be kept, counted in its schedules, for any number of ranks."""

from collections import Counter
from math import ceil, log2

import pytest

from tests.sweep import for_each
from tutti.experiments.registry import METHODS
from tutti.topologies import InputError

PAT = METHODS["pat"]
CASES = [(ranks, most) for ranks in (2, 3, 5, 8, 12, 13, 16, 33) for most in (0, 1, 2, 3, 4, 8, 100)]


def span(ranks, most):
    """The distances below one top: the least power of two that leaves at most `most` tops."""
    return next(2**k for k in range(20) if ceil(ranks / 2**k) <= (most or ranks))


@for_each(("ranks", "most"), CASES)
def test_steps_and_messages_are_as_many_as_the_formula_says(made, ranks, most):
    schedule = made(PAT, f"complete:{ranks}", options={"aggregation": most})
    low = span(ranks, most)
    assert schedule.order.max() == ceil(log2(ceil(ranks / low))) + min(low, ranks) - 1
    ends = (schedule.order, schedule.source, schedule.target)
    messages = Counter(zip(*(column.tolist() for column in ends), strict=True))
    assert len(messages) == schedule.order.max() * ranks  # a message a rank and step, to one other
    assert max(messages.values()) <= (most or ceil(ranks / 2))
    assert sum(messages.values()) == ranks * (ranks - 1)  # nothing arrives twice


@for_each(("ranks", "most"), [case for case in CASES if case[1] and span(*case) > 1])
def test_a_rank_keeps_few_shards_to_send_on(made, ranks, most):
    schedule = made(PAT, f"complete:{ranks}", options={"aggregation": most})
    rows = list(zip(schedule.order, schedule.source, schedule.target, schedule.chunk, strict=True))
    last = {(source, chunk): step for step, source, _, chunk in rows}  # rows are in order of steps
    for time in range(1, int(schedule.order.max())):
        kept = Counter(
            target for step, _, target, chunk in rows if step <= time < last.get((target, chunk), 0)
        )
        assert max(kept.values(), default=0) <= most * log2(span(ranks, most))


def test_the_farthest_step_is_first(made):
    """8 ranks: 4 apart with one shard, 2 with two, 1 with four (the paper's order of distances)."""
    schedule = made(PAT, "complete:8")
    away = (schedule.target - schedule.source) % 8
    sent = Counter(zip(schedule.order.tolist(), away.tolist(), strict=True))
    assert sent == {(1, 4): 8, (2, 2): 16, (3, 1): 32}


@pytest.mark.parametrize("kind", ["reduce-scatter", "allreduce"])
@pytest.mark.parametrize("most", [0, 2])
def test_it_is_legal_reversed(made, kind, most):
    made(PAT, "ring:6", kind, options={"aggregation": most})


@pytest.mark.parametrize("value", [-1, 1.5, "2", True, None])
def test_a_wrong_aggregation_is_refused(value):
    with pytest.raises(InputError, match=r"pat option aggregation is .*; it must be an integer"):
        PAT.options(aggregation=value)
