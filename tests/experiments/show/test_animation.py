"""The GIF of a schedule: at each time the messages that the simulator has on their links, where they are."""

import re
import sys

import numpy as np
import pytest

from experiments.show import animation as module
from experiments.show.animation import MISSING, animation
from experiments.show.player import FEW
from tests.experiments.show.test_player import SIZE, on_one_way_ring
from topologies import InputError

ROWS = [(0, 0), (1, 1), (2, 2), (2, 0), (0, 1), (1, 2)]
"""In step 1 rank i sends its own data over link i, in step 2 what came from i - 1; 101 us each."""
PARCEL = re.compile(r'<circle cx="([\d.]+)" cy="([\d.]+)" r="[\d.]+" fill="(rgb\([^)]+\))"')


@pytest.fixture
def shown():
    return animation(on_one_way_ring(ROWS, np.array([1, 1, 1, 2, 2, 2])), SIZE)


def parcels(shown, time):
    return [(float(x), float(y), colour) for x, y, colour in PARCEL.findall(shown.frame(time))]


@pytest.mark.parametrize(
    ("time", "share", "owners"),
    [(0.0, 0, [0, 1, 2]), (50.5e-6, 0.5, [0, 1, 2]), (126.25e-6, 0.25, [2, 0, 1]), (202e-6, None, [])],
)
def test_messages_are_where_a_calculation_by_hand_has_them(shown, time, share, owners):
    """A quarter into the second step each link i has gone a quarter of its way with the data of i - 1."""
    expected = []
    for link, owner in enumerate(owners):
        start, control, end = shown.drawn.ways[link]
        x, y = (1 - share) ** 2 * start + 2 * share * (1 - share) * control + share**2 * end
        expected.append((pytest.approx(x, abs=0.06), pytest.approx(y, abs=0.06), f"rgb{FEW[owner]}"))
    assert parcels(shown, time) == expected


def test_the_time_stands_below(shown):
    assert "allgather, 300KB: 50.5 µs of 202 µs" in shown.frame(50.5e-6)


def test_a_gif_has_a_frame_at_each_time_in_the_colours_of_the_messages(shown, tmp_path, monkeypatch):
    pytest.importorskip("vl_convert")
    image = pytest.importorskip("PIL.Image")
    monkeypatch.setattr(module, "FEWEST", 4)
    monkeypatch.setattr(module, "MOST", 4)
    path = tmp_path / "new" / "ring.gif"
    shown.write(path)
    with image.open(path) as gif:
        assert gif.n_frames == 5  # at 0, a quarter, ..., the end: the second is half way through step 1
        gif.seek(1)
        pixels = gif.convert("RGB")
    scale = pixels.width / shown.size[0]
    shift = (shown.size[0] - shown.drawn.size[0]) / 2
    for bar in range(3):
        x, y = shown.place(bar, 50.5e-6)
        at = round((x + shift) * scale), round(y * scale)
        assert pixels.getpixel(at) == pytest.approx(FEW[bar], abs=3)


def test_without_the_extra_one_line_says_how_to_install_it(shown, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(InputError) as error:
        shown.write(tmp_path / "ring.gif")
    assert str(error.value) == MISSING
    assert not list(tmp_path.iterdir())


def test_what_cannot_be_shown_is_refused(shown, monkeypatch):
    schedule = on_one_way_ring(ROWS, np.array([1, 1, 1, 2, 2, 2]))
    monkeypatch.setattr("experiments.show.player.MOST_BARS", 2)
    with pytest.raises(InputError, match="this schedule has more"):
        animation(schedule, SIZE)
