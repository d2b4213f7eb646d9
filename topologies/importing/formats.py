"""Files that hold a network: a tool's, such as ``nccl:FILE?hosts=2``, and those named by their path alone.

A tool's file is named with its kind (`FORMATS`). Otherwise the suffix of the name says what the file is:
node-link JSON (`topologies.files`), a graph that networkx wrote (`topologies.importing.graphs`), or the yml
of ASTRA-sim's analytical back-end. A file of another tool is refused, and the error says what to do instead.

ASTRA-sim's dimension is a ``Ring``, ``FullyConnected`` or a ``Switch`` of some number of NPUs, with the
bandwidth of a link in GB/s of 2^30 bytes and its latency in ns (astra-network-analytical,
``NetworkFunction.cc``). Ranks are numbered along the first dimension first. Such a file is flat: each line
has a key and a list.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from importlib import import_module
from itertools import combinations
from math import prod
from pathlib import Path
from typing import Any

from tutti.topologies.assembly import check_size
from tutti.topologies.errors import SHOWN, InputError, suggestion, within
from tutti.topologies.files import exact_json, from_node_link, read_text
from tutti.topologies.importing.graphs import READERS, from_adjacency
from tutti.topologies.importing.machine import Joining
from tutti.topologies.topology import Link, Topology
from tutti.topologies.units import GIBI, GIGA, exact_number


@dataclass(frozen=True)
class TopologyFormat:
    """A kind of file, as the text grammar and ``tutti list topologies`` know it.

    Parameters
    ----------
    name
        The word before the colon.
    example
        An example of a whole text.
    summary
        A description in one line.
    reader
        ``module:function`` of `topologies.importing`: it takes the path, the network's name, the way to join
        hosts, and the given bandwidths if they may be given.
    bandwidths
        Whether bandwidths may be given, because the file holds none.
    """

    name: str
    example: str
    summary: str
    reader: str
    bandwidths: bool = False

    def read(self, path: str, name: str, joining: Joining, bandwidth: list[Fraction] | None) -> Topology:
        """Return the network in a file."""
        module, _, function = self.reader.partition(":")
        # few texts name a file, and every command imports this module
        reader = getattr(import_module(f"tutti.topologies.importing.{module}"), function)
        given = (bandwidth,) if self.bandwidths else ()
        network: Topology = reader(path, name, joining, *given)
        return network


# fmt: off
FORMATS = {one.name: one for one in (
    TopologyFormat(
        "nccl", "nccl:topo.xml?hosts=2", "hosts by NCCL's or RCCL's topology XML (NCCL_TOPO_DUMP_FILE)",
        "nccl:read_nccl",
    ),
    TopologyFormat(
        "nvidia-smi", "nvidia-smi:topo.txt?hosts=2", "hosts by the matrix of nvidia-smi topo -m",
        "nvidia_smi:read_nvidia_smi", bandwidths=True,
    ),
    TopologyFormat(
        "rocm-smi", "rocm-smi:topo.txt", "a host by the tables of rocm-smi --showtopo",
        "amd_smi:read_amd_smi", bandwidths=True,
    ),
    TopologyFormat(
        "amd-smi", "amd-smi:topo.txt", "a host by the tables of amd-smi topology",
        "amd_smi:read_amd_smi", bandwidths=True,
    ),
)}
# fmt: on

_YML = (".yml", ".yaml")
SUFFIXES = (".json", *READERS, *_YML)
"""Suffixes of the files that hold a network."""
_HEAD = 2**16
"""Number of characters from its start by which a tool's file is recognised."""
_SEE = "docs/import.md says how to write it as a network"
_TOOLS = (
    ("nccl", re.compile(r"<system\b")),
    ("rocm-smi", re.compile(r"Link Type between two GPUs")),
    ("amd-smi", re.compile(r"\bLINK TYPE TABLE:")),
    ("nvidia-smi", re.compile(r"GPU0\s+X\s")),
)
"""The formats that are named before a colon, and a pattern by which each is recognised."""
_USUAL = {".xml": "nccl", ".txt": "nvidia-smi"}
"""The format that is assumed for each suffix if no pattern matches."""
_NS3 = re.compile(
    r"\s*[0-9]+\s+[0-9]+\s+[0-9]+\s*\n(?:[^\n]*\n)*?\s*[0-9]+\s+[0-9]+\s+[0-9.]+[GM]bps\s", re.I
)
_EDGES = re.compile(r"(?:\s*#[^\n]*\n)*\s*[0-9]+[ \t,]+[0-9]+[ \t]*(?:\{[^\n]*\}[ \t]*)?(?:\n|$)")
_MSCCL = re.compile(r"<algo\b")
_OTHERS: tuple[tuple[frozenset[str], str], ...] = (
    (
        frozenset({"TopologyParams", "InstanceParams"}),
        f"an input of TE-CCL: name its network here (tutti list topologies), with --method teccl; {_SEE}",
    ),
    (
        frozenset({"1-Epoch_Duration", "7-Flows"}),
        "a schedule of TE-CCL, which is not read: make it here with --method teccl, or lower it to MSCCL XML "
        "and use tutti import",
    ),
    (
        frozenset({"gpus_per_node", "alpha", "remote_alpha"}),
        f"a topology (link profile) of TACCL: costs in us of one size, not bandwidths; {_SEE}",
    ),
    (
        frozenset({"gpus_per_node", "alpha", "links", "betas"}),
        f"a topology (link profile) of TACCL: costs in us of one size, not bandwidths; {_SEE}",
    ),
    (
        frozenset({"intranode_sketch", "internode_sketch"}),
        "a sketch of TACCL, which is no network: tutti synth --method taccl has sketches of its own",
    ),
    (
        frozenset({"dimensions-count", "units-count"}),
        f"a network of ASTRA-sim 1.0: write it as yml (topology, npus_count, bandwidth, latency); {_SEE}",
    ),
)
"""The keys of other tools' JSON files, and the error for each: what the file is, and what to do instead."""
_SCCL = {
    "topology": f"a topology of SCCL (msccl-tools): links count chunks a step, not bytes a second; {_SEE}",
    "algorithm": "an algorithm of SCCL (msccl-tools): lower it to MSCCL XML there, and use tutti import",
}
_SCCL_KEYS = ("msccl_type", "sccl_type")


def read_network(path: str, defaults: Mapping[str, Fraction]) -> Topology:
    """Return the network in a file, whose suffix determines the format.

    Parameters
    ----------
    path
        The file.
    defaults
        The ``bandwidth`` or ``alpha`` of all links, for a file that has none.

    Raises
    ------
    InputError
        If it can't be read or holds no network; the message names the tool if it is a tool's file.
    """
    suffix = Path(path).suffix.lower()
    if suffix in _USUAL and not Path(path).exists():
        raise _named_with_kind(_USUAL[suffix], path)
    text = read_text(path)
    if suffix not in SUFFIXES:
        _refuse_tools(text, path, suffix)
    if suffix in _YML:
        if defaults:
            raise InputError(f"{path}: {min(defaults)}= is for families; a file says it link by link")
        return from_yml(text, path)
    if suffix in READERS:
        return from_node_link(READERS[suffix](text, path), path, defaults)
    document = exact_json(text, path, "network")
    if isinstance(document, Mapping):
        _refuse_others(document, path)
        if "adjacency" in document and "edges" not in document:
            document = from_adjacency(document, path)
    return from_node_link(document, path, defaults)


def _named_with_kind(kind: str, path: str) -> InputError:
    return InputError(f"{path}: a tool's file is named with its kind: {kind}:{path}")


def _refuse_tools(text: str, path: str, suffix: str) -> None:
    """Refuse a tool's file that is named without its format, and a file that holds no network."""
    head = text[:_HEAD]
    for kind, mark in _TOOLS:
        if mark.search(head):
            raise _named_with_kind(kind, path)
    if _MSCCL.search(head):
        raise InputError(f"{path}: a program of MSCCL, which is no network; tutti import makes it a schedule")
    if _NS3.match(head):
        raise InputError(
            f"{path}: a topology of ns-3, which is not read: write its links as a list of edges; {_SEE}"
        )
    if _EDGES.match(head):
        raise InputError(f"{path}: a list of edges is called {Path(path).stem}.edgelist")
    if suffix in _USUAL:
        raise _named_with_kind(_USUAL[suffix], path)
    if not head.lstrip("\ufeff \t\r\n").startswith(("{", "[")):
        ends = ", ".join(SUFFIXES)
        raise InputError(f"{path}: not JSON; the name of another file with a network ends in one of {ends}")


def _refuse_others(document: Mapping[str, Any], path: str) -> None:
    """Refuse the JSON of another tool, and say what to do instead."""
    kind = next((str(document[key]) for key in _SCCL_KEYS if key in document), None)
    if kind is not None:
        raise InputError(f"{path}: {_SCCL.get(kind, _SCCL['topology'])}")
    for keys, way in _OTHERS:
        if keys <= document.keys():
            raise InputError(f"{path}: {way}")


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
