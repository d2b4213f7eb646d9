"""A study of training on the runner: its rows, its page, its numbers beside a paper's, and bad configs."""

import re
from pathlib import Path

import pytest

from tutti.experiments.cli import main
from tutti.experiments.registry import METHODS as ALL_METHODS
from tutti.experiments.runner.config import read_config
from tutti.experiments.runner.results import current_row, read_rows
from tutti.experiments.training.study import claims, read_training, study_of
from tutti.topologies.errors import InputError

NETWORK = '"ring:4?bandwidth=1GB/s&alpha=1us"'
JOB = """
[[job]]
name = "gpt2"
model = "gpt2"
parallel = {dp = 4}
networks = {dp = "ring:4?bandwidth=1GB/s&alpha=1us"}
bucket = "1TB"
overlap = false
"""
METHODS = """
[[method]]
name = "ring"

[[method]]
label = "half"
name = "formula"
formula = {alpha = "0us", bandwidth = "2GB/s", allreduce = [6, 1]}
"""
STATED = """
[[stated]]
where = "nowhere"
what = "ring over half"
value = 1.5
column = "weights_s"
job = "gpt*"
method = "ring"
over_method = "half"
"""


def config(folder: Path, job: str = JOB, methods: str = METHODS, stated: str = STATED) -> Path:
    path = folder / "study.toml"
    path.write_text(f'name = "study"\n{job}{methods}{stated}\n[run]\nworkers = 1\n')
    return path


def test_a_study_runs_and_says_what_papers_state(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All 248.6 MB of GPT-2's gradients: on a ring of 1 GB/s both ways 3/4 M/B, by the formula 1/2 M/B."""
    path = config(tmp_path)
    assert read_config(path).kind == "training"
    assert main(["run", str(path), "--out", str(tmp_path / "out")]) == 0
    ring, half = read_rows(tmp_path / "out")
    size = 2 * 124_318_464
    assert ring["weights_s"] == pytest.approx(0.75 * size / 1e9, rel=1e-3)
    assert half["weights_s"] == pytest.approx(0.5 * size / 1e9, rel=1e-6)
    assert ring["time_s"] == pytest.approx(ring["compute_s"] + ring["weights_s"])
    assert ring["optimal_s"] <= ring["time_s"]
    (claim,) = claims([ring, half], read_training(read_config(path))[2])
    assert claim.ours == pytest.approx(1.5, rel=1e-3)
    said = capsys.readouterr().out
    assert "ring over half" in said
    page = (tmp_path / "out" / "report.html").read_text()
    assert "ring over half" in page
    assert "What runs when, half" in page


def test_a_method_that_does_not_do_a_collective_is_a_row(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Rings do no all-to-all: the row and the terminal say so, the other is made."""
    job = JOB.replace('"gpt2"', '"switch_base_128"').replace("dp = 4}", "dp = 4, ep = 4}", 1)
    job = job.replace(f"{{dp = {NETWORK}}}", '{dp = "ring:4", ep = "ring:4"}')
    both = 'label = "both"\nname = "ring"\nothers = {all-to-all = "bound"}'
    methods = f'[[method]]\nname = "ring"\n[[method]]\n{both}\n'
    path = config(tmp_path, job, methods, "")
    assert main(["run", str(path), "--out", str(tmp_path / "out")]) == 0
    said = capsys.readouterr().out.replace("\n", " ")
    assert "unsupported: switch_base_128, ring: ring does allgather" in said
    ring, other = read_rows(tmp_path / "out")
    assert ring["status"] == "unsupported"
    assert "all-to-all" in ring["message"]
    assert other["status"] == "ok"
    assert other["activations_s"] > 0


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('model = "gpt2"', 'model = "gtp2"', "[[job]] 1: unknown model 'gtp2'"),
        ('model = "gpt2"', "", "[[job]] 1: no model; a job has one of model, simai and calculon"),
        ("{dp = 4}", "{dp = 0}", "[[job]] 1: option dp is 0; it must be a whole number, 1 to 10000000"),
        ("{dp = 4}", "{zz = 4}", "[[job]] 1: parallel: unknown group 'zz'"),
        ("{dp = 4}", "{dp = 4}\nranks = 8", "1 x 1 x 4 x 1 = 4, but there are 8 ranks"),
        ("{dp = 4}", "{dp = 4, ep = 3}", "ep = 3 does not divide the 4 ranks that share the batch"),
        ("{dp = 4}", "{dp = 8}", "job 'gpt2', method ring: gpt2: group dp has 8 ranks, its network 4"),
        ("{dp = 4}", "{dp = 4, tp = 2}", 'group tp has 2 ranks and no network; add networks = {tp = "..."}'),
        (NETWORK, '"rong:4"', "unknown family 'rong'"),
        ('"1TB"', '"1XB"', "'1XB'"),
        ("overlap = false", 'schedule = "zb"', "option schedule is 'zb'; allowed: 1f1b, gpipe"),
        ("overlap = false", "efficiency = 2.0", "option efficiency is 2.0; it must be at most 1 and above 0"),
        ("overlap = false", 'device = "a1000"', "option device is 'a1000'; did you mean"),
        ("overlap = false", 'compute = "-1s"', "time '-1s' is negative"),
        ("overlap = false", 'matrix = "zipf:1"', "gpt2: matrix is for tokens of experts"),
        ("overlap = false", "batch = 0", "option batch is 0; it must be a whole number, 1 to 1000000000"),
        ("overlap = false", f"batch = {10**400}", "it must be a whole number, 1 to 1000000000"),
        ("overlap = false", "microbatches = 99999", "7799922 operations or more; at most 1000000"),
        ('name = "ring"', 'name = "own"', "'own' is for the networks of Calculon's system; dp has ring:4"),
        ('name = "ring"', 'name = "rang"', "[[method]] 1: unknown method 'rang'"),
        ("allreduce = [6, 1]", "allreduce = [6]", "formula: allreduce is [6]; it is [steps, factor]"),
        (", allreduce = [6, 1]", "", "job 'gpt2', method half: formula: no time for allreduce; it has none"),
        ("allreduce = [6, 1]", "allreduse = [6, 1]", "formula: unknown collective 'allreduse'"),
        ('column = "weights_s"', 'column = "weight"', "[[stated]] 1: unknown column 'weight'"),
        ('over_method = "half"', 'over_method = "whole"', "method 'whole' does not do all of gpt2"),
        ('job = "gpt*"', 'job = "bert"', "[[stated]] 1: no job matches 'bert'"),
        ("[[stated]]", '[[method]]\nname = "ring"\n[[stated]]', "[[method]]: label 'ring' occurs twice"),
    ],
)
def test_what_is_wrong_with_a_config_is_one_line(tmp_path: Path, old: str, new: str, message: str) -> None:
    path = config(tmp_path)
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(InputError, match=re.escape(message)) as error:
        read_training(read_config(path))
    assert "\n" not in str(error.value)
    assert str(path) in str(error.value)


def test_one_rank_alone_computes(tmp_path: Path) -> None:
    read = read_config(config(tmp_path, JOB.replace("{dp = 4}", "{}"), METHODS, ""))
    tasks = study_of(read, ALL_METHODS).tasks
    assert [task.rows("ok")[0]["ranks"] for task in tasks] == [1, 1]


def test_what_a_stage_sends_takes_what_the_formula_says(tmp_path: Path) -> None:
    """Two sends of 1024 tokens of 768 numbers of 2 bytes, there and back; without a time it is refused."""
    job = JOB.replace("dp = 4", "pp = 2").replace("dp =", "pp =").replace("ring:4", "ring:2")
    with pytest.raises(InputError, match="method half: formula: no time for send; it has allreduce"):
        read_training(read_config(config(tmp_path, job, METHODS, "")))
    path = config(tmp_path, job, METHODS.replace("[6, 1]", "[6, 1], send = [1, 1]"), "")
    assert main(["run", str(path), "--out", str(tmp_path / "out")]) == 0
    _, half = read_rows(tmp_path / "out")
    assert half["activations_s"] == pytest.approx(2 * 1024 * 768 * 2 / 2e9)


def test_groups_on_one_network_take_turns(tmp_path: Path) -> None:
    """With the same text, or by a formula, they share links; with two networks they don't."""
    job = JOB.replace("dp = 4}", "dp = 4, ep = 4}", 1).replace('"gpt2"', '"switch_base_128"')
    names = []
    for text in ('"ring:4"', '"complete:4"'):
        both = job.replace(f"{{dp = {NETWORK}}}", f'{{dp = "ring:4", ep = {text}}}')
        methods = METHODS.replace("[6, 1]", "[6, 1], all-to-all = [2, 1]")
        jobs, entrants, _ = read_training(read_config(config(tmp_path, both, methods, "")))
        names += [{entrant.on(jobs[0])[group].name for group in ("dp", "ep")} for entrant in entrants]
    assert list(map(len, names)) == [1, 1, 2, 1]


def test_names_of_earlier_versions_are_read_in_methods_and_stated_numbers(tmp_path: Path) -> None:
    methods = '[[method]]\nname = "stepwise"\noptions = {fewest = true}\nothers = {allreduce = "rounds"}\n'
    stated = STATED.replace('"ring"', '"stepwise"').replace('over_method = "half"', 'over_column = "time_s"')
    path = config(tmp_path, methods=methods, stated=stated)
    jobs, entrants, papers = read_training(read_config(path))
    assert entrants[0].options == {"min_steps": True}  # as its rows show them
    networks = entrants[0].on(jobs[0])["dp"]
    assert (networks.method, networks.others) == ("shortest_path_all_to_all", {"allreduce": "min_latency"})
    row = {"job": "gpt2", "method": "stepwise", "status": "ok", "weights_s": 3.0, "time_s": 2.0}
    assert claims([current_row(row)], papers)[0].ours == 1.5


def test_a_label_of_several_words_is_read_whole() -> None:
    for options in (None, "slices=2"):
        row = {"method": "shifted rings", "options": options}
        assert current_row(row) == row
