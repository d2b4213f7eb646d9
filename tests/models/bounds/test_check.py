"""Checks are independent of finders, and read certificates of earlier versions."""

import ast
from pathlib import Path

import pytest

from tutti.models import bounds
from tutti.models.bounds import Bound, BoundError, lower_bounds
from tutti.models.bounds.check import OLD_NAMES, PROOFS, proven
from tutti.schedules.collective import collective
from tutti.topologies.text import parse_topology

FOLDER = Path(bounds.__file__).parent
OWN = ("tutti.models.bounds.check", "tutti.models.bounds.certificate")


def imported(path):
    """The modules that a file imports, wherever in it."""
    nodes = list(ast.walk(ast.parse(path.read_text())))
    yield from (node.module for node in nodes if isinstance(node, ast.ImportFrom))
    yield from (name.name for node in nodes if isinstance(node, ast.Import) for name in node.names)


@pytest.mark.parametrize("path", [*FOLDER.glob("check*.py"), FOLDER / "certificate.py"], ids=lambda p: p.stem)
def test_checks_import_no_finder(path):
    assert [name for name in imported(path) if name.startswith("models") and not name.startswith(OWN)] == []


def test_each_kind_has_a_check_of_its_own():
    modules = {kind: proof.__module__ for kind, proof in PROOFS.items()}
    files = {f"tutti.models.bounds.{path.stem}" for path in FOLDER.glob("check_*.py")}
    assert set(modules.values()) == {*files, "tutti.models.bounds.check"}
    for kind in OLD_NAMES.values():
        assert modules[kind] in (f"tutti.models.bounds.check_{kind}", "tutti.models.bounds.check")


@pytest.mark.parametrize(
    ("old", "text", "kind", "size"),
    [
        ("neighbours", "complete:4", "allgather", 100_000),
        ("messages", "ring:3", "allreduce", 3_000),
        ("transfers", "torus:4x4", "allreduce", 1_000_000),
        ("relays", "ring:4", "all-to-all", 100_000),
        ("growth", "switch2d:2x4?switches=forward", "allreduce", 30_000),
        ("crossings", "switch2d:2x4?switches=forward", "allreduce", 30_000),
    ],
)
def test_certificates_of_earlier_versions_are_checked(old, text, kind, size):
    topology = parse_topology(text)
    what = collective(kind, topology.num_ranks)
    new = next(bound for bound in lower_bounds(topology, what, size) if bound.kind == OLD_NAMES[old])
    assert proven(old, new.certificate, topology, what) == new.value
    again = Bound(old, new.value, new.unit, new.certificate)
    assert again == new
    again.check(topology, what)
    with pytest.raises(BoundError, match=f"{new.kind} bound: the certificate proves"):
        Bound(old, 2 * new.value, new.unit, new.certificate).check(topology, what)
