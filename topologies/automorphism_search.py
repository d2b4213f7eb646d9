"""Search for automorphisms by individualization and refinement, with bounded effort.

A *base* is a list of nodes a_1, ..., a_k which, given k colours of their own, make refinement tell all nodes
apart. An automorphism is known by the images b_1, ..., b_k of the base: individualized and refined, each
prefix must give the same colours as that of the base did; the permutation is read off the equal colours. At
level i the images of a_1, ..., a_(i-1) are themselves; one image b_i is tried for each orbit of the found
automorphisms that fix those.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np

from topologies.exact import Int32Array, Int64Array, IntArray
from topologies.permutations import link_kinds, link_permutation, node_kinds, orbits_of
from topologies.refinement import UInt64Array, mixed, refine
from topologies.topology import Topology

_LONGEST_BASE = 256
"""Nodes individualized at most; a network that needs more is very symmetric (and the search recursive)."""

_MARK = 1 << 32
"""What is hashed for the colour of the first node individualized; the next ones count on."""


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
        How many links refinements may look at.
    """

    topology: Topology
    effort: int
    nodes: list[Int32Array] = field(default_factory=list)
    links: list[Int32Array] = field(default_factory=list)
    _classes: UInt64Array = field(init=False)
    _root: UInt64Array = field(init=False)
    _least: tuple[int, int] = field(init=False)

    def offer(self, permutations: Iterable[IntArray]) -> None:
        """Keep those of the permutations that are automorphisms."""
        for permutation in permutations:
            self._keep(permutation)

    def run(self) -> None:
        """Search until every orbit is as large as its colour class, all is tried, or the effort is spent."""
        self._classes = np.array([mixed(np.uint64(kind)) for kind in link_kinds(self.topology)], np.uint64)
        kinds = np.array([mixed(np.uint64(kind)) for kind in node_kinds(self.topology)], np.uint64)
        self._root = self._refined(kinds)
        self._least = self._fewest_orbits(self._root)
        base = [] if self._complete() else self._base(self._root)
        for depth in range(len(base)):
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

    def _refined(self, colours: UInt64Array) -> UInt64Array:
        refined, rounds = refine(colours, self.topology.source, self.topology.target, self._classes)
        self.effort -= (rounds + 1) * self.topology.num_links
        return refined

    def _individualized(self, colours: UInt64Array, node: int, depth: int) -> UInt64Array:
        marked = colours.copy()
        marked[node] = mixed(np.uint64(_MARK + depth))
        return self._refined(marked)

    def _fewest_orbits(self, colours: UInt64Array) -> tuple[int, int]:
        """Return how many orbits of nodes and of links there are at least: those that colours tell apart."""
        ends = np.stack([colours[self.topology.source], colours[self.topology.target], self._classes])
        return len(np.unique(colours)), np.unique(ends, axis=1).shape[1]

    def _complete(self) -> bool:
        if not self.nodes:
            return False
        sizes = ((self.nodes, self.topology.num_nodes), (self.links, self.topology.num_links))
        found = [len(np.unique(orbits_of(np.array(maps), size))) for maps, size in sizes]
        return found[0] <= self._least[0] and found[1] <= self._least[1]

    def _base(self, colours: UInt64Array) -> list[_Level]:
        """Return the levels of a base, always individualizing in the smallest class of several nodes."""
        levels: list[_Level] = []
        while self.effort > 0 and len(levels) < _LONGEST_BASE:
            values, counts = np.unique(colours, return_counts=True)
            if len(values) == len(colours):
                break
            colour = values[np.argmin(np.where(counts > 1, counts, len(colours) + 1))]
            cell = np.flatnonzero(colours == colour)
            node = int(cell[0])
            after = self._individualized(colours, node, len(levels))
            levels.append(_Level(node, cell, colour, after, np.sort(after)))
            colours = after
        return levels

    def _images_at(self, base: list[_Level], depth: int) -> None:
        """Find an automorphism to each orbit in the cell of base node `depth` that fixes the ones before."""
        level, tried = base[depth], set()
        fixed = [earlier.node for earlier in base[:depth]]
        before = base[depth - 1].after if depth else self._root
        orbits = self._orbits_fixing(fixed)
        for image in level.cell[1:].tolist():
            if orbits[image] == orbits[level.node] or int(orbits[image]) in tried:
                continue
            if self.effort <= 0:
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
        """Yield automorphisms in which base node `depth` goes to `image`, given the images before."""
        if self.effort <= 0:
            return
        after = self._individualized(colours, image, depth)
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
