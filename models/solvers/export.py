"""A compiled model as a file that other solvers read: free MPS or CPLEX LP, by HiGHS."""

from __future__ import annotations

from pathlib import Path

from models.solvers import highs
from models.solvers.compiled import CompiledModel
from topologies.errors import InputError

SUFFIXES = (".mps", ".lp")


def write_model(model: CompiledModel, path: Path | str) -> None:
    """Write a model as ``.mps`` or ``.lp``; columns are called c0, c1, ... and rows r0, r1, ... in order.

    Raises
    ------
    InputError
        If the suffix is another, or the file can't be written.

    Examples
    --------
    >>> write_model(None, "model.txt")
    Traceback (most recent call last):
    ...
    topologies.errors.InputError: model.txt: a model is written as .mps or .lp
    """
    check_path(path)
    highs.write(model, str(path))


def check_path(path: Path | str) -> None:
    """Refuse a path that no model can be written to, before one is built.

    Raises
    ------
    InputError
        If the suffix is another, or there is no such folder.
    """
    file = Path(path)
    if file.suffix not in SUFFIXES:
        raise InputError(f"{path}: a model is written as {' or '.join(SUFFIXES)}")
    if not file.parent.is_dir():
        raise InputError(f"{path}: there is no folder {file.parent}")
