"""Graphs as networkx writes them, as the node-link data of `topologies.files`.

The formats are GraphML, GML, adjacency data, and lists of edges. A list has ``u v`` in each line, perhaps
followed by the attributes as a Python dict, as ``networkx.write_edgelist`` writes them. An edge of a list
stands for two links, unless the list has each edge in both directions.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from html import unescape
from typing import Any, NamedTuple
from warnings import catch_warnings, simplefilter

from tutti.topologies.errors import SHOWN, InputError
from tutti.topologies.logs import plain_lines
from tutti.topologies.units import exact_number
from tutti.topologies.xml_files import Element, parse_xml

Document = dict[str, Any]


class GraphLimits(NamedTuple):
    """Limits on a file that is read. Larger files are refused."""

    elements: int
    """Most elements of a GraphML file."""
    depth: int
    """Most levels of nested elements, or of nested lists in GML."""
    length: int
    """Most characters of the attributes of an edge."""


LIMITS = GraphLimits(elements=2**21, depth=16, length=2**16)

_TRUE, _FALSE = ("true", "1"), ("false", "0")
_GML = re.compile(r'#[^\n]*|"([^"]*)"|([][])|([^\s"\[\]#]+)|(")')
"""A comment, or a text, a bracket, a word, or a quotation mark that is never closed."""
_INTEGER = re.compile(r"[+-]?[0-9]{1,18}")
_REAL = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,4})?")


def from_graphml(text: str, where: str) -> Document:
    """Return the graph in GraphML.

    Raises
    ------
    InputError
        If the text is no GraphML; the message names the line.
    """
    root = parse_xml(text, where, most_elements=LIMITS.elements, most_depth=LIMITS.depth, contents=True)
    if _tag(root) != "graphml":
        raise root.error("is no GraphML, whose outermost element is <graphml>")
    keys = {key.text("id"): key for key in _each(root, "key")}
    graphs = list(_each(root, "graph"))
    if len(graphs) != 1:
        raise root.error(f"has {len(graphs)} graphs; one is read")
    graph = graphs[0]
    edges = []
    for edge in _each(graph, "edge"):
        number = edge.attributes.get("id", "")
        key = {"key": int(number) if _INTEGER.fullmatch(number) else number} if number else {}
        ends = {"source": edge.text("source"), "target": edge.text("target")}
        edges.append({**_data(edge, keys), **ends, **key})
    nodes = [{**_data(node, keys), "id": node.text("id")} for node in _each(graph, "node")]
    for node in nodes:
        if not str(node.get("label", "label")).strip():
            del node["label"]
    directed = graph.attributes.get("edgedefault", "undirected") == "directed"
    data = _data(graph, keys)
    known = {key: data[key] for key in ("name", "nominal_degree") if key in data}
    notes = [data["notes"]] if data.get("notes") else []
    return _document(nodes, edges, directed, known | {"notes": notes})


def _tag(element: Element) -> str:
    """Return a tag without its namespace's prefix."""
    return element.tag.rpartition(":")[2]


def _each(element: Element, tag: str) -> Iterator[Element]:
    return (child for child in element.children if _tag(child) == tag)


def _data(element: Element, keys: Mapping[str, Element]) -> dict[str, Any]:
    """Return the attributes of a graph, node or edge, as the keys declare their types."""
    found: dict[str, Any] = {}
    for data in _each(element, "data"):
        name = data.text("key")
        declared = keys.get(name)
        if declared is None:
            raise data.error(f"has key={name[:SHOWN]!r}, which no <key> declares")
        kind = declared.attributes.get("attr.type", "string")
        found[declared.attributes.get("attr.name", name)] = _typed("".join(data.content), kind)
    return found


def _typed(text: str, kind: str) -> Any:
    """Return a value of its declared type, or the text if it has another: perhaps nothing uses it."""
    if kind in ("int", "long") and _INTEGER.fullmatch(text.strip()):
        return int(text)
    if kind == "boolean" and text.strip().lower() in (*_TRUE, *_FALSE):
        return text.strip().lower() in _TRUE
    if kind in ("int", "long", "float", "double"):
        with suppress(InputError):
            return exact_number(text.strip())
    return text


def from_gml(text: str, where: str) -> Document:
    """Return the graph in GML.

    Raises
    ------
    InputError
        If the text is no GML.
    """
    pairs = _gml_list(_gml_words(text, where), where, 0)
    graphs = [value for key, value in pairs if key == "graph" and isinstance(value, list)]
    if len(graphs) != 1:
        raise InputError(f"{where}: no GML: {len(graphs)} graphs; one is read")
    (graph,) = graphs
    nodes, edges = (
        [dict(value) for key, value in graph if key == what and isinstance(value, list)]
        for what in ("node", "edge")
    )
    settings = {key: value for key, value in graph if not isinstance(value, list)}
    for node in nodes:
        node.update({key: bool(node[key]) for key in ("multicast", "aggregate") if node.get(key) in (0, 1)})
    return _document(nodes, edges, settings.get("directed") == 1, {"name": str(settings.get("name", ""))})


def _gml_words(text: str, where: str) -> Iterator[tuple[str, Any]]:
    """Yield the words of GML: ("[", None), ("]", None), or ("word", value)."""
    for match in _GML.finditer(text):
        quoted, bracket, word, unclosed = match.groups()
        if unclosed:
            line = text.count("\n", 0, match.start()) + 1
            raise InputError(f"{where}, line {line}: no GML: a text that is not closed")
        if bracket:
            yield bracket, None
        elif word:
            yield "word", word
        elif quoted is not None:
            yield "text", unescape(quoted)
    yield "end", None


def _gml_list(words: Iterator[tuple[str, Any]], where: str, depth: int) -> list[tuple[str, Any]]:
    """Return the keys and values of a list, up to its end."""
    if depth > LIMITS.depth:
        raise InputError(f"{where}: no GML: nested too deeply")
    pairs: list[tuple[str, Any]] = []
    for kind, word in words:
        if kind == ("]" if depth else "end"):
            return pairs
        if kind == "end":
            break
        if kind != "word":
            raise InputError(f"{where}: no GML: {word or kind!r} where a key is expected")
        what, value = next(words)
        if what == "[":
            pairs.append((word, _gml_list(words, where, depth + 1)))
        elif what in ("text", "word"):
            pairs.append((word, _gml_value(value) if what == "word" else value))
        else:
            raise InputError(f"{where}: no GML: the key {word[:SHOWN]!r} has no value")
    raise InputError(f"{where}: no GML: it ends within a list")


def _gml_value(word: str) -> Any:
    if _INTEGER.fullmatch(word):
        return int(word)
    return exact_number(word) if _REAL.fullmatch(word) else word


def from_adjacency(document: Mapping[str, Any], where: str) -> Document:
    """Return the graph in adjacency data (``networkx.adjacency_data``).

    Raises
    ------
    InputError
        If nodes and their neighbours are not lists of equal length.
    """
    nodes, near = document.get("nodes"), document.get("adjacency")
    if not isinstance(nodes, list) or not isinstance(near, list) or len(nodes) != len(near):
        raise InputError(f"{where}: adjacency data needs lists 'nodes' and 'adjacency' of equal length")
    edges = []
    for node, neighbours in zip(nodes, near, strict=True):
        if not isinstance(neighbours, list) or not all(
            isinstance(one, Mapping) and "id" in one for one in (node, *neighbours)
        ):
            raise InputError(f"{where}: adjacency data needs objects with the key 'id'")
        for other in neighbours:
            rest = {key: value for key, value in other.items() if key not in ("id", "key")}
            edges.append({**rest, "source": node["id"], "target": other["id"]})
    graph = document.get("graph")
    if isinstance(graph, list):  # networkx writes pairs
        graph = {str(pair[0]): pair[1] for pair in graph if isinstance(pair, list) and len(pair) == 2}
    return _document(nodes, edges, directed=True, graph=graph if isinstance(graph, dict) else {})


def from_edges(text: str, where: str) -> Document:
    """Return the graph of a list of edges.

    Raises
    ------
    InputError
        If a line is no edge, or only some edges are listed in both directions.
    """
    edges: list[dict[str, Any]] = []
    extra = 0
    for line in plain_lines(text):
        content = line.text.partition("#")[0].strip()
        if content:
            edge, more = _edge(content, f"{where}, line {line.number}")
            edges.append(edge)
            extra += more
    if not edges:
        raise InputError(f"{where}: no edge; a line of a list of edges is: u v")
    pairs = {(edge["source"], edge["target"]) for edge in edges}
    back = sum((other, one) in pairs for one, other in pairs)
    if 0 < back < len(pairs):
        raise InputError(
            f"{where}: {back} of {len(pairs)} edges are listed in both directions; list all so, or none"
        )
    ways = (
        "each edge is listed in both directions, so each is one link"
        if back
        else "each edge is a link in each direction"
    )
    notes = [f"a list of edges: all nodes are ranks, and {ways}"]
    if len(pairs) < len(edges):
        notes.append(f"{len(edges) - len(pairs)} edges are repeated; each repetition is a separate link")
    if extra:
        notes.append(f"ignored: a third column of {extra} edges")
    names = dict.fromkeys(end for edge in edges for end in (edge["source"], edge["target"]))
    if all(name.isdecimal() for name in names):
        names = dict.fromkeys(sorted(names, key=lambda name: (len(name), name)))
    nodes = [{"id": name, "kind": "compute"} for name in names]
    return _document(nodes, edges, directed=bool(back), graph={"notes": notes})


def _edge(content: str, place: str) -> tuple[dict[str, Any], bool]:
    """Return the edge in a line, and whether the line has a third column, which is ignored."""
    head, brace, tail = content.partition("{")
    words = head.replace(",", " ").split()
    if len(words) not in (2, 3) or (brace and len(words) > 2):
        raise InputError(
            f"{place}: {content[:SHOWN]!r} is no edge; a line is: u v, or: u v {{'bandwidth': ...}}"
        )
    data: Any = {}
    if brace:
        text, data = brace + tail, None
        with suppress(ValueError, SyntaxError, RecursionError, MemoryError, TypeError), catch_warnings():
            simplefilter("ignore")
            data = ast.literal_eval(text[: LIMITS.length])
        if not isinstance(data, dict) or not all(isinstance(key, str) for key in data):
            raise InputError(f"{place}: {text[:SHOWN]!r} is no dict of attributes")
    return {**data, "source": words[0], "target": words[1]}, len(words) == 3


def _document(
    nodes: list[Any], edges: list[dict[str, Any]], directed: bool, graph: Mapping[str, Any]
) -> Document:
    named = {key: value for key, value in graph.items() if value not in ("", None)}
    return {"directed": directed, "graph": named, "nodes": nodes, "edges": edges}


READERS: Mapping[str, Callable[[str, str], Document]] = {
    ".graphml": from_graphml,
    ".gml": from_gml,
    ".edgelist": from_edges,
    ".edges": from_edges,
}
"""The reader of each kind of file, by the suffix of the file's name."""
