"""The numbers that `make lint` compares with its ceilings, counted by hand on small files."""

import tomllib

import pytest

from lint import house
from lint.house import COUNTED, measure, read_modules, verdict

FIRST = '''"""Two lines of docstring,
which are no code."""

import math

HALF, TWICE = 0.5, 2
"""Two constants."""
MOST: int = 2**10
EXACT = True
NAME = "text"


class Box:
    """A field with a number, one with a truth value, and one without a default."""

    width: int = 3
    """Its width."""
    open: bool = True
    height: float


def _area(box):
    """Called once."""
    return _side(box) * _side(box) * HALF


def _side(box):
    return box.width


def public(box):
    # A comment is a line of code.
    return _area(box)
'''
SECOND = """from {prefix}topologies.boxes import Box as Other


class Box(Other):
    @kernel
    def _twice(self):
        def inner():
            from {prefix}topologies import boxes
            return boxes

        return self._twice()
"""
NUMBERS = {
    "files": 3,
    "code": 15 + 7,  # FIRST: 4 of names, 4 of the class, 7 of functions; SECOND: all but its first
    "chain": 2,
    "kernels": 1,
    "constants": 3,  # HALF, TWICE, MOST
    "defaults": 1,  # width
    "once": 2,  # _area and _twice
    "classes": 1,  # Box
    "bodies": 5,  # of _twice, the longest of five
}


def write(folder, prefix=""):
    """Write a project of three files; with a prefix as a package of links to its folders."""
    for name in ("topologies", "models"):
        (folder / name).mkdir()
    (folder / "topologies" / "boxes.py").write_text(FIRST)
    (folder / "models" / "boxes.py").write_text(SECOND.format(prefix=prefix))
    if not prefix:
        (folder / "tutti.py").touch()
        return
    (folder / "tutti").mkdir()
    (folder / "tutti" / "__init__.py").touch()
    for name in ("topologies", "models"):
        (folder / "tutti" / name).symlink_to(f"../{name}")


@pytest.mark.parametrize("prefix", ["", "tutti."])
def test_counts_by_hand(tmp_path, prefix):
    write(tmp_path, prefix)
    assert measure(read_modules(tmp_path)) == NUMBERS


def test_it_names_what_it_counts(tmp_path):
    write(tmp_path)
    modules = read_modules(tmp_path)
    listed = {name: list(function(modules)) for name, (_, function) in COUNTED.items()}
    assert listed["constants"][-1] == "topologies/boxes.py:8 MOST"
    assert listed["defaults"] == ["topologies/boxes.py:16 Box.width"]
    assert listed["once"] == ["models/boxes.py:6 _twice", "topologies/boxes.py:22 _area"]
    assert listed["chain"] == ["models.boxes", "topologies.boxes"]


def test_a_number_above_its_ceiling_is_an_error_and_one_below_is_said():
    above, below = verdict({"files": 5, "kernels": 3, "once": 2}, {"files": 4, "kernels": 4, "once": 2})
    assert above == ["files: 5 Python files, allowed 4"]
    assert below == ["kernels: 3 kernels; the ceiling 4 can be lowered"]


def test_every_number_has_a_ceiling_and_every_ceiling_a_number():
    above, _ = verdict({"files": 5}, {"flies": 5})
    assert above == ["[tool.house] has no ceiling 'files'", "[tool.house] flies: there is no such number"]


@pytest.mark.parametrize(("most", "status"), [(2, 1), (3, 0), (4, 0)])
def test_the_command_fails_above_a_ceiling_alone(tmp_path, monkeypatch, capsys, most, status):
    write(tmp_path)
    ceilings = [f"{name} = {number}" for name, number in (NUMBERS | {"files": most}).items()]
    (tmp_path / "pyproject.toml").write_text("\n".join(["[tool.house]", *ceilings]))
    monkeypatch.setattr(house, "ROOT", tmp_path)
    assert house.main([]) == status
    said = {
        2: "files: 3 Python files, allowed 2\n",
        3: "",
        4: "files: 3 Python files; the ceiling 4 can be lowered\n",
    }
    assert capsys.readouterr().out == said[most]


def test_every_number_of_the_project_has_a_ceiling():
    ceilings = tomllib.loads((house.ROOT / "pyproject.toml").read_text())["tool"]["house"]
    assert ceilings.keys() == NUMBERS.keys()
