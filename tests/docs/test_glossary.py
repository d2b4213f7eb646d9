"""Names that people meet are in the glossary: of methods, options, bounds, and files of two folders."""

import re
from importlib.util import find_spec
from pathlib import Path

import pytest

from tutti.experiments.old_names import OLD_NAMES, OLD_OPTIONS
from tutti.experiments.registry import METHODS
from tutti.models.bounds.check import PROOFS

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs/glossary.md").read_text(encoding="utf-8")
WORDS = set(re.findall(r"`(\w+)`", TEXT))
FOLDERS = ("models/bounds", "heuristics")


def stems(folder):
    """The names of files and folders, a check's being that of its bound."""
    for path in (ROOT / folder).rglob("*.py"):
        yield (path.parent.name if path.stem == "__init__" else path.stem).removeprefix("check_")


@pytest.mark.parametrize("folder", FOLDERS)
def test_names_of_files_are_in_the_glossary(folder):
    assert sorted(set(stems(folder)) - WORDS - {"bounds", "heuristics"}) == []


def test_files_that_the_glossary_lists_exist():
    section = TEXT.partition("## Files of heuristics")[2].partition("\n## ")[0]
    listed = set(re.findall(r"`(\w+)`", section))
    assert listed
    assert sorted(listed - METHODS.keys() - set(stems("heuristics"))) == []


def test_names_of_methods_and_bounds_are_in_the_glossary():
    assert sorted(METHODS.keys() - WORDS) == []
    assert sorted(PROOFS.keys() - WORDS) == []


def test_commands_in_docstrings_name_modules_that_exist():
    files = [
        path
        for folder in ("benchmarks", "experiments", "tests/models")
        for path in (ROOT / folder).rglob("*.py")
    ]
    texts = [path.read_text(encoding="utf-8") for path in files]
    modules = {name for text in texts for name in re.findall(r"`python -m ([\w.]+\w)", text)}
    assert "benchmarks" in modules
    assert [
        name
        for name in sorted(modules)
        if not name.startswith(("tutti.", "benchmarks")) or not find_spec(name)
    ] == []


def test_every_old_name_stands_beside_the_new_one():
    rows = [set(re.findall(r"`(\w+)`", line)) for line in TEXT.splitlines() if line.startswith("|")]
    for old, new in OLD_NAMES.items():
        assert any({old, new} <= row for row in rows), old
    for method, options in OLD_OPTIONS.items():
        assert any({method, *options, *options.values()} <= row for row in rows), method
