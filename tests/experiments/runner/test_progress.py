"""A line that something goes on: on terminals only, only if it lasts, and gone in the end."""

import io
import json
import re
import time
from types import SimpleNamespace

import pytest
from rich.console import Console

from tutti.experiments.cli import main, synth
from tutti.experiments.runner import progress
from tutti.experiments.runner.pool import Running
from tutti.experiments.runner.progress import Reporter, waiting

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
    monkeypatch.setattr(progress, "PACE", progress.PACE._replace(silent=0.05))
    console = terminal()
    with waiting(console, "taccl on dgx2:2"):
        time.sleep(0.4)
        begun = console.file.getvalue()
    assert re.search(r"taccl on dgx2:2 0:00:00", begun)
    assert not any(line.strip() for line in screen(console.file.getvalue()))


def test_a_long_name_is_cut_to_the_line(monkeypatch):
    monkeypatch.setattr(progress, "PACE", progress.PACE._replace(silent=0.0))
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
    monkeypatch.setattr(progress, "PACE", progress.PACE._replace(silent=0.0))
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

    monkeypatch.setattr(progress, "PACE", progress.PACE._replace(silent=0.05))
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
    return SimpleNamespace(names=("ring:4", method), num_rows=rows)


OK = SimpleNamespace(status="ok", rows=[{"message": ""}])


@pytest.fixture
def hasty(monkeypatch):
    monkeypatch.setattr(progress, "PACE", progress.PACE._replace(look=0.02, log=0.02, plain=0.02))


def reported(console, running, lacks=str):
    """Return what a run of ten rows, of which four were done before and two end, says on its way."""
    slow, quick = [task("slow") for _ in range(4)], task("quick")
    with Reporter(console, [*slow, quick], slow[1:], "2 processes") as reporter:
        reporter.running, reporter.lacks = running, lacks
        reporter.finished(slow[1], OK)
        time.sleep(0.2)


def test_a_failed_row_is_one_short_line():
    console = Console(file=io.StringIO(), width=200)
    failed = SimpleNamespace(status="failed", rows=[{"message": f"\x1b[31m\n{10_000 * 'x'} is wrong"}])
    with Reporter(console, [task("slow")], [], "2 processes", quiet=True) as reporter:
        reporter.finished(task("slow"), failed)
    line = console.file.getvalue()
    assert line.startswith("failed: ")
    assert r"\x1b[31m\nxxx" in line
    assert line.endswith("xxx is wrong\n")
    assert len(line) == 301


def test_a_run_says_what_is_done_and_what_runs_where_since_when(hasty):
    console = Console(file=io.StringIO(), width=200)
    reported(console, lambda: [Running("taccl on x", 75.0, "process 7")])
    line = console.file.getvalue().splitlines()[0]
    assert re.fullmatch(
        r"6/10 rows, 1 running, 0 failed; ends about \d\d:\d\d; 0:01:15 taccl on x \(process 7\)", line
    )


def test_a_terminal_shows_methods_and_tasks_below_the_bar(hasty):
    console = terminal(120)
    reported(console, lambda: [Running("taccl on x", 75.0, "process 7")])
    shown = console.file.getvalue()
    assert "6/10 rows, 1 running, 0 failed" in shown
    assert "  slow 4/8" in shown
    assert "  0:01:15 taccl on x (process 7)" in shown
    assert not any(line.strip() for line in screen(shown))


def test_no_workers_is_a_line_and_their_coming_another(hasty):
    console, answers = Console(file=io.StringIO(), width=200), iter(["workers"] * 4)
    reported(console, list, lambda: next(answers, ""))
    lines = [line for line in console.file.getvalue().splitlines() if "workers" in line]
    assert lines == ["waiting for workers at 2 processes", "workers have come"]


def test_who_waits_for_workers_foretells_no_end(hasty):
    console = Console(file=io.StringIO(), width=200)
    reported(console, list, lambda: "workers")
    last = [line for line in console.file.getvalue().splitlines() if "rows" in line][-1]
    assert last == "6/10 rows, 0 running, 0 failed; its end is not known yet"
