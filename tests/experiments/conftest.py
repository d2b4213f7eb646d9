"""Worker processes import the methods of `zoo` by name, so its folder is on the path.

One Chromium serves the tests of a file marked ``browser``: the system's own, which is never downloaded. Its
loop of events ends with the file: clusters start their own, of which a thread can have one.
"""

import os
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


@pytest.fixture(scope="module")
def browser():
    """Skip where there is no Chromium, but with TUTTI_BROWSER=1 fail."""
    path = next(filter(None, map(shutil.which, NAMES)), None)
    if path is None or find_spec("playwright") is None:
        why = f"no browser: {'playwright' if path else ' or '.join(NAMES)} is not installed"
        (pytest.fail if os.environ.get("TUTTI_BROWSER") == "1" else pytest.skip)(why)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=path)
        yield chromium
        chromium.close()


@pytest.fixture
def short_pages(monkeypatch):
    """Let runs write a page of one line: what pages say is tested in tests/experiments/report."""

    def write(study, directory):
        (directory / "report.html").write_text("a page\n")
        return directory / "report.html"

    monkeypatch.setattr("tutti.experiments.runner.study.Study.write_report", write)
