"""``tutti run``: what it prints, its exit codes, and a summary that fits on a screen."""

import errno
from collections import Counter

import pytest

from tests.experiments.cli.commands import write_smoke
from tests.experiments.report.test_page import row
from tutti.experiments.cli.output import SHOWN
from tutti.experiments.cli.run import print_counts, print_summary
from tutti.experiments.runner import run as runner
from tutti.experiments.runner.judge import GAPS, GapTableBuilder
from tutti.experiments.runner.results import read_frame, write_csv
from tutti.experiments.runner.run import Summary
from tutti.experiments.runner.store import Store


def printed(count, folder, capsys):
    """Return what is said of so many methods: the first takes 10 us where 8 are the least, others 16."""
    names = ["quick", *(f"slow{place}" for place in range(1, count))]
    rows = [row(method=name, time_us=10.0 if name == "quick" else 16.0) for name in names]
    rows = [line | {"gap": line["time_us"] / 8.0 - 1} for line in rows]
    gaps = GapTableBuilder()
    gaps.add(rows)
    write_csv(gaps.frame(), folder / GAPS)
    summary = Summary(folder, Counter(ok=count), missing=0)
    print_summary(summary)
    print_counts(summary)
    return capsys.readouterr().out


@pytest.mark.parametrize(("count", "shown"), [(2, True), (SHOWN.methods + 1, False)])
def test_of_many_methods_only_the_best_is_named(count, shown, tmp_path, capsys):
    text = printed(count, tmp_path, capsys)
    assert "25.00%" in text
    assert "quick" in text
    assert ("slow1" in text and "100.00%" in text) is shown
    assert f"{count} rows: {count} ok" in text


def test_a_run_prints_its_gaps_and_writes_its_report(tutti, tmp_path):
    code, out, _ = tutti("run", write_smoke(tmp_path), "--out", tmp_path / "out")
    assert code == 0
    assert f"2 rows: 2 ok; report: {tmp_path / 'out' / 'report.html'}" in out
    assert "gap: time over the proven lower bound" in out
    assert {"results.parquet", "results.csv", "gaps.csv", "manifest.json", "report.html"} <= {
        path.name for path in (tmp_path / "out").iterdir()
    }


@pytest.mark.usefixtures("short_pages")
def test_where_all_is_done_no_scheduler_is_asked(tutti, tmp_path):
    path, out = write_smoke(tmp_path), tmp_path / "out"
    for place in ([], ["--scheduler", "tcp://127.0.0.1:9"]):  # nobody is there
        assert tutti("run", path, "--out", out, *place)[0] == 0


@pytest.mark.usefixtures("short_pages")
@pytest.mark.parametrize("address", ["node17:8786", "local:0"])
def test_an_address_that_is_none_is_refused_though_all_is_done(tutti, tmp_path, address):
    path, out = write_smoke(tmp_path), tmp_path / "out"
    assert tutti("run", path, "--out", out)[0] == 0
    code, _, err = tutti("run", path, "--out", out, "--scheduler", address)
    assert (code, err.startswith(f"tutti: --scheduler {address}: write ")) == (2, True)


@pytest.mark.usefixtures("short_pages")
def test_results_of_other_code_are_said_to_be_left_out(tutti, tmp_path, monkeypatch):
    path, out = write_smoke(tmp_path), tmp_path / "out"
    assert "1 rows: 1 ok; 1 not run; report:" in tutti("run", path, "--out", out, "--only", "bfb")[1]
    monkeypatch.setattr("tutti.experiments.runner.results.code_digest", lambda: "other")
    said = tutti("run", path, "--out", out, "--only", "bfb")[1]
    assert "1 not run (results made by other code or another config are left out); report:" in said


@pytest.mark.usefixtures("short_pages")
def test_a_size_that_does_not_divide_is_a_note_and_no_message(tutti, tmp_path):
    path = write_smoke(tmp_path)
    path.write_text(path.read_text().replace("1MB", "1001B"))
    assert tutti("run", path, "--out", tmp_path / "out")[0] == 0
    rows = read_frame(tmp_path / "out").to_dict("records")
    assert {row["message"] for row in rows} == {""}
    assert all("1001B does not divide into" in row["note"] for row in rows)


@pytest.mark.usefixtures("short_pages")
def test_a_run_with_failed_rows_is_exit_1(tutti, tmp_path, monkeypatch):
    path = write_smoke(tmp_path)
    path.write_text(path.read_text().replace('"bfb"', '"crash"').replace('"rhd"', '"good"'))
    options = runner.RunOptions
    monkeypatch.setattr(
        "tutti.experiments.cli.run.RunOptions", lambda **given: options(**given, registry="zoo:METHODS")
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

    monkeypatch.setattr(Store, "_insert", full)
    code, _, err = tutti("run", write_smoke(tmp_path), "--out", tmp_path / "out")
    assert code == 2
    kept = "what is done is kept, the same command continues"
    assert err.splitlines()[-1] == f"tutti: tasks/x.json: No space left on device; {kept}"
