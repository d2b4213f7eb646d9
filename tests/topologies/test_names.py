"""The public names of `topologies`: each is found, and none is imported before it is used."""

import subprocess
import sys
from pathlib import Path

import pytest

from tutti import topologies


def test_every_public_name_is_found():
    assert [name for name in topologies.__all__ if getattr(topologies, name, None) is None] == []
    assert set(topologies.__all__) <= set(dir(topologies))


def test_an_unknown_name_is_an_error():
    with pytest.raises(AttributeError, match=r"module 'tutti\.topologies' has no attribute 'tours'"):
        _ = topologies.tours


def test_the_errors_alone_load_no_compiler_and_no_network():
    heavy = "{'numba', 'numpy', 'tutti.topologies.topology'}"
    code = f"import sys, tutti.topologies.errors; print({heavy} & set(sys.modules))"
    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
