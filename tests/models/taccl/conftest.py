"""A clock that the tests move."""

import pytest

from tutti.models.taccl import solving


@pytest.fixture
def clock(monkeypatch):
    """Return a clock that stands still unless it is moved."""
    now = [0.0]
    monkeypatch.setattr(solving, "monotonic", lambda: now[0])
    return now
