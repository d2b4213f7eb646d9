"""Studies of solvers: statistics by hand, configs, runs of tiny programs, and the report."""

import json
import math
import re
from fractions import Fraction
from functools import partial
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest

from tests.experiments.solver_study.studies import refusal, replaced
from tests.sweep import for_each
from tutti.experiments.cli import main
from tutti.experiments.report.page import figures_of, write_page
from tutti.experiments.report.standings import shifted_geometric_mean
from tutti.experiments.runner.config import KINDS, read_config
from tutti.experiments.runner.results import read_rows, to_table
from tutti.experiments.runner.study import Workplace, perform, study_of
from tutti.experiments.solver_study.instances import MODELS
from tutti.experiments.solver_study.milp_instances import find_model
from tutti.experiments.solver_study.report import advice, study_contents
from tutti.experiments.solver_study.statistics import (
    COLUMNS,
    building,
    choices,
    disagreements,
    problems_of,
    profile,
    standings,
    study_frame,
)
from tutti.experiments.solver_study.tasks import judged, read_study
from tutti.models.solvers import solve
from tutti.topologies.errors import TuttiError
from tutti.topologies.text import parse_topology

STUDY = """
name = "tiny"
[study]
time_limit = "20s"
memory_limit = "3GB"
seeds = [0, 1]
workers = 1
[[instance]]
model = "{m}"
topology = "ring:3"
sweep = {m = ["bfb", "mcf", "allreduce"]}
[[instance]]
model = "routing"
topology = "ring:3"
seeds = [2]
[[solver]]
name = "highs"
label = "simplex"
options = {method = "simplex"}
[[solver]]
name = "glop"
[[solver]]
name = "highs"
label = "HiPO"
options = {method = "hipo"}
"""


def row(method="a", topology="t", seed=0, solve_s=1.0, **more):
    """A row of a study that ended well, unless told otherwise."""
    common = {
        "model": "m",
        "builder": "pyomo",
        "status": "ok",
        "answer": "right",
        "limit_s": 10.0,
        "nonzeros": 100,
        "build_s": 0.5,
        "relative_error": 0.0,
        "objective": 1.0,
        "message": "",
        "options": "",
    }
    return common | {"method": method, "topology": topology, "seed": seed, "solve_s": solve_s} | more


def test_the_shifted_geometric_mean_is_that_by_hand():
    assert shifted_geometric_mean([1.0, 7.0], shift=1.0) == pytest.approx(3.0)  # sqrt(2 * 8) - 1
    assert shifted_geometric_mean([0.0, 0.0], shift=1.0) == pytest.approx(0.0)
    assert shifted_geometric_mean([2.0, 8.0], shift=0.0) == pytest.approx(4.0)
    assert shifted_geometric_mean([90.0, 90.0, 90.0], shift=10.0) == pytest.approx(90.0)
    with pytest.raises(ValueError, match="non-empty"):
        shifted_geometric_mean([], shift=1.0)


def test_a_limit_a_failure_and_a_wrong_answer_count_as_the_limit():
    rows = [
        row(solve_s=3.0),
        row(solve_s=10.4),
        row(solve_s=10.4, status="timeout", answer=None),
        row(solve_s=0.1, status="failed", answer=None),
        row(solve_s=0.1, answer="wrong"),
        row(solve_s=0.1, answer="unproven"),
    ]
    assert study_frame(rows).charged.tolist() == [3.0, 10.0, 10.0, 10.0, 10.0, 0.1]


def test_standings_are_those_by_hand():
    rows = [
        row("a", "s", solve_s=1.0, relative_error=2e-9),
        row("a", "t", solve_s=7.0, relative_error=5e-9),
        row("b", "s", solve_s=0.0),
        row("b", "t", status="timeout", answer=None, relative_error=None),
        row("c", "s", solve_s=0.0, answer="wrong", relative_error=0.1),
        row("c", "t", status="failed", answer=None, relative_error=None, solve_s=None),
        row("d", "s", status="unsupported", solve_s=None),
    ]
    a, b, c = standings(rows)[1], standings(rows)[0], standings(rows)[2]
    assert (a.solver, a.right, a.tried, a.mean_s) == ("a", 2, 2, pytest.approx(3.0))
    assert (b.solver, b.right, b.timeouts) == ("b", 1, 1)
    assert b.mean_s == pytest.approx(math.sqrt(11) - 1)
    assert (c.solver, c.right, c.wrong, c.failed, c.mean_s) == ("c", 0, 1, 1, pytest.approx(10.0))
    assert (a.worst_error, b.worst_error, c.worst_error) == (5e-9, 0.0, 0.1)


def test_profiles_are_those_by_hand():
    rows = [
        row("a", "s", solve_s=1.0),
        row("b", "s", solve_s=2.0),
        row("a", "t", solve_s=6.0),
        row("b", "t", solve_s=2.0),
        row("a", "u", status="timeout", answer=None),
        row("b", "u", solve_s=9.0),
        row("c", "u", solve_s=1.0, answer="wrong"),
    ]
    frame = study_frame(rows)
    assert profile(frame) == {"a": [1.0, 3.0], "b": [1.0, 1.0, 2.0], "c": []}
    assert problems_of(frame) == 3


def test_times_below_a_millisecond_are_the_same_in_profiles():
    rows = [row("a", solve_s=1e-5), row("b", solve_s=9e-4)]
    assert profile(study_frame(rows)) == {"a": [1.0], "b": [1.0]}


def test_a_choice_is_the_solver_that_solved_most_then_the_fastest_and_names_its_equals():
    rows = [
        row("fast", "s", solve_s=0.1),
        row("fast", "t", status="timeout", answer=None),
        row("sure", "s", solve_s=5.0),
        row("sure", "t", solve_s=5.0),
        row("twin", "s", solve_s=5.1),
        row("twin", "t", solve_s=5.1),
        row("sure", "u", nonzeros=50_000, solve_s=2.0),
        row("dead", "s", status="failed", answer=None, nonzeros=None, solve_s=None),
    ]
    small, medium = choices(study_frame(rows))
    assert (small.model, small.size, small.instances, small.equals) == ("m", "small", 2, ["sure", "twin"])
    assert (medium.size, medium.equals) == ("medium", ["sure"])
    assert advice(small) == "sure or twin: all solved, mean 5 s; next fast, 2.48 s, 1 of 2 solved"
    assert advice(medium) == "sure: all solved, mean 2 s"
    nobody = choices(study_frame([row("a", status="timeout", answer=None)]))[0]
    assert advice(nobody) == "no solver solved any within the limit"


@pytest.mark.parametrize(("nonzeros", "size"), [(9_999, "small"), (10_000, "medium"), (100_000, "large")])
def test_sizes_are_by_nonzeros(nonzeros, size):
    assert study_frame([row(nonzeros=nonzeros)])["size"].tolist() == [size]


def test_the_share_of_building_is_that_by_hand():
    rows = [
        row("a", "s", build_s=1.0, solve_s=3.0),
        row("b", "s", build_s=1.2, solve_s=4.0),
        row("a", "t", build_s=4.0, solve_s=4.0),
        row("b", "t", build_s=4.0, solve_s=1.0, answer="wrong"),
    ]
    (made,) = building(study_frame(rows))
    assert (made.instances, made.build_s, made.solve_s) == (2, pytest.approx(2), pytest.approx(math.sqrt(12)))
    assert made.share == pytest.approx((1 / 4 + 1 / 2) / 2)


def test_answers_that_differ_are_named_and_the_wrong_one_by_the_certificate():
    rows = judged(
        [
            row("a", objective=2.0, lower_exact="2", upper_exact="2"),
            row("b", objective=2.0 + 1e-7),
            row("c", objective=2.001),
        ]
    )
    assert [r["answer"] for r in rows] == ["right", "right", "wrong"]
    assert rows[1]["relative_error"] == pytest.approx(5e-8)
    assert rows[2]["certified_exact"] == "2"
    found = disagreements(study_frame(rows))
    assert [(a.method, b.method) for a, b in found] == [("a", "c"), ("b", "c")]


def test_what_any_row_proves_holds_for_all_rows_of_its_program():
    rows = judged(
        [
            row("a", objective=1.0, lower_exact="1/2", upper_exact="3"),
            row("b", objective=1.0, lower_exact="9/10"),
            row("c", objective=0.6, upper_exact="2"),
            row("d", "other", objective=0.6),
        ]
    )
    assert {(r["certified_lower"], r["certified_upper"]) for r in rows[:3]} == {(0.9, 2.0)}
    assert [r["answer"] for r in rows] == ["right", "right", "wrong", "unproven"]
    assert rows[2]["relative_error"] == pytest.approx(1 / 3)


def test_proofs_that_contradict_each_other_are_an_error():
    with pytest.raises(TuttiError, match=r"^m t: its optimum is proven to be at least 3 and at most 2$"):
        judged([row("a", lower_exact="3"), row("b", upper_exact="2")])


@pytest.mark.parametrize("name", MODELS)
def test_every_model_has_a_value_that_its_optimum_is_certified_by(name):
    instance = MODELS[name].build(parse_topology("torus:2x3"))
    result = solve(instance.compiled, "highs")
    lower, upper = instance.bounds(result)
    assert lower <= upper <= lower * Fraction(1_000_001, 1_000_000)
    assert float(lower) * (1 - 1e-7) <= result.objective <= float(upper) * (1 + 1e-7)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A study of tiny programs, run to its end."""
    folder = tmp_path_factory.mktemp("study")
    config = folder / "tiny.toml"
    config.write_text(STUDY)
    assert main(["run", str(config), "--out", str(folder / "out"), "--quiet"]) == 0
    return config, folder / "out"


def test_a_study_has_a_row_for_each_program_solver_and_seed(finished):
    frame = pd.read_parquet(finished[1] / "results.parquet")
    assert len(frame) == (3 * 2 + 1) * 3
    done = frame[frame.method != "HiPO"]
    assert set(done.status) == {"ok"}
    assert set(done.answer) == {"right"}
    assert (done.relative_error < 1e-9).all()
    assert (done.peak_rss_mb > 1).all()
    # BFB and the routing of a ring of 3 take one shard a link; 6 ordered pairs share 6 links in all-to-all.
    values = dict(zip(frame.model, frame.certified_exact, strict=True))
    assert values["bfb"] == values["routing"] == values["mcf"] == "1"


def test_each_row_of_a_study_has_its_log(finished):
    frame = pd.read_parquet(finished[1] / "results.parquet")
    logs = [finished[1] / log for log in frame.log.dropna()]
    assert len(set(logs)) == 14
    assert all(log.stat().st_size for log in logs)


def test_a_worker_elsewhere_writes_its_log_there_if_it_can_and_solves_all_the_same(tmp_path, monkeypatch):
    (tmp_path / "study.toml").write_text(STUDY)
    monkeypatch.chdir(tmp_path)
    (task, *_), out = study_of(read_config("study.toml"), {}).tasks, tmp_path / "out"
    for there in (False, True):
        outcome = perform(task, Workplace(directory=out))
        (row,) = outcome.rows
        assert (outcome.status, bool(row["log"])) == ("ok", there)
        assert not there or (out / row["log"]).is_file()
        (out / "logs").mkdir(parents=True, exist_ok=True)


def test_a_solver_that_is_not_installed_is_a_row_that_says_how_to_get_it(finished):
    frame = pd.read_parquet(finished[1] / "results.parquet")
    hipo = frame[frame.method == "HiPO"]
    if set(hipo.status) == {"ok"}:
        pytest.skip("HiPO is installed here")
    assert set(hipo.status) == {"unsupported"}
    assert hipo.message.str.contains("get it with: pip install").all()


def test_a_finished_study_is_not_run_again(finished, capsys):
    config, out = finished
    before = (out / "results.parquet").read_bytes()
    assert main(["run", str(config), "--out", str(out)]) == 0
    assert (out / "results.parquet").read_bytes() == before
    assert "21 rows: 14 ok, 7 unsupported" in capsys.readouterr().out


def test_the_manifest_of_a_study_names_solvers_and_answers(finished):
    manifest = json.loads((finished[1] / "manifest.json").read_text())
    assert manifest["settings"]["solvers"]["simplex"] == "highs method=simplex"
    assert manifest["settings"]["answers"]["right"] == 14
    assert manifest["seeds"] == [0, 1, 2]


def test_the_report_command_draws_the_same_page(finished, tmp_path):
    """But for when it was run: that it was asked for again and had nothing to do counts, too."""
    assert main(["report", str(finished[1]), "-o", str(tmp_path / "again.html")]) == 0
    pages = [
        (folder / name).read_text()
        for folder, name in ((tmp_path, "again.html"), (finished[1], "report.html"))
    ]
    again, first = (re.sub(r"<dt>sessions\..*?</dd>", "", page) for page in pages)
    assert again == first


def test_the_report_of_a_study_needs_nothing_else_and_says_who_to_choose(finished):
    page = (finished[1] / "report.html").read_text()
    outside = re.sub(r"<script>.*?</script>", "", page, flags=re.DOTALL)
    assert not re.search(r"""(src|href)=["']?(https?:)?//""", outside)
    assert "Which solver to choose when" in page
    charts = re.findall(r'data-chart="(\w+)"', outside)
    assert {"profile", "scaling", "errors"} == set(charts)
    assert "agree on its optimum to 1e-06" in page
    assert "HiPO" in page


def test_the_report_names_the_wrong_solver_and_escapes_what_it_prints(tmp_path):
    rows = judged(
        [
            row("<b>good</b>", objective=2.0, lower_exact="2", upper_exact="2"),
            row("bad", objective=3.0),
            row("slow", status="timeout", answer=None, objective=None, relative_error=None),
        ]
    )
    page = write_page(study_contents(rows, {"name": "x"}), tmp_path / "page.html").read_text()
    assert "<b>good</b>" not in page
    assert "1 answer is wrong" in page
    assert re.search(r"bad</th><td[^>]*>m t</td>", page)


def test_the_report_of_a_folder_shows_an_interval_where_that_is_the_certificate(tmp_path):
    """Beside a program whose optimum is known exactly, so that no column is empty throughout."""
    rows = judged(
        [
            row("a", "narrow", objective=2.0, lower_exact="2", upper_exact="2000001/1000000"),
            row("a", "exact", objective=3.0, lower_exact="3", upper_exact="3"),
            row("b", "open", status="timeout", answer=None, objective=None, relative_error=None),
        ]
    )
    (tmp_path / "manifest.json").write_text('{"name": "x"}')
    pq.write_table(to_table(rows, COLUMNS), tmp_path / "results.parquet")
    page = KINDS["solvers"].draw(tmp_path).read_text()
    body = re.sub(r"<(script|style)>.*?</\1>", "", page, flags=re.DOTALL)
    assert "2.000001 (proven to 5e-07)" in body
    assert "not certified" in body
    assert not re.search(r"\b(nan|None)\b", body)


def test_labels_of_more_than_a_word_and_old_names_of_models_are_read(tmp_path):
    rows = judged([row(name, model="all-to-all", objective=2.0) for name in ("HiGHS simplex", "HiGHS IPM")])
    (tmp_path / "manifest.json").write_text('{"name": "x"}')
    pq.write_table(to_table(rows, COLUMNS), tmp_path / "results.parquet")
    found = [(line["method"], line["model"]) for line in read_rows(tmp_path)]
    assert found == [("HiGHS simplex", "mcf"), ("HiGHS IPM", "mcf")]
    page = KINDS["solvers"].draw(tmp_path).read_text()
    assert "1 linear program, 2 solvers" in page
    assert find_model("all-to-all").name == "mcf"


def test_a_study_without_any_answer_still_has_a_report(tmp_path):
    nothing = {"answer": None, "objective": None, "relative_error": None, "nonzeros": None}
    rows = judged([row("a", status="failed", solve_s=None, build_s=None, **nothing)])
    shown = study_contents(rows, {"name": "x"})
    assert "not certified" in write_page(shown, tmp_path / "page.html").read_text()
    assert all(figure.data is None or len(figure.data) for figure in figures_of(shown))


changed = partial(replaced, STUDY)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (changed('name = "glop"', 'name = "glob"'),
         "[[solver]] 2: unknown solver 'glob'; did you mean 'glop'?"),
        (changed('method = "simplex"', 'metod = "simplex"'),
         "[[solver]] 1: solver highs has no option 'metod'; did you mean 'method'?"),
        (changed('method = "simplex"', 'method = "simplx"'),
         "[[solver]] 1: highs option method is 'simplx'; did you mean 'simplex'?"),
        (changed('method = "simplex"', "time_limit = 3"),
         "[[solver]] 1: option 'time_limit' is the same for all solvers; [study] sets it"),
        (changed('method = "simplex"', "presolve = 1"),
         "[[solver]] 1: highs option presolve is 1; it must be true or false"),
        (changed('label = "HiPO"', 'label = "simplex"'),
         "[[solver]] 3: label 'simplex' occurs twice; give each its own label"),
        (changed('time_limit = "20s"', 'time_limit = "0s"'),
         "[study]: time_limit is '0s'; it must be positive"),
        (changed("seeds = [0, 1]", "seeds = [1, 1]"),
         "[study]: seeds = [1, 1]; a list holds different seeds, none negative"),
        (changed('"bfb", ', '"bfp", '),
         "[[instance]] 1 (m = bfp): unknown model 'bfp'; did you mean 'bfb'?"),
        (changed('"bfb", ', '"bfb", "bfb", '),
         "[[instance]] 1 (m = bfb): bfb ring:3 is also [[instance]] 1 (m = bfb)"),
        (changed("workers = 1", "worker = 1"), "[study]: unknown key 'worker'; did you mean 'workers'?"),
    ],
)  # fmt: skip
def test_a_wrong_study_is_refused_in_one_line_before_anything_runs(text, message, tmp_path, capsys):
    assert message in refusal(text, tmp_path, capsys)


def test_the_shipped_study_can_be_read_and_has_forty_programs():
    study = read_study(read_config("configs/solvers.toml"))
    assert len(study.programs) >= 40
    assert {program.model for program in study.programs} >= {"bfb", "allreduce", "mcf", "routing"}
    assert read_config("configs/solvers.toml").kind == "solvers"
    assert read_config("configs/smoke.toml").kind == "schedules"


def test_a_limit_too_small_for_any_solution_is_a_row_and_not_a_failure(tmp_path):
    config = tmp_path / "short.toml"
    text = changed('memory_limit = "3GB"', 'memory_limit = "1MB"').replace("[0, 1]", "[0]")
    config.write_text(text.replace('["bfb", "mcf", "allreduce"]', '["bfb"]').replace("[2]", "[0]"))
    assert main(["run", str(config), "--out", str(tmp_path / "out"), "--quiet", "--only", "simplex"]) == 0
    frame = pd.read_parquet(tmp_path / "out" / "results.parquet")
    assert set(frame.status) == {"timeout"}
    assert set(frame.message) == {"stopped with 'memory limit'"} or "killed" in frame.message[0]


def test_a_program_is_written_for_other_solvers(tmp_path, capsys):
    path = tmp_path / "model.mps"
    assert main(["model", "routing", "ring:4", "-o", str(path), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["optimum"] == "3/2"
    assert (document["sense"], document["variables"]) == ("minimize", 12 * 8 + 4 * 8 + 1)
    assert path.read_text().startswith("NAME")


def test_a_program_that_is_unknown_or_does_not_suit_is_refused(tmp_path, capsys):
    path = str(tmp_path / "model.mps")
    assert main(["model", "rooting", "ring:4", "-o", path]) == 2
    assert "unknown model 'rooting'; did you mean 'routing'?" in capsys.readouterr().err
    assert main(["model", "bfb", "dgx_a100:1", "-o", path]) == 3
    assert main(["model", "bfb", "ring:4", "-o", "model.txt"]) == 2


def test_a_program_that_memory_does_not_hold_is_refused_before_it_is_built(tmp_path, capsys):
    """4,096 sources, 16,384 links: each of 6.7 x 10^7 flows is in three rows or about that."""
    path = str(tmp_path / "model.mps")
    assert main(["model", "mcf", "torus:64x64", "-o", path]) == 2
    said = capsys.readouterr().err
    assert "mcf on torus:64x64 would have about 2e+08 nonzeros and take about 302 GB" in said
    assert "--large writes it all the same" in said
    assert not Path(path).exists()


def test_a_large_program_is_written_if_one_insists(tmp_path, monkeypatch, capsys):
    path = str(tmp_path / "model.lp")
    monkeypatch.setattr("tutti.experiments.cli.run.MOST_MEMORY", 1000)
    assert main(["model", "routing", "ring:4", "-o", path]) == 2
    assert main(["model", "routing", "ring:4", "-o", path, "--large"]) == 0


@for_each(
    ("name", "text"),
    [
        (name, text)
        for name in MODELS
        for text in ("torus:3x3", "gen_kautz:3,20", "dgx_a100:1")
        if not (name.startswith("bfb") and text == "dgx_a100:1")  # BFB takes no switches
    ],
)
def test_the_size_of_a_program_is_known_before_it_is_built(name, text):
    """Within a fifth; of BFB's program, whose links are eligible for some shards only, at most."""
    topology, model = parse_topology(text), MODELS[name]
    built = model.build(topology).compiled.num_nonzeros
    least = 0 if name.startswith("bfb") else 0.8
    assert least <= built / model.entries(topology) <= 1.2
