"""Reads ASTRA-sim's networks: the yml of its analytical back-end.

A dimension is a ``Ring``, ``FullyConnected`` or a ``Switch`` of some number of NPUs, with the bandwidth of a
link in GB/s of 2^30 bytes and its latency in ns (astra-network-analytical, ``NetworkFunction.cc``). Ranks are
numbered along the first dimension first. Such a file is flat: each line has a key and a list.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from fractions import Fraction
from itertools import combinations
from math import prod

from tutti.topologies.assembly import check_size
from tutti.topologies.errors import SHOWN, InputError, suggestion, within
from tutti.topologies.topology import Link, Topology
from tutti.topologies.units import GIBI, GIGA, exact_number

_KEYS = ("topology", "npus_count", "bandwidth", "latency")
KINDS = ("Ring", "FullyConnected", "Switch")
_FINEST = 10**15
"""Latencies, which the file has as decimals, are rounded to multiples of 1/`_FINEST` s."""
_LINE = re.compile(r"([A-Za-z_][A-Za-z0-9_-]*)\s*:\s*(.*)")
_COUNT = re.compile(r"[0-9]{1,7}")
MOST_DIMENSIONS = 16


def from_yml(text: str, where: str) -> Topology:
    """Return the network in a yml of ASTRA-sim.

    Raises
    ------
    InputError
        If the text is no such network; the message names the line or the key.
    """
    values = _flat(text, where)
    missing = next((key for key in _KEYS if key not in values), None)
    if missing is not None:
        raise InputError(f"{where}: no key '{missing}'; a network of ASTRA-sim has {', '.join(_KEYS)}")
    kinds = values["topology"]
    lengths = {len(values[key]) for key in _KEYS}
    if len(lengths) > 1 or not 1 <= len(kinds) <= MOST_DIMENSIONS:
        raise InputError(f"{where}: {', '.join(_KEYS)} need one value a dimension, of 1 to {MOST_DIMENSIONS}")
    for kind in kinds:
        if kind not in KINDS:
            raise InputError(f"{where}: topology {kind[:SHOWN]!r} is not read{suggestion(kind, KINDS)}")
    counts = [_count(word, where) for word in values["npus_count"]]
    bandwidth = [_positive(word, f"{where}: bandwidth", 0) * GIBI for word in values["bandwidth"]]
    alpha = [_positive(word, f"{where}: latency", -1) / GIGA for word in values["latency"]]
    bandwidth = [Fraction(max(round(value), 1)) for value in bandwidth]
    alpha = [Fraction(round(value * _FINEST), _FINEST) for value in alpha]
    notes = ["a GB is 2^30 bytes in ASTRA-sim"]
    unread = sorted(values.keys() - set(_KEYS))
    if unread:
        notes.append(f"ignored keys: {', '.join(unread)[:SHOWN]}")
    ranks = prod(counts)
    size = sum(
        ranks * (count if kind == "FullyConnected" else 2) for kind, count in zip(kinds, counts, strict=True)
    )
    check_size(where, 2 * ranks, size)
    links: list[Link] = []
    labels = [str(rank) for rank in range(ranks)]
    for dimension, (kind, count) in enumerate(zip(kinds, counts, strict=True)):
        stride = prod(counts[:dimension])
        starts = (rank for rank in range(ranks) if rank // stride % count == 0)
        for number, start in enumerate(starts):
            line = [start + stride * place for place in range(count)]
            if kind == "Switch":
                labels.append(f"switch{dimension}.{number}")
            for one, other in _pairs(kind, line, len(labels) - 1):
                links += [
                    Link(*ends, bandwidth[dimension], alpha[dimension])
                    for ends in ((one, other), (other, one))
                ]
    return Topology.from_links(where, ranks, links, labels=labels, notes=notes)


def _flat(text: str, where: str) -> dict[str, list[str]]:
    """Return the keys of a flat yml, each with its values."""
    found: dict[str, list[str]] = {}
    key, open_list = "", False
    for number, line in enumerate(text.removeprefix("\ufeff").splitlines(), start=1):
        content = line.partition("#")[0].strip()
        place = f"{where}, line {number}"
        match = _LINE.fullmatch(content)
        if not content or content == "---":
            continue
        if match and not open_list:
            key, content = match[1], match[2]
            if key in found:
                raise InputError(f"{place}: the key '{key}' occurs twice")
            found[key] = []
        elif not key or not (open_list or content.startswith("- ")):
            raise InputError(
                f"{place}: {content[:SHOWN]!r} is no line of a network of ASTRA-sim, key: [ value ]"
            )
        open_list = (open_list or content.startswith("[")) and not content.endswith("]")
        words = content.removeprefix("- ").strip("[] ").split(",")
        found[key] += [word.strip(" '\"") for word in words if word.strip()]
    if open_list:
        raise InputError(f"{where}: the list of '{key}' is not closed; is the file cut off?")
    return found


def _count(word: str, where: str) -> int:
    if not _COUNT.fullmatch(word) or int(word) < 2:
        raise InputError(f"{where}: npus_count {word[:SHOWN]!r} is no whole number of at least 2")
    return int(word)


def _positive(word: str, where: str, above: int) -> Fraction:
    value: Fraction = within(where, lambda: exact_number(word))
    if value <= above or value < 0:
        raise InputError(
            f"{where} is {word[:SHOWN]}; it must {'be positive' if above == 0 else 'not be negative'}"
        )
    return value


def _pairs(kind: str, line: list[int], switch: int) -> Iterator[tuple[int, int]]:
    """Yield each pair of linked nodes of a line once."""
    if kind == "Switch":
        yield from ((rank, switch) for rank in line)
    elif kind == "FullyConnected" or len(line) == 2:
        yield from combinations(line, 2)
    else:
        yield from zip(line, [*line[1:], line[0]], strict=True)
