"""Settings that all tests share."""

import itertools
import os

import pytest
from hypothesis import HealthCheck, settings

os.environ.pop("COLUMNS", None)  # pytest-xdist sets it; tables are as wide as it says

# Kernels compile at their first call, which says nothing about an example's own speed. Where a change is
# judged, the examples are always the same ones; elsewhere each run tries new ones.
settings.register_profile(
    "tutti",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=bool(os.environ.get("CI")),
)
settings.load_profile("tutti")


@pytest.fixture
def clock(monkeypatch):
    """Time goes on by a fiftieth of a second at each look, so that limits allow as much on any machine."""
    looks = itertools.count()
    monkeypatch.setattr("time.monotonic", lambda: next(looks) / 50)
