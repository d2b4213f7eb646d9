"""The matrix of an all-to-all-v: the number of bytes that each member of a group sends to each.

A text names a file (``moe.csv``, ``moe.npy``), or a rule that generates the matrix (`FORMS`), such as
``zipf:1.2?seed=3``. Numbers in a file are bytes, and M is then the largest row. Generated numbers are
relative, for any M.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from tutti.topologies.disk import read_text
from tutti.topologies.errors import InputError, suggestion
from tutti.topologies.exact import INT64_MAX, FloatArray, Int64Array, frozen
from tutti.topologies.units import exact_number

MOST_BYTES = INT64_MAX // 2
"""Largest sum of all entries, in bytes."""
GRAIN = 2**20
"""Units in the largest row of a generated matrix; a positive entry has at least one. Larger is finer."""
FILES = (".csv", ".npy")
BACKWARDS = ", backwards"
"""Suffix of the name of a transposed matrix."""


@dataclass(frozen=True, eq=False)
class ByteMatrix:
    """The bytes that each of n members sends to each; the diagonal is what each keeps.

    Parameters
    ----------
    amounts
        int64, shape (n, n): row i has the bytes that member i sends. A row may be all 0.
    text
        Its name, which states its content: two with one name are equal.
    relative
        Whether `amounts` are only proportions; otherwise they are bytes.

    Raises
    ------
    InputError
        If it is not square, has a negative entry, only zeros, or more than `MOST_BYTES` in all.
    """

    amounts: Int64Array
    text: str
    relative: bool = False

    def __post_init__(self) -> None:
        """Freeze and check the entries."""
        object.__setattr__(self, "amounts", frozen(self.amounts, np.int64))
        amounts, where = self.amounts, f"matrix {self.text}"
        if amounts.ndim != 2 or amounts.shape[0] != amounts.shape[1]:
            shape = " x ".join(map(str, amounts.shape))
            raise InputError(f"{where} is {shape}; it must be square, a row and a column for each rank")
        for row, column in np.argwhere(amounts < 0)[:1].tolist():
            raise InputError(_entry(where, row, column, amounts[row, column]))
        if not amounts.any():
            raise InputError(f"{where} has only zeros; at least one entry must be positive")
        if amounts.sum(dtype=np.float64) > MOST_BYTES:
            raise InputError(f"{where} has more than {MOST_BYTES} bytes in all")

    @property
    def largest_row(self) -> int:
        """The most bytes that one member sends, including what it keeps: the unit of shares."""
        return int(self.amounts.sum(axis=1).max())

    @property
    def busiest(self) -> int:
        """The most bytes that one member sends to others, or receives from them."""
        others = self.amounts - np.diag(self.amounts.diagonal())
        return int(max(others.sum(axis=0).max(), others.sum(axis=1).max()))

    @property
    def transposed(self) -> ByteMatrix:
        """The matrix with senders and receivers exchanged: that of a schedule run backwards."""
        name = self.text.removesuffix(BACKWARDS)
        return ByteMatrix(self.amounts.T, name if name != self.text else name + BACKWARDS, self.relative)

    @cached_property
    def _key(self) -> tuple[bool, bytes]:
        return self.relative, self.amounts.tobytes()

    def __eq__(self, other: object) -> bool:
        return self._key == other._key if isinstance(other, ByteMatrix) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._key)

    def __str__(self) -> str:
        return self.text


def byte_matrix(given: Any, members: int) -> ByteMatrix:
    """Return the matrix for `members` members that a text names, or that has these rows of bytes.

    Parameters
    ----------
    given
        A text as in `FORMS`, the name of a file, a square array or lists of whole numbers, or a `ByteMatrix`.
    members
        The number of members, n.

    Raises
    ------
    InputError
        If there is no such matrix, or it has another shape.
    """
    if isinstance(given, Path):
        given = str(given)
    if isinstance(given, str):
        matrix = _of_text(given.strip(), members)
    elif isinstance(given, ByteMatrix):
        matrix = given
    else:
        matrix = _named(_whole(given, "matrix"), "")
    if len(matrix.amounts) != members:
        size = len(matrix.amounts)
        raise InputError(
            f"matrix {matrix} is {size} x {size}, for {members} ranks; give a row and a column each"
        )
    return matrix


def _named(amounts: Int64Array, name: str) -> ByteMatrix:
    """Return the matrix of the given bytes, named after its file and its content."""
    digest = hashlib.sha256(f"{amounts.shape}".encode() + amounts.tobytes()).hexdigest()[:8]
    return ByteMatrix(amounts, f"{name}#{digest}")


def _of_text(text: str, members: int) -> ByteMatrix:
    if Path(text).suffix in FILES:
        return _named(_read_npy(text) if text.endswith(".npy") else _read_csv(text), Path(text).name)
    head, _, query = text.partition("?")
    name, *words = head.split(":")
    if name not in FORMS:
        raise InputError(f"matrix '{text}'; a file ({', '.join(FILES)}) or a form{suggestion(name, FORMS)}")
    form, make = FORMS[name]
    seed = re.fullmatch(r"(?:seed=([0-9]{1,18}))?", query)
    if len(words) != form.count(":") or seed is None:
        raise InputError(f"matrix '{text}'; write {form}, and ?seed=3 for another one")
    try:
        weights = make(members, np.random.default_rng(int(seed[1] or 0)), *map(exact_number, words))
    except InputError as error:
        raise InputError(f"matrix '{text}': {error}") from None
    rows = weights / weights.sum(axis=1).max() * GRAIN
    return ByteMatrix(
        np.where(weights > 0, np.maximum(np.rint(rows), 1), 0).astype(np.int64), text, relative=True
    )


def _zipf(members: int, rng: np.random.Generator, power: Fraction) -> FloatArray:
    if not 0 <= power <= _MOST_POWER:
        raise InputError(f"power {power}; allowed: 0 to {_MOST_POWER}")
    weights = np.arange(1.0, members + 1) ** -float(power)
    return rng.permuted(np.tile(weights, (members, 1)), axis=1)


def _hot(members: int, rng: np.random.Generator, share: Fraction) -> FloatArray:
    _check_share(share)
    weights = np.full((members, members), float(1 - share) / (members - 1))
    weights[:, rng.integers(members)] = float(share)
    return weights


def _block(members: int, rng: np.random.Generator, size: Fraction, share: Fraction) -> FloatArray:
    _check_share(share)
    if size.denominator != 1 or not 0 < size < members or members % int(size):
        raise InputError(f"blocks of {size}; of {members} ranks they must be equal parts, two at least")
    block = np.arange(members) // int(size)
    inside = block[:, None] == block
    return np.where(inside, float(share / size), float((1 - share) / (members - size)))


def _check_share(share: Fraction) -> None:
    if not 0 <= share <= 1:
        raise InputError(f"share {share}; allowed: 0 to 1")


_MOST_POWER = 10

FORMS: dict[str, tuple[str, Callable[..., FloatArray]]] = {
    "uniform": ("uniform", lambda members, rng: np.ones((members, members))),
    "random": ("random", lambda members, rng: rng.random((members, members))),
    "zipf": ("zipf:POWER", _zipf),
    "hot": ("hot:SHARE", _hot),
    "block": ("block:RANKS:SHARE", _block),
}
"""Generated matrices. uniform: all entries are equal. random: all entries are uniform between 0 and 1. zipf:
each row has the numbers k^-POWER in its own order. hot: one rank receives SHARE of each row, all others share
the rest equally. block: SHARE of each row stays inside blocks of RANKS ranks (hosts), the rest goes
outside."""


def _read_npy(path: str) -> Int64Array:
    try:
        return _whole(np.load(path, mmap_mode="r", allow_pickle=False), f"matrix {path}")
    except OSError as error:
        raise InputError(f"matrix {path}: {error.strerror or 'can not be read'}") from None
    except (ValueError, EOFError):
        raise InputError(f"matrix {path} is no .npy file of numbers") from None


def _read_csv(path: str) -> Int64Array:
    where = f"matrix {path}"
    lines = [line.split(",") for line in read_text(path).splitlines() if line.strip()]
    wrong = next((number for number, cells in enumerate(lines) if len(cells) != len(lines)), None)
    if wrong is not None or not lines:
        row = f"row {(wrong or 0) + 1} has {len(lines[wrong or 0])} numbers" if lines else "it is empty"
        raise InputError(f"{where} has {len(lines)} rows: {row}; it must be square")
    return np.array(
        [[_cell(cell.strip(), where, i, j) for j, cell in enumerate(cells)] for i, cells in enumerate(lines)],
        dtype=np.int64,
    )


def _cell(text: str, where: str, row: int, column: int) -> int:
    if text.isascii() and text.isdigit() and len(text) < len(str(INT64_MAX)):
        return int(text)
    try:
        number = exact_number(text)
    except InputError:
        number = Fraction(-1)
    if number.denominator != 1 or not 0 <= number <= INT64_MAX:
        raise InputError(_entry(where, row, column, text))
    return int(number)


def _entry(where: str, row: int, column: int, value: Any) -> str:
    return f"{where}: row {row + 1}, column {column + 1} is {value}; bytes are whole numbers, at least 0"


def _whole(given: Sequence[Sequence[int]] | np.ndarray[Any, Any], where: str) -> Int64Array:
    """Return numbers as 64-bit integers; refuse other numbers."""
    try:
        array = np.asarray(given)
    except ValueError:
        raise InputError(f"{where}: its rows differ in length; it must be square") from None
    if array.dtype.kind not in "iuf" or array.ndim != 2:
        raise InputError(f"{where} must be a square table of numbers, the bytes that each rank sends to each")
    with np.errstate(invalid="ignore", over="ignore"):  # 16-bit floats are all in range
        wrong = ~((array >= 0) & (array <= MOST_BYTES) & (array == np.floor(array)))
    for row, column in np.argwhere(wrong)[:1].tolist():
        raise InputError(_entry(where, row, column, array[row, column]))
    return array.astype(np.int64)
