"""``tutti merge``: halves of a study become one folder, in which everything is done."""

import json

import pytest

from experiments.runner.store import Store
from tests.experiments.cli.commands import write_smoke
from tests.experiments.runner.test_run import comparable, entries, made


def keep(folder, *kept):
    """Write entries of keys, times and statuses into a folder."""
    with Store(folder) as store:
        for key, made, status in kept:
            document = {"task": key, "status": status, "time_limit": None, "rows": [], "bounds": {}}
            store._insert(key, made, {**document, "trace": f"{folder.name} {status}"})


def test_halves_make_the_whole_in_which_all_is_done(tutti, tmp_path):
    config = write_smoke(tmp_path)
    parts = [tmp_path / name for name in ("rhd", "bfb")]
    for part in parts:
        assert tutti("run", config, "--out", part, "--only", part.name, "--quiet")[0] == 0
    code, out, _ = tutti("merge", *parts, "-o", tmp_path / "merged")
    assert (code, out) == (0, f"2 rows: 2 ok; report: {tmp_path / 'merged' / 'report.html'}\n")
    assert "workers" not in json.loads((tmp_path / "merged" / "manifest.json").read_text())["settings"]
    assert comparable(tmp_path / "merged") == comparable(parts[1]) + comparable(parts[0])  # as in the config
    kept = {path.name for part in parts for path in (part / "schedules").iterdir()}
    assert {path.name for path in (tmp_path / "merged" / "schedules").iterdir()} == kept
    before = made(tmp_path / "merged")
    assert "2 rows: 2 ok" in tutti("run", config, "--out", tmp_path / "merged")[1]
    assert made(tmp_path / "merged") == before  # nothing was done again
    sessions = json.loads((tmp_path / "merged" / "manifest.json").read_text())["sessions"]
    assert len(sessions) == 4  # of the two halves, the merger and what followed


def test_what_no_half_has_is_said_and_not_run(tutti, tmp_path):
    text = write_smoke(tmp_path).read_text()
    for name in ("a", "b"):
        keep(tmp_path / name, (name, 1, "ok"))
        manifest = {"config": {"path": str(tmp_path / "gone.toml"), "text": text}}
        (tmp_path / name / "manifest.json").write_text(json.dumps(manifest))
    _, out, _ = tutti("merge", tmp_path / "a", tmp_path / "b", "-o", tmp_path / "c")
    again = f"tutti run {tmp_path / 'c' / 'config.toml'} --out {tmp_path / 'c'}"
    assert out.startswith(f"0 rows: none; 2 not run: {again}; what other code or another config made is kept")


def test_of_tutti_find_the_command_that_writes_the_tables_is_said(tutti, tmp_path):
    command = "tutti find --up-to 8 --degree 4"
    for name in ("a", "b"):
        keep(tmp_path / name, (name, 1, "ok"))
        manifest = {"config": {"path": "tutti find", "text": command}}
        (tmp_path / name / "manifest.json").write_text(json.dumps(manifest))
    _, out, _ = tutti("merge", tmp_path / "a", tmp_path / "b", "-o", tmp_path / "c")
    assert out == f"merged, without tables: {command} -o {tmp_path / 'c'} writes them\n"
    assert not (tmp_path / "c" / "config.toml").exists()


def test_of_two_entries_the_better_stays_and_of_equal_ones_the_newer(tutti, tmp_path):
    keep(
        tmp_path / "a",
        ("1", 1, "ok"),
        ("2", 2, "failed"),
        ("3", 1, "ok"),
        ("4", 2, "timeout"),
        ("5", 1, "ok"),
    )
    keep(tmp_path / "b", ("1", 2, "failed"), ("2", 1, "ok"), ("3", 2, "ok"), ("4", 1, "infeasible"))
    code, out, _ = tutti("merge", tmp_path / "a", tmp_path / "b", "-o", tmp_path / "c")
    merged = tmp_path / "c"
    kept = {key: document["trace"] for key, document in entries(merged).items()}
    assert kept == {"1": "a ok", "2": "b ok", "3": "b ok", "4": "b infeasible", "5": "a ok"}
    said = f"merged, without tables: no manifest has the config; tutti run CONFIG --out {merged} writes them"
    assert (code, out) == (0, f"{said}\n")


def test_what_made_them_is_said_where_it_differs(tutti, tmp_path):
    for name in ("a", "b"):
        keep(tmp_path / name, (name, 1, "ok"))
        config = {"path": "gone.toml", "text": f"nonsense = '{name}'"}
        manifest = {"config": config, "versions": {"code": name * 64}}
        (tmp_path / name / "manifest.json").write_text(json.dumps(manifest))
    lines = tutti("merge", tmp_path / "a", tmp_path / "b", "-o", tmp_path / "c")[1].splitlines()
    assert lines[0].startswith("the configs differ")
    assert "(a aaaaaaaaaaaa, b bbbbbbbbbbbb)" in lines[1]
    assert lines[2].startswith("merged, without tables: ")


def test_a_folder_that_a_run_writes_is_one_line_and_nothing_is_made(tutti, tmp_path):
    keep(tmp_path / "a", ("1", 1, "ok"))
    keep(tmp_path / "b", ("1", 1, "ok"))
    with Store(tmp_path / "b"):
        code, _, err = tutti("merge", tmp_path / "a", tmp_path / "b", "-o", tmp_path / "c")
    said = f"tutti: {tmp_path / 'b'}: another run is writing there; wait for it or use --out\n"
    assert (code, err) == (2, said)
    assert not (tmp_path / "c").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["a", "a", "-o", "c"], "give two folders or more, no two of them the same"),
        (["a", "none", "-o", "c"], "none: no tasks.sqlite; give folders that tutti run wrote"),
        (["a", "b", "-o", "b"], "there is something already; give a new folder"),
        (["a", "b", "-o", "b/c"], "b/c: it lies in a folder that is merged; give one elsewhere"),
    ],
)
def test_what_can_t_be_merged_is_one_line(tutti, tmp_path, monkeypatch, words, said):
    monkeypatch.chdir(tmp_path)
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "tasks.sqlite").touch()
    code, _, err = tutti("merge", *words)
    assert code == 2
    assert err.endswith(f"{said}\n")
    assert len(err.splitlines()) == 1
