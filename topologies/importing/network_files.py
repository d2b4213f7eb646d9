"""Reads the network in a file that is named by its path alone.

The suffix of the name says what the file is: node-link JSON (`topologies.files`), a graph that networkx wrote
(`topologies.importing.graphs`), or ASTRA-sim's yml. A file of another tool is refused, and the error says
what to do instead.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

from tutti.topologies.errors import InputError
from tutti.topologies.files import exact_json, from_node_link, read_text
from tutti.topologies.importing.astra_sim import from_yml
from tutti.topologies.importing.graphs import READERS, from_adjacency
from tutti.topologies.topology import Topology

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
