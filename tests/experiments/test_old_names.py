"""Names of earlier versions are read: in configs, commands, Python, stored results and files."""

import csv
import json

import pytest

import tutti
from tutti.experiments.cli import main
from tutti.experiments.old_names import OLD_NAMES, OLD_OPTIONS, current_label, current_options
from tutti.experiments.registry import METHODS, find_method
from tutti.experiments.report.results import read_results
from tutti.experiments.runner.config import parse_config
from tutti.experiments.runner.plan import make_plan, rejudge, study_of
from tutti.experiments.runner.results import current_row
from tutti.experiments.runner.study import select
from tutti.models.bounds.check import OLD_NAMES as OLD_KINDS
from tutti.models.bounds.check import PROOFS
from tutti.schedules.method import Method
from tutti.topologies.errors import InputError
from tutti.topologies.options import build_options

CONFIG = """
name = "old"
[[topology]]
spec = "torus:3x3"
[[collective]]
kind = "all-to-all"
sizes = ["1KB"]
[[method]]
name = "stepwise"
options = {fewest = true, effort = 0, sweep = {rounds = [1, 2]}}
[[method]]
name = "refined"
options = {of = ["stepwise", "bfb"], time_limit = "1s"}
[[method]]
name = "best"
options = {methods = ["stepwise", "bfb"], gap = 0.5}
[report]
baseline = "stepwise effort=0 fewest=true rounds=1"
"""


def test_every_old_name_leads_to_a_name_of_today():
    assert set(OLD_NAMES.values()) <= METHODS.keys()
    assert not OLD_NAMES.keys() & METHODS.keys()
    assert set(OLD_KINDS.values()) <= PROOFS.keys()
    assert not OLD_KINDS.keys() & PROOFS.keys()
    for name, options in OLD_OPTIONS.items():
        own = vars(METHODS[name].options())
        assert set(options.values()) <= own.keys()
        assert not options.keys() & own.keys()


def test_a_config_of_an_earlier_version_has_tasks_with_names_of_today():
    config = parse_config(CONFIG)
    found = [(task.method, dict(task.options)) for task in make_plan(config, METHODS)]
    assert found == [
        ("shortest_path_all_to_all", {"min_steps": True, "search_effort": 0, "reroutes": 1}),
        ("shortest_path_all_to_all", {"min_steps": True, "search_effort": 0, "reroutes": 2}),
        ("local_search", {"base_methods": ["shortest_path_all_to_all", "bfb"], "time_limit": "1s"}),
        ("best", {"methods": ["shortest_path_all_to_all", "bfb"], "stop_at_gap": 0.5}),
    ]
    settings = study_of(config, METHODS).settings
    assert settings["baseline"] == "shortest_path_all_to_all min_steps=true reroutes=1 search_effort=0"


@pytest.mark.parametrize(
    "pattern", ["stepwise", "stepwise*", "* stepwise min_steps=*", "*all-to-all stepwise*"]
)
def test_a_pattern_finds_tasks_by_a_methods_old_name(pattern):
    tasks = make_plan(parse_config(CONFIG), METHODS)
    assert select(tasks, pattern) == tasks[:2]


def test_old_and_new_name_of_one_option_are_refused():
    with pytest.raises(
        InputError, match="method best: options 'gap' and 'stop_at_gap' say the same; give one"
    ):
        current_options("best", {"stop_at_gap": 0.1, "gap": 0.1})
    with pytest.raises(InputError, match="method ring has no option 'gap'"):
        build_options(METHODS["ring"], current_options("ring", {"gap": 0.1}))


def test_a_method_from_outside_keeps_a_name_that_one_had_here():
    own = Method("walks", "heuristic", METHODS["ring"].synthesize)
    assert find_method("walks", {"walks": own}).name == "walks"
    assert find_method("walks").name == "de_bruijn_allreduce"
    with pytest.raises(InputError, match="unknown method 'walks'"):
        find_method("walks", {"ring": METHODS["ring"]})


def test_python_and_the_command_line_take_old_names_and_write_new_ones(capsys):
    made = tutti.synthesize("torus:3x3", "all-to-all", method="stepwise", size="1KB", fewest=True)
    assert made.document["method"] == "shortest_path_all_to_all"
    command = ("synth", "torus:3x3", "--collective", "all-to-all", "--size", "1KB", "--json")
    main([*command, "--method", "stepwise", "--option", "fewest=true"])
    main([*command, "--method", "shortest_path_all_to_all", "--option", "min_steps=true"])
    documents = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert documents[0]["method"] == documents[1]["method"] == "shortest_path_all_to_all"
    assert documents[0]["time_us"] == documents[1]["time_us"] == made.document["time_us"]


def test_only_takes_old_names():
    tasks = make_plan(parse_config(CONFIG), METHODS)
    assert {task.method for task in select(tasks, "refined")} == {"local_search"}
    assert select(tasks, "stepwise") == select(tasks, "shortest_path_all_to_all")


def test_a_stored_row_is_read_with_names_of_today(tmp_path):
    row = {
        "topology": "ring:4",
        "collective": "allgather",
        "size_bytes": 1000,
        "status": "ok",
        "time_us": 3.0,
        "method": "tacos",
        "options": "chunks=4 pick=rarest",
        "bound_kind": "neighbours",
        "bound_us": 2.0,
    }
    chosen = {**row, "method": "best", "options": "gap=0.5 methods=stepwise,bfb", "algorithm": "rounds"}
    with (tmp_path / "results.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, chosen.keys())
        writer.writeheader()
        writer.writerows([row, chosen])
    first, second = read_results(tmp_path, baseline="tacos chunks=4 pick=rarest").rows.itertuples()
    assert (first.method, first.options) == ("tacos", "chunk_rule=rarest chunks=4")
    assert (first.bound_kind, second.algorithm) == ("first_hop", "min_latency")
    assert second.options == "methods=shortest_path_all_to_all,bfb stop_at_gap=0.5"
    assert current_row(current_row(row)) == current_row(row), "names of today stay"


def test_a_task_kept_by_an_earlier_version_is_found_by_its_text_of_today():
    """`--rejudge` looks for tasks by this text."""
    text = """
        name = "old"
        [[topology]]
        spec = "K(3) * 2"
        [[collective]]
        kind = "all-to-all"
        sizes = ["10B"]
        [[method]]
        name = "stepwise"
        options = {effort = 0, fewest = true}
    """
    (task,) = make_plan(parse_config(text), METHODS)
    label = "shortest_path_all_to_all min_steps=true search_effort=0"
    assert str(task) == f"K(3) * 2 all-to-all {label}"
    row = {**task.rows("timeout")[0], "method": "stepwise", "options": "effort=0 fewest=true"}
    kept = {"task": "K(3) * 2 all-to-all stepwise effort=0 fewest=true", "status": "timeout"}
    kept |= {"time_limit": 5.0, "rows": [row], "bounds": {}}
    broken = {"task": "x", "status": "ok", "rows": []}
    ((found, outcome),) = rejudge([task], [kept, broken])
    assert (found.key, found.time_limit, outcome.status) == (task.key, 5.0, "timeout")
    assert [f"{row['method']} {row['options']}" for row in outcome.rows] == [label]
    assert [one for one, _ in rejudge([task], [kept | {"task": str(task)}])] == [found], "names of today stay"


def test_labels_with_texts_that_are_no_options_stay():
    assert current_label("the best of both halves") == "the best of both halves"
    assert current_label("taccl sketch=my sketch.toml tries=3") == "taccl restarts=3 sketch=my sketch.toml"
    assert current_options("taccl", {"tries": 3}) == {"restarts": 3}


def test_a_schedule_file_holds_no_name_that_could_grow_old(tmp_path):
    """So files of earlier versions are read without a table of names."""
    path = tmp_path / "old.json"
    made = tutti.synthesize("torus:3x3", "all-to-all", method="stepwise", size="1KB", fewest=True)
    made.save(path)
    names = {*METHODS, *OLD_NAMES, *PROOFS, *OLD_KINDS} - {"transfers"}  # a key of the format
    assert not [name for name in names if f'"{name}"' in path.read_text()]
    assert len(tutti.verify(path)) == len(made.schedule)
