"""Automorphisms of a network: permutations of the nodes that map links to links, and their orbits.

An automorphism is a permutation g of the nodes that takes ranks to ranks and switches to switches with the
same abilities. The links from g(u) to g(v) are, as a multiset of (bandwidth, α), those from u to v. The
result always is a group of such permutations, each checked on the links. Because the search has a bounded
effort, it may be a subgroup of all automorphisms. Reductions by symmetry need no more: with fewer
automorphisms they reduce less and stay correct.

The known symmetries of the families are tried first. A grid of ranks is a torus, mesh, Hamming network or
hypercube; anything else counts as one dimension. Its symmetries are a step along a dimension, the reflection
of a dimension, and the exchange of two equal dimensions. In one dimension there are also the multipliers u ->
m u modulo N, with m taken from the neighbours of rank 0 (circulant networks).

The search is individualization and refinement, and deterministic. Refinement gives each node a colour of 64
bits. In a round the colour becomes a hash of the node's own colour and of two multisets of (colour of the
other end, class of the link), one for its links in and one for its links out. Nodes of one orbit keep one
colour. A collision can only merge two classes, which costs time and never correctness. A *base* is a list of
nodes a_1, ..., a_k such that refinement distinguishes all nodes once these have k colours of their own. An
automorphism is determined by the images b_1, ..., b_k of the base: individualized and refined, each prefix
must give the same colours as that of the base; equal colours then give the permutation. At level i the images
of a_1, ..., a_(i-1) are themselves, and one image b_i is tried for each orbit of the found automorphisms that
fix those.

Source: McKay and Piperno, Practical graph isomorphism II, 2014 (sections 2 and 3: the scheme).
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from tutti.topologies.exact import Int32Array, Int64Array, IntArray, frozen
from tutti.topologies.graphs.grid_structure import hosts_of
from tutti.topologies.kernels import kernel, leaf
from tutti.topologies.topology import Topology, components


def node_kinds(topology: Topology) -> Int64Array:
    """Return the kind of each node, int64 (nodes,): 0 for a rank, 4 to 7 for a switch by its abilities."""
    kinds = np.zeros(topology.num_nodes, dtype=np.int64)
    kinds[topology.num_ranks :] = 4
    kinds[list(topology.multicast)] += 1
    kinds[list(topology.aggregate)] += 2
    return kinds


def link_kinds(topology: Topology) -> Int64Array:
    """Return a number for each link, int64 (links,), equal where bandwidth and α are equal.

    Numbers are sorted by value, so that they do not depend on the order of the links.
    """
    values = np.stack([topology.bandwidth.numerators, topology.alpha.numerators])
    return np.unique(values, axis=1, return_inverse=True)[1].reshape(-1).astype(np.int64)


def link_permutation(topology: Topology, nodes: IntArray, image: Topology | None = None) -> Int32Array | None:
    """Return each link's image under a permutation of the nodes, or None if it is no automorphism.

    Parameters
    ----------
    topology
        The network.
    nodes
        Integers, shape (nodes,): node v goes to nodes[v].
    image
        The network that they lead to, with equal numbers of nodes and links, and links of the same kinds;
        default: `topology`.

    Returns
    -------
    int32, shape (links,), or None
        Equal parallel links are matched in order.
    """
    if not np.array_equal(np.sort(nodes), np.arange(topology.num_nodes)):
        return None
    image = image or topology
    if not np.array_equal(node_kinds(image)[nodes], node_kinds(topology)):
        return None
    ends = np.stack([link_kinds(image), image.target, image.source])
    images = np.stack([link_kinds(topology), nodes[topology.target], nodes[topology.source]])
    order, image_order = np.lexsort(ends), np.lexsort(images)
    if not np.array_equal(ends[:, order], images[:, image_order]):
        return None
    links = np.empty(topology.num_links, dtype=np.int32)
    links[image_order] = order
    return links


def twin_permutation(topology: Topology) -> Int32Array:
    """Return, for each link, the first link that is parallel and equal to it, int32 (links,)."""
    ends = np.stack([link_kinds(topology), topology.target, topology.source])
    _, first, inverse = np.unique(ends, axis=1, return_index=True, return_inverse=True)
    return first[inverse.reshape(-1)].astype(np.int32)


def orbits_of(maps: IntArray, size: int) -> Int32Array:
    """Return the least member of the class of each number in 0..size-1, int32 (size,).

    Classes are the finest in which i and maps[g, i] share a class for all g; for permutations, the orbits.

    Examples
    --------
    >>> orbits_of(np.array([[1, 0, 2, 3], [0, 1, 3, 2]]), 4).tolist()
    [0, 0, 2, 2]
    """
    here, there = np.tile(np.arange(size), len(maps)), np.asarray(maps).reshape(-1)
    count, labels = components(size, here, there)
    least = np.full(count, size, dtype=np.int32)
    np.minimum.at(least, labels, np.arange(size, dtype=np.int32))
    return least[labels]


_GRID = re.compile(r"(?:torus|mesh|tpu_v4|tpu_v5p):([0-9]+(?:x[0-9]+)*)(?:\?.*)?")
_POWER = re.compile(r"(hypercube|hamming):([0-9]+)(?:,([0-9]+))?(?:\?.*)?")


def likely_symmetries(topology: Topology) -> Iterator[Int64Array]:
    """Yield permutations of the nodes, int64 (nodes,), that may be automorphisms."""
    if topology.num_switches:
        yield from _host_symmetries(topology)
        return
    lengths = _lengths(topology)
    yield from _grid_symmetries(lengths)
    if len(lengths) == 1:
        yield from _multipliers(topology)


def _host_symmetries(topology: Topology) -> Iterator[Int64Array]:
    """Yield three rotations: of the hosts, of the ranks in all hosts, and of the switches in all hosts."""
    hosts = hosts_of(topology, infer=True)
    if isinstance(hosts, str):
        return
    inside = [np.flatnonzero(hosts.of == host) for host in range(len(hosts.ranks))]
    switches = [nodes[nodes >= topology.num_ranks] for nodes in inside]
    if len(set(map(len, switches))) > 1:
        return
    both = (hosts.ranks, np.array(switches, dtype=np.int64))
    for tables, axis in ((both, 0), (both[:1], 1), (both[1:], 1)):
        nodes = np.arange(topology.num_nodes)
        for table in tables:
            nodes[table] = np.roll(table, -1, axis)
        yield nodes


def _lengths(topology: Topology) -> tuple[int, ...]:
    """Return the dimensions in the network's name, if the ranks fill them; otherwise N alone."""
    grid, power = _GRID.fullmatch(topology.name), _POWER.fullmatch(topology.name)
    lengths: tuple[int, ...] = ()
    if grid:
        lengths = tuple(int(length) for length in grid[1].split("x"))
    elif power:
        lengths = (int(power[3] or 2),) * int(power[2])
    return lengths if math.prod(lengths) == topology.num_ranks else (topology.num_ranks,)


def _grid_symmetries(lengths: tuple[int, ...]) -> Iterator[Int64Array]:
    nodes = np.arange(math.prod(lengths), dtype=np.int64).reshape(lengths)
    for axis in range(len(lengths)):
        yield np.roll(nodes, -1, axis).reshape(-1)
    for axis in range(len(lengths)):
        yield np.flip(nodes, axis).reshape(-1)
    for axis in range(1, len(lengths)):
        if lengths[axis] == lengths[axis - 1]:
            yield np.swapaxes(nodes, axis - 1, axis).reshape(-1)


def _multipliers(topology: Topology) -> Iterator[Int64Array]:
    """Yield u -> m u with m = b / a modulo N for neighbours a, b of rank 0, a the first invertible one."""
    N = topology.num_ranks
    neighbours = np.unique(topology.target[topology.source == 0]).tolist()
    units = [a for a in neighbours if math.gcd(a, N) == 1]
    for b in neighbours if units else ():
        factor = b * pow(units[0], -1, N) % N
        if math.gcd(factor, N) == 1:
            yield np.arange(N, dtype=np.int64) * factor % N


UInt64Array = npt.NDArray[np.uint64]

_OUT = np.uint64(0x9E3779B97F4A7C15)
_IN = np.uint64(0xC2B2AE3D27D4EB4F)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)


@leaf
def mixed(value: np.uint64) -> np.uint64:
    """Scramble 64 bits (the finalizer of splitmix64; a bijection)."""
    value = (value ^ (value >> np.uint64(30))) * _FIRST
    value = (value ^ (value >> np.uint64(27))) * _SECOND
    return value ^ (value >> np.uint64(31))


def refine(
    colours: UInt64Array, source: Int32Array, target: Int32Array, classes: UInt64Array
) -> tuple[UInt64Array, int]:
    """Refine until a round finds no new class; return the colours and the number of rounds.

    The number of rounds depends on the network up to isomorphism alone, so that the colours of two isomorphic
    coloured networks are equal as multisets.
    """
    distinct, rounds = len(np.unique(colours)), 0
    while distinct < len(colours):
        colours = _round(colours, source, target, classes)
        rounds += 1
        found = len(np.unique(colours))
        if found <= distinct:
            break
        distinct = found
    return colours, rounds


@kernel
def _round(colours: UInt64Array, source: Int32Array, target: Int32Array, classes: UInt64Array) -> UInt64Array:
    """Sum the hashes of what each node sees; a sum does not depend on the order, as a multiset doesn't."""
    seen = np.zeros(len(colours), np.uint64)
    for link in range(len(source)):
        u, v = source[link], target[link]
        seen[u] += mixed((colours[v] ^ classes[link]) + _OUT)
        seen[v] += mixed((colours[u] ^ classes[link]) + _IN)
    for node in range(len(colours)):
        seen[node] = mixed(seen[node] + mixed(colours[node]))
    return seen


_LONGEST_BASE = 256
"""Most nodes that are individualized. The search is recursive, and only very symmetric networks need more."""

_MARK = 1 << 32
"""Number that is hashed to the colour of the first individualized node; later nodes use the next numbers."""


class Refinement:
    """The colours of one network's nodes, by refinement.

    Parameters
    ----------
    topology
        The network.

    Attributes
    ----------
    looked
        The number of links that refinements have looked at, over all rounds.
    classes
        uint64, shape (links,): the class of each link.
    kinds
        uint64, shape (nodes,): the colours by the nodes' kinds, before any refinement.
    """

    def __init__(self, topology: Topology) -> None:
        self.topology, self.looked = topology, 0
        self.classes = np.array([mixed(np.uint64(kind)) for kind in link_kinds(topology)], np.uint64)
        self.kinds = np.array([mixed(np.uint64(kind)) for kind in node_kinds(topology)], np.uint64)

    def refined(self, colours: UInt64Array) -> UInt64Array:
        """Return the colours, refined."""
        refined, rounds = refine(colours, self.topology.source, self.topology.target, self.classes)
        self.looked += (rounds + 1) * self.topology.num_links
        return refined

    def individualized(self, colours: UInt64Array, node: int, depth: int) -> UInt64Array:
        """Return the colours after a node has one of its own, the `depth`-th such node."""
        marked = colours.copy()
        marked[node] = mixed(np.uint64(_MARK + depth))
        return self.refined(marked)


def smallest_cell(colours: UInt64Array) -> tuple[np.uint64, Int64Array]:
    """Return the colour of a smallest class of several nodes, and its nodes; none if all colours differ."""
    values, counts = np.unique(colours, return_counts=True)
    colour = values[np.argmin(np.where(counts > 1, counts, len(colours) + 1))]
    return colour, np.flatnonzero(colours == colour) if len(values) < len(colours) else np.empty(0, np.int64)


@dataclass(frozen=True)
class _Level:
    """A node of the base: the colours before it is individualized, its cell there, and the colours after."""

    node: int
    cell: Int64Array
    colour: np.uint64
    after: UInt64Array
    profile: UInt64Array


@dataclass
class AutomorphismSearch:
    """The search and what it has found.

    Parameters
    ----------
    topology
        The network.
    effort
        Number of links that refinements may look at.
    whole
        Whether to search on once all nodes and links that can be equivalent are known to be; pairs of nodes
        may then still be missing.
    """

    topology: Topology
    effort: int
    whole: bool = False
    nodes: list[Int32Array] = field(default_factory=list)
    links: list[Int32Array] = field(default_factory=list)
    _least: tuple[int, int] = field(init=False)

    @cached_property
    def _colours(self) -> Refinement:
        return Refinement(self.topology)

    @cached_property
    def _root(self) -> UInt64Array:
        """The colours before a node is individualized."""
        return self._colours.refined(self._colours.kinds)

    @property
    def _spent(self) -> bool:
        return self._colours.looked >= self.effort

    def offer(self, permutations: Iterable[IntArray]) -> None:
        """Keep the permutations that are automorphisms."""
        for permutation in permutations:
            self._keep(permutation)

    def run(self) -> None:
        """Search until every orbit is as large as its colour class, all is tried, or the effort is spent."""
        root, classes = self._root, self._colours.classes
        ends = np.stack([root[self.topology.source], root[self.topology.target], classes])
        self._least = len(np.unique(root)), np.unique(ends, axis=1).shape[1]
        base = [] if self._complete() else self._base(root)
        depths = range(len(base))
        for depth in reversed(depths) if self.whole else depths:  # those that fix most help earlier levels
            if not self._complete():
                self._images_at(base, depth)

    def _keep(self, permutation: IntArray) -> bool:
        links = link_permutation(self.topology, permutation)
        if links is None:
            return False
        if np.array_equal(permutation, np.arange(len(permutation))):
            return True
        self.nodes.append(permutation.astype(np.int32))
        self.links.append(links)
        return True

    def _complete(self) -> bool:
        if self.whole or not self.nodes:
            return False
        sizes = ((self.nodes, self.topology.num_nodes), (self.links, self.topology.num_links))
        found = [len(np.unique(orbits_of(np.array(maps), size))) for maps, size in sizes]
        return found[0] <= self._least[0] and found[1] <= self._least[1]

    def _base(self, colours: UInt64Array) -> list[_Level]:
        """Return the levels of a base, always individualizing in the smallest class of several nodes."""
        levels: list[_Level] = []
        while not self._spent and len(levels) < _LONGEST_BASE:
            colour, cell = smallest_cell(colours)
            if not len(cell):
                break
            after = self._colours.individualized(colours, int(cell[0]), len(levels))
            levels.append(_Level(int(cell[0]), cell, colour, after, np.sort(after)))
            colours = after
        return levels

    def _images_at(self, base: list[_Level], depth: int) -> None:
        """Find automorphisms that fix earlier base nodes and take node `depth` to each orbit in its cell."""
        level, tried = base[depth], set()
        fixed = [earlier.node for earlier in base[:depth]]
        before = base[depth - 1].after if depth else self._root
        orbits = self._orbits_fixing(fixed)
        for image in level.cell[1:].tolist():
            if orbits[image] == orbits[level.node] or int(orbits[image]) in tried:
                continue
            if self._spent:
                return
            if next(self._completions(base, depth, before, image), None) is None:
                tried.add(int(orbits[image]))
                continue
            if self._complete():
                return
            orbits = self._orbits_fixing(fixed)

    def _orbits_fixing(self, fixed: list[int]) -> Int32Array:
        kept = [nodes for nodes in self.nodes if np.array_equal(nodes[fixed], fixed)]
        return orbits_of(np.array(kept, dtype=np.int32), self.topology.num_nodes)

    def _completions(
        self, base: list[_Level], depth: int, colours: UInt64Array, image: int
    ) -> Iterator[Int32Array]:
        """Yield automorphisms that take base node `depth` to `image`, given the earlier images."""
        if self._spent:
            return
        after = self._colours.individualized(colours, image, depth)
        if not np.array_equal(np.sort(after), base[depth].profile):
            return
        if depth + 1 == len(base):
            permutation = np.empty(len(after), dtype=np.int32)
            permutation[np.argsort(base[depth].after)] = np.argsort(after)
            if self._keep(permutation):
                yield permutation
            return
        for following in np.flatnonzero(after == base[depth + 1].colour).tolist():
            yield from self._completions(base, depth + 1, after, following)


DEFAULT_EFFORT = 10**9
"""Number of links that a search may look at; this takes a few seconds. A larger value finds more."""


@dataclass(frozen=True, eq=False)
class AutomorphismGroup:
    """A group of automorphisms, given by generators.

    Parameters
    ----------
    topology
        The network.
    nodes
        int32, shape (generators, nodes): node v goes to nodes[g, v].
    links
        int32, shape (generators, links): link e goes to links[g, e].
    """

    topology: Topology
    nodes: Int32Array
    links: Int32Array

    @cached_property
    def node_orbits(self) -> Int32Array:
        """int32 (nodes,): the least node in the orbit of each node."""
        return orbits_of(self.nodes, self.topology.num_nodes)

    @cached_property
    def link_orbits(self) -> Int32Array:
        """int32 (links,): the least link in the orbit of each link; equal parallel links are in one orbit."""
        twins = twin_permutation(self.topology)
        return orbits_of(np.vstack([self.links, twins[None, :]]), self.topology.num_links)

    @property
    def is_vertex_transitive(self) -> bool:
        """Whether all ranks are in one orbit."""
        return not self.node_orbits[: self.topology.num_ranks].any()

    def elements(self, most: int) -> tuple[Int32Array, Int32Array] | None:
        """Return all elements, as node and link permutations, or None if there are more than `most`.

        Equal parallel links are matched in order.
        """
        nodes = [np.arange(self.topology.num_nodes, dtype=np.int32)]
        links = [np.arange(self.topology.num_links, dtype=np.int32)]
        known = {nodes[0].tobytes()}
        for index in itertools.count():
            if index == len(nodes):
                return np.array(nodes), np.array(links)
            for generator, on_links in zip(self.nodes, self.links, strict=True):
                product = generator[nodes[index]]
                if product.tobytes() not in known:
                    known.add(product.tobytes())
                    nodes.append(product)
                    links.append(on_links[links[index]])
            if len(nodes) > most:
                return None
        return None

    def some_elements(self, most: int) -> tuple[Int32Array, Int32Array]:
        """Return all `elements`, or those of a subgroup if there are more than `most` (at least 1)."""
        found = self.elements(most)
        return self.limited(most).some_elements(most) if found is None else found

    def limited(self, most: int) -> AutomorphismGroup:
        """Return a subgroup of at most `most` elements, from the first generators that keep it so small."""
        group = AutomorphismGroup(self.topology, self.nodes[:0], self.links[:0])
        for index in range(len(self.nodes)):
            nodes = np.vstack([group.nodes, self.nodes[index : index + 1]])
            links = np.vstack([group.links, self.links[index : index + 1]])
            larger = AutomorphismGroup(self.topology, frozen(nodes, np.int32), frozen(links, np.int32))
            group = larger if larger.elements(most) else group
        return group

    def preserving(self, matrix: npt.NDArray[Any]) -> AutomorphismGroup:
        """Return the group of the generators that leave a matrix over the ranks, shape (N, N), unchanged."""
        ranks = self.topology.num_ranks
        kept = [
            index
            for index, nodes in enumerate(self.nodes)
            if np.array_equal(matrix[np.ix_(nodes[:ranks], nodes[:ranks])], matrix)
        ]
        return AutomorphismGroup(
            self.topology, frozen(self.nodes[kept], np.int32), frozen(self.links[kept], np.int32)
        )


def drawn_subgroup(
    topology: Topology, elements: tuple[Int32Array, Int32Array], rng: np.random.Generator
) -> tuple[Int32Array, Int32Array]:
    """Return the subgroup, the identity first, that one or two random elements of a group generate."""
    few = rng.integers(len(elements[0]), size=rng.integers(1, 3))
    found = AutomorphismGroup(topology, elements[0][few], elements[1][few]).elements(len(elements[0]))
    return elements if found is None else found


def automorphisms(
    topology: Topology, effort: int = DEFAULT_EFFORT, *, whole: bool = False
) -> AutomorphismGroup:
    """Return a group of automorphisms with all orbits of nodes and of links, as far as `effort` goes.

    The known symmetries of the families (shifts, reflections, exchanged dimensions, multipliers)
    are tried first, and kept where the network has them.

    Parameters
    ----------
    topology
        The network.
    effort
        Number of links that the search may look at; 0: the families' symmetries only.
    whole
        Whether to search for all automorphisms.

    Examples
    --------
    >>> from tutti.topologies.families.grids import mesh
    >>> automorphisms(mesh(2, 3)).node_orbits.tolist()
    [0, 1, 0, 0, 1, 0]
    """
    search = AutomorphismSearch(topology, effort, whole)
    search.offer(likely_symmetries(topology))
    search.run()
    nodes = np.array(search.nodes, dtype=np.int32).reshape(-1, topology.num_nodes)
    links = np.array(search.links, dtype=np.int32).reshape(-1, topology.num_links)
    return AutomorphismGroup(topology, frozen(nodes, np.int32), frozen(links, np.int32))
