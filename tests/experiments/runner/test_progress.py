"""A line that something goes on: on terminals only, only if it lasts, and gone in the end."""

import io
import json
import os
import platform
import re
import time
from types import SimpleNamespace

import pytest
from rich.console import Console

from experiments.cli import main, synth
from experiments.runner import progress
from experiments.runner.pool import Running
from experiments.runner.progress import Reporter, waiting
from experiments.runner.state import status
from topologies import InputError

SYNTH = ["synth", "ring:4", "--method", "bfb", "--size", "1MB"]
ERASED = "\x1b[2K"


def screen(text):
    """Return what is left on a terminal of what was written, a string a line."""
    lines, row, column = [""], 0, 0
    for piece in re.findall(r"\x1b\[[0-9;?]*[A-Za-z]|\r|\n|[^\x1b\r\n]+", text):
        if piece == "\r":
            column = 0
        elif piece == "\n":
            row, column = row + 1, 0
            lines += [""] * (row + 1 - len(lines))
        elif piece == ERASED:
            lines[row] = ""
        elif piece.endswith("A"):
            row -= int(piece[2:-1] or 1)
        elif not piece.startswith("\x1b"):
            lines[row] = lines[row][:column].ljust(column) + piece + lines[row][column + len(piece) :]
            column += len(piece)
    return lines


def terminal(width=80):
    return Console(
        file=io.StringIO(), force_terminal=True, force_interactive=True, width=width, color_system=None
    )


def test_what_lasts_is_said_with_its_time_and_the_line_is_gone_at_the_end(monkeypatch):
    monkeypatch.setattr(progress, "SILENT_SECONDS", 0.05)
    console = terminal()
    with waiting(console, "taccl on dgx2:2"):
        time.sleep(0.4)
        begun = console.file.getvalue()
    assert re.search(r"taccl on dgx2:2 0:00:00", begun)
    assert not any(line.strip() for line in screen(console.file.getvalue()))


def test_a_long_name_is_cut_to_the_line(monkeypatch):
    monkeypatch.setattr(progress, "SILENT_SECONDS", 0.0)
    console = terminal(width=30)
    with waiting(console, "tacos on " + "a/long/way/to/a/network/" * 4):
        time.sleep(0.3)
        shown = screen(console.file.getvalue())
    assert [len(line) <= 30 for line in shown] == [True]
    assert re.search(r"tacos on .*… 0:00:0\d", shown[0])


def test_what_is_quick_is_not_said():
    console = terminal()
    with waiting(console, "x"):
        pass
    time.sleep(0.1)
    assert console.file.getvalue() == ""


@pytest.mark.parametrize(
    ("console", "quiet"),
    [
        (Console(file=io.StringIO()), False),
        (Console(file=io.StringIO(), force_terminal=True, force_interactive=False), False),
        (terminal(), True),
    ],
    ids=["no terminal", "one that can't erase", "quiet"],
)
def test_nothing_is_written_where_it_can_not_or_shall_not_be(console, quiet, monkeypatch):
    monkeypatch.setattr(progress, "SILENT_SECONDS", 0.0)
    with waiting(console, "x", quiet=quiet):
        time.sleep(0.1)
    assert console.file.getvalue() == ""


@pytest.fixture
def slow(monkeypatch):
    """Let a synthesis take 0.3 s, and return the terminal that its line is written to."""
    console, make = terminal(), synth.synthesize_best

    def slowly(*arguments):
        time.sleep(0.3)
        return make(*arguments)

    monkeypatch.setattr(progress, "SILENT_SECONDS", 0.05)
    monkeypatch.setattr(synth, "synthesize_best", slowly)
    monkeypatch.setattr(synth, "console", lambda stream: console)
    return console


def test_a_long_synthesis_is_said_beside_json_that_is_as_ever(slow, capsys):
    assert main([*SYNTH, "--json"]) == 0
    assert "bfb on ring:4 0:00:00" in slow.file.getvalue()
    assert not any(line.strip() for line in screen(slow.file.getvalue()))
    out, err = capsys.readouterr()
    assert json.loads(out)["method"] == "bfb"
    assert err == ""


def test_a_quiet_synthesis_says_nothing_on_the_way(slow, capsys):
    assert main([*SYNTH, "--quiet"]) == 0
    assert slow.file.getvalue() == ""
    assert "method" in capsys.readouterr().out


def test_ctrl_c_while_the_line_is_there_erases_it_and_is_one_line(slow, capsys, monkeypatch):
    def interrupted(*arguments):
        time.sleep(0.3)
        raise KeyboardInterrupt

    monkeypatch.setattr(synth, "synthesize_best", interrupted)
    assert main(SYNTH) == 130
    assert "bfb on ring:4" in slow.file.getvalue()
    assert not any(line.strip() for line in screen(slow.file.getvalue()))
    assert capsys.readouterr().err == "tutti: stopped\n"


def task(method, rows=2):
    return SimpleNamespace(names=("ring:4", method), sizes=range(rows))


OK = SimpleNamespace(status="ok", rows=[{"message": ""}])


@pytest.fixture
def hasty(monkeypatch):
    for name in ("LOOK_SECONDS", "LOG_SECONDS", "WITHOUT_SECONDS"):
        monkeypatch.setattr(progress, name, 0.02)


def reported(console, folder, running, lacks=str):
    """Return what a run of ten rows, of which four were done before and two end, says on its way."""
    slow, quick = [task("slow") for _ in range(4)], task("quick")
    with Reporter(console, folder, [*slow, quick], slow[1:], "2 processes") as reporter:
        reporter.running, reporter.lacks = running, lacks
        reporter.finished(slow[1], OK)
        time.sleep(0.2)
        return status(folder)


def test_a_failed_row_is_one_short_line(tmp_path):
    console = Console(file=io.StringIO(), width=200)
    failed = SimpleNamespace(status="failed", rows=[{"message": f"\x1b[31m\n{10_000 * 'x'} is wrong"}])
    with Reporter(console, tmp_path, [task("slow")], [], "2 processes", quiet=True) as reporter:
        reporter.finished(task("slow"), failed)
    line = console.file.getvalue()
    assert line.startswith("failed: ")
    assert r"\x1b[31m\nxxx" in line
    assert line.endswith("xxx is wrong\n")
    assert len(line) == 301


def test_a_run_says_what_is_done_by_method_and_what_runs_where_since_when(hasty, tmp_path):
    console = Console(file=io.StringIO(), width=200)
    said = reported(console, tmp_path, lambda: [Running("taccl on x", 75.0, "process 7")])
    assert (said["state"], said["where"], said["process"]) == ("running", "2 processes", os.getpid())
    assert said["rows"] == {"slow": [4, 8], "quick": [2, 2]}
    assert said["running"] == [{"task": "taccl on x", "seconds": 75.0, "where": "process 7"}]
    assert 0 < said["ends_in"] < 10
    line = console.file.getvalue().splitlines()[0]
    assert re.fullmatch(
        r"6/10 rows, 1 running, 0 failed; ends about \d\d:\d\d; 0:01:15 taccl on x \(process 7\)", line
    )
    assert status(tmp_path)["state"] == "finished"
    assert [path.name for path in tmp_path.iterdir()] == ["progress.json"]


def test_a_terminal_shows_methods_and_tasks_below_the_bar(hasty, tmp_path):
    console = terminal(120)
    reported(console, tmp_path, lambda: [Running("taccl on x", 75.0, "process 7")])
    shown = console.file.getvalue()
    assert "6/10 rows, 1 running, 0 failed" in shown
    assert "  slow 4/8" in shown
    assert "  0:01:15 taccl on x (process 7)" in shown
    assert not any(line.strip() for line in screen(shown))


def test_no_workers_is_a_line_and_their_coming_another(hasty, tmp_path):
    console, answers = Console(file=io.StringIO(), width=200), iter(["workers"] * 4)
    reported(console, tmp_path, list, lambda: next(answers, ""))
    lines = [line for line in console.file.getvalue().splitlines() if "workers" in line]
    assert lines == ["waiting for workers at 2 processes", "workers have come"]


def test_who_waits_for_workers_foretells_no_end_and_who_was_stopped_waits_no_more(hasty, tmp_path):
    said = reported(Console(file=io.StringIO()), tmp_path, list, lambda: "workers")
    assert (said["state"], said["waits"], said["ends_in"]) == ("running", "workers", None)
    said = status(tmp_path)
    assert (said["state"], said["waits"]) == ("finished", "")


@pytest.mark.parametrize(
    ("changed", "state"),
    [
        ({}, "running"),
        ({"process": 2**22 + 1}, "killed"),
        ({"said": 0.0}, "killed"),  # the process of this number began later
        ({"host": "another", "said": 4e9}, "running"),
        ({"host": "another", "said": 0.0}, "killed"),
    ],
)
def test_a_run_that_was_killed_does_not_run(changed, state, tmp_path):
    said = {"state": "running", "where": "", "rows": {}, "failed": 0, "running": []}
    who = {"host": platform.node(), "process": os.getpid(), "said": time.time()}
    (tmp_path / "progress.json").write_text(json.dumps({**said, **who, **changed}))
    assert status(tmp_path)["state"] == state


def test_a_run_of_an_earlier_version_has_a_status_too(tmp_path):
    manifest = {"versions": {}, "rows": {"ok": 5, "failed": 1, "not run": 2}}
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    said = status(tmp_path)
    assert (said["state"], said["rows"], said["failed"]) == ("interrupted", {"": [6, 8]}, 1)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"state": "running"}', None])
def test_what_says_nothing_is_one_line(text, tmp_path):
    if text is not None:
        (tmp_path / "progress.json").write_text(text)
    with pytest.raises(InputError, match=f"^{tmp_path}: no results of a run that can be read$"):
        status(tmp_path)


FINISHED = {"state": "finished", "rows": {"a": [1, 2]}, "failed": 0, "where": "", "running": []}


@pytest.mark.parametrize(
    "wrong",
    [
        {"rows": []},
        {"rows": {"a": [1]}},
        {"rows": {"a": ["x", 2]}},
        {"running": [{"x": 1}]},
        {"seconds": "x"},
        {"seconds": 1e400},
        {"ends_in": 1e300},
    ],
)
def test_values_that_no_run_says_are_one_line(wrong, tmp_path):
    (tmp_path / "progress.json").write_text(json.dumps(FINISHED))
    assert status(tmp_path)["rows"] == {"a": [1, 2]}
    (tmp_path / "progress.json").write_text(json.dumps({**FINISHED, **wrong}))
    with pytest.raises(InputError, match=f"^{tmp_path}: no results of a run that can be read$"):
        status(tmp_path)


def test_the_command_says_how_far_all_studies_are_or_one(hasty, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["status"]) == 2
    assert capsys.readouterr().err.startswith("tutti: results: no results of a run")
    folder = tmp_path / "results" / "x"
    folder.mkdir(parents=True)
    reported(Console(file=io.StringIO()), folder, list)
    assert main(["status"]) == 0
    assert re.search(r"results/x +finished +6/10 +0 ", capsys.readouterr().out)
    assert main(["status", str(folder), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rows"] == {"slow": [4, 8], "quick": [2, 2]}
    assert main(["status", str(folder)]) == 0
    assert re.search(r"slow +4 +4", capsys.readouterr().out)
