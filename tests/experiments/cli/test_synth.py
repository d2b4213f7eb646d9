"""``tutti synth``: what it prints, its notes, and where schedules go."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from fractions import Fraction
from pathlib import Path

import pytest

from tests.experiments.cli.commands import SYNTH
from tutti.experiments import result
from tutti.experiments.cli import main, synth
from tutti.experiments.cli.parser import make_parser
from tutti.experiments.registry import find_method
from tutti.schedules.files.schedule_file import read_schedule
from tutti.schedules.verify import verify
from tutti.topologies import InputError


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
    assert not re.search(r"^rounds", out, re.M)
    assert re.search(r"^exact for +rounds of 1 chunk a shard *$", out, re.M)


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
    assert re.search(r"slower +ring 21 us; 2 without a schedule \(--json says why\)", out)
    document = json.loads(tutti(*asked, "--json")[1])
    assert document["algorithm"] == "direct"
    assert [one["method"] for one in document["tried"]] == ["ring", "rhd", "rhd distance=halving", "direct"]
    _, out, _ = tutti(*asked[:-1], "methods=rhd,direct,ring")
    assert re.search(r"slower +2 without a schedule, 1 not needed \(--json says why\)", out)
    _, out, _ = tutti(*asked[:-1], "methods=rhd,ring,direct", "--option", "time_limit=1ns")
    assert re.search(r"slower +2 without a schedule, 1 out of time \(--json says why\)", out)
    assert "power of two" in document["tried"][1]["why"]


def test_the_best_of_several_seeds_is_no_worse_than_the_first(tutti):
    command = ["synth", "mesh:3x3", "--method", "tacos", "--size", "1GB", "--json"]
    one, many = (json.loads(tutti(*command, "--seeds", n)[1]) for n in (1, 8))
    assert one["seed"] == 0
    assert many["time_us"] <= one["time_us"]


def test_one_seed_is_tried_and_reported(tutti):
    """Of seeds 0 to 7 the best is kept; that seed alone makes the same schedule, and others do not."""
    command = [
        "synth",
        "mesh:3x3",
        "--method",
        "tacos",
        "--option",
        "chunk_rule=uniform",
        "--size",
        "1GB",
        "--json",
    ]
    best = json.loads(tutti(*command, "--seeds", 8)[1])
    each = [json.loads(tutti(*command, "--seed", seed)[1]) for seed in range(8)]
    assert [one["seed"] for one in each] == list(range(8))
    assert each[best["seed"]]["time_us"] == best["time_us"] == min(one["time_us"] for one in each)
    assert len({one["time_us"] for one in each}) > 1


def test_a_size_that_does_not_divide_is_said_and_not_rounded(tutti):
    _, out, err = tutti("synth", "ring:3", "--method", "bfb", "--size", "1000B", "--json")
    assert "1KB does not divide into 3 chunks of whole bytes; times are for fractional chunks" in err
    assert json.loads(out)["size_bytes"] == 1000


@pytest.mark.parametrize(
    ("options", "said"),
    [([], "for 10s; --option time_limit=1min gives it more time"), (["--option", "time_limit=2s"], "for 2s")],
)
def test_what_is_said_without_a_method_is_the_limit_that_holds(options, said):
    arguments = make_parser().parse_args(["synth", "ring:4", *options])
    method = find_method("best")
    (note,) = synth._notes(method, arguments, synth._given(method, arguments))
    assert note == f"no --method was given, so best tries the sensible ones {said}"


def test_seeds_of_a_method_without_randomness_are_a_note(tutti):
    code, _, err = tutti(*SYNTH, "--seeds", 4)
    assert (code, err) == (0, "tutti: note: bfb has no randomness, so --seeds 4 is one try.\n")
    assert tutti(*SYNTH, "--seeds", 1)[2] == ""
    code, _, err = tutti(*SYNTH, "--seed", 4)
    assert (code, err) == (0, "tutti: note: bfb has no randomness, so --seed 4 changes nothing.\n")


def test_a_schedule_that_cannot_be_written_does_not_take_its_numbers_along(tutti, tmp_path, monkeypatch):
    def full(schedule, path):
        raise InputError(f"{path}: can't be written: No space left on device")

    monkeypatch.setattr(result, "write_schedule", full)
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


def test_synth_prints_heights_trees_slices_and_what_multicast_saves(capsys):
    assert main(["synth", "dgx_h100:2", "--method", "forestcoll", "--size", "1GB", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert 1 <= document["heights"]["mean"] <= document["heights"]["max"]
    assert document["trees"] >= 1
    assert document["slices"] >= 1
    assert document["rank_egress"] < document["rank_egress_unicast"]
    assert document["link_traffic"] < document["link_traffic_unicast"]


ROWS_AND_COLUMNS = ["synth", "torus:4x4?alpha=0us", "--method", "ring", "--groups"]


def test_groups_by_dimensions_are_told_together_and_one_after_the_other(tutti):
    """Rings of 4 move 3/4 of M, half each way at 50 GB/s, an allreduce twice; dimensions share no link."""
    dimensions = "row=4:allreduce@40MB,column=4:reduce-scatter@160MB"
    code, out, _ = tutti(*ROWS_AND_COLUMNS, dimensions, "--json")
    document = json.loads(out)
    row, column = 2 * 3 / 4 * 40 / 2 / 50e-3, 3 / 4 * 160 / 2 / 50e-3
    assert code == 0
    assert document["size_bytes"] == 160 * 10**6
    assert document["time_us"] == pytest.approx(max(row, column))
    assert document["sequential_us"] == pytest.approx(row + column)
    assert [float(time) for time in document["alone_us"].split("; ")] == pytest.approx([row, column])
    assert document["gap"] == pytest.approx(0, abs=1e-9)
    said = tutti(*ROWS_AND_COLUMNS, dimensions)[1]
    assert re.search(r"^instead +1800 us one after the other: 600 us \+ 1200 us *$", said, re.M)


def test_another_size_scales_all_groups(tutti):
    dimensions = "row=4:allreduce@40MB,column=4:reduce-scatter@160MB"
    code, out, _ = tutti(*ROWS_AND_COLUMNS, dimensions, "--size", "16MB", "--json")
    document = json.loads(out)
    assert code == 0
    assert document["sequential_us"] == pytest.approx(180)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["row=4,column=5"], "groups 'row=4,column=5': the sizes multiply to 20, for 16 ranks"),
        (["row=4:alreduce,column=4"], "unknown collective 'alreduce'"),
        (["row=4,column=4", "--root", "1"], "groups by dimensions take no root, shards and matrix"),
        (["0,1|1,2"], "allgather: rank 1 occurs twice in the groups; groups must be disjoint"),
    ],
)
def test_groups_that_make_no_sense_are_refused_in_a_line(tutti, given, message):
    code, out, err = tutti(*ROWS_AND_COLUMNS, *given)
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1


SLOW = """
from pathlib import Path
import time
from tutti.schedules.method import Method
def synthesize(problem, options, rng):
    Path("begun").touch()
    time.sleep(60)
METHOD = Method("slow", "heuristic", synthesize)
"""


def interrupted(folder, methods):
    """Return exit code, output and errors of a `synth` that got Ctrl-C once the slow method had begun."""
    (folder / "slow.py").write_text(SLOW)
    code = "import sys; from tutti.experiments.cli import main; sys.exit(main())"
    given = ["synth", "ring:4", "--size", "1MB", "--plugin", "slow.py", "--option", f"methods={methods}"]
    command = [
        sys.executable,
        "-c",
        code,
        *given,
        "--option",
        "stop_at_gap=0",
        "--method",
        "best",
        "-o",
        "out.json",
    ]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[3])}
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, cwd=folder, env=environment, process_group=0, **streams) as process:
        until = time.monotonic() + 60
        while not (folder / "begun").exists() and process.poll() is None and time.monotonic() < until:
            time.sleep(0.01)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does, which sends it to all of them
        out, err = process.communicate(timeout=30)
    return process.returncode, out, err


def test_ctrl_c_prints_and_writes_the_best_schedule_so_far(tmp_path):
    code, out, err = interrupted(tmp_path, "ring,slow")
    assert code == 130
    assert re.search(r"^method +best", out, re.M), err
    note, last = err.splitlines()[-2:]
    assert note == "tutti: note: interrupted before all methods were tried"
    assert last == "tutti: stopped"
    assert re.search(r"^fastest +ring", out, re.M)
    verify(read_schedule(tmp_path / "out.json"))


def test_ctrl_c_before_there_is_a_schedule_is_one_line(tmp_path):
    assert interrupted(tmp_path, "slow,ring") == (130, "", "tutti: stopped\n")
    assert not (tmp_path / "out.json").exists()
