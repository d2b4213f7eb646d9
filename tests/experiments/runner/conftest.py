"""Runs write a page of one line: what pages say is tested in tests/experiments/report."""

import pytest

from tutti.experiments.runner.study import REPORT, Study


@pytest.fixture
def pages():
    """Ask for the pages that users get; runs of whole modules write them too."""


@pytest.fixture(autouse=True)
def _short_pages(request, monkeypatch):
    def write(study, directory):
        (directory / REPORT).write_text("a page\n")
        return directory / REPORT

    if "pages" not in request.fixturenames:
        monkeypatch.setattr(Study, "write_report", write)
