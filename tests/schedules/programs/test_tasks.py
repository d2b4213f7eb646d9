"""Tasks for simulators, by hand."""

from fractions import Fraction

import pytest

from tests.schedules.programs.replays import made
from tutti.schedules.programs.tasks import Action, RankTask, tasks_of, unit_bytes

SIZE = Fraction(12 * 10**6)


def played(network, kind, method, rank=0):
    """Return the tasks of a rank, without tags."""
    tasks = tasks_of(made(network, kind, method), SIZE).ranks[rank]
    return [task._replace(tag=-1) for task in tasks]


def test_a_ring_passes_on_what_it_received():
    """Rank 0 of three sends its own shard to rank 1 and forwards rank 2's; copies are left out."""
    assert played("uniring:3", "allgather", "ring") == [
        RankTask(Action.SEND, 1, (), 1),
        RankTask(Action.RECV, 1, (), 2),
        RankTask(Action.SEND, 1, (1,), 1),
        RankTask(Action.RECV, 1, (), 2),
    ]


def test_who_needs_a_sum_waits_for_all_that_is_added_and_for_no_send():
    """Each of three ranks sends parts to both others, adds two to its own, and sends the sum to both."""
    tasks = played("complete:3", "allreduce", "direct")
    sums = [number for number, task in enumerate(tasks) if task.action is Action.SUM]
    assert [tasks[task.after[0]].action for task in tasks if task.action is Action.SUM] == [Action.RECV] * 2
    sends = [task for task in tasks if task.action is Action.SEND]
    assert [task.after for task in sends] == [(), (), tuple(sums), tuple(sums)]
    assert [task.after for task in tasks if task.action is Action.RECV] == [()] * 4


def test_tasks_are_in_the_order_of_the_schedule():
    """Rank r sends to r + 1 first in an all-to-all behind a switch, so no rank receives from two."""
    for rank in range(8):
        tasks = played("dgx_a100:1", "all-to-all", "direct", rank)
        peers = [task.peer for task in tasks if task.action is Action.SEND]
        assert peers == [(rank + step) % 8 for step in range(1, 8)]


def test_a_message_of_a_step_is_one_send():
    """Recursive doubling sends all data of a rank in each of its two steps."""
    actions = [task.action for task in played("complete:4", "allreduce", "recursive_doubling")]
    assert sorted(actions) == sorted([Action.SEND, Action.RECV, Action.SUM] * 2)


@pytest.mark.parametrize(("size", "units", "unit"), [(48, 24, 2), (25, 24, 2), (1, 24, 1), (2999, 1000, 3)])
def test_units_are_whole_bytes_and_no_fewer_than_were_asked_for(size, units, unit):
    found, said = unit_bytes(units, Fraction(size))
    assert (found, bool(said)) == (unit, unit * units != size)
