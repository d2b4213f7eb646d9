"""The commands: what they print, their exit codes, and one line for whatever is wrong."""

import errno
import json
import os
import re
import shlex
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import pytest

from experiments.cli import main, parser, synth
from experiments.cli.bound import sentence
from experiments.runner import run as runner
from experiments.runner.results import read_results
from experiments.runner.store import Store
from models.bounds import lower_bounds
from schedules.collective import KINDS, collective
from topologies import InputError, parse_topology

ROOT = Path(__file__).parents[3]
SYNTH = ["synth", "ring:4", "--method", "bfb", "--size", "1MB"]
TACOS = ["synth", "ring:4", "--method", "tacos", "--size", "1MB"]


@pytest.fixture
def tutti(capsys):
    """Run a command; return its exit code, standard output and standard error."""

    def call(*arguments: object) -> tuple[int, str, str]:
        code = main([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        return code, out, err

    return call


@pytest.fixture
def schedule(tutti, tmp_path):
    """A file with a BFB allgather on a ring of four."""
    path = tmp_path / "ring.json"
    assert tutti(*SYNTH, "-o", path)[0] == 0
    return path


def test_synth_prints_the_measures_of_the_design(tutti):
    code, out, _ = tutti(*SYNTH, "--json")
    document = json.loads(out)
    assert code == 0
    assert out.count("\n") == 1
    assert (document["method"], document["verified"], document["tl_steps"]) == ("bfb", True, 2)
    assert document["tb_factor"] == "3/4"  # (N - 1)/N: BFB is optimal on rings
    assert Fraction(document["congestion"]) == Fraction(3, 400)  # 3/4 M at 100 GB/s into a rank, in s/GB
    assert {"time_us", "algbw_gbps", "bound_us", "gap", "synth_s", "transfers"} <= document.keys()
    assert document["gap"] == pytest.approx(document["time_us"] / document["bound_us"] - 1, abs=1e-12)


def test_synth_for_people_names_the_gap(tutti):
    code, out, _ = tutti(*SYNTH)
    assert code == 0
    assert "allgather on ring:4, step clock" in out
    assert "3/4 M/B" in out


def test_synth_says_what_a_solver_has_proven(tutti):
    """SCCL on a line of 3, a broadcast of 2 chunks in 2 steps: 4 rounds, of which the bounds know 2."""
    line = ["synth", "mesh:3x1", "--method", "sccl", "--collective", "broadcast", "--size", "1MB"]
    options = ["--option", "chunks=2", "--option", "steps=2", "--option", "start=false"]
    code, out, _ = tutti(*line, *options)
    assert code == 0
    assert re.search(r"^rounds +4 in 2 steps *$", out, re.M)
    assert re.search(
        r"^solver +cp-sat \S+, optimal for the method's model, \d+ variables, \d+ const", out, re.M
    )
    _, out, _ = tutti(*line, *options, "--option", "rounds=4", "--json")
    document = json.loads(out)
    assert document["frontier"] == [{"steps": 2, "rounds": 4, "least_rounds": 2}]
    assert document["solver_gap"] == 0.5
    assert document["variables"] > 0
    assert "solver" not in tutti(*SYNTH, "--option", "by=counting")[1]


@pytest.mark.parametrize(
    ("method", "collective", "program", "variables", "constraints"),
    [
        # By hand on a ring of 4, which has 8 links. At each of 4 nodes 2 sources one hop away, over one link
        # each, and one opposite, over two: U twice, and a row a source and a link.
        ("bfb", "allgather", "linear programs (3.1)", 4 * (2 + 2 + 1 + 1), 4 * (2 + 2 + 1 + 2)),
        # 4 x 8 flows and f; 8 links, and 4 x 3 nodes in need.
        ("mcf", "all-to-all", "linear program (A.1)", 33, 20),
        # x, both capacities of a link, and for each of 4 both flows on 8 links and 4 arcs from or to s; rows
        # for 8 links, for 4 x 12 bounds of each flow, and for its 4 x 4 nodes, of which one gets the whole.
        ("allreduce_lp", "allreduce", "linear program (B.5)", 4 + 16 + 96, 8 + 96 + 32),
    ],
)
def test_synth_says_which_program_was_solved(tutti, method, collective, program, variables, constraints):
    line = ["synth", "ring:4", "--method", method, "--collective", collective, "--size", "1MB"]
    model = [*line, "--option", "by=model"]
    code, out, _ = tutti(*model, "--json")
    assert code == 0
    document = json.loads(out)
    solved = program, variables, constraints
    assert tuple(document[name] for name in ("program", "variables", "constraints")) == solved
    said = " ".join(tutti(*model)[1].split())
    size = f"{variables} variables, {constraints} constraints; built in "
    assert re.search(
        rf"program solved {re.escape(program)} with highs \S+: {size}\S+ s, solved in \S+ s", said
    )


@pytest.mark.parametrize(
    ("method", "collective", "option", "said"),
    [
        ("bfb", "allgather", "by=counting", None),
        ("mcf", "all-to-all", "by=orbits", None),
        ("allreduce_lp", "allreduce", "by=cuts", "linear program (B.5), by its cuts with highs"),
        ("forestcoll", "allgather", "search=binary", "maximum flows of Algorithm 1 with ortools in "),
        ("forestcoll", "allgather", "search=newton", None),
    ],
)
def test_synth_says_what_a_fast_way_has_solved(tutti, method, collective, option, said):
    line = ["synth", "ring:4", "--method", method, "--collective", collective, "--size", "1MB"]
    code, out, _ = tutti(*line, "--option", option)
    assert code == 0
    shown = " ".join(out.split())
    assert ("program solved" in shown) == (said is not None)
    assert f"program solved {said or ''}" in shown or said is None


def test_synth_refuses_a_model_too_large_for_its_time(tutti):
    line = ["synth", "torus:16x16", "--method", "mcf", "--collective", "all-to-all", "--size", "1MB"]
    code, _, said = tutti(*line, "--option", "by=model", "--option", "time_limit=5")
    assert code == 3
    assert "mcf by=model on torus:16x16 has 262,144 variables, about 13 s to build and solve" in said


def test_synth_gives_no_rounds_of_a_half_for_an_allreduce(tutti):
    """On a ring of 4 each half has 2 steps, the allreduce 4."""
    sccl = ["synth", "ring:4", "--method", "sccl", "--collective", "allreduce", "--size", "1MB"]
    _, out, _ = tutti(*sccl)
    assert re.search(r"^T_L +4 *$", out, re.M)
    assert "rounds" not in out.replace("no more rounds", "")


EMPTY = (
    "synth",
    "ring:3",
    "--method",
    "direct",
    "--collective",
    "gather",
    "--shards",
    "1,0,0",
    "--size",
    "1MB",
)


def test_where_nothing_has_to_move_there_is_no_gap(tutti):
    """The root has all data: the bound is 0, and the empty messages of the others take α, 0.5 us."""
    code, out, _ = tutti(*EMPTY, "--json")
    document = json.loads(out)
    assert code == 0
    assert (document["bound_us"], document["gap"], document["time_us"]) == (0, None, 0.5)
    code, out, _ = tutti(*EMPTY)
    assert code == 0
    assert "gap" not in out


def test_chunks_and_options_reach_the_method(tutti):
    plain = json.loads(tutti(*SYNTH, "--json")[1])
    chunked = json.loads(tutti(*SYNTH, "--json", "--chunks", 6)[1])
    optioned = json.loads(tutti(*SYNTH, "--json", "--option", "chunks=6")[1])
    assert chunked["transfers"] == optioned["transfers"] >= plain["transfers"]


def test_the_portfolio_says_whose_schedule_it_is_and_what_the_others_take(tutti):
    """A third to both others at once takes 0.5 + 20 us; a ring's half thirds twice 0.5 + 10 us each way."""
    asked = ["synth", "complete:3", "--collective", "allgather", "--size", "3MB", "--method", "best"]
    asked += ["--option", "methods=ring,rhd,direct"]
    _, out, _ = tutti(*asked)
    assert re.search(r"fastest +direct *\n", out)
    assert re.search(r"slower +ring 21 us; 2 without a schedule or not tried: --json says why", out)
    document = json.loads(tutti(*asked, "--json")[1])
    assert document["algorithm"] == "direct"
    assert [one["method"] for one in document["tried"]] == ["ring", "rhd", "rhd distance=halving", "direct"]
    assert "power of two" in document["tried"][1]["why"]


def test_the_best_of_several_seeds_is_no_worse_than_the_first(tutti):
    command = ["synth", "mesh:3x3", "--method", "tacos", "--size", "1GB", "--json"]
    one, many = (json.loads(tutti(*command, "--seeds", n)[1]) for n in (1, 8))
    assert one["seed"] == 0
    assert many["time_us"] <= one["time_us"]


def test_a_size_that_does_not_divide_is_said_and_not_rounded(tutti):
    _, out, err = tutti("synth", "ring:3", "--method", "bfb", "--size", "1000B", "--json")
    assert "1KB does not divide into the chunks" in err
    assert "not rounded" in err
    assert json.loads(out)["size_bytes"] == 1000


def test_a_legal_schedule_is_verified(tutti, schedule):
    # Into each rank: two neighbours' shards, and half of the opposite one over each link.
    assert tutti("verify", schedule)[:2] == (0, "legal: 16 transfers, allgather on ring:4, step clock\n")
    assert json.loads(tutti("verify", schedule, "--json")[1])["verified"] is True


def test_an_illegal_schedule_is_exit_1_and_names_the_transfer(tutti, schedule):
    document = json.loads(schedule.read_text())
    for column in document["transfers"].values():
        del column[0]
    schedule.write_text(json.dumps(document))
    code, out, err = tutti("verify", schedule)
    assert (code, out) == (1, "")
    assert err.startswith("tutti: ")
    assert err.count("\n") == 1
    code, out, _ = tutti("verify", schedule, "--json")
    assert (code, json.loads(out)["verified"]) == (1, False)
    assert tutti("simulate", schedule, "--size", "1MB")[0] == 1


def test_a_simulated_file_takes_the_time_of_its_synthesis(tutti, schedule):
    made = json.loads(tutti(*SYNTH, "--json")[1])
    code, out, _ = tutti("simulate", schedule, "--size", "1MB", "--json")
    assert code == 0
    assert json.loads(out)["time_us"] == made["time_us"]
    assert "busiest link" in tutti("simulate", schedule, "--size", "1MB")[1]


def test_bounds_are_one_document_a_topology(tutti):
    code, out, _ = tutti("bound", "dgx_a100:1", "dgx_a100:2", "--json")
    first, second = map(json.loads, out.splitlines())
    assert code == 0
    assert first["algbw_gbps"] == pytest.approx(2400 / 7, rel=1e-12)  # 342.857 GB/s: 7/8 M into each GPU
    assert second["algbw_gbps"] == pytest.approx(1040 / 3, rel=1e-12)  # 346.667
    cut = next(bound for bound in second["bounds"] if bound["kind"] == "cut")
    assert (Fraction(cut["exact"]), cut["unit"]) == (1 / Fraction(1040, 3), "s/GB")
    assert first["size_bytes"] is None


def test_bounds_at_a_size_have_times(tutti):
    out = tutti("bound", "ring:4", "--size", "1MB", "--json")[1]
    document = json.loads(out)
    assert all(bound["time_us"] > 0 for bound in document["bounds"])
    assert document["best"]["time_us"] == max(bound["time_us"] for bound in document["bounds"])


def test_bounds_for_people_name_the_topology(tutti):
    out = tutti("bound", "ring:4")[1]
    assert "allgather on ring:4" in out
    assert "133.333 GB/s" in out


def test_bounds_for_people_are_sentences_about_the_smaller_side(tutti):
    """15/16 of M reaches a GPU over 300 + 25 GB/s; a box of eight has 8 x 25 GB/s to the other."""
    out = tutti("bound", "dgx_a100:2")[1]
    assert "15/16 of M must enter rank 0, whose links in carry 325 GB/s" in out
    assert " us " not in out
    out = tutti("bound", "dgx_a100:2", "--collective", "allreduce", "--size", "1MB")[1]
    assert re.search(r"all of M must (leave|enter) the 8 ranks \[(0-7|8-15)\] and switch 1[67], ", out)
    assert " us " in out


@pytest.mark.parametrize("kind", KINDS)
def test_every_certificate_has_a_sentence_with_units(kind):
    for text in ("mesh:3x3?drop_nodes=4", "dgx_a100:2"):
        topology = parse_topology(text)
        for bound in lower_bounds(topology, collective(kind, topology.num_ranks), 10**6):
            assert re.search(r"\d (GB/s|us)|\dus", sentence(bound.kind, bound.certificate, topology))


def test_rooted_collectives_and_groups_can_be_asked_for(tutti):
    out = tutti("bound", "ring:4", "--collective", "broadcast", "--root", 2, "--json")[1]
    assert json.loads(out)["collective"] == "broadcast(root=2)"
    out = tutti("bound", "ring:4", "--groups", "0,1|2,3", "--shards", "1,2", "--json")[1]
    assert json.loads(out)["collective"] == "allgather(shards=1,2; groups=0,1|2,3)"


@pytest.mark.parametrize(
    ("what", "name"), [("methods", "bfb"), ("topologies", "torus"), ("solvers", "highs")]
)
def test_lists_have_a_document_each(tutti, what, name):
    code, out, _ = tutti("list", what, "--json")
    assert code == 0
    assert name in [json.loads(line)["name"] for line in out.splitlines()]
    assert name in tutti("list", what)[1]


def test_the_list_of_methods_says_what_each_does_and_needs(tutti):
    lines = tutti("list", "methods", "--json")[1].splitlines()
    found = {method["name"]: method for method in map(json.loads, lines)}
    assert set(found["direct"]["collectives"]) == set(KINDS)
    assert found["direct"]["networks"] == ["any"]
    assert found["rhd"]["networks"] == ["needs a power of two ranks"]
    assert found["bfb"]["collectives"] == ["allgather", "reduce-scatter", "allreduce"]
    assert found["bfb"]["networks"] == ["needs no switches"]


@pytest.mark.parametrize(
    ("name", "needs"),
    [
        ("torus_rings", ["a torus or mesh"]),
        ("swing", ["a torus whose sides are powers of two"]),
        ("shifted_ring", ["a circulant network, links i to i ± a for all i"]),
        ("ccube", ["8 ranks without switches with two disjoint binary trees, as dgx1 is"]),
        ("tto", ["a 2D mesh of at least 3x3"]),
        ("postal", ["at most 256 ranks"]),
        ("expansion", ["a network in the papers' notation, such as L(C(16,{3,4}))"]),
        (
            "allreduce_trees",
            ["a network with switches to be Eulerian", "links both ways that join all ranks"],
        ),
    ],
)
def test_what_a_method_needs_is_listed(tutti, name, needs):
    """As docs/baselines.md has it."""
    lines = tutti("list", "methods", "--json")[1].splitlines()
    found = {method["name"]: method for method in map(json.loads, lines)}
    assert found[name]["networks"] == [f"needs {need}" for need in needs]


def test_which_data_a_method_moves_is_listed(tutti):
    lines = tutti("list", "methods", "--json")[1].splitlines()
    found = {method["name"]: method["data"] for method in map(json.loads, lines)}
    assert found["ring"] == ["all ranks", "uneven shards"]
    assert found["bfb"] == ["all ranks", "equal shards"]
    assert found["forestcoll"] == ["one group, of all ranks or some", "uneven shards"]
    assert found["direct"] == ["any groups", "uneven shards", "several kinds at once"]


def test_a_list_of_nothing_says_the_choices(tutti):
    assert "methods|topologies|solvers" in tutti("list")[2]


def test_the_help_names_every_collective(tutti):
    assert list(KINDS) == list(parser.COLLECTIVES)
    assert "all-to-all" in tutti("synth", "--help")[1]


@pytest.mark.parametrize("command", [parser.EXAMPLES, parser.SYNTH_EXAMPLES])
def test_the_examples_of_the_help_run(tutti, tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    for line in command.splitlines()[1:]:
        assert tutti(*shlex.split(line)[1:])[0] == 0


def test_seeds_of_a_method_without_randomness_are_a_note(tutti):
    code, _, err = tutti(*SYNTH, "--seeds", 4)
    assert (code, err) == (0, "tutti: note: bfb has no randomness, so --seeds 4 is one try\n")
    assert tutti(*SYNTH, "--seeds", 1)[2] == ""


def test_help_and_version_succeed(tutti):
    assert tutti("--help")[0] == 0
    assert tutti("--version")[1].startswith("tutti ")


LIMITED = ["synth", "ring:4", "--method", "best", "--size", "1MB"]
BAD = [
    (["frobnicate"], 2, r"invalid choice: 'frobnicate'"),
    (["synth", "ring:4"], 2, r"the following arguments are required: --method, --size"),
    (["synth", "rng:4", "--method", "bfb", "--size", "1MB"], 2, r"unknown family 'rng'; did you mean"),
    (
        ["synth", "ring:4", "--method", "bbf", "--size", "1MB"],
        2,
        r"unknown method 'bbf'; did you mean 'bfb'\?",
    ),
    ([*SYNTH, "--collective", "allgahter"], 2, r"unknown collective 'allgahter'; did you mean 'allgather'\?"),
    (["synth", "ring:4", "--method", "bfb", "--size", "1000"], 2, r"has no unit"),
    (
        ["synth", "ring:4", "--method", "direct", "--size", "1MB", "--chunks", "2"],
        2,
        r"no option 'chunks'; it has none",
    ),
    ([*SYNTH, "--chunks", "0"], 2, r"chunks is 0; it must be a whole number, at least 1"),
    ([*SYNTH, "--chunks", "2", "--option", "chunks=2"], 2, r"say the same; give one of them"),
    ([*SYNTH, "--option", "chunks"], 2, r"option 'chunks': write it as NAME=VALUE"),
    ([*SYNTH, "--option", "chnks=2"], 2, r"no option 'chnks'; did you mean 'chunks'\?"),
    ([*SYNTH, "--option", "chunks=two"], 2, r"option 'chunks': input should be .*, not \"two\""),
    ([*SYNTH, "--seeds", "0"], 2, r"--seeds 0; at least 1 is needed"),
    ([*SYNTH, "--root", "1"], 2, r"allgather takes no root"),
    ([*SYNTH, "--shards", "1,x"], 2, r"--shards '1,x': 'x' is not a number"),
    ([*SYNTH, "-o", "/nowhere/x.json"], 2, r"/nowhere/x\.json"),
    ([*SYNTH, "-o", "x.txt"], 2, r"x\.txt: a schedule file's name ends in"),
    (
        [*TACOS, "--chunks", "99999999999999999999"],
        2,
        r"transfers on ring:4 need .* GB of memory; this machine has",
    ),
    ([*TACOS, "--option", "chunks=2020-01-01"], 2, r"option 'chunks': .*, not \"2020-01-01\""),
    ([*TACOS, "--option", "chunks=1\nb=2"], 2, r"option 'chunks': input should be a valid integer"),
    ([*TACOS, "--option", "chunks=" + "9" * 5000], 2, r"option 'chunks': input should be a valid integer"),
    ([*TACOS, "--option", "chunks=" + "[" * 5000], 2, r"option 'chunks': input should be a valid integer"),
    (["bound", "ring:4?bandwidth=1e59B/s"], 2, r"'ring:4\?bandwidth=1e59B/s': bandwidth is too large; each"),
    (["bound", "torus:3x3?alpha=1e20s,1e-20s"], 2, r"alpha has values too large or too far apart; each"),
    (["synth", "dgx_a100:2", "--method", "bfb", "--size", "1MB"], 3, r"bfb needs a switch-free topology"),
    (["synth", "ring:5", "--method", "rhd", "--size", "1MB"], 3, r"rhd needs a power of two ranks"),
    (["bound", "ring:1"], 2, r"ring"),
    (["bound", "ring:4?bandwidth=-5GB/s"], 2, r"negative"),
    (["bound", "ring:4", "--size", "0B"], 2, r"zero"),
    (["bound", "ring:4", "--size", "-1MB"], 2, r"size '-1MB' is negative; it must be positive"),
    (["synth", "ring:4", "--method", "bfb", "--size", "-.5MB"], 2, r"size '-\.5MB' is negative; it must"),
    (["synth", "ring:4", "--method", "bfb", "--size=-1MB"], 2, r"size '-1MB' is negative; it must"),
    (["simulate", "none.json", "--size", "-x"], 2, r"argument --size: expected one argument"),
    ([*SYNTH, "--shards", "-1,1,1,1"], 2, r"shard"),
    (["find", "--nodes", "-5", "--degree", "2"], 2, r"-5"),
    ([*LIMITED, "--option", "time_limit=15 parsecs"], 2, r"'time_limit': time '15 parsecs' has an unknown"),
    ([*LIMITED, "--option", "time_limit=-15"], 2, r"option 'time_limit': time '-15s' is negative"),
    (["bound", "none.json"], 2, r"none\.json"),
    (["verify", "none.json"], 2, r"none\.json"),
    (["simulate", "none.json", "--size", "1MB"], 2, r"none\.json"),
    (["list", "nothing"], 2, r"invalid choice: 'nothing'"),
    (["run", "none.toml"], 2, r"none\.toml: No such file or directory"),
]


@pytest.mark.parametrize(("arguments", "code", "message"), BAD, ids=range(len(BAD)))
def test_bad_input_is_one_line_and_an_exit_code(tutti, arguments, code, message):
    found, out, err = tutti(*arguments)
    assert (found, out) == (code, "")
    assert re.search(message, err), err
    assert err.startswith("tutti")
    assert err.count("\n") == 1


def test_malformed_json_is_one_line(tutti, tmp_path):
    path = tmp_path / "broken.json"
    path.write_text('{"format": "tutti.schedule/1",')
    for command in (["verify", path], ["simulate", path, "--size", "1MB"], ["bound", path]):
        code, out, err = tutti(*command)
        assert (code, out) == (2, "")
        assert "broken.json" in err
        assert err.count("\n") == 1


def write_smoke(folder: Path) -> Path:
    path = folder / "x.toml"
    path.write_text(
        'name = "x"\n[[topology]]\nspec = "ring:4"\n[[collective]]\nkind = "allgather"\nsizes = ["1MB"]\n'
        '[[method]]\nname = "bfb"\n[[method]]\nname = "rhd"\n[run]\nworkers = 1\n'
    )
    return path


def test_a_run_prints_its_gaps_and_writes_its_report(tutti, tmp_path):
    code, out, _ = tutti("run", write_smoke(tmp_path), "--out", tmp_path / "out")
    assert code == 0
    assert f"2 rows: 2 ok; report: {tmp_path / 'out' / 'report.html'}" in out
    assert "gap: time over the proven lower bound" in out
    assert {"results.parquet", "results.csv", "gaps.csv", "manifest.json", "report.html"} <= {
        path.name for path in (tmp_path / "out").iterdir()
    }


def test_results_of_other_code_are_said_to_be_left_out(tutti, tmp_path, monkeypatch):
    path, out = write_smoke(tmp_path), tmp_path / "out"
    assert "1 rows: 1 ok; 1 not run; report:" in tutti("run", path, "--out", out, "--only", "bfb")[1]
    monkeypatch.setattr("experiments.runner.plan.code_digest", lambda: "other")
    said = tutti("run", path, "--out", out, "--only", "bfb")[1]
    assert "1 not run (results made by other code or another config are left out); report:" in said


def test_a_size_that_does_not_divide_is_a_note_and_no_message(tutti, tmp_path):
    path = write_smoke(tmp_path)
    path.write_text(path.read_text().replace("1MB", "1001B"))
    assert tutti("run", path, "--out", tmp_path / "out")[0] == 0
    rows = read_results(tmp_path / "out").to_dict("records")
    assert {row["message"] for row in rows} == {""}
    assert all("1001B does not divide into the chunks" in row["note"] for row in rows)


def test_a_run_with_failed_rows_is_exit_1(tutti, tmp_path, monkeypatch):
    path = write_smoke(tmp_path)
    path.write_text(path.read_text().replace('"bfb"', '"crash"').replace('"rhd"', '"good"'))
    options = runner.RunOptions
    monkeypatch.setattr(
        "experiments.cli.run.RunOptions", lambda **given: options(**given, registry="zoo:METHODS")
    )
    code, out, err = tutti("run", path, "--out", tmp_path / "out")
    assert code == 1
    assert "1 failed, 1 ok" in out
    assert "failed: ring:4 allgather crash: ValueError: a fault" in err


def test_a_wrong_config_is_exit_2_and_nothing_runs(tutti, tmp_path):
    path = write_smoke(tmp_path)
    path.write_text(path.read_text().replace("[[method]]", "[[methods]]"))
    code, _, err = tutti("run", path, "--out", tmp_path / "out")
    assert code == 2
    assert "unknown key 'methods'; did you mean 'method'?" in err
    assert not (tmp_path / "out").exists()


def test_a_full_disk_is_one_line_and_exit_2(tutti, tmp_path, monkeypatch):
    def full(*arguments):
        raise OSError(errno.ENOSPC, "No space left on device", "tasks/x.json")

    monkeypatch.setattr(Store, "save", full)
    code, _, err = tutti("run", write_smoke(tmp_path), "--out", tmp_path / "out")
    assert code == 2
    kept = "what is done is kept, the same command continues"
    assert err.splitlines()[-1] == f"tutti: tasks/x.json: No space left on device; {kept}"


def test_ctrl_c_in_a_command_is_one_line(tutti, monkeypatch):
    def stop(text):
        raise KeyboardInterrupt

    monkeypatch.setattr("experiments.cli.bound.parse_topology", stop)
    assert tutti("bound", "ring:4") == (130, "", "tutti: stopped\n")


def test_the_script_runs_from_any_directory_and_without_its_libraries_says_so(tmp_path):
    script = ROOT / "experiments" / "run.py"
    path = write_smoke(tmp_path)
    # -S leaves out site-packages: a Python without the libraries.
    bare = subprocess.run(
        [sys.executable, "-S", "-E", script, path], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert bare.returncode == 2
    assert "run `make setup`" in bare.stderr
    assert bare.stderr.count("\n") == 1
    full = subprocess.run(
        [sys.executable, script, path, "--quiet"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (full.returncode, full.stdout, full.stderr) == (0, "", "")
    assert (tmp_path / "results" / "x" / "report.html").exists()


def test_a_reader_that_leaves_is_no_traceback():
    # The pipe is closed before the command writes to it.
    command = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r}); from experiments.cli import main; sys.exit(main())"
    )
    arguments = [sys.executable, "-c", command, "list", "topologies", "--json"]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        process.stdout.close()
        assert process.stderr.read() == ""
    assert process.returncode == 141


def test_a_schedule_that_cannot_be_written_does_not_take_its_numbers_along(tutti, tmp_path, monkeypatch):
    def full(schedule, path):
        raise InputError(f"{path}: can't be written: No space left on device")

    monkeypatch.setattr(synth, "write_schedule", full)
    code, out, err = tutti(*SYNTH, "-o", tmp_path / "x.json", "--json")
    assert code == 2
    assert json.loads(out)["verified"] is True
    assert err.startswith(f"tutti: {tmp_path}/x.json: can't be written: No space left on device")
    assert err.count("\n") == 1


def test_where_a_schedule_cannot_go_is_said_before_it_is_made(tutti, tmp_path, monkeypatch):
    monkeypatch.setattr(synth, "synthesize_best", None)
    code, _, err = tutti(*SYNTH, "-o", tmp_path / "none" / "x.json")
    assert code == 2
    assert "no directory" in err


def test_a_fault_of_tutti_is_one_line_that_says_where(tutti, monkeypatch):
    monkeypatch.setattr(synth, "find_method", lambda name: {}["two\nlines"])
    code, out, err = tutti(*SYNTH)
    assert (code, out) == (70, "")
    assert re.fullmatch(r"tutti: a fault in tutti: KeyError: .*\(test_cli\.py:\d+\).*\n", err), err


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">/dev/full"])
def test_output_that_is_closed_or_full_is_no_traceback(closed):
    script = "import sys; from experiments.cli import main; sys.exit(main(['list', 'topologies', '--json']))"
    line = f'exec "$0" -c "$1" {closed}'
    done = subprocess.run(
        ["/bin/sh", "-c", line, sys.executable, script], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == (2 if "full" in closed else 0)
    assert done.stderr == ("tutti: No space left on device\n" if "full" in closed else "")


def test_output_that_knows_ascii_only_gets_a_table():
    script = "import sys; from experiments.cli import main; sys.exit(main(['list', 'topologies']))"
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, env=environment, capture_output=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"torus:AxBx..." in done.stdout


def test_synth_prints_heights_trees_slices_and_what_multicast_saves(capsys):
    assert main(["synth", "dgx_h100:2", "--method", "forestcoll", "--size", "1GB", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert 1 <= document["heights"]["mean"] <= document["heights"]["max"]
    assert document["trees"] >= 1
    assert document["slices"] >= 1
    assert document["rank_egress"] < document["rank_egress_unicast"]
    assert document["link_traffic"] < document["link_traffic_unicast"]
