"""``gaps.csv``: every number computed again from the rows; old columns stay where they were."""

import math

import pytest

from tests.experiments.report.test_page import failed, row
from tutti.experiments.runner.judge import INSTANCE, REFERENCE, GapTableBuilder, method_columns


def rows():
    """Return two cases: an exact method, two seeds of a heuristic kept apart, and a course of three seeds."""
    exact = {"method": "mcf", "kind": "exact", "exact_for": "bytes", "bound_s": 0.5}
    return [
        row(**exact, time_us=9.0, gap=0.125, synth_s=2.0),
        row(method="tacos", seed=0, time_us=10.0, gap=0.25, synth_s=0.5),
        row(method="tacos", seed=1, time_us=12.0, gap=0.5, synth_s=0.25),
        row(method="best", time_us=8.8, gap=0.1, seeds=3, synth_s=0.6, course="0.1 9; 0.3 8.8; 0.2 12"),
        failed(method="ring"),
        row(method="tacos", seed=0, size_bytes=10, time_us=16.0, gap=1.0),
    ]


@pytest.fixture
def table():
    builder = GapTableBuilder()
    builder.add(rows())
    return builder.frame()


def test_columns_only_grow(table):
    """What was there stays first and in order; the gaps of methods are found among what came later."""
    names = list(table.columns)
    assert names[:3] == ["topology", "collective", "size_bytes"]
    assert names[: len(INSTANCE) + len(REFERENCE)] == [*INSTANCE, *REFERENCE]
    assert method_columns(table) == ["mcf", "tacos", "best", "ring"]
    assert method_columns(table[names[: names.index("bound_s")]]) == ["mcf", "tacos", "best", "ring"]


def test_both_parts_of_each_gap_and_the_ratio_to_the_exact_model(table):
    first = table.iloc[0]
    own = {"mcf": [9.0], "tacos": [10.0, 12.0], "best": [8.8]}
    best = min(min(times) for times in own.values())
    assert (first["bound_us"], first["best_us"], first["best_gap"]) == (8.0, best, 0.1)
    for method, times in own.items():
        time = min(times)
        assert first[f"{method}: time_us"] == time
        assert first[f"{method}: over_best"] == pytest.approx((time - best) / best)
        assert first[f"{method}: over_exact"] == pytest.approx(time / 9.0)
        whole = (1 + first[f"{method}: over_best"]) * (1 + first["best_gap"]) - 1
        assert first[method] == pytest.approx(whole) == pytest.approx((time - 8.0) / 8.0)


def test_the_worst_seed_the_seconds_of_all_seeds_and_those_of_the_bound(table):
    first, second = table.iloc[0], table.iloc[1]
    assert (first["tacos: worst_seed_us"], first["tacos: synth_s"]) == (12.0, 0.75)
    assert (first["best: worst_seed_us"], first["best: synth_s"]) == (12.0, 0.6)
    assert (first["bound_s"], first["mcf: synth_s"]) == (0.5, 2.0)
    assert math.isnan(first["mcf: worst_seed_us"])
    assert math.isnan(second["bound_s"])  # rows of an earlier version do not say
    assert math.isnan(second["tacos: over_exact"])
    assert math.isnan(first["ring: time_us"])
