"""What `tutti run` prints of its results fits on a screen."""

from pathlib import Path

import pytest

from experiments.cli.run import MOST_METHODS, _print_summary
from experiments.runner.run import Summary
from tests.experiments.report.test_page import row


def printed(count, capsys):
    """Return what is said of so many methods: the first takes 10 us where 8 are the least, others 16."""
    names = ["quick", *(f"slow{place}" for place in range(1, count))]
    rows = [row(method=name, time_us=10.0 if name == "quick" else 16.0) for name in names]
    rows = [line | {"gap": line["time_us"] / 8.0 - 1} for line in rows]
    _print_summary(Summary(Path(), rows, 0, interrupted=False))
    return capsys.readouterr().out


@pytest.mark.parametrize(("count", "shown"), [(2, True), (MOST_METHODS + 1, False)])
def test_of_many_methods_only_the_best_is_named(count, shown, capsys):
    text = printed(count, capsys)
    assert "25.00%" in text
    assert "quick" in text
    assert ("slow1" in text and "100.00%" in text) is shown
    assert f"{count} rows: {count} ok" in text
