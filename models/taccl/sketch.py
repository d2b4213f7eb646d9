"""Communication sketches: the choices that a designer fixes beforehand (TACCL, section 3 and Appendix A).

A sketch is TOML or JSON with the fields of Listing 1. Ranks are numbered within a host (the paper's node),
0 to G - 1::

    symmetry_offsets = [[2, 16], [16, 32]]        # [o, g]: rank r goes to (r + o) % g within its g ranks

    [intranode_sketch]
    strategy = "switch"                           # Or "none": the links between the ranks of a host.
    switches = [[0, 1, 2, 3]]                     # Ranks that a switch joins: a switch-hyperedge.
    switch_hyperedge_strategy = ["uc-min"]        # Or "uc-max", "free": how many of its links are used.

    [internode_sketch]
    strategy = "relay"
    internode_conn = {"1" = [0], "3" = [2]}       # Who sends to whom; or "direct-map", "fully-connected".
    beta_split = {"1" = 1, "3" = 1}               # n: transfers of that rank get 1/n of the bandwidth.
    chunk_to_relay_map = [2, 1]                   # A chunk of rank p leaves its host by (p // 2) * 2 + 1.

    [hyperparameters]
    input_chunkup = 2                             # Chunks a shard.
    input_size = "1MB"                            # M; without it, the size that is asked for.

``"direct-map"`` joins each rank to the rank of the same number in every other host, ``"fully-connected"`` to
all of them. Source: TACCL (NSDI 2023), Listing 1; the two texts are those of its public sketches.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from pathlib import Path
from typing import Any

from tutti.topologies.errors import InputError, suggestion
from tutti.topologies.files import read_text
from tutti.topologies.units import parse_size

SHIPPED = Path(__file__).parent / "sketches"
"""The folder with the sketches of the paper's section 7.1."""

FIELDS: Mapping[str, tuple[str, ...]] = {
    "": ("intranode_sketch", "internode_sketch", "symmetry_offsets", "hyperparameters"),
    "intranode_sketch": ("strategy", "switches", "switch_hyperedge_strategy"),
    "internode_sketch": ("strategy", "internode_conn", "beta_split", "chunk_to_relay_map"),
    "hyperparameters": ("input_chunkup", "input_size"),
}
"""The keys of each table."""

_BARE_SIZE = re.compile(r"[0-9.]+[KMG]")
"""Listing 1 writes 1M for 1 MB."""


class Policy(StrEnum):
    """Policies on how many links of a switch-hyperedge are used (section 3.2)."""

    MAX = "uc-max"
    MIN = "uc-min"
    FREE = "free"


class Connection(StrEnum):
    """The ranks of another host to which each rank sends, where they are not listed."""

    DIRECT = "direct-map"
    FULL = "fully-connected"


@dataclass(frozen=True)
class Hyperedge:
    """A switch: the ranks of a host that it joins, and how many links to use."""

    ranks: tuple[int, ...]
    policy: Policy


@dataclass(frozen=True)
class Sketch:
    """A communication sketch.

    Parameters
    ----------
    name
        The file, for messages.
    hyperedges
        The switches of a host; none: its links.
    connections
        For each sender of a host, the receivers of every other host.
    beta_split
        For each sender the n of "1/n of the bandwidth"; 1 where absent.
    relay_map
        (r1, r2): a chunk that starts at rank p of a host leaves it by rank (p // r1) * r1 + r2; None: any.
    symmetry
        Pairs (offset, group size).
    chunks
        Chunks a shard.
    size
        M in bytes that the schedule is made for; None: the size that is asked for.
    """

    name: str
    hyperedges: tuple[Hyperedge, ...] = ()
    connections: Mapping[int, tuple[int, ...]] | Connection = Connection.FULL
    beta_split: Mapping[int, int] | None = None
    relay_map: tuple[int, int] | None = None
    symmetry: tuple[tuple[int, int], ...] = ()
    chunks: int = 1
    size: Fraction | None = None


def shipped_sketches() -> list[str]:
    """Return the names of the sketches that come with the project."""
    return sorted(path.stem for path in SHIPPED.glob("*.toml"))


def read_sketch(name: str) -> Sketch:
    """Return a shipped sketch by its name, or one in a ``.toml`` or ``.json`` file.

    Raises
    ------
    InputError
        If there is none, the file is no TOML or JSON, or a key or value is wrong, naming it.

    Examples
    --------
    >>> read_sketch("ndv2-sk-1").connections
    {0: (1,)}
    """
    if Path(name).suffix not in (".toml", ".json"):
        if name not in shipped_sketches():
            known = suggestion(name, shipped_sketches())
            raise InputError(f"unknown sketch '{name}'{known} (or a file .toml or .json)")
        return _read(tomllib.loads((SHIPPED / f"{name}.toml").read_text("utf-8")), name)
    text = read_text(name)
    try:
        document = tomllib.loads(text) if name.endswith(".toml") else json.loads(text)
    except RecursionError:
        raise InputError(f"{name}: not a sketch: nested too deeply") from None
    except ValueError as error:
        raise InputError(f"{name}: {' '.join(str(error).split())}") from None
    return _read(document, name)


def _read(document: Any, name: str) -> Sketch:
    """Return the sketch in a document of plain values."""
    if not isinstance(document, dict):
        raise InputError(f"{name}: a sketch is a table with the keys {', '.join(FIELDS[''])}")
    if not any(document.values()):
        raise InputError(f"{name}: the sketch is empty; give at least one of {', '.join(FIELDS[''])}")
    tables = {key: document.get(key, {}) for key in FIELDS[""] if key != "symmetry_offsets"}
    _check_keys(name, "", document)
    for key, table in tables.items():
        if not isinstance(table, dict):
            raise InputError(f"{name}: {key} is {table!r}; it must be a table")
        _check_keys(name, key, table)
    reader = _SketchReader(name)
    within, between, others = tables.values()
    return Sketch(
        name=name,
        hyperedges=reader.hyperedges(within),
        connections=reader.connections(between),
        beta_split=reader.beta_split(between),
        relay_map=reader.relay_map(between),
        symmetry=reader.symmetry(document.get("symmetry_offsets", [])),
        chunks=reader.count(others.get("input_chunkup", 1), "hyperparameters.input_chunkup", 1),
        size=reader.size(others.get("input_size")),
    )


def _check_keys(name: str, table: str, given: Iterable[str]) -> None:
    for key in given:
        if key not in FIELDS[table]:
            where = f" in {table}" if table else ""
            raise InputError(f"{name}: unknown key '{key}'{where}{suggestion(key, FIELDS[table])}")


@dataclass(frozen=True)
class _SketchReader:
    """Reads values, and names the file and the key in its errors."""

    name: str

    def wrong(self, key: str, value: Any, wanted: str) -> InputError:
        return InputError(f"{self.name}: {key} is {value!r}; it must be {wanted}")

    def count(self, value: Any, key: str, least: int) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise self.wrong(key, value, f"a whole number, at least {least}")
        return value

    def ranks(self, value: Any, key: str) -> tuple[int, ...]:
        if not isinstance(value, list):
            raise self.wrong(key, value, "a list of ranks of a host")
        return tuple(self.count(rank, key, 0) for rank in value)

    def choice(self, value: Any, key: str, allowed: Iterable[str]) -> str:
        choices = list(allowed)
        if value not in choices:
            raise self.wrong(key, value, f"one of {', '.join(choices)}")
        return str(value)

    def hyperedges(self, table: dict[str, Any]) -> tuple[Hyperedge, ...]:
        key = "intranode_sketch"
        strategy = self.choice(table.get("strategy", "none"), f"{key}.strategy", ("switch", "none"))
        switches = table.get("switches", [])
        if strategy == "none":
            return ()
        if not isinstance(switches, list) or not switches:
            raise self.wrong(f"{key}.switches", switches, "a list with the ranks of each switch")
        policies = table.get("switch_hyperedge_strategy", [Policy.FREE] * len(switches))
        if not isinstance(policies, list) or len(policies) != len(switches):
            raise self.wrong(f"{key}.switch_hyperedge_strategy", policies, "a list with one policy a switch")
        return tuple(
            Hyperedge(
                self.ranks(ranks, f"{key}.switches"),
                Policy(self.choice(policy, f"{key}.switch_hyperedge_strategy", Policy)),
            )
            for ranks, policy in zip(switches, policies, strict=True)
        )

    def connections(self, table: dict[str, Any]) -> Mapping[int, tuple[int, ...]] | Connection:
        key = "internode_sketch.internode_conn"
        self.choice(table.get("strategy", "relay"), "internode_sketch.strategy", ("relay",))
        value = table.get("internode_conn", Connection.FULL)
        if isinstance(value, dict):
            return {self.number(rank, key): self.ranks(to, f"{key}.{rank}") for rank, to in value.items()}
        if value not in list(Connection):
            raise self.wrong(key, value, f"a table of lists, or one of {', '.join(Connection)}")
        return Connection(value)

    def number(self, text: str, key: str) -> int:
        if not (text.isascii() and text.isdigit()):
            raise self.wrong(f"a key of {key}", text, "the number of a rank of a host")
        return int(text)

    def beta_split(self, table: dict[str, Any]) -> dict[int, int]:
        key = "internode_sketch.beta_split"
        value = table.get("beta_split", {})
        if not isinstance(value, dict):
            raise self.wrong(key, value, "a table from ranks to whole numbers")
        return {self.number(rank, key): self.count(n, f"{key}.{rank}", 1) for rank, n in value.items()}

    def relay_map(self, table: dict[str, Any]) -> tuple[int, int] | None:
        key, value = "internode_sketch.chunk_to_relay_map", table.get("chunk_to_relay_map")
        if value is None:
            return None
        if not isinstance(value, list) or len(value) != 2:
            raise self.wrong(key, value, "[r1, r2]")
        return self.count(value[0], key, 1), self.count(value[1], key, 0)

    def symmetry(self, value: Any) -> tuple[tuple[int, int], ...]:
        key = "symmetry_offsets"
        if not isinstance(value, list) or any(not isinstance(p, list) or len(p) != 2 for p in value):
            raise self.wrong(key, value, "a list of [offset, group size]")
        return tuple((self.count(o, key, 1), self.count(g, key, 2)) for o, g in value)

    def size(self, value: Any) -> Fraction | None:
        if value is None:
            return None
        text = f"{value}B" if isinstance(value, str) and _BARE_SIZE.fullmatch(value) else value
        try:
            return parse_size(text)
        except InputError as error:
            raise InputError(f"{self.name}: hyperparameters.input_size: {error}") from None
