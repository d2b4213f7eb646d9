"""Schedules of other methods in epochs, and messages about those that do not fit."""

from fractions import Fraction

import numpy as np
import pytest

from tests.models.teccl.cases import METHOD, UNEVEN, epochs_of, made, problem
from tutti.experiments.registry import METHODS
from tutti.models.optimum import METHOD as OPTIMUM
from tutti.models.teccl import METHOD as TECCL
from tutti.models.teccl.epochs import finish_of, shortest
from tutti.models.teccl.starts import StartSchedule, check_start, in_epochs, passes_on
from tutti.schedules import Problem, collective
from tutti.topologies import InputError, NoSchedule
from tutti.topologies.text import parse_topology


def listing(task, name, epochs):
    return in_epochs(epochs, StartSchedule.of(METHODS[name], task, epochs.instance.chunks, 0).schedule)


@pytest.mark.parametrize("search", ["upward", "once"])
def test_a_start_that_is_too_long_is_dropped_and_said(search):
    schedule = made(problem("mesh:3x3"), start="ring", epochs=5, search=search)
    assert schedule.stats["epochs"] == 4
    assert schedule.stats["note"] == "start dropped: ring takes 8 epochs, 5 are allowed"


@pytest.mark.parametrize(
    ("text", "options", "note"),
    [
        (
            "dgx_a100:1?drop_nodes=4,5,6,7",
            {"start": "bfb"},
            "start dropped: bfb needs a switch-free topology",
        ),
        ("mesh:3x3", {"start": "tacos", "buffers": False}, "start dropped: in tacos ranks store what they"),
    ],
)
def test_a_start_that_does_not_fit_is_dropped_and_said(text, options, note):
    assert made(problem(text), **options).stats["note"].startswith(note)


def test_a_schedule_in_which_switches_copy_is_no_start():
    task = problem("dgx_h100:1", "broadcast", root=0)
    epochs = epochs_of(task)
    copied = METHOD.synthesize(task, METHOD.options(), np.random.default_rng(0))
    assert (copied.target >= 8).any()
    with pytest.raises(NoSchedule, match=r"^its switches copy data$"):
        in_epochs(epochs, copied)


def test_a_schedule_in_epochs_is_listed_as_it_is():
    """An optimum of the same epochs: no later when listed again, by its own arcs."""
    for text in ("mesh:3x3", "gen_kautz:2,7", UNEVEN):
        task = problem(text)
        schedule = made(task)
        epochs = epochs_of(task)
        again = in_epochs(epochs, schedule)
        assert finish_of(epochs, again) <= schedule.stats["epochs"]
        arcs = set(zip(schedule.route.tolist(), schedule.chunk.tolist(), strict=True))
        assert {(e, c) for e, c, _ in again} <= arcs


def test_whether_ranks_store():
    task = problem("mesh:3x1", "broadcast", root=0)
    epochs = epochs_of(task)
    way = {ends: e for e, ends in enumerate(epochs.ends)}
    assert passes_on(epochs, [(way[0, 1], 0, 0), (way[1, 2], 0, 1)])
    assert not passes_on(epochs, [(way[0, 1], 0, 0), (way[1, 2], 0, 2)])


@pytest.mark.parametrize("text", ["mesh:3x3", "ring:8", UNEVEN, "dgx_a100:1"])
def test_shortest_routes_bring_everything(text):
    epochs = epochs_of(problem(text))
    brought = {(c, epochs.ends[e][1]) for e, c, _ in shortest(epochs)}
    assert brought == set(epochs.instance.wanted)


def test_the_nearest_word_is_suggested():
    with pytest.raises(InputError, match=r"^sccl option start is 'bfbs'; did you mean 'bfb'\?$"):
        check_start("sccl", "bfbs", ["none", "bfb", "forestcoll"])


@pytest.mark.parametrize("given", [5, True, ["recursive_doubling"]])
@pytest.mark.parametrize(
    ("method", "words"), [(TECCL, "bfb, forestcoll, none"), (OPTIMUM, "auto, bfb, forestcoll, none")]
)
def test_what_is_no_word_is_refused_too(method, words, given):
    problem = Problem(parse_topology("ring:3"), collective("allgather", 3), Fraction(10**6))
    with pytest.raises(InputError) as refusal:
        method.supports(problem, method.options(start=given))
    assert str(refusal.value) == f"{method.name} option start is '{given}'; allowed: {words}"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"start": "tacso"}, r"^teccl option start is 'tacso'; did you mean 'tacos'\?"),
        ({"search": "down"}, r"^teccl option search is 'down'; allowed: upward, once$"),
        ({"cuts": 1}, r"^teccl option cuts is 1; it must be true or false$"),
        ({"window": 2, "start": "tacos"}, "^teccl option window goes without start and search;"),
        ({"window": 2, "search": "once"}, "^teccl option window goes without start and search;"),
    ],
)
def test_bad_starts_are_one_line(options, message):
    with pytest.raises(InputError, match=message):
        made(problem("ring:4"), **options)
