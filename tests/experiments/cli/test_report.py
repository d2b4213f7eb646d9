"""``tutti report``: pages, figures and tables of finished runs."""

import re

import pytest

from tests.experiments.report.test_page import row, write_run
from tests.experiments.training.test_study import config
from tutti.experiments.report.results import read_results
from tutti.experiments.runner.results import column_names


def test_the_page_of_a_run_lies_in_its_folder(tutti, tmp_path):
    run = write_run(tmp_path / "run", [row()])
    code, text, _ = tutti("report", run)
    assert (code, text.strip()) == (0, f"report: {run / 'report.html'}")
    assert "ring is the fastest in 1 of 1 case." in (run / "report.html").read_text()


def test_runs_are_joined_on_a_page_of_their_own(tutti, tmp_path):
    runs = [write_run(tmp_path / name, [row(method=name)]) for name in ("one", "two")]
    code, _, _ = tutti("report", *runs, "-o", tmp_path / "both.html")
    assert code == 0
    assert "<h1>one and two</h1>" in (tmp_path / "both.html").read_text()
    assert not (runs[0] / "report.html").exists()


def test_tables_are_written_beside_it(tutti, tmp_path):
    run = write_run(tmp_path / "run", [row()])
    code, text, _ = tutti("report", run, "--latex", tmp_path / "tex")
    assert code == 0
    assert "tables: 5 in" in text
    assert (tmp_path / "tex" / "methods.tex").exists()


def test_a_wrong_format_and_a_folder_without_results_are_one_line(tutti, tmp_path):
    run = write_run(tmp_path / "run", [row()])
    code, _, said = tutti("report", run, "--figures", tmp_path / "out", "--format", "svg,bmp")
    assert (code, said) == (2, "tutti: --format 'bmp': a figure is one of svg, pdf, png\n")
    code, _, said = tutti("report", tmp_path / "nowhere")
    assert code == 2
    assert said.count("\n") == 1


def test_a_run_named_twice_counts_once(tutti, tmp_path):
    run = write_run(tmp_path / "run", [row()])
    assert tutti("report", run, tmp_path / "run" / ".." / "run", "-o", tmp_path / "r.html")[0] == 0
    assert "ring is the fastest in 1 of 1 case." in (tmp_path / "r.html").read_text()
    assert "<h1>run</h1>" in (tmp_path / "r.html").read_text()
    assert len(read_results(run, run).rows) == 1


def test_a_format_is_of_figures(tutti, tmp_path):
    run = write_run(tmp_path / "run", [row()])
    code, _, said = tutti("report", run, "--format", "pdf")
    assert (code, said) == (2, "tutti: --format pdf: of figures; give --figures DIR too\n")


@pytest.mark.parametrize("option", ["--figures", "--latex"])
def test_a_file_in_the_place_of_a_folder_is_refused_before_anything_is_written(tutti, tmp_path, option):
    run, file = write_run(tmp_path / "run", [row()]), tmp_path / "file"
    file.write_text("x")
    code, out, said = tutti("report", run, option, file)
    assert (code, out, said) == (2, "", f"tutti: {option} {file}: not a folder\n")
    assert not (run / "report.html").exists()


@pytest.mark.parametrize("option", ["--figures", "--latex", "-o"])
def test_a_folder_that_can_t_be_written_is_refused_before_any_work(tutti, tmp_path, monkeypatch, option):
    monkeypatch.setattr("tutti.experiments.cli.report.read_results", pytest.fail)
    (tmp_path / "file").write_text("x")
    target = tmp_path / "file" / "below"
    code, out, said = tutti("report", tmp_path, option, target / "page.html" if option == "-o" else target)
    assert (code, out, said) == (2, "", f"tutti: {target}: can't be written: Not a directory\n")


def test_a_baseline_that_is_not_there_is_told_each_method_once(tutti, tmp_path):
    run = write_run(tmp_path / "run", [row(), row(size_bytes=2)])
    code, _, said = tutti("report", run, "--baseline", "zzz")
    assert code == 2
    assert said.endswith("no rows of method 'zzz'; allowed: ring\n")


def test_a_study_of_training_is_drawn_as_when_it_was_run(tutti, tmp_path):
    """What it states is in the manifest, the config itself may be gone."""
    made = config(tmp_path)
    run = tmp_path / "out"
    assert tutti("run", made, "--out", run, "--quiet")[0] == 0
    made.unlink()
    page = (run / "report.html").read_text()
    (run / "report.html").unlink()
    assert tutti("report", run)[0] == 0
    assert (run / "report.html").read_text() == page
    refused = {"--baseline": ["--baseline", "ring"], "several folders": [run]}
    refused["chosen charts"] = ["--figures", tmp_path / "paper" / "gaps,costs"]
    for what, options in refused.items():
        code, _, said = tutti("report", run, *options)
        assert (code, said) == (2, f"tutti: {run}: {what}: for studies of methods, not training\n")


def test_studies_of_every_kind_have_tables_and_figures_for_papers(tutti, tmp_path):
    """The table of each job has a file and a label of its own, with the numbers of the page."""
    run, tables, figures = tmp_path / "out", tmp_path / "tex", tmp_path / "figures"
    assert tutti("run", config(tmp_path), "--out", run, "--quiet")[0] == 0
    code, said, _ = tutti("report", run, "--latex", tables, "--figures", figures)
    assert code == 0
    page, files = (run / "report.html").read_text(), sorted(tables.iterdir())
    assert f"tables: {len(files)} in {tables}" in said
    labels = [re.findall(r"\\label\{(.*)\}", file.read_text()) for file in files]
    assert labels == [[f"tab:{file.stem}"] for file in files]
    assert page.count("<table") == len(files) > 1
    time = re.search(r"\d+ us", (tables / "jobs.tex").read_text())
    assert time is not None
    assert time[0] in page
    drawn = sorted(path.read_text() for path in figures.iterdir())
    assert len(drawn) > 1
    assert all(text.startswith("<svg") for text in drawn)


def test_the_kind_of_a_study_without_a_manifest_is_that_of_its_rows(tutti, tmp_path):
    run = tmp_path / "out"
    assert tutti("run", config(tmp_path), "--out", run, "--quiet")[0] == 0
    page = (run / "report.html").read_text()
    (run / "manifest.json").write_text("{")
    assert tutti("report", run)[0] == 0
    assert "The time of an iteration" in page
    assert "The time of an iteration" in (run / "report.html").read_text()
    (run / "results.parquet").write_text("no table")
    code, _, said = tutti("report", run)
    assert code == 2
    assert said.startswith(f"tutti: {run / 'results.parquet'}: can't be read: ")
    assert said.count("\n") == 1


def test_a_run_without_a_manifest_is_one_of_methods(tutti, tmp_path):
    """Its rows have a column of solvers too, as programs of methods are solved by them."""
    run = write_run(tmp_path / "run", [row(solver="highs")])
    (run / "manifest.json").unlink(missing_ok=True)
    assert "solver" in column_names(run)
    assert tutti("report", run)[0] == 0
    assert "ring is the fastest in 1 of 1 case." in (run / "report.html").read_text()


def test_misspelt_charts_are_refused(tutti, tmp_path):
    run = write_run(tmp_path / "run", [row()])
    folder = tmp_path / "paper" / "gaps,boo"
    code, _, said = tutti("report", run, "--figures", folder)
    allowed = "bandwidth, gaps, costs, links"
    assert (code, said) == (2, f"tutti: --figures {folder}: unknown charts 'boo'; allowed: {allowed}\n")


def test_networks_are_not_found_into_the_folder_of_a_run(tutti, tmp_path):
    run = write_run(tmp_path / "run", [row()])
    (run / "results.csv").write_text("x")
    code, _, said = tutti("find", "--up-to", "3", "--degree", "2", "-o", run)
    assert (code, said) == (2, f"tutti: --output {run}: it has the results of a run; give another folder\n")


def test_frontiers_of_networks_are_drawn_by_what_found_them(tutti, tmp_path):
    out = tmp_path / "degree2"
    find = ("find", "--up-to", "3", "--degree", "2")
    assert tutti(*find, "-o", out)[0] == 0
    code, _, said = tutti("report", out)
    again = f"tutti {' '.join(find)} -o {out}"
    assert (code, said) == (2, f"tutti: {out}: frontiers of networks, no runs; {again} draws them\n")
    assert not (out / "report.html").exists()
