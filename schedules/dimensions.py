"""Groups by dimensions of the ranks, as jobs name them: ``tp=8:allreduce@64MB,dp=4:reduce-scatter@1GB``.

The sizes of the dimensions multiply to N, and the first varies fastest: ranks 0 to 7 are the first group of
``tp`` here, and ranks 0, 8, 16 and 24 the first of ``dp``. One size may be ``*``, which is the remaining
factor of N. Each dimension states its collective and the bytes; a dimension with ``none``, or of size 1, does
nothing.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from tutti.schedules.collective import Collective, collective, concurrent, parse_kind
from tutti.topologies.errors import InputError
from tutti.topologies.exact import Int64Array
from tutti.topologies.units import parse_size

IDLE, REST = "none", "*"
"""The collective of a dimension that does nothing, and the size that is the remaining factor of N."""
_DIMENSION = re.compile(r"\s*([^=:@\s]+)\s*=\s*([1-9][0-9]{0,8}|\*)\s*(?::([^@]*))?(?:@(.+))?")


@dataclass(frozen=True)
class Dimension:
    """A dimension: its size (0: the rest of N), its groups' collective, and their bytes (None: not given)."""

    name: str
    size: int
    kind: str
    bytes: Fraction | None


def is_dimensions(text: str) -> bool:
    """Whether a text gives groups by dimensions instead of lists of ranks."""
    return "=" in text


def asked_collective(
    kind: str, num_ranks: int, groups: list[list[int]] | str | None, **how: Any
) -> tuple[Collective, Fraction | None]:
    """Return a collective, whose groups may be a text by dimensions, and M in bytes where it says it itself.

    Raises
    ------
    InputError
        If they do not fit each other.
    """
    if isinstance(groups, str):
        if any(given is not None for given in how.values()):
            raise InputError("groups by dimensions take no root, shards and matrix")
        return grouped(groups, num_ranks, kind)
    what = collective(kind, num_ranks, groups=groups, **how)
    if how.get("shards") is not None:
        _ = what.items  # refuses here what is too far apart to be exact
    return what, None if what.own_size is None else Fraction(what.own_size)


def grouped(text: str, num_ranks: int, kind: str) -> tuple[Collective, Fraction | None]:
    """Return the collectives that dimensions do together, and M in bytes, their largest, if they give it.

    Parameters
    ----------
    text
        Dimensions, separated by commas: a name, ``=``, a size; then ``:`` and a collective, and ``@`` and its
        bytes, which may both be left out.
    num_ranks
        The number of ranks, N.
    kind
        The collective of dimensions that do not state one.

    Raises
    ------
    InputError
        If it is no such text, a name or ``*`` occurs twice, the sizes do not multiply to N, a collective is
        unknown, or only some give bytes.

    Examples
    --------
    >>> what, size = grouped("tp=4:allreduce@1MB,dp=*:allgather@4MB", 8, "")
    >>> str(what), int(size)
    ('mixed(1/4 allreduce(groups=4 by 1) + allgather(groups=2 by 4))', 4000000)
    """
    where = f"groups '{text}'"
    dimensions = _whole([_dimension(word, where, kind) for word in text.split(",")], num_ranks, where)
    lines = _lines([each.size for each in dimensions])
    doing = [
        (each, groups)
        for each, groups in zip(dimensions, lines, strict=True)
        if each.size > 1 and each.kind != IDLE
    ]
    if not doing:
        raise InputError(f"{where}: no dimension of more than one rank does anything")
    sizes = [each.bytes for each, _ in doing if each.bytes is not None]
    if sizes and len(sizes) < len(doing):
        raise InputError(f"{where}: only some dimensions give bytes; give them for all or none")
    parts = [collective(each.kind, num_ranks, groups=groups.tolist()) for each, groups in doing]
    return concurrent(parts, sizes or None) if len(parts) > 1 else parts[0], max(sizes, default=None)


def _dimension(word: str, where: str, kind: str) -> Dimension:
    found = _DIMENSION.fullmatch(word)
    if found is None:
        raise InputError(f"{where}: '{word}' is no dimension; write tp=8 or tp=8:allreduce@64MB")
    name, size, own, amount = found.groups()
    if (own or kind) != IDLE:
        parse_kind(own or kind)
    return Dimension(
        name, 0 if size == REST else int(size), own or kind, None if amount is None else parse_size(amount)
    )


def _whole(dimensions: Sequence[Dimension], num_ranks: int, where: str) -> list[Dimension]:
    """Return the dimensions with their sizes, which multiply to N."""
    words = Counter([*(each.name for each in dimensions), *(REST for each in dimensions if not each.size)])
    word, count = words.most_common(1)[0]
    if count > 1:
        raise InputError(f"{where}: '{word}' occurs {count} times; once is allowed")
    known = math.prod(each.size or 1 for each in dimensions)
    left = num_ranks // known if words[REST] else 1
    if known * left != num_ranks:
        raise InputError(f"{where}: the sizes multiply to {known}, for {num_ranks} ranks")
    return [replace(each, size=each.size or left) for each in dimensions]


def _lines(shape: Sequence[int]) -> Iterator[Int64Array]:
    """Yield the groups of each dimension, shape (groups, size); ranks vary fastest along the first."""
    ranks = np.arange(math.prod(shape)).reshape(shape[::-1])
    for place, size in enumerate(shape):
        yield np.moveaxis(ranks, len(shape) - 1 - place, -1).reshape(-1, size)
