"""The commands: their exit codes, and one line for whatever is wrong."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.experiments.cli.commands import ROOT, SYNTH, TACOS, write_smoke
from tutti.experiments.cli import synth

LIMITED = ["synth", "ring:4", "--method", "best", "--size", "1MB"]


BAD = [
    (["frobnicate"], 2, r"invalid choice: 'frobnicate'; allowed: bound, .*, verify; see tutti --help"),
    (["sinth"], 2, r"invalid choice: 'sinth'; did you mean 'synth'\?"),
    (["list", "methds"], 2, r"invalid choice: 'methds'; did you mean 'methods'\?"),
    (
        ["synth", "ring:4", "--metod", "bfb"],
        2,
        r"tutti synth: no option '--metod'; did you mean '--method'\?",
    ),
    (["simulate", "x.json", "--sise=1MB"], 2, r"no option '--sise'; did you mean '--size'\?"),
    (["--versoin"], 2, r"tutti: no option '--versoin'; did you mean '--version'\?"),
    ([*SYNTH, "--meth", "bfb"], 2, r"no option '--meth'; did you mean '--method'\?"),
    ([*SYNTH, "extra"], 2, r"tutti synth: unrecognized arguments: extra; see tutti synth --help"),
    ([*TACOS, "--seed", "3", "--seeds", "2"], 2, r"--seeds: not allowed with argument --seed"),
    (
        [*TACOS, "--seed", "-1"],
        2,
        r"option --seed is -1; it must be a whole number, 0 to 9223372036854775807",
    ),
    ([*TACOS, "--seed", str(2**63)], 2, r"option --seed is 9223372036854775808; it must be"),
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
    ([*SYNTH, "--sizes", "1MB"], 2, r"tutti synth: no option '--sizes'; did you mean '--size'\?"),
    ([*SYNTH, "--chunks", "0"], 2, r"chunks is 0; it must be a whole number, at least 1"),
    ([*SYNTH, "--chunks", "2", "--option", "chunks=2"], 2, r"say the same; give one of them"),
    ([*SYNTH, "--option", "chunks"], 2, r"option 'chunks': write it as NAME=VALUE"),
    ([*SYNTH, "--option", "chnks=2"], 2, r"no option 'chnks'; did you mean 'chunks'\?"),
    ([*SYNTH, "--option", "chunks=two"], 2, r"option 'chunks': input should be .*, not \"two\""),
    (
        ["synth", "ring:4", "--method", "ring", "--size", "1MB", "--option", "one_way=yes"],
        2,
        r"option 'one_way': input should be true or false, not \"yes\"",
    ),
    ([*LIMITED, "--option", "methods=2"], 2, r"option 'methods': input should be a list, not 2"),
    ([*SYNTH, "--seeds", "0"], 2, r"option --seeds is 0; it must be a whole number, 1 to 1000000"),
    ([*TACOS, "--seeds", "123456789012345678901"], 2, r"option --seeds is 123456789012345678901; it must"),
    (
        [*SYNTH, "-o", "a\0.json"],
        2,
        r"argument -o/--output: no file has a null character in its name: 'a.x00",
    ),
    (["verify", "a\0.json"], 2, r"no file has a null character"),
    (["bound", "a\0.json"], 2, r"no file has a null character"),
    (["bound", "\x1b[31mred"], 2, r"x1b\[31mred' is not understood"),
    (["\x1b[31mrun"], 2, r"invalid choice: '.?.x1b\[31mrun'"),
    ([*TACOS, "--option", "degree=999999999"], 3, r"tacos with a degree unwinds switches; ring:4 has none"),
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
    (["bound"], 2, r"needs a topology, such as torus:4x4, or --check FILE"),
    (["bound", "--check", "none.json"], 2, r"none\.json"),
    (["help", "sinth"], 2, r"no command 'sinth'; did you mean 'synth'"),
    (["synth", "DGX_H100:2"], 2, r"unknown family 'DGX_H100'; did you mean 'dgx_h100'"),
    (["synth", "dgx-h100:2"], 2, r"unknown family 'dgx-h100'; did you mean 'dgx_h100'"),
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
    (["run", "none.toml"], 2, r"none\.toml: can't be read: No such file or directory"),
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


def test_ctrl_c_in_a_command_is_one_line(tutti, monkeypatch):
    def stop(text):
        raise KeyboardInterrupt

    monkeypatch.setattr("tutti.experiments.cli.synth.parse_topology", stop)
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


def test_a_fault_of_tutti_is_one_line_that_says_where(tutti, monkeypatch):
    monkeypatch.setattr(synth, "find_method", lambda name: {}["two\nlines"])
    code, out, err = tutti(*SYNTH)
    assert (code, out) == (70, "")
    assert re.fullmatch(r"tutti: a fault in tutti: KeyError: .*\(test_cli\.py:\d+\).*\n", err), err


READERS = {
    "x.toml": ["run"],
    "x.json": ["verify"],
    "x.json.gz": ["verify"],
    "x.npz": ["verify"],
    "x.rounds": ["verify"],
    "sketch.toml": ["synth", "dgx1", "--method", "taccl", "--size", "1MB", "--option"],
    "net.json": ["bound"],
}


@pytest.mark.parametrize(("name", "command"), READERS.items())
def test_a_pipe_is_not_waited_for_and_a_device_is_not_read(tutti, name, command, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for target in (tmp_path / "pipe", Path("/dev/zero")):
        path = tmp_path / name
        path.unlink(missing_ok=True)
        path.symlink_to(target)
        code, out, err = tutti(*command, f"sketch={path}" if "--option" in command else path)
        assert (code, out) == (2, "")
        assert err.startswith("tutti: ")
        assert err.endswith(f"{name}: can't be read: not a regular file\n")


def test_a_signal_waits_until_the_compiler_has_been_called_back():
    """What is raised in a function that C calls is printed with its traceback, and lost."""
    called = "import signal\ndef back():\n    signal.raise_signal(signal.SIGTERM)\n    print('whole')\n"
    script = "import sys, time\nfrom tutti.experiments.cli import main, synth\n"
    script += f"exec(compile({called!r}, 'site-packages/llvmlite/binding/executionengine.py', 'exec'))\n"
    script += "def slow(text):\n    back()\n    time.sleep(30)\nsynth.parse_topology = slow\n"
    script += "sys.exit(main(['bound', 'ring:4']))"
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "whole\n", "tutti: stopped\n")


def test_sigterm_stops_as_ctrl_c_does():
    script = "import signal, sys\nfrom tutti.experiments.cli import main, synth\n"
    script += "synth.parse_topology = lambda text: signal.raise_signal(signal.SIGTERM)\n"
    script += "sys.exit(main(['bound', 'ring:4']))"
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "tutti: stopped\n")


LONG = "\x1b[31m\n" + 10_000 * "x"


@pytest.mark.parametrize(
    "words",
    [
        [LONG],
        ["synth", "ring:4", f"--{LONG}"],
        ["synth", LONG],
        ["synth", f"ring:4?{LONG}=1"],
        [*SYNTH[:2], "--method", LONG],
        [*TACOS, "--option", f"{LONG}=1"],
        [*SYNTH, "--size", LONG],
        ["verify", f"{LONG}.json"],
        ["run", f"{LONG}.toml"],
        ["report", LONG],
        ["help", LONG],
    ],
    ids=range(11),
)
def test_an_error_is_300_characters_at_most_whatever_the_words_hold(tutti, words):
    code, out, err = tutti(*words)
    assert (code, out) == (2, "")
    assert err.startswith("tutti")
    assert err.endswith("\n")
    assert err[:-1].isprintable()
    assert len(err) <= 301


def test_a_long_key_leaves_the_file_and_what_is_allowed_in_the_error(tutti, tmp_path):
    path = tmp_path / "x.toml"
    path.write_text(f'name = "x"\n"{10_000 * "k"}\\n" = 1\n')
    code, _, err = tutti("run", path)
    assert (code, len(err)) == (2, 301)
    assert err.startswith(f"tutti: {path}: unknown key 'kkk")
    assert err.endswith(", sweep, topology\n")
