"""The scripts of docs/ import each other by their names."""

import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="session", autouse=True)
def _scripts():
    sys.path.insert(0, str(DOCS))
    yield
    sys.path.remove(str(DOCS))
