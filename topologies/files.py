"""Networks as node-link JSON and as networkx graphs; with them what `topologies.disk` has for all files.

The JSON is networkx's ``node_link_data``, with the keys ``nodes`` and ``edges``::

    {
        "directed": true,
        "multigraph": true,
        "graph": {"name": "pair"},
        "nodes": [{"id": 0, "kind": "compute"}, {"id": 1, "kind": "compute"}, {"id": 2, "kind": "switch"}],
        "edges": [{"source": 0, "target": 2, "key": 0, "bandwidth": "50GB/s", "alpha": "0.5us"}, ...],
    }

Nodes may carry ``label`` (by default the id), ``host`` (the machine that they are in: any text or number, -1
for none), ``multicast`` and ``aggregate``. The graph may carry ``nominal_degree`` and ``notes`` (sentences).
A key of a node or an edge that is almost one of these is refused, because a misspelt key would be lost. Other
keys, such as a colour, are ignored with a note. If no node has a kind, all are ranks. Older networkx writes
``links`` for ``edges``. Ranks (``compute``) are numbered in file order, then switches in file order. Links
are numbered in file order, or by their keys if these are 0..L-1: networkx lists edges by node, and the keys
restore our order. In an undirected file each edge is two links, one in each direction. Bandwidths and α are
texts with units, or numbers in bytes/s and seconds whose decimal text counts. We write texts with units,
because they are exact for any fraction (``1/3us``) and JSON numbers are not.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from functools import partial
from numbers import Number
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from tutti.topologies.disk import MOST_TEXT as MOST_TEXT
from tutti.topologies.disk import check_folder as check_folder
from tutti.topologies.disk import check_length as check_length
from tutti.topologies.disk import drop_drafts as drop_drafts
from tutti.topologies.disk import opened as opened
from tutti.topologies.disk import read_text as read_text
from tutti.topologies.disk import replacing as replacing
from tutti.topologies.disk import writing
from tutti.topologies.disk import written as written
from tutti.topologies.errors import SHOWN, InputError, listed, suggestion, visible, within
from tutti.topologies.exact import INT32_MAX, NONE, Int32Array, Rationals
from tutti.topologies.topology import DEFAULT_ALPHA, DEFAULT_BANDWIDTH, Topology
from tutti.topologies.units import (
    exact_number,
    format_bandwidth,
    format_time,
    parse_bandwidth,
    parse_time,
)

if TYPE_CHECKING:
    import networkx as nx

_KINDS = ("compute", "switch")
_NODE_KEYS = ("id", "kind", "label", "host", "multicast", "aggregate")
_EDGE_KEYS = ("source", "target", "key", "bandwidth", "alpha")
_OTHER_NAMES = {
    "bandwidth": ("capacity", "weight", "bw", "speed", "cap", "rate", "link_bandwidth"),
    "alpha": ("latency", "delay", "lat"),
}
"""Names that other tools give to a bandwidth and to an α."""
_NUMBERS = (str, int, float, Fraction, Decimal)


def to_node_link(topology: Topology) -> dict[str, Any]:
    """Return the network as node-link data of plain JSON values; bandwidths and α are text, exact."""
    ends = zip(topology.source.tolist(), topology.target.tolist(), strict=True)
    speeds, delays = _each(topology.bandwidth, format_bandwidth), _each(topology.alpha, format_time)
    return {
        "directed": True,
        "multigraph": True,
        "graph": topology.attributes,
        "nodes": [{"id": node} | topology.node_attributes(node) for node in range(topology.num_nodes)],
        "edges": [
            {"source": a, "target": b, "key": key, "bandwidth": speeds[key], "alpha": delays[key]}
            for key, (a, b) in enumerate(ends)
        ],
    }


def from_node_link(
    document: Any, name: str | None = None, defaults: Mapping[str, Fraction] = MappingProxyType({})
) -> Topology:
    """Return the network that node-link data describes.

    Parameters
    ----------
    document
        As `json.loads` or networkx returns it; numbers may be int, Fraction or Decimal, and a float stands
        for its shortest decimal text.
    name
        The name of the network, also in errors; by default the graph's own ``name``.
    defaults
        The ``bandwidth`` or ``alpha`` of all edges, where no edge has one.

    Raises
    ------
    InputError
        If a key is missing or unknown, or a value is wrong; the message names the node or edge.
    """
    where = name or "the node-link data"
    try:
        return _read(document, name, defaults)
    except InputError as error:
        raise (
            error if str(error).startswith(f"topology {where}") else InputError(f"{where}: {error}")
        ) from None


def read_topology(path: Path | str) -> Topology:
    """Return the network in a node-link JSON file; its name is the path.

    Raises
    ------
    InputError
        If the file can't be read, is not JSON (naming the line) or does not describe a network.
    """
    return from_node_link(exact_json(read_text(path), str(path), "network"), str(path))


def write_topology(topology: Topology, path: Path | str) -> None:
    """Write the network as node-link JSON, one node or link per line.

    Raises
    ------
    InputError
        If the file can't be written.
    """
    document = to_node_link(topology)
    lists = {key: ",\n  ".join(map(json.dumps, document.pop(key))) for key in ("nodes", "edges")}
    head = json.dumps(document)[:-1]
    text = f'{head},\n "nodes": [\n  {lists["nodes"]}],\n "edges": [\n  {lists["edges"]}]}}\n'
    with writing(path):
        Path(path).write_text(text, encoding="utf-8")


def to_networkx(topology: Topology) -> nx.MultiDiGraph:
    """Return the network as a `networkx.MultiDiGraph`, as `Topology.to_networkx`."""
    return topology.to_networkx()


def from_networkx(graph: nx.Graph, name: str | None = None) -> Topology:
    """Return the network that a networkx graph of any kind describes.

    A node without ``kind`` is a rank, and each edge of an undirected graph is two links. An edge
    without ``bandwidth`` or ``alpha`` has the default, unless it has another word for it, such as
    ``capacity``. Nodes and links are numbered as in `from_node_link`.

    Raises
    ------
    InputError
        As `from_node_link`.
    """
    import networkx as nx

    document = nx.node_link_data(graph, edges="edges")
    defaults = {"bandwidth": DEFAULT_BANDWIDTH, "alpha": DEFAULT_ALPHA}
    document["nodes"] = [{"kind": "compute"} | node for node in document["nodes"]]
    # An edge may have another name for a bandwidth or an α; ``weight`` may mean anything.
    others = {key: set(names) - {"weight"} for key, names in _OTHER_NAMES.items()}
    document["edges"] = [
        {key: value for key, value in defaults.items() if others[key].isdisjoint(edge)} | edge
        for edge in document["edges"]
    ]
    return from_node_link(document, name)


def _each(values: Rationals, show: Callable[[Fraction], Any]) -> list[Any]:
    """Return ``show(value)`` for each value. Equal values, of which there are many, share one call."""
    distinct, which = np.unique(values.numerators, return_inverse=True)
    shown = [show(Fraction(int(numerator), values.denominator)) for numerator in distinct]
    return [shown[index] for index in which]


def exact_json(text: str, where: str, what: str) -> Any:
    """Return the value of a JSON text whose numbers are all exact: int or Fraction.

    Parameters
    ----------
    text
        The JSON text.
    where, what
        The file, and what it should contain, for errors.

    Raises
    ------
    InputError
        If it is no JSON (naming the line), is nested too deeply, or holds a number that is not finite or
        absurdly long.
    """

    def refuse(constant: str) -> Any:
        raise InputError(f"{where}: {constant} is not a number that a {what} can have")

    def exact(number: str) -> Fraction:
        return within(where, lambda: exact_number(number))

    def integer(number: str) -> int:
        return int(number if len(number) < 100 else exact(number))

    try:
        return json.loads(text, parse_float=exact, parse_int=integer, parse_constant=refuse)
    except json.JSONDecodeError as error:
        raise InputError(f"{where}, line {error.lineno}: not JSON: {error.msg}") from None
    except RecursionError:
        raise InputError(f"{where}: not a {what}: nested too deeply") from None


def _read(document: Any, name: str | None, defaults: Mapping[str, Fraction]) -> Topology:
    """Return the network; the caller adds to the errors where it comes from."""
    if not isinstance(document, Mapping):
        raise InputError("expected an object with the keys 'nodes' and 'edges'")
    graph = document.get("graph") or {}
    if not isinstance(graph, Mapping):
        raise InputError("'graph' must be an object")
    directed = document.get("directed")
    if not isinstance(directed, bool):
        raise InputError("the key 'directed' must be true, or false (each edge is then two links)")
    nodes, edges = _objects(document, "nodes"), _objects(document, "edges")
    notes = [*_ignored("nodes", nodes, _NODE_KEYS), *_ignored("edges", edges, _EDGE_KEYS)]
    if nodes and not any("kind" in node for node in nodes):
        nodes = [{**node, "kind": _KINDS[0]} for node in nodes]
        notes.append("no node has a kind; all are ranks")
    for key, value in defaults.items():
        if any(key in edge for edge in edges):
            raise InputError(f"{key}= is for families; a file says it link by link, unless none has it")
        edges = [{**edge, key: value} for edge in edges]
    called = name or str(graph.get("name", "unnamed"))
    topology = _topology(called, nodes, edges, directed, graph.get("nominal_degree"))
    bare = not any(isinstance(edge["bandwidth"], str) for edge in edges)
    if edges and bare and topology.bandwidth.floats.max() < 1e6:
        notes.append("bandwidths without a unit are bytes a second; write e.g. 50GB/s")
    rate = _quantities([graph], "reduce", parse_bandwidth)[0] if "reduce" in graph else None
    if rate is not None and rate <= 0:
        raise InputError(f"graph: reduce is {rate} B/s; it must be positive")
    gamma = Fraction(0) if rate is None else 1 / rate
    return replace(topology, notes=(*_notes(graph.get("notes", [])), *notes), gamma=gamma)


def _notes(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(note, str) and note.isprintable() for note in value):
        raise InputError("'notes' must be a list of texts, of characters that print")
    return tuple(value)


def _objects(document: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    value = document.get(key)
    if value is None and key == "edges":
        value = document.get("links") or None
    if value is None:
        older = key == "edges" and "links" in document
        hint = "; rename 'links', as older networkx wrote it" if older else ""
        raise InputError(f"no key '{key}'{hint}")
    if not isinstance(value, list) or not all(isinstance(entry, Mapping) for entry in value):
        raise InputError(f"'{key}' must be a list of objects")
    return value


def _ignored(place: str, entries: list[Mapping[str, Any]], allowed: tuple[str, ...]) -> list[str]:
    """Return a note that lists the ignored keys; refuse a key that is almost an allowed one."""
    known = frozenset(allowed)
    ignored: dict[str, None] = {}
    for index, entry in enumerate(entries):
        if not entry.keys() <= known:
            for key in (str(key) for key in entry if key not in known):
                hint = suggestion(key, allowed)
                if key not in ignored and "did you mean" in hint:
                    raise InputError(f"{place}[{index}] has an unknown key {key!r}{hint}")
                ignored[key] = None
    if not ignored:
        return []
    named = listed([visible(key[:SHOWN]) for key in ignored], 6)
    return [f"ignored keys of {place}: {named}"]


def _topology(
    name: str, nodes: list[Mapping[str, Any]], edges: list[Mapping[str, Any]], directed: bool, degree: Any
) -> Topology:
    if degree is not None and not (isinstance(degree, int) and not isinstance(degree, bool) and degree > 0):
        raise InputError(f"nominal_degree {degree!r} is not a positive integer")
    kinds = [_kind(node, index) for index, node in enumerate(nodes)]
    order = sorted(range(len(nodes)), key=lambda index: kinds[index] == "switch")  # stable: file order
    ordered = [nodes[index] for index in order]
    labels = tuple(str(node.get("label", node["id"])) for node in ordered)
    for label in labels:
        if not label.isprintable():
            raise InputError(f"label {label!r} has characters that don't print")
    return Topology(
        name=name,
        num_ranks=kinds.count("compute"),
        labels=labels,
        **_links(edges, _numbers(ordered), directed),
        multicast=_able(ordered, "multicast"),
        aggregate=_able(ordered, "aggregate"),
        hosts=_hosts(ordered),
        nominal_degree=degree,
    )


def _kind(node: Mapping[str, Any], index: int) -> str:
    for key in ("id", "kind"):
        if key not in node:
            raise InputError(f"nodes[{index}] has no key '{key}'")
    kind = node["kind"]
    if kind not in _KINDS:
        hint = suggestion(str(kind), _KINDS)
        raise InputError(f"node {node['id']!r} has an unknown kind {kind!r}{hint}")
    return str(kind)


def _numbers(nodes: list[Mapping[str, Any]]) -> dict[Any, int]:
    result: dict[Any, int] = {}
    for number, node in enumerate(nodes):
        if _plain(node["id"]) in result:
            raise InputError(f"two nodes have the id {node['id']!r}")
        result[_plain(node["id"])] = number
    return result


def _able(nodes: list[Mapping[str, Any]], what: str) -> frozenset[int]:
    for node in nodes:
        if not isinstance(node.get(what, False), bool):
            raise InputError(f"{what} of node {node['id']!r} must be true or false")
    return frozenset(number for number, node in enumerate(nodes) if node.get(what, False))


def _hosts(nodes: list[Mapping[str, Any]]) -> Int32Array | None:
    """Return the hosts, numbered in order of appearance unless all are numbers; None if no node has one."""
    hosts = [node.get("host", NONE) for node in nodes]
    for node, host in zip(nodes, hosts, strict=True):
        if isinstance(host, bool) or not isinstance(host, (str, Number)):
            raise InputError(f"host {host!r} of node {node['id']!r} is neither text nor a number")
    if not any("host" in node for node in nodes):
        return None
    if all(type(host) is int and NONE <= host <= INT32_MAX for host in hosts):
        return np.array(hosts, dtype=np.int32)
    names = [str(host) for host in hosts]
    number = {name: place for place, name in enumerate(dict.fromkeys(names))} | {str(NONE): NONE}
    return np.array([number[name] for name in names], dtype=np.int32)


def _links(edges: list[Mapping[str, Any]], numbers: dict[Any, int], directed: bool) -> dict[str, Any]:
    """Return the link arrays of a `Topology`, by name."""
    _check_keys(edges)
    edges = _in_order(edges) if directed else edges
    ends = [[_end(edge, end, numbers) for edge in edges] for end in ("source", "target")]
    bandwidth = _quantities(edges, "bandwidth", parse_bandwidth)
    alpha = _quantities(edges, "alpha", parse_time)
    source, target = np.array(ends, dtype=np.int32).reshape(2, len(edges))
    if directed:
        return {"source": source, "target": target, "bandwidth": bandwidth, "alpha": alpha}
    both = np.repeat(np.arange(len(edges)), 2)
    return {
        "source": np.stack([source, target], axis=1).reshape(-1),
        "target": np.stack([target, source], axis=1).reshape(-1),
        "bandwidth": bandwidth.take(both),
        "alpha": alpha.take(both),
    }


def _in_order(edges: list[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the edges in the order of their keys if these are link numbers, otherwise in file order."""
    keys = [edge.get("key") for edge in edges]
    if any(type(key) is not int for key in keys) or set(keys) != set(range(len(keys))):
        return edges
    return sorted(edges, key=lambda edge: int(edge["key"]))


def _check_keys(edges: list[Mapping[str, Any]]) -> None:
    seen = set()
    for index, edge in enumerate(edges):
        for key in ("source", "target", "bandwidth", "alpha"):
            if key not in edge:
                other = next((name for name in _OTHER_NAMES.get(key, ()) if name in edge), None)
                hint = "" if other is None else f", but '{other}'; say {key}, with a unit"
                if other is None and not any(key in one for one in edges):
                    hint = f"; {key}= in the text of the network gives all links one"
                raise InputError(f"edges[{index}] has no key '{key}'{hint}")
        if edge.get("key") is not None:
            name = (_plain(edge["source"]), _plain(edge["target"]), _plain(edge["key"]))
            if name in seen:
                raise InputError(
                    f"edges[{index}] repeats the source, target and key of another; "
                    "parallel links need different keys, or none"
                )
            seen.add(name)


def _end(edge: Mapping[str, Any], end: str, numbers: dict[Any, int]) -> int:
    number = numbers.get(_plain(edge[end]))
    if number is None:
        hint = suggestion(str(edge[end]), map(str, numbers))
        short = hint if "did you mean" in hint else ""
        raise InputError(f"{_shown(edge)}: no node has the id {edge[end]!r}{short}")
    return number


def _quantities(edges: list[Mapping[str, Any]], key: str, parse: Callable[[object], Fraction]) -> Rationals:
    """Return the edges' exact numbers. Equal values are parsed once, and few values differ."""
    known: dict[tuple[type, Any], int] = {}
    values: list[Fraction] = []
    which = []
    for edge in edges:
        value = edge[key]
        kind = (type(value), value if isinstance(value, _NUMBERS) else None)
        if kind not in known:
            known[kind] = len(values)
            read = partial(parse if isinstance(value, str) else _exact, value)
            values.append(within(f"{_shown(edge)}: {key}", read))
        which.append(known[kind])
    return Rationals.of(values).take(np.array(which, dtype=np.int64)).reduced


def _shown(edge: Mapping[str, Any]) -> str:
    return f"edge {edge['source']!r} -> {edge['target']!r}" if "source" in edge else "graph"


def _exact(value: Any) -> Fraction:
    if isinstance(value, bool) or not isinstance(value, _NUMBERS):
        raise InputError(f"{value!r} is neither a number nor text with a unit")
    if isinstance(value, float | Decimal):
        return exact_number(str(value))  # by its decimal text: 5e-7 is 1/2000000, not the nearest double
    return Fraction(value)


def _plain(identifier: Any) -> Any:
    """Return a node id that can be the key of a dict: JSON has lists where networkx has tuples."""
    if isinstance(identifier, Mapping):
        raise InputError(f"the id {identifier!r} is neither text nor a number")
    return tuple(map(_plain, identifier)) if isinstance(identifier, list) else identifier
