"""Comparisons of solvers by hand, intervals against a bootstrap written down here, exact violations."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy.sparse import csr_array

from tests.models.solvers.programs import hard_knapsack
from tutti.experiments.solver_study.milp_instances import integrality, violation
from tutti.experiments.solver_study.statistics import (
    RULES,
    comparable,
    difference_table,
    differences,
    measure_table,
    not_run,
    outcome_table,
    standings,
    study_frame,
    virtual_best,
    wins,
)
from tutti.models.solvers import CompiledModel


def row(method, topology, solve_s=1.0, seed=0, status="ok", **more):
    """A row of a linear program with a limit of 10 s."""
    common = {
        "model": "m",
        "topology": topology,
        "method": method,
        "seed": seed,
        "status": status,
        "message": "",
        "solve_s": solve_s,
        "limit_s": 10.0,
        "answer": "right" if status == "ok" else None,
        "termination": "optimal" if status == "ok" else "time limit",
    }
    return common | more


def rows_of(frame):
    return list(frame.itertuples())


def test_solvers_are_compared_on_the_problems_that_they_ran():
    rows = [
        *(row("a", t) for t in "stu"),
        *(row("b", t) for t in "stu"),
        row("c", "s"),
        row("c", "t"),
        row("c", "u", status="unsupported", message="too large"),
        *(row("d", t, status="unsupported", message="not installed") for t in "stu"),
    ]
    every, fewer = map(rows_of, comparable(study_frame(rows)))
    assert {(r.method, r.topology) for r in every} == {(m, t) for m in "ab" for t in "stu"}
    assert {(r.method, r.topology) for r in fewer} == {(m, t) for m in "abc" for t in "st"}
    assert [line.solver for line in standings(rows)] == ["a", "b"]
    assert not_run(rows) == ["c: 1 of 3 problems: too large", "d: not installed"]
    assert [rows_of(group) for group in comparable(study_frame([]))] == [[]]


def test_wins_par10_and_the_virtual_best_are_those_by_hand():
    rows = [
        row("a", "s", 1.0), row("b", "s", 2.0),
        row("a", "t", 5.0), row("b", "t", 4.9),  # within a tenth
        row("a", "u", 10.0, status="timeout"), row("b", "u", 9.0),
        row("a", "v", 10.0, status="timeout"), row("b", "v", 10.0, status="timeout"),
    ]  # fmt: skip
    rows = study_frame(rows)
    assert wins(rows) == {("a", "b"): 1, ("b", "a"): 1}
    assert [(r.method, r.topology) for r in rows_of(virtual_best(rows))][:3] == [
        ("a", "s"),
        ("b", "t"),
        ("b", "u"),
    ]
    lines = {line["solver"]: line for line in measure_table(rows).frame().to_dict("records")}
    means = {
        "a": math.exp(np.mean(np.log([2, 6, 11, 11]))) - 1,
        "b": math.exp(np.mean(np.log([3, 5.9, 10, 11]))) - 1,
        "virtual best": math.exp(np.mean(np.log([2, 5.9, 10, 11]))) - 1,
    }
    best = min(means["a"], means["b"])
    assert {name: line["scaled"] for name, line in lines.items()} == {
        name: f"{mean / best:.2f}" for name, mean in means.items()
    }
    assert lines["a"]["PAR10"] == "51.5 s"  # (1 + 5 + 100 + 100) / 4
    assert lines["b"]["solved"] == "3 of 4"


def test_an_interval_is_that_of_drawing_programs_with_all_their_seeds():
    rng = np.random.default_rng(1)
    a, b = rng.uniform(0, 8, (30, 3)), rng.uniform(1, 12, (30, 3))
    rows = [
        row(name, f"t{program:02}", float(seconds[program, seed]), seed)
        for name, seconds in (("a", a), ("b", b))
        for program in range(30)
        for seed in range(3)
    ]
    (found,) = differences(study_frame(rows))
    mean_a, mean_b = (np.log(np.minimum(x, 10) + 1).mean(axis=1) for x in (a, b))
    draws = np.random.default_rng(7).integers(0, 30, (20000, 30))
    ratios = (np.exp(mean_a[draws].mean(axis=1)) - 1) / (np.exp(mean_b[draws].mean(axis=1)) - 1)
    assert found.solvers == ("a", "b")
    assert found.ratio == pytest.approx((math.exp(mean_a.mean()) - 1) / (math.exp(mean_b.mean()) - 1))
    assert found.ratio_interval == pytest.approx(np.quantile(ratios, [0.025, 0.975]), abs=0.02)
    assert found.faster == "a"
    assert (found.solved_interval, found.solves_more) == ((0.0, 0.0), "")


def test_solvers_that_do_not_differ_are_said_not_to():
    """The same times in another order of programs; and of nine programs nothing is said."""
    seconds = np.random.default_rng(2).uniform(0, 9, 20)
    rows = [row("a", f"t{i:02}", float(s)) for i, s in enumerate(seconds)]
    rows += [row("b", f"t{i:02}", float(s)) for i, s in enumerate(seconds[::-1])]
    (line,) = difference_table(study_frame(rows)).frame().to_numpy().tolist()
    assert (line[2], line[4]) == ("no difference", "no difference")
    few = [row(name, f"t{i}", s) for name, s in (("a", 1.0), ("b", 9.0)) for i in range(9)]
    assert differences(study_frame(few)) == []


def test_intervals_of_more_pairs_are_wider():
    """Each has its share of the probability that one of them is wrong."""
    rng = np.random.default_rng(3)
    times = rng.uniform(0, 9, (4, 25))
    rows = [row("abcd"[s], f"t{i:02}", float(times[s, i])) for s in range(4) for i in range(25)]
    alone = {d.solvers: d for d in differences(study_frame(r for r in rows if r["method"] in "ab"))}
    both = {d.solvers: d for d in differences(study_frame(rows))}
    (pair,) = alone
    assert both[pair].ratio_interval[0] < alone[pair].ratio_interval[0]
    assert both[pair].ratio_interval[1] > alone[pair].ratio_interval[1]
    assert RULES.confidence == 0.95


def test_more_threads_are_compared_with_one_thread_of_the_same_solver():
    rows = [
        row(label, topology, threads=threads)
        for label, threads in (("a", 1), ("b", 1), ("a, 2 threads", 2), ("b, 2 threads", 2))
        for topology in "abcdefghij"
    ]
    found = {frozenset(one.solvers) for one in differences(study_frame(rows))}
    assert found == {frozenset(("a", "a, 2 threads")), frozenset(("b", "b, 2 threads"))}


def test_a_difference_that_two_digits_do_not_show_is_none():
    """A solver that is slower by a thousandth on every program."""
    rows = [row(name, t, seconds) for name, seconds in (("a", 9.0), ("b", 9.009)) for t in "abcdefghij"]
    (line,) = difference_table(study_frame(rows)).frame().to_numpy().tolist()
    assert line[1:3] == ["1.00 (1.00 to 1.00)", "no difference"]


def test_every_row_has_one_outcome():
    rows = [
        row("a", "s"),
        row("a", "t", answer="wrong"),
        row("a", "u", status="timeout"),
        row("a", "v", status="timeout", termination="memory limit"),
        row("a", "w", status="failed", termination="error"),
        row("a", "x", status="grid"),
        row("a", "y", status="unsupported"),
    ]
    (found,) = outcome_table(study_frame(rows)).frame().to_dict("records")
    ones = ("solved", "wrong", "time", "memory", "error", "on a grid", "not run")
    assert found == {"solver": "a", "iterations": "", **dict.fromkeys(ones, "1")}


def by_fractions(model, values):
    """The largest violation, every row and column added up in fractions."""
    x, worst = [Fraction(v) for v in values.tolist()], Fraction(0)
    dense = model.matrix().toarray()
    totals = [
        sum((Fraction(a) * b for a, b in zip(line, x, strict=True)), Fraction(0)) for line in dense.tolist()
    ]
    sides = [
        *zip(totals, model.row_lower, model.row_upper, strict=True),
        *zip(x, model.lower, model.upper, strict=True),
    ]
    for value, low, high in sides:
        for sign, side in ((-1, low), (1, high)):
            if np.isfinite(side):
                worst = max(worst, sign * (value - Fraction(side)) / max(1, abs(Fraction(side))))
    return worst


@pytest.mark.parametrize("seed", range(20))
def test_the_largest_violation_is_that_of_fractions(seed):
    rng = np.random.default_rng(seed)
    matrix = csr_array(rng.integers(-3, 4, (12, 8)) * (rng.random((12, 8)) if seed % 2 else 1.0))
    point = rng.random(8) * 3 if seed % 3 else rng.integers(0, 4, 8).astype(float)
    # Rows that the point keeps, breaks by rounding errors, or breaks by more.
    above = matrix @ point + rng.choice([0.0, 1e-17, -1e-16, -1e-9, -0.5], 12)
    model = CompiledModel.of_matrix("random", matrix, np.ones(8), -np.inf, above)
    model = replace(model, upper=np.where(rng.random(8) < 0.3, point - 1e-10, np.inf))
    assert violation(model, point, negligible=0.0) == by_fractions(model, point)
    assert abs(violation(model, point) - by_fractions(model, point)) <= 1e-12


def test_a_violation_that_floats_do_not_see_is_seen():
    """0.1 + 0.2 is 0.3 to a float's eye after rounding the sides, and more than the float 0.3 exactly."""
    matrix = csr_array(np.array([[0.1, 0.2]]))
    model = CompiledModel.of_matrix("small", matrix, np.ones(2), -np.inf, 0.1 + 0.2)
    exact = Fraction(0.1) + Fraction(0.2) - Fraction(0.1 + 0.2)
    assert exact != 0
    assert violation(model, np.ones(2), negligible=0.0) == max(exact, 0)


def test_integrality_is_the_distance_of_whole_columns_only():
    model = hard_knapsack(4)
    assert integrality(model, np.array([0.0, 1 - 1e-7, 1e-9, 1.0])) == pytest.approx(1e-7, rel=1e-6)
    half = replace(model, integer=np.array([False, True, True, True]))
    assert integrality(half, np.array([0.5, 1.0, 0.0, 1.0])) == 0.0
