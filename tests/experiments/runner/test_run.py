"""The runner: every outcome is a row, nothing done is lost, and the results do not depend on how it ran."""

import contextlib
import csv
import errno
import gzip
import hashlib
import io
import json
import multiprocessing
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import pandas as pd
import psutil
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from tests.experiments import zoo
from tutti.experiments.runner import cluster
from tutti.experiments.runner.config import read_config
from tutti.experiments.runner.plan import make_plan
from tutti.experiments.runner.results import COLUMNS, read_csv, read_frame, write_csv
from tutti.experiments.runner.run import RunOptions, run
from tutti.experiments.runner.store import Store
from tutti.experiments.runner.study import DiskError, Workplace, perform
from tutti.topologies import InputError, TuttiError, parse_topology
from tutti.topologies.files import replacing, to_node_link

DESIGNED = """
    topology nodes switches links collective size_bytes method kind options seed status message synth_s
    build_s solve_s peak_rss_mb time_us algbw_gbps tl_steps tb_factor congestion bound_us bound_kind gap
    verified variables constraints solver solver_gap
"""

HEAD = """
name = "x"
[[topology]]
spec = "ring:{n}"
sweep = {n = [4, 5]}
[[collective]]
kind = "allgather"
sizes = ["1KB", "1MB"]
"""


def write_config(folder: Path, *methods: str, run_table: str = "", head: str = HEAD) -> Path:
    path = folder / "x.toml"
    tables = "".join(f"[[method]]\n{method}\n" for method in methods)
    path.write_text(f"{head}{tables}[run]\nworkers = 2\n{run_table}")
    return path


def go(config: Path, out: Path, **options):
    text = io.StringIO()
    screen = Console(file=text, width=200)
    summary = run(config, RunOptions(out=out, registry="zoo:METHODS", **options), screen)
    return summary, text.getvalue()


def table(out: Path) -> list[tuple[str, float, str]]:
    """Return the entries of a store: their key, when they were made, and what they say."""
    with contextlib.closing(sqlite3.connect(out / "tasks.sqlite")) as file:
        return file.execute("SELECT key, made, document FROM tasks").fetchall()


def made(out: Path) -> dict[str, float]:
    return {key: when for key, when, _ in table(out)}


def entries(out: Path) -> dict[str, dict]:
    return {key: json.loads(document) for key, _, document in table(out)}


def overwrite(out: Path, key: str, document: str) -> None:
    """Change what an entry says behind the store's back."""
    with contextlib.closing(sqlite3.connect(out / "tasks.sqlite", isolation_level=None)) as file:
        file.execute("UPDATE tasks SET document = ? WHERE key = ?", (document, key))


def comparable(out: Path) -> list[dict[str, str]]:
    with (out / "results.csv").open() as file:
        return [{k: v for k, v in row.items() if k not in MEASURED} for row in csv.DictReader(file)]


@pytest.fixture(scope="module")
def mixed(tmp_path_factory):
    """A run of all sorts of methods with two workers."""
    folder = tmp_path_factory.mktemp("mixed")
    names = ["good", "crash", "killed", "hang", "liar", "hopeless", "picky", "by_size"]
    head = HEAD.replace("[4, 5]", "[4]")
    methods = [f'name = "{name}"' for name in names]
    config = write_config(
        folder, *methods, 'name = "lucky"\nseeds = 4', run_table='time_limit = "1s"', head=head
    )
    summary, text = go(config, folder / "out")
    return summary, text, folder / "out"


def row(mixed, method: str, size: int = 10**6) -> pd.Series:
    frame = read_frame(mixed[2])
    (index,) = frame.index[(frame["method"] == method) & (frame["size_bytes"] == size)]
    return frame.loc[index]


def test_the_columns_are_those_of_the_design(mixed):
    designed = DESIGNED.split()
    assert list(COLUMNS)[: len(designed)] == designed
    assert list(read_frame(mixed[2]).columns) == list(COLUMNS)


def test_busbw_is_three_quarters_of_algbw_for_an_allgather_of_four(mixed):
    found = row(mixed, "good")
    assert found["busbw_gbps"] == pytest.approx(0.75 * found["algbw_gbps"])
    assert pd.isna(row(mixed, "hopeless")["busbw_gbps"])
    assert pd.isna(found["speedup"])


def test_a_baseline_is_named_in_the_config_and_changed_without_another_synthesis(tmp_path):
    """Each of two seeds has its own speed-up."""
    methods = ['name = "good"', 'name = "lucky"\nseeds = [0, 1]']
    for baseline in ("good", "lucky"):
        config = write_config(tmp_path, *methods, run_table=f'[report]\nbaseline = "{baseline}"')
        switched = time.time()
        go(config, tmp_path / "out")
        frame = read_frame(tmp_path / "out")
        for _, case in frame.groupby(["topology", "size_bytes"]):
            least = case.loc[case["method"] == baseline, "time_us"].min()
            assert list(case["speedup"]) == pytest.approx([least / each for each in case["time_us"]])
        assert (
            json.loads((tmp_path / "out" / "manifest.json").read_text())["settings"]["baseline"] == baseline
        )
    assert max(made(tmp_path / "out").values()) < switched


def test_a_baseline_that_is_no_method_is_refused_before_anything_runs(tmp_path):
    config = write_config(tmp_path, 'name = "good"', run_table='[report]\nbaseline = "god"')
    with pytest.raises(InputError) as error:
        go(config, tmp_path / "out")
    said = "[report]: baseline 'god' is no method of this config; did you mean 'good'?"
    assert str(error.value) == f"{config}: {said}"
    assert not (tmp_path / "out").exists()


def test_rows_stand_in_the_order_of_the_config(mixed):
    methods = ["good", "crash", "killed", "hang", "liar", "hopeless", "picky", "by_size", "lucky"]
    frame = read_frame(mixed[2])
    assert list(frame["method"]) == methods * 2
    assert list(frame["size_bytes"]) == [1000] * len(methods) + [10**6] * len(methods)


@pytest.mark.parametrize(
    ("method", "status", "message"),
    [
        ("good", "ok", ""),
        ("by_size", "ok", ""),
        ("crash", "failed", r"ValueError: a fault \(zoo\.py:\d+\)"),
        ("killed", "failed", r"the worker process was killed by SIGKILL: often out of memory"),
        ("hang", "timeout", r"a synthesis exceeded the time limit of 1 s"),
        ("liar", "failed", r"illegal schedule: .+"),
        ("hopeless", "infeasible", r"hopeless: infeasible"),
        ("picky", "unsupported", r"picky does nothing, and ring:4 is something"),
    ],
)
def test_every_outcome_is_a_row(mixed, method, status, message):
    found = row(mixed, method)
    assert found["status"] == status
    assert pd.Series([found["message"]]).str.fullmatch(message).all()
    assert (found["nodes"], found["switches"], found["links"]) == (4, 0, 8)


def test_failed_rows_are_counted_and_said(mixed):
    summary, text, _ = mixed
    assert summary.failed == 6
    assert "failed: ring:4 allgather killed: the worker process was killed by SIGKILL" in text
    assert "timeout: ring:4 allgather hang: a synthesis exceeded" in text


def test_a_row_has_the_measures_of_its_schedule(mixed):
    # Direct on ring:4: each rank sends to 2 neighbours and one over 2 links; the bound is 3/4 M at 100 GB/s.
    found = row(mixed, "good")
    assert found["verified"]
    assert found["clock"] == "step"
    assert found["transfers"] == 12
    assert found["algbw_gbps"] == pytest.approx(1e6 / found["time_us"] / 1e3, rel=1e-12)
    assert found["gap"] == pytest.approx(found["time_us"] / found["bound_us"] - 1, abs=1e-12)
    assert found["bound_us"] >= 7.5


def test_the_best_seed_is_kept_and_named(mixed):
    found = row(mixed, "lucky")
    assert (found["seed"], found["seeds"]) == (2, 4)
    assert found["time_us"] < row(mixed, "good")["time_us"]


def test_a_schedule_file_is_named_by_its_content_and_there_for_every_good_row(mixed):
    frame = read_frame(mixed[2])
    named = set(frame.loc[frame["status"] == "ok", "schedule"])
    assert {f"{name}.json.gz" for name in named} == {path.name for path in (mixed[2] / "schedules").iterdir()}


def test_the_gap_table_has_a_line_for_each_instance_and_size(mixed):
    gaps = pd.read_csv(mixed[2] / "gaps.csv")
    assert list(gaps["size_bytes"]) == [1000, 10**6]
    best = gaps.loc[1]
    assert best["best_method"] == "lucky"
    assert best["best_gap"] == best["lucky"] == row(mixed, "lucky")["gap"]
    assert best["exact_method"] == "by_size"
    assert best["exact_us"] == row(mixed, "by_size")["time_us"]
    assert pd.isna(best["hang"])


def test_the_manifest_says_what_was_run(mixed):
    manifest = json.loads((mixed[2] / "manifest.json").read_text())
    assert manifest["seeds"] == [0, 1, 2, 3]
    assert manifest["rows"] == {"failed": 6, "infeasible": 2, "ok": 6, "timeout": 2, "unsupported": 2}
    assert manifest["config"]["text"].startswith("\nname")
    assert len(manifest["sessions"]) == 1


def test_no_worker_is_left_behind(mixed):
    assert multiprocessing.active_children() == []


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """A run without faults, with one worker."""
    folder = tmp_path_factory.mktemp("plain")
    config = write_config(folder, 'name = "good"\nseeds = 3', 'name = "lucky"\nseeds = [2, 1]')
    go(config, folder / "out", workers=1)
    return config, folder / "out"


def test_two_workers_give_the_results_of_one(plain, tmp_path):
    go(plain[0], tmp_path, workers=2)
    assert comparable(tmp_path) == comparable(plain[1])


def test_a_finished_run_runs_nothing_again(plain):
    before = made(plain[1])
    results = (plain[1] / "results.csv").read_bytes()
    summary, _ = go(plain[0], plain[1])
    assert not summary.missing
    assert (plain[1] / "results.csv").read_bytes() == results
    assert made(plain[1]) == before
    assert len(json.loads((plain[1] / "manifest.json").read_text())["sessions"]) >= 2


def test_several_seeds_are_several_rows(plain):
    frame = read_frame(plain[1])
    assert list(frame.loc[frame["method"] == "lucky", "seed"]) == [2, 1] * 4


def test_seeds_of_a_method_without_randomness_are_one_row_with_a_note(plain):
    frame = read_frame(plain[1])
    good = frame.loc[frame["method"] == "good"]
    assert len(good) == 4
    assert (good["seeds"] == 1).all()
    assert good["note"].str.startswith("good has no randomness, so seeds = 3 is one try").all()


def test_a_pattern_runs_a_part_and_a_second_run_the_rest(plain, pages, tmp_path):
    part = "This is a part of the run: 6 more rows were not run."
    summary, _ = go(plain[0], tmp_path, only="ring:4")
    assert (len(summary.rows), summary.missing) == (6, 6)
    assert json.loads((tmp_path / "manifest.json").read_text())["rows"] == {"not run": 6, "ok": 6}
    assert part in summary.report.read_text()
    summary, _ = go(plain[0], tmp_path)
    assert (len(summary.rows), summary.missing) == (12, 0)
    assert comparable(tmp_path) == comparable(plain[1])
    assert json.loads((tmp_path / "manifest.json").read_text())["rows"] == {"ok": 12}
    assert part not in summary.report.read_text()


SLOW = 'name = "slow"\noptions = {sweep = {chunks = [1, 2, 3, 4]}, seconds = 0.2}'
COMMAND = """
import signal
import sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # else a background shell has it ignored
if __name__ == "__main__":
    sys.path[:0] = [{root!r}, {here!r}]
    from pathlib import Path
    from rich.console import Console
    from tutti.experiments.runner.run import RunOptions, run
    options = RunOptions(out=Path(sys.argv[2]), workers=2, registry="zoo:METHODS")
    summary = run(sys.argv[1], options, Console(file=sys.stderr))
    sys.exit(130 if summary.interrupted else 0)
"""


def start(config: Path, out: Path) -> subprocess.Popen:
    """Start a run in a process of its own and wait until a part of it is done."""
    root, here = str(Path(__file__).parents[3]), str(Path(__file__).parents[1])
    script = config.with_name("command.py")
    script.write_text(COMMAND.format(root=root, here=here))
    process = subprocess.Popen(
        [sys.executable, script, config, out], stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    while done_so_far(out) < 2:
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.02)
    return process


def done_so_far(out: Path) -> int:
    """Return the entries of a store that another process holds, from a copy."""
    with tempfile.TemporaryDirectory() as folder:
        for path in out.glob("tasks.sqlite*"):
            shutil.copy(path, folder)
        try:
            return len(table(Path(folder)))
        except sqlite3.Error:  # not made yet, or copied half-way
            return 0


def alive_in_group(group: int):
    for process in psutil.process_iter(["status"]):
        with contextlib.suppress(ProcessLookupError):
            if os.getpgid(process.pid) == group and process.info["status"] != psutil.STATUS_ZOMBIE:
                yield process


def test_a_killed_run_continues_where_it_stopped(tmp_path):
    config = write_config(tmp_path, SLOW)
    process = start(config, tmp_path / "killed")
    process.kill()
    process.communicate()
    done = made(tmp_path / "killed")
    assert 2 <= len(done) < 8
    summary, _ = go(config, tmp_path / "killed")
    assert (len(summary.rows), summary.missing) == (16, 0)
    assert done.items() < made(tmp_path / "killed").items()
    config.write_text(config.read_text().replace("seconds = 0.2", "seconds = 0"))
    go(config, tmp_path / "whole")
    strip = [{**row, "options": row["options"].split()[0]} for row in comparable(tmp_path / "killed")]
    assert strip == [{**row, "options": row["options"].split()[0]} for row in comparable(tmp_path / "whole")]


def test_ctrl_c_keeps_what_is_done_and_leaves_no_process(tmp_path):
    process = start(write_config(tmp_path, SLOW), tmp_path / "out")
    os.killpg(process.pid, signal.SIGINT)
    _, error = process.communicate(timeout=20)
    assert process.returncode == 130
    assert "Traceback" not in error
    assert len(comparable(tmp_path / "out")) >= 4
    assert not (tmp_path / "out" / "report.html").exists()
    deadline = time.monotonic() + 10
    while any(alive_in_group(process.pid)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not list(alive_in_group(process.pid))


def test_failed_tasks_are_tried_again_and_fresh_starts_over(tmp_path):
    head = HEAD.replace("[4, 5]", "[4]")
    config = write_config(tmp_path, 'name = "good"', 'name = "crash"', head=head)
    go(config, tmp_path / "out")
    times = made(tmp_path / "out")
    go(config, tmp_path / "out")
    again = [key for key, when in made(tmp_path / "out").items() if times[key] != when]
    assert [entries(tmp_path / "out")[key]["status"] for key in again] == ["failed"]
    go(config, tmp_path / "out", fresh=True)
    assert all(when != times[key] for key, when in made(tmp_path / "out").items())


@pytest.mark.parametrize(("keep", "count"), [("best", 1), ("none", 0)])
def test_only_the_schedules_asked_for_are_kept(keep, count, tmp_path):
    head = HEAD.replace("[4, 5]", "[4]").replace('"1KB", ', "")
    config = write_config(
        tmp_path, 'name = "good"', 'name = "lucky"', run_table=f'keep_schedules = "{keep}"', head=head
    )
    go(config, tmp_path / "out")
    assert len(list((tmp_path / "out").glob("schedules/*"))) == count


def test_a_directory_that_cannot_be_written_is_said_before_anything_runs(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="file/out: can't be written: Not a directory"):
        go(write_config(tmp_path, 'name = "good"'), tmp_path / "file" / "out")


def test_a_table_that_cannot_be_written_is_said_before_anything_runs(tmp_path):
    """As root may write anything but what the system itself protects, by one whom it forbids it."""
    script = (
        "import os, pathlib, sys; from tutti.experiments.runner.store import Store\n"
        "Store(pathlib.Path(sys.argv[1])).__exit__(None, None, None)\n"
        "os.chmod(sys.argv[1] + '/tasks.sqlite', 0o444)\n"
        "os.getuid() or os.setuid(65534)\n"
        "Store(pathlib.Path(sys.argv[1]))"
    )
    with tempfile.TemporaryDirectory() as open_to_all:
        Path(open_to_all).chmod(0o777)
        ended = subprocess.run(
            [sys.executable, "-c", script, open_to_all], capture_output=True, text=True, check=False
        )
    assert ended.stderr.splitlines()[-1].startswith("PermissionError: [Errno 13] Permission denied: '")


def test_a_schedule_that_cannot_be_written_stops_the_run_and_loses_nothing(tmp_path):
    config = write_config(tmp_path, 'name = "hopeless"', 'name = "good"')
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "schedules").write_text("in the way")
    with pytest.raises(DiskError, match=r"out/schedules: File exists; what is done is kept"):
        go(config, tmp_path / "out", workers=1)
    assert [document["status"] for document in entries(tmp_path / "out").values()] == ["infeasible"]


def test_two_runs_do_not_share_a_directory(tmp_path):
    from tutti.experiments.runner.store import Store

    config = write_config(tmp_path, 'name = "good"')
    with Store(tmp_path / "out"), pytest.raises(InputError, match="another run is writing there"):
        go(config, tmp_path / "out")


def test_options_of_a_run_are_checked(tmp_path, monkeypatch):
    monkeypatch.setattr(cluster, "LIMITS", cluster.LIMITS._replace(answer=0.5))
    config = write_config(tmp_path, 'name = "good"')
    with pytest.raises(InputError, match="--workers is 0; at least 1 is needed"):
        go(config, tmp_path / "out", workers=0)
    assert not (tmp_path / "out").exists()
    with pytest.raises(InputError, match=r"--scheduler tcp://x:1: .*"):
        go(config, tmp_path / "out", scheduler="tcp://x:1")
    assert entries(tmp_path / "out") == {}


def test_a_very_long_time_limit_is_no_limit(tmp_path):
    config = write_config(tmp_path, 'name = "good"', run_table='time_limit = "1e59s"')
    assert go(config, tmp_path / "out")[0].failed == 0


def as_files(out: Path) -> Path:
    """Make a store one of earlier versions, which kept a file a task; return their folder."""
    (out / "tasks").mkdir()
    for key, document in entries(out).items():
        digest = hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()
        (out / "tasks" / f"{key}.json").write_text(json.dumps({**document, "sha256": digest}))
    for path in out.glob("tasks.sqlite*"):
        path.unlink()
    return out / "tasks"


def test_files_of_earlier_versions_are_taken_into_the_table(tmp_path):
    config = write_config(tmp_path, 'name = "good"')
    go(config, tmp_path / "out")
    before, documents = comparable(tmp_path / "out"), entries(tmp_path / "out")
    folder = as_files(tmp_path / "out")
    summary, text = go(config, tmp_path / "out")
    assert (summary.missing, summary.failed, text) == (0, 0, "")
    assert (comparable(tmp_path / "out"), entries(tmp_path / "out")) == (before, documents)
    assert not folder.exists()


NO_ROWS = '{"rows": 1, "status": "ok", "time_limit": null, "bounds": {}, "trace": ""}'
DAMAGED = ["", "{", "{}", "[1]", "5", NO_ROWS]


def test_a_damaged_file_of_an_earlier_version_is_a_task_not_done(tmp_path):
    config = write_config(tmp_path, 'name = "good"')
    go(config, tmp_path / "out")
    before = comparable(tmp_path / "out")
    for texts in zip(DAMAGED[::2], DAMAGED[1::2], strict=True):
        damaged = dict(zip(as_files(tmp_path / "out").iterdir(), texts, strict=True))
        for path, text in damaged.items():
            path.write_text(text)
        (tmp_path / "out" / "manifest.json").write_text('{"sessions": 5}')
        summary, said = go(config, tmp_path / "out")
        assert (summary.missing, summary.failed) == (0, 0)
        assert all(f"{path}: damaged; made again" in said for path in damaged)
        assert comparable(tmp_path / "out") == before


def test_what_a_killed_run_had_begun_to_write_is_removed_by_the_next(tmp_path):
    script = (
        "import os, pathlib, signal\n"
        "from tutti.topologies.files import replacing\n"
        "from tutti.schedules.files.schedule_file import write_whole\n"
        "def killed(file): os.kill(os.getpid(), signal.SIGKILL)\n"
        "if os.fork() == 0: write_whole(pathlib.Path('schedules/x.json.gz'), killed)\n"
        "os.wait()\n"
        "with replacing(pathlib.Path('results.csv')) as draft: killed(draft.write_text('half'))\n"
    )
    (tmp_path / "schedules").mkdir()
    (tmp_path / "schedules" / "kept.part").touch()
    command, root = [sys.executable, "-c", script], {"PYTHONPATH": str(Path(__file__).parents[3])}
    ran = subprocess.run(command, cwd=tmp_path, env=root, check=False)
    assert ran.returncode == -signal.SIGKILL
    drafts = sorted(path.name for path in tmp_path.rglob(".*"))
    assert [name.partition(".part")[1] for name in drafts] == [".part", ".part"]
    with Store(tmp_path):
        left = {path.name for path in tmp_path.rglob("*")}
    assert left - {"tasks.sqlite", "tasks.sqlite-wal", "tasks.sqlite-shm"} == {"schedules", "kept.part"}


def _write_half(path):
    with replacing(path) as draft:
        draft.write_text("half")
        raise OSError(errno.ENOSPC, "No space left on device")


def test_a_file_that_does_not_fit_is_named_and_leaves_the_old_one(tmp_path):
    path = tmp_path / "x.json"
    path.write_text("old")
    with pytest.raises(OSError, match=r"No space left on device: '.*/x\.json'"):
        _write_half(path)
    assert [(file.name, file.read_text()) for file in tmp_path.iterdir()] == [("x.json", "old")]


@pytest.mark.parametrize(
    ("old", "new"), [('"time_us": ', '"time_us": "abc", "was": '), ('"ring:4', '"ring:5'), ("", "{")]
)
def test_an_entry_that_is_not_as_it_was_written_is_named_and_made_again(old, new, tmp_path):
    config = write_config(tmp_path, 'name = "good"', head=HEAD.replace("[4, 5]", "[4]"))
    go(config, tmp_path / "out")
    before = comparable(tmp_path / "out")
    ((key, _, whole),) = table(tmp_path / "out")
    overwrite(tmp_path / "out", key, whole.replace(old, new) if old else new)
    summary, text = go(config, tmp_path / "out")
    assert text == f"{tmp_path / 'out' / 'tasks.sqlite'}: {key}: damaged; made again\n"
    assert (summary.missing, summary.failed) == (0, 0)
    assert comparable(tmp_path / "out") == before
    assert entries(tmp_path / "out")[key]["bounds"] == json.loads(whole)["bounds"]
    assert go(config, tmp_path / "out")[1] == ""


@pytest.mark.parametrize("content", [b"no table", b"SQLite format 3\0" + bytes(100)])
def test_a_table_that_is_none_is_one_line(content, tmp_path):
    config = write_config(tmp_path, 'name = "good"')
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "tasks.sqlite").write_bytes(content)
    with pytest.raises(InputError, match=r"tasks\.sqlite: no table of tasks, or a damaged one; move it away"):
        go(config, tmp_path / "out")
    assert (tmp_path / "out" / "tasks.sqlite").read_bytes() == content


def spoil_pages(path):
    content = bytearray(path.read_bytes())
    for page in range(4096, len(content), 4096):
        content[page : page + 64] = bytes(64)
    path.write_bytes(content)


def have_other_columns(path):
    with contextlib.closing(sqlite3.connect(path)) as table:
        table.executescript("DROP TABLE tasks; CREATE TABLE tasks (a)")


@pytest.mark.parametrize("spoil", [spoil_pages, have_other_columns])
def test_a_table_that_is_damaged_within_is_one_line(spoil, tmp_path):
    config = write_config(tmp_path, 'name = "good"')
    go(config, tmp_path / "out")
    spoil(tmp_path / "out" / "tasks.sqlite")
    with pytest.raises(InputError, match=r"tasks\.sqlite: no table of tasks, or a damaged one; move it away"):
        go(config, tmp_path / "out")


def test_a_disk_that_is_full_before_a_task_ends_is_an_error_of_the_system(tmp_path):
    full = r"No space left on device: '.*tasks\.sqlite'"
    script = "PRAGMA max_page_count = 1; CREATE TABLE large AS SELECT zeroblob(1000000)"
    with pytest.raises(OSError, match=full), Store(tmp_path / "out") as store:
        store._table.executescript(script)


@pytest.mark.parametrize("keep", ["all", "best"])
def test_a_damaged_schedule_is_named_and_made_again(keep, tmp_path):
    head = HEAD.replace("[4, 5]", "[4]")
    config = write_config(tmp_path, 'name = "good"', run_table=f'keep_schedules = "{keep}"', head=head)
    go(config, tmp_path / "out")
    (path,) = (tmp_path / "out" / "schedules").iterdir()
    whole, other = path.read_bytes(), gzip.compress(b"{}")
    for damaged in (whole[:-20], b"", other):
        path.write_bytes(damaged)
        summary, text = go(config, tmp_path / "out")
        assert f"{path}: damaged; made again\n" in text
        assert (summary.failed, path.read_bytes()) == (0, whole)
    assert go(config, tmp_path / "out")[1] == ""


DYING = """
import multiprocessing, os, signal
from pathlib import Path
mark = Path({mark!r})
if multiprocessing.parent_process() is not None and mark.read_text() != "":
    mark.write_text(mark.read_text()[1:])
    os.kill(os.getpid(), signal.SIGKILL)
from zoo import METHODS
"""

MEASURED = (
    "synth_s",
    "build_s",
    "solve_s",
    "verify_s",
    "simulate_s",
    "peak_rss_mb",
    "search_s",
    "removal_s",
    "packing_s",
    "bound_s",
    "course",
    "program_course",
)
"""The columns that differ from run to run."""


def test_workers_killed_before_they_are_ready_are_replaced(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "dying_zoo.py").write_text(DYING.format(mark=str(tmp_path / "mark")))
    config = write_config(tmp_path, 'name = "good"', head=HEAD.replace("[4, 5]", "[4]"))
    options = RunOptions(out=tmp_path / "out", registry="dying_zoo:METHODS", workers=1)
    (tmp_path / "mark").write_text("xx")
    summary = run(config, options, Console(file=io.StringIO()))
    assert [row["status"] for row in summary.rows] == ["ok", "ok"]
    (tmp_path / "mark").write_text("x" * 100)
    with pytest.raises(TuttiError, match=r"killed by SIGKILL.* before it was ready, as were all others"):
        run(config, replace(options, fresh=True), Console(file=io.StringIO()))


TEXTS = st.text(st.sampled_from("'=+-@\t\r\n 01\",") | st.characters(codec="utf-8"), max_size=6)
ROWS = st.lists(st.tuples(TEXTS, st.floats(allow_nan=False), st.none() | st.integers(-99, 99)), min_size=1)


@given(ROWS)
@settings(max_examples=50)
def test_a_table_comes_back_and_no_text_in_it_is_a_formula(rows):
    frame = pd.DataFrame(rows, columns=["topology", "-x", "n"], dtype=object)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.csv"
        write_csv(frame, path)
        with path.open(newline="") as file:
            head, *lines = csv.reader(file)
        back = read_csv(path)
    assert head == ["topology", "'-x", "n"]
    assert not any(line[0].startswith(tuple("=+-@\t\r\n")) for line in lines)
    numbers = [(float(line[1]), line[2]) for line in lines]
    assert numbers == [(x, "" if n is None else str(n)) for _, x, n in rows]
    assert list(back.columns) == ["topology", "-x", "n"]
    assert list(back["topology"].fillna("")) == [name for name, _, _ in rows]


def test_a_row_on_another_network_of_that_name_has_failed(tmp_path):
    """As where a worker has another file in the place of the one that was planned."""
    path = tmp_path / "net.json"
    path.write_text(json.dumps(to_node_link(parse_topology("ring:4"))))
    text = f'name = "x"\n[[topology]]\nspec = "{path}"\n[[collective]]\nkind = "allgather"\nsizes = ["1MB"]\n'
    config = write_config(tmp_path, 'name = "good"', head=text)
    (task,) = make_plan(read_config(config), zoo.METHODS)
    assert perform(task, Workplace(zoo.METHODS, topology=parse_topology)).status == "ok"
    path.write_text(json.dumps(to_node_link(parse_topology("ring:4?bandwidth=1GB/s"))))
    outcome = perform(task, Workplace(zoo.METHODS, topology=parse_topology))
    said = f"{path} is another network where the row runs; give it the same file"
    assert (outcome.status, outcome.rows[0]["message"]) == ("failed", said)
