"""The constraint program: its families by name, and what each forbids."""

from fractions import Fraction

import pytest
from ortools.sat.python import cp_model

from tests.models.optimum.cases import problem
from tutti.models.optimum import TimedInstance
from tutti.models.optimum.program import TickProgram
from tutti.models.time_expanded import ChunkInstance


def program(*, cut_through=False):
    """Return that of a broadcast along a path of 3 ranks: two chunks of a tick a link each, without α."""
    task = problem("mesh:3x1?alpha=0us", 2000, "broadcast", root=0)
    timed = TimedInstance(ChunkInstance(task.topology, task.collective, 2), Fraction(2000), cut_through)
    assert (timed.alpha[0], timed.move[0]) == (0, 1)
    return TickProgram(timed, deadline=8, least=0)


def test_every_family_is_a_function_of_its_name():
    """Messages last, are used, follow each other; chunks come once, are there when sent; all by the end."""
    families = [
        "a_message_lasts_alpha_and_its_chunks",
        "a_message_is_used_if_it_has_a_chunk",
        "messages_of_a_link_follow_each_other",
        "used_messages_come_first",
        "a_message_goes_on_at_most_once",
        "what_goes_on_is_the_same_message",
        "a_chunk_is_sent_after_it_has_come",
        "a_chunk_has_come_when_its_message_ends",
        "a_chunk_comes_once",
        "a_rank_sends_what_came",
        "the_end_is_after_every_arrival",
    ]
    for name in families:
        assert TickProgram.__dict__[name].__doc__


def test_the_least_time_is_that_by_hand():
    """The second chunk crosses the first link in tick 2 and the second link in tick 3."""
    built, solver = program(), cp_model.CpSolver()
    assert solver.solve(built.model) == cp_model.OPTIMAL
    assert solver.value(built.last) == 3
    assert sorted(row.chunk for row in built.rows(solver)) == [0, 0, 1, 1]


@pytest.mark.parametrize(
    ("arrivals", "legal"),
    [
        ({(0, 2): 1}, False),  # over two links, two ticks
        ({(0, 1): 1, (1, 1): 1}, False),  # a link carries a chunk a tick
        ({(0, 1): 2, (1, 1): 2, (0, 2): 4, (1, 2): 4}, True),  # both as one message
        ({(0, 1): 1, (1, 1): 3, (0, 2): 2, (1, 2): 4}, True),  # links may wait
        ({(0, 1): 3, (0, 2): 3}, False),  # a chunk is not cut through a rank
    ],
)
def test_when_chunks_may_come(arrivals, legal):
    built = program()
    for place, ticks in arrivals.items():
        built.model.add(built.at[place] == ticks)
    status = cp_model.CpSolver().solve(built.model)
    assert (status in (cp_model.OPTIMAL, cp_model.FEASIBLE)) == legal


@pytest.mark.parametrize(
    ("arrivals", "legal"),
    [
        ({(0, 2): 1}, True),  # through rank 1, which does not have it then
        ({(0, 1): 1, (0, 2): 1}, False),  # it would be for both
        ({(0, 2): 1, (0, 1): 2}, True),
        ({(0, 2): 2, (1, 2): 2, (0, 1): 2}, False),  # the first link carries a chunk a tick
        ({(0, 2): 2, (1, 2): 2, (0, 1): 3, (1, 1): 3}, True),  # one of them comes back
    ],
)
def test_when_chunks_may_come_that_cut_through(arrivals, legal):
    built = program(cut_through=True)
    for place, ticks in arrivals.items():
        built.model.add(built.at[place] == ticks)
    status = cp_model.CpSolver().solve(built.model)
    assert (status in (cp_model.OPTIMAL, cp_model.FEASIBLE)) == legal
