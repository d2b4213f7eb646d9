"""What a report says beside the optimum of given chunks."""

from tests.experiments.test_report import report, row

HEADING = "Against the optimum of given chunks"


def table(page):
    """Return the cells of the table's rows, without its head."""
    heading = next(e for e in page.all("h3") if e["text"].startswith(HEADING))
    found = next(e for e in page.all("table") if e["id"] > heading["id"])
    return [
        [" ".join(cell["text"].split()) for cell in page.all("td", None, tr)]
        for tr in page.all("tr", None, found)
    ][1:]


def test_times_are_set_against_those_of_optimum(tmp_path):
    """10 us at 1 KB and 20 us at 1 MB: 12 and 20 us are 20 % more and as fast; 15 us is a quarter less."""
    rows = [
        row(method="optimum", size_bytes=1000, time_us=10.0, solver_gap=0.0),
        row(method="optimum", size_bytes=10**6, time_us=20.0, solver_gap=0.125),
        row(method="tacos", size_bytes=1000, time_us=12.0),
        row(method="tacos", size_bytes=10**6, time_us=20.0),
        row(method="forestcoll", size_bytes=10**6, time_us=15.0),
    ]
    mean, worst, met, small, large = table(report(tmp_path, rows))
    assert (mean, worst, met) == (["10.0", "-25.0"], ["20.0", "-25.0"], ["1 of 2", "1 of 1"])
    assert small[1:] == ["1KB", "10 us", "", "20.0", ""]
    assert large[1:] == ["1MB", "20 us", "12.5", "0", "-25.0"]


def test_without_optimum_there_is_no_such_table(tmp_path):
    page = report(tmp_path, [row(method="tacos")])
    assert not any(e["text"].startswith(HEADING) for e in page.all("h3"))
    failed = [row(method="tacos"), row(method="optimum", status="infeasible", time_us=None)]
    page = report(tmp_path, failed)
    assert not any(e["text"].startswith(HEADING) for e in page.all("h3"))
