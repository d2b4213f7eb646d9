"""Studies of mixed-integer programs: statistics by hand, false claims, configs, a tiny run, pictures."""

import itertools
import json
import math
import re
from dataclasses import replace
from fractions import Fraction
from functools import partial

import numpy as np
import pandas as pd
import pyomo.environ as pyo
import pytest

from tests.experiments.solver_study.studies import refusal, replaced
from tutti.experiments.cli import main
from tutti.experiments.report.results import Series
from tutti.experiments.report.standings import shifted_geometric_mean
from tutti.experiments.runner.config import read_config
from tutti.experiments.solver_study.milp_instances import find_model, worth
from tutti.experiments.solver_study.report import study_specs, trace_chart
from tutti.experiments.solver_study.statistics import (
    MIXED_TOLERANCE,
    primal_gap,
    primal_integral,
    scored,
    shift_of,
    standings,
    study_frame,
    trace_of,
)
from tutti.experiments.solver_study.tasks import judged, make_tasks, read_study
from tutti.models.solvers import compile_model, solve
from tutti.topologies.errors import InputError, Unsupported
from tutti.topologies.text import parse_topology

STUDY = """
name = "tiny"
[study]
time_limit = "20s"
memory_limit = "3GB"
workers = 1
clock = "cpu"
[[instance]]
model = "{m}"
topology = "ring:4"
sweep = {m = ["taccl-routing", "sccl", "teccl"]}
[[instance]]
model = "sccl"
topology = "ring:4"
options = {chunks = 2}
[[solver]]
name = "highs"
label = "HiGHS"
[[solver]]
name = "scip"
[[solver]]
name = "cp-sat"
"""


def row(method="a", topology="t", **more):
    """A row of a minimum that was proven, unless told otherwise."""
    common = {
        "model": "sccl",
        "method": method,
        "solver": f"{method} 1.0",
        "topology": topology,
        "seed": 0,
        "status": "ok",
        "termination": "optimal",
        "message": "",
        "options": "",
        "limit_s": 10.0,
        "solve_s": 2.0,
        "cpu_s": 1.0,
        "timed_s": 2.0,
        "objective": 8.0,
        "bound": 8.0,
        "worth": 8.0,
        "feasible": True,
        "integers": 5,
        "variables": 5,
        "maximize": False,
        "trace": "[]",
        "upper_exact": "8",
    }
    return common | more


def test_the_primal_gap_is_that_by_hand():
    assert primal_gap(10.0, 8.0) == pytest.approx(0.2)
    assert primal_gap(6.0, 8.0, maximize=True) == pytest.approx(0.25)
    assert primal_gap(None, 8.0) == 1.0
    assert primal_gap(2.0, -1.0) == 1.0
    assert primal_gap(0.0, 0.0) == 0.0
    assert primal_gap(7.9, 8.0) == 0.0  # beyond the best known value, by rounding


def test_the_primal_integral_is_that_by_hand():
    # Nothing for 1 s, then 10 for 2 s, which is 0.2 off 8, then 8.
    trace = [(0.5, None, 3.0), (1.0, 10.0, 3.0), (3.0, 8.0, 8.0)]
    assert primal_integral(trace, 8.0, 10.0) == pytest.approx(1.0 + 0.2 * 2)
    assert primal_integral(trace, 8.0, 2.0) == pytest.approx(1.0 + 0.2 * 1)
    assert primal_integral(trace, None, 10.0) == 10.0
    assert primal_integral([], 8.0, 10.0) == 10.0
    # Of a maximum, 6 instead of 8 is a gap of a quarter to the end.
    assert primal_integral([(2.0, 6.0, None)], 8.0, 10.0, maximize=True) == pytest.approx(2 + 8 / 4)


def test_a_course_is_stretched_to_the_clock_of_the_study():
    text = json.dumps([[1.0, 9.0, None], [2.0, 8.0, 8.0]])
    stretched, without = study_frame([row(trace=text, timed_s=1.0), row(trace=None)]).itertuples()
    assert trace_of(stretched) == [(0.5, 9.0, None), (1.0, 8.0, 8.0)]
    assert trace_of(without) == []


def test_standings_are_those_by_hand():
    rows = scored(
        judged(
            [
                row("a", trace="[[1.0, 8.0, 8.0]]"),
                row("a", "u", status="timeout", objective=10.0, bound=5.0, worth=10.0, upper_exact="10",
                    trace="[[5.0, 10.0, 5.0]]"),
                row("b", status="timeout", objective=10.0, bound=6.0, worth=10.0, upper_exact="10",
                    trace="[[5.0, 10.0, 6.0]]"),
                row("b", "u", status="timeout", objective=None, bound=4.0, worth=None, feasible=None,
                    upper_exact=None),
            ]
        )
    )  # fmt: skip
    a, b = standings(rows)
    assert (a.solver, a.tried, a.right, a.found, a.best) == ("a", 2, 1, 2, 2)
    assert (b.solver, b.tried, b.right, b.found, b.best) == ("b", 2, 0, 1, 0)
    assert a.mean_s == pytest.approx(math.sqrt(12 * 20) - 10)  # 2 s and the limit, shifted by 10 s
    assert b.mean_s == pytest.approx(10.0)
    assert a.integral == pytest.approx((1 + 5) / 2 / 10)
    assert b.integral == pytest.approx((5 + 0.2 * 5 + 10) / 2 / 10)
    assert a.gap == pytest.approx((0 + 0.5) / 2)
    assert b.gap == pytest.approx((0.4 + 1) / 2)


def test_means_of_mixed_integer_programs_are_shifted_by_ten_seconds():
    assert shift_of([row()]) == 10.0
    assert shift_of([{"integers": None}, {"integers": float("nan")}, {}]) == 1.0
    assert shifted_geometric_mean([0.0, 30.0], 10.0) == pytest.approx(10.0)  # sqrt(10 * 40) - 10
    timed = study_frame([row(timed_s=1.5), row(timed_s=float("nan"))])
    assert timed.charged.tolist() == [1.5, 2.0]


def test_claims_that_own_arithmetic_refutes_are_wrong():
    rows = judged(
        [
            row("good", lower_exact="6"),
            row("second"),
            row("high", objective=9.0, bound=9.0, worth=9.0, upper_exact="9"),
            row("broken", objective=7.0, bound=7.0, worth=None, feasible=False, upper_exact=None),
            row("flattered", objective=7.9, bound=7.9, worth=8.0),
            row("excluded", status="timeout", objective=None, bound=8.5, worth=None, feasible=None,
                upper_exact=None),
            row("blind", status="failed", termination="infeasible", objective=None, bound=None, worth=None,
                feasible=None, upper_exact=None),
            row("slow", status="timeout", objective=11.0, bound=7.0, worth=11.0, upper_exact="11"),
        ]
    )  # fmt: skip
    answers = {r["method"]: r.get("answer") for r in rows}
    assert answers == {
        "good": "agreed",
        "second": "agreed",
        "high": "wrong",
        "broken": "wrong",
        "flattered": "wrong",
        "excluded": "wrong",
        "blind": "wrong",
        "slow": None,
    }
    assert scored(rows)[2]["primal_integral"] == 10.0
    assert study_frame(rows).gap[2] == 1.0


def test_an_optimum_that_meets_the_projects_bound_is_right_and_one_that_nobody_seconds_is_unproven():
    assert judged([row(lower_exact="8")])[0]["answer"] == "right"
    assert judged([row("a"), row("a")])[0]["answer"] == "unproven"
    most = {"maximize": True, "upper_exact": "9", "lower_exact": "8"}
    assert [r["answer"] for r in judged([row("a", **most), row("b", **most)])] == ["agreed", "agreed"]
    less = row("c", **most | {"lower_exact": "7"}, objective=7.0, bound=7.0, worth=7.0)
    assert judged([row("a", **most), less])[1]["answer"] == "wrong"


def knapsack(kind):
    m = pyo.ConcreteModel()
    m.x = pyo.Var(range(3), domain=pyo.Binary)
    m.y = pyo.Var(bounds=(0, 2), domain=kind)
    m.room = pyo.Constraint(expr=5 * m.x[0] + 7 * m.x[1] + 4 * m.x[2] + m.y <= 12)
    m.link = pyo.Constraint(expr=m.y >= 2 * m.x[1] - 1)
    m.cost = pyo.Objective(expr=-8 * m.x[0] - 11 * m.x[1] - 6 * m.x[2] + m.y / 3 + 1)
    return compile_model(m)


def test_a_point_of_whole_numbers_is_worth_what_trying_all_of_them_says():
    model = knapsack(pyo.Integers)
    names = [v.name for v in model.variables]
    for point in itertools.product((0, 1), (0, 1), (0, 1), (0, 1, 2)):
        given = dict(zip(("x[0]", "x[1]", "x[2]", "y"), point, strict=True))
        a, b, c, y = point
        holds = 5 * a + 7 * b + 4 * c + y <= 12 and y >= 2 * b - 1
        # 1/3 is a float in the model, which is what is worth is of.
        value = -8 * a - 11 * b - 6 * c + Fraction(1 / 3) * y + 1
        found = worth(model, np.array([given[name] + 1e-7 for name in names]))
        assert found == (value if holds else None)


def test_continuous_columns_are_made_the_best_that_the_whole_ones_allow():
    model = knapsack(pyo.Reals)
    names = [v.name for v in model.variables]

    def point(**given):
        return np.array([given.get(name[:1] + name[2:3], 0.0) for name in names])

    assert float(worth(model, point(x1=1.0, y=1.7))) == pytest.approx(-11 + 1 / 3 + 1)
    assert worth(model, point(x0=1.0, x1=0.9999999)) is None  # 12 taken, and y must be 1
    assert worth(replace(model, upper=model.upper * 0), point(x1=1.0)) is None


@pytest.mark.parametrize(
    ("model", "topology", "optimum"),
    [
        # A rank of a ring of 4 gets 3 chunks over 2 links: 2 sends after each other, over at most 2 hops.
        ("taccl-routing", "ring:4", 2),
        ("taccl-routing symmetry=false", "ring:4", 2),
        ("taccl-routing chunks=2", "ring:4", 3),
        ("sccl", "ring:4", 2),
        ("sccl chunks=2", "ring:4", 3),
        # Each has 2 neighbours' chunks from epoch 1 on, 1/2 + 1/3 each, and the other from epoch 2 on, 1/3.
        ("teccl", "ring:4", 4 * (2 * (1 / 2 + 1 / 3) + 1 / 3)),
        # 3 chunks over 3 links at once, read from epoch 1 on.
        ("teccl", "complete:4", 4 * 3 * (1 / 2)),
        ("sccl", "complete:4", 1),
    ],
)
def test_the_optimum_of_a_tiny_program_is_that_by_hand_and_lies_between_its_bounds(model, topology, optimum):
    instance = find_model(model).build(parse_topology(topology))
    result = solve(instance.compiled, "scip")
    lower, upper = instance.bounds(result)
    assert result.objective == pytest.approx(optimum)
    assert float(lower) - 1e-9 <= optimum <= float(upper) + 1e-9
    assert instance.compiled.num_nonzeros <= find_model(model).entries(parse_topology(topology))


def test_joining_chunks_saves_latency_and_its_incumbent_is_confirmed():
    text = "taccl-scheduling chunks=2 symmetry=false size=100B"
    instance = find_model(text).build(parse_topology("ring:4"))
    result = solve(instance.compiled, "scip")
    assert instance.compiled.integer.any()
    assert not instance.compiled.integer.all()
    # A rank gets 6 chunks of 12.5 B over 2 links of 50 GB/s: 3 messages a link, each 500 + 0.25 ns, which is
    # 1000 units. Over two hops there are at least 2 messages, so one link's 3 chunks pay 500 ns twice.
    optimum = 1000 * (2 * 500 + 3 * 0.25) / (3 * 500.25)
    assert result.objective == pytest.approx(optimum, rel=1e-6)
    assert float(instance.bounds(result)[1]) == pytest.approx(optimum, rel=1e-6)


def test_programs_that_a_network_does_not_have_are_refused():
    with pytest.raises(
        Unsupported, match=r"^taccl-scheduling: no link of .* carries two chunks; nothing to join$"
    ):
        find_model("taccl-scheduling symmetry=false").build(parse_topology("complete:4"))
    with pytest.raises(Unsupported, match="needs a network without switches"):
        find_model("sccl").build(parse_topology("dgx_a100:1"))
    with pytest.raises(InputError, match=r"^model sccl option steps is 1; on .* at least 2$"):
        find_model("sccl steps=1").build(parse_topology("ring:4"))


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A study of tiny programs, run to its end."""
    folder = tmp_path_factory.mktemp("milp")
    config = folder / "tiny.toml"
    config.write_text(STUDY)
    assert main(["run", str(config), "--out", str(folder / "out"), "--quiet"]) == 0
    return config, folder / "out"


def test_a_study_of_mixed_integer_programs_has_traces_bounds_and_primal_integrals(finished):
    frame = pd.read_parquet(finished[1] / "results.parquet")
    assert len(frame) == 4 * 3
    assert set(frame.status) == {"ok"}
    assert set(frame.answer) <= {"right", "agreed"}
    assert frame.feasible.all()
    assert (frame.timed_s == frame.cpu_s).all()
    for line in frame.to_dict("records"):
        points = json.loads(line["trace"])
        assert points[-1][1:] == [line["objective"], line["bound"]]
        # A course is by the wall clock, whatever clock the study's means count.
        assert points[-1][0] == line["solve_s"] == max(seconds for seconds, _, _ in points)
        # An answer that is right to the tolerance leaves at most that share of the limit's 20 s.
        assert 0 <= line["primal_integral"] <= line["solve_s"] + MIXED_TOLERANCE * 20
    rounds = frame[frame.model == "sccl chunks=2"]
    assert set(rounds.objective.round(6)) == {3.0}
    assert set(rounds.certified_exact) == {"3"}


def test_the_report_of_mixed_integer_programs_needs_nothing_else(finished):
    page = (finished[1] / "report.html").read_text()
    outside = re.sub(r"<script>.*?</script>", "", page, flags=re.DOTALL)
    assert not re.search(r"""(src|href)=["']?(https?:)?//""", outside)
    assert "4 mixed-integer programs, 3 solvers" in page
    assert "claim the same" in page
    assert "without presolve" in page


THREADED = """
name = "threaded"
[study]
time_limit = "20s"
workers = 1
tolerance = 1e-7
threads = [1, 2]
threads_every = 2
[[instance]]
model = "sccl"
topology = "ring:4"
[[instance]]
model = "taccl-scheduling"
topology = "ring:4"
options = {chunks = 2, symmetry = false, size = "100B"}
[[solver]]
name = "highs"
[[solver]]
name = "highs"
label = "highs without presolve"
options = {presolve = false, tolerance = 1e-8}
[[solver]]
name = "scip"
"""


def test_what_a_solver_is_not_run_on_is_a_row_and_is_said_on_the_terminal(tmp_path, capsys):
    (tmp_path / "threaded.toml").write_text(THREADED)
    assert main(["run", str(tmp_path / "threaded.toml"), "--out", str(tmp_path / "out")]) == 0
    said = "".join(capsys.readouterr().out.split())
    frame = pd.read_parquet(tmp_path / "out" / "results.parquet")
    rows = {(r["model"].split()[0], r["method"]): r for r in frame.to_dict("records")}
    assert len(rows) == len(frame) == 3 + 6
    assert {key[1] for key in rows if key[0] == "sccl"} == {"highs", "highs without presolve", "scip"}
    for label, why in (("scip, 2 threads", "does not do threads"), ("highs", "loses optima")):
        row = rows["taccl-scheduling", label]
        assert row["status"] == "unsupported"
        assert why in row["message"]
        assert why.replace(" ", "") in said
    assert rows["taccl-scheduling", "highs without presolve, 2 threads"]["threads"] == 2
    assert rows["sccl", "highs"]["tolerance"] == rows["sccl", "scip"]["tolerance"] == 1e-7
    assert rows["sccl", "highs without presolve"]["tolerance"] == 1e-8
    ran = frame[frame.status == "ok"]
    assert (ran.violation <= 1e-6).all()
    assert (ran.integrality <= 1e-6).all()
    assert ran.nodes.notna().all()


def test_a_course_has_a_mark_at_each_better_incumbent_and_goes_on_until_the_end():
    text = json.dumps([[0.1, None, 2.0], [1.0, 12.0, 2.0], [2.0, 12.0, 6.0], [4.0, 8.0, 8.0]])
    rows = scored(judged([row("a", trace=text, solve_s=5.0, timed_s=5.0)]))
    data = trace_chart(study_frame(rows), {"a": Series(0, "a", "", "", "a")}, "x").data
    courses = {what: list(zip(own.seconds, own.value, strict=True)) for what, own in data.groupby("what")}
    assert courses["incumbent"] == [(1, 12), (2, 12), (4, 8), (5, 8)]
    assert courses["bound"] == [(0.1, 2), (1, 2), (2, 6), (4, 8), (5, 8)]
    assert [(r.seconds, r.value) for r in data[data.better].itertuples()] == [(1, 12), (4, 8)]


def course_chart(*points):
    """Return the chart of a solver that was stopped at the last of these (seconds, incumbent, bound)."""
    _, value, bound = points[-1]
    own = {"objective": value, "bound": bound, "worth": value, "upper_exact": str(value)}
    own |= {"termination": "time limit", "trace": json.dumps(points), "solve_s": 4.0, "timed_s": 4.0}
    rows = scored(judged([row("a", **own)]))
    return trace_chart(study_frame(rows), {"a": Series(0, "a", "", "", "a")}, "x")


@pytest.mark.parametrize(
    "points",
    [
        # bounds from 800 and incumbents down to 860: over half of an axis from 0 were empty
        [[0.1, None, 800.0], [1.0, 1000.0, 820.0], [4.0, 860.0, 840.0]],
        [[0.1, 8000.4, 8000.1], [4.0, 8000.3, 8000.2]],
    ],
)
def test_a_course_far_from_zero_is_drawn_from_near_the_least_bound_and_says_so(points):
    figure = course_chart(*points)
    y = json.loads(study_specs())[figure.chart]["layer"][1]["encoding"]["y"]
    assert (y["title"], y["scale"]["zero"]) == ("objective (axis cut)", False)


@pytest.mark.parametrize(
    "points", [[[0.1, 12.0, 2.0]], [[0.1, 8.0, 8.0]], [[0.1, 12.0, 0.0]], [[0.1, 8.0, 8.0 - 1e-6]]]
)
def test_a_course_near_zero_is_drawn_from_zero(points):
    y = json.loads(study_specs())[course_chart(*points).chart]["layer"][1]["encoding"]["y"]
    assert (y["title"], y["scale"]["zero"]) == ("objective", True)


changed = partial(replaced, STUDY)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (changed("chunks = 2", "chunk = 2"),
         "[[instance]] 2: model sccl has no option 'chunk'; did you mean 'chunks'?"),
        (changed("chunks = 2", "chunks = 0"),
         "[[instance]] 2: model sccl option chunks is 0; it must be a whole number, at least 1"),
        (changed('"teccl"', '"tecl"'),
         "[[instance]] 1 (m = tecl): unknown model 'tecl'; did you mean 'teccl'?"),
        (changed('"teccl"', '"routing"'),
         "model 'sccl chunks=2' is a mixed-integer program and 'routing' is not; make two studies"),
        (changed('clock = "cpu"', 'clock = "moon"'), "[study]: 'clock' must be 'wall' or 'cpu', not 'moon'"),
        (changed('clock = "cpu"', "relative_gap = 2.0"),
         "[study]: 'relative_gap' must be less than 1, not 2.0"),
        (changed('label = "HiGHS"', "options = {relative_gap = 0.1}"),
         "[[solver]] 1: option 'relative_gap' is the same for all solvers; [study] sets it"),
        (changed('model = "sccl"\n', 'model = "taccl-routing"\n').replace("chunks = 2", 'sketch = "no-sk-1"'),
         "[[instance]] 2: "),
    ],
)  # fmt: skip
def test_a_wrong_study_is_refused_in_one_line_before_anything_runs(text, message, tmp_path, capsys):
    assert message in refusal(text, tmp_path, capsys)


def test_the_long_study_is_about_all_networks_of_the_reference_and_the_other_about_every_fifth_program():
    long = read_study(read_config("configs/milp_solvers_long.toml"))
    reference = pd.read_csv("tests/data/reference/instances.csv")
    assert {one.topology for one in long.programs} >= set(reference[reference.set == "milp"].topology)
    assert len(long.programs) == 115
    assert {one.time_limit for one in long.programs} == {600.0}

    study = read_study(read_config("configs/milp_solvers.toml"))
    every_fifth = [(one.model, one.topology) for one in long.programs[2::5]]
    assert [(one.model, one.topology) for one in study.programs] == every_fifth
    assert {one.time_limit for one in study.programs} == {30.0}
    tasks = make_tasks(study)
    # Three seeds with one thread, and of every fifth program with two.
    assert len(tasks) == len(study.solvers) * 3 * (23 + 4)
    assert len({task.key for task in tasks}) == len(tasks)
    assert sum(task.method == "SCIP, 2 threads" for task in tasks) == 3 * 4


def test_a_mixed_integer_program_is_written_for_other_solvers(tmp_path, capsys):
    path = tmp_path / "model.mps"
    assert main(["model", "sccl chunks=2", "ring:4", "-o", str(path)]) == 0
    assert "MARKER" in path.read_text()
    fields = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert fields["integers"].strip() == fields["variables"].strip()  # sends are 0 or 1, rounds are whole
    assert main(["model", "bfb chunks=2", "ring:4", "-o", str(path)]) == 2
    assert "model bfb has no option 'chunks'; it has none" in capsys.readouterr().err
