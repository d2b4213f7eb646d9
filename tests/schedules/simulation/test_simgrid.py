"""The messages that the SimGrid script starts and, if SimGrid is installed, its times."""

import json
import subprocess
from pathlib import Path

import pytest

from tests.schedules.programs.replays import made
from tests.schedules.simulation.simgrid_player import Messages, Queue, quantity
from tests.schedules.simulation.test_other_rules import over_two_links, two_to_one
from tutti.schedules.files.schedule_file import to_document

PYTHON, PLAYER = "/usr/bin/python3", Path(__file__).with_name("simgrid_player.py")


def test_quantities_are_bytes_and_microseconds():
    texts = ("50GB/s", "2400/7MB/s", "1GiB/s", "0.5us", "700ns", "1s")
    expected = (50_000, 2400 / 7, 2**30 / 1e6, 0.5, 0.7, 1e6)
    assert [quantity(text) for text in texts] == pytest.approx(expected)


def test_a_ring_sends_on_what_came_a_step_before():
    """Four ranks each send two halves in each of three steps: 24 messages of an eighth of M."""
    messages = Messages(to_document(made("ring:4", "allgather", "ring")), 800, 1)
    assert messages.bytes == [100.0] * 24
    assert [len(after) for after in messages.after] == [0] * 8 + [1] * 16
    assert all(
        messages.order[other] == messages.order[m] - 1 for m in range(24) for other in messages.after[m]
    )


def test_slices_follow_their_own():
    messages = Messages(to_document(two_to_one()), 400, 2)
    assert messages.bytes == [50.0] * 6
    assert messages.after == [set(), set(), set(), set(), {0}, {1}]


def test_a_link_takes_the_smaller_order_first():
    queue = Queue()
    queue.unsent = [1, 2]
    queue.add(2, 0, 7)
    assert queue.take(share=False) == []  # the message of order 1 is still to come
    queue.add(1, 0, 3)
    assert queue.take(share=False) == [3]
    queue.busy = False
    assert queue.take(share=False) == [7]


@pytest.mark.parametrize(
    ("made", "size", "more", "seconds"),
    [
        (over_two_links, 100, [], 3),  # α twice, and 100 B / (100 B/s)
        (two_to_one, 400, [], 3),  # both messages arrive at 2 s, and the first is forwarded until 3 s
        (two_to_one, 400, ["--share"], 3),
    ],
)
def test_simgrid_agrees_with_the_hand(made, size, more, seconds, tmp_path):
    if (
        not Path(PYTHON).exists()
        or subprocess.run([PYTHON, "-c", "import simgrid"], check=False, capture_output=True).returncode
    ):
        pytest.skip("SimGrid is not installed")
    (tmp_path / "x.json").write_text(json.dumps(to_document(made())))
    command = [PYTHON, str(PLAYER), str(tmp_path / "x.json"), "--bytes", str(size), *more]
    found = subprocess.run(command, capture_output=True, text=True, check=True)
    assert float(found.stdout) == pytest.approx(seconds)
