"""What the player shows: the simulator's messages, whose data they carry, in slices that are few enough."""

from fractions import Fraction

import numpy as np
import pytest

import tutti
from tutti.experiments.show import page
from tutti.experiments.show.page import film
from tutti.schedules.schedule import Chunks, Clock, Schedule
from tutti.topologies.text import parse_topology

SIZE = Fraction(300_000)


def on_one_way_ring(rows, order):
    """An allgather of three on 0 -> 1 -> 2 -> 0; link i leaves rank i. A row is (owner, link)."""
    ring = parse_topology("uniring:3?bandwidth=1GB/s&alpha=1us")
    gather = tutti.collective("allgather", ring)
    chunk, route = np.array(rows, dtype=np.int32).T
    clock = Clock.FLOW if order is None else Clock.STEP
    return Schedule(ring, gather, clock, Chunks.even(gather), chunk, route, order=order)


def test_bars_are_the_messages_of_a_calculation_by_hand():
    # 100 KB at 1 GB/s and 1 us: 101 us a step; in step 2 rank i passes on what i - 1 sent it.
    rows = [(0, 0), (1, 1), (2, 2), (2, 0), (0, 1), (1, 2)]
    shown = film(on_one_way_ring(rows, np.array([1, 1, 1, 2, 2, 2])), SIZE)
    assert shown.time == pytest.approx(202e-6)
    bars = list(zip(shown.link.tolist(), np.round(shown.begin * 1e6).tolist(), shown.owners, strict=True))
    assert sorted(bars) == [
        (0, 0.0, (0,)),
        (0, 101.0, (2,)),
        (1, 0.0, (1,)),
        (1, 101.0, (0,)),
        (2, 0.0, (2,)),
        (2, 101.0, (1,)),
    ]
    assert shown.end - shown.begin == pytest.approx(np.full(6, 101e-6))
    assert shown.bytes.tolist() == [100_000.0] * 6
    assert (np.diff(shown.begin) >= 0).all()
    assert shown.step.tolist() == [1, 1, 1, 2, 2, 2]


def test_a_message_of_several_ranks_data_names_them_all():
    # Two rows of one step on one link travel as one message.
    rows = [(0, 0), (0, 1), (1, 1), (2, 2), (1, 2), (2, 0)]
    both = film(on_one_way_ring(rows, np.array([1, 2, 2, 2, 3, 3])), SIZE)
    assert (0, 1) in both.owners
    assert both.bytes[both.owners.index((0, 1))] == 200_000


@pytest.mark.parametrize(
    ("network", "method"), [("torus:3x3", "bfb"), ("mesh:3x3", "tacos"), ("dgx_a100:1", "forestcoll")]
)
def test_bars_are_those_of_the_schedules_messages(network, method):
    schedule = tutti.synthesize(network, size="1MB", method=method).schedule
    frame = schedule.messages(10**6)
    shown = film(schedule, Fraction(10**6))
    told = sorted(zip(frame["message"], frame["link"], frame["start"], frame["end"], strict=True))
    assert told == sorted(zip(shown.message, shown.link, shown.begin, shown.end, strict=True))
    assert shown.time >= frame["end"].max()


def test_a_flow_is_played_in_fewer_slices_where_its_best_would_be_too_many(monkeypatch):
    schedule = tutti.synthesize("mesh:4x1", "broadcast", size="1MB", method="forestcoll").schedule
    size = Fraction(10**6)
    whole = film(schedule, size)
    assert whole.slices[0] == whole.slices[1] > 1
    monkeypatch.setattr(page, "MOST_BARS", len(whole.link) - 1)
    fewer = film(schedule, size)
    assert fewer.slices[0] < fewer.slices[1] == whole.slices[1]
    assert len(fewer.link) < len(whole.link)
    monkeypatch.setattr(page, "MOST_BARS", 2)
    assert film(schedule, size) is None
