"""Automorphisms of a network: permutations of the nodes that map links to links, and their orbits.

A permutation g of the nodes is an automorphism if ranks go to ranks, switches to switches that can do the
same, and the links from g(u) to g(v) are, as a multiset of (bandwidth, α), those from u to v. What is
returned always is a group of such permutations, each checked on the links; it may be a subgroup of all of
them (the search has a bounded effort), which is all that reductions by symmetry need: with fewer
automorphisms they reduce less and stay right.

The search is individualization and refinement: fix nodes one by one, refining colours in between
(`topologies.refinement`), until all colours differ; then look for images of the fixed nodes with the same
colours. Images in one orbit of what has been found are tried once. Deterministic.

Source: McKay and Piperno, Practical graph isomorphism II, 2014 (sections 2 and 3: the scheme).
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from topologies.automorphism_search import AutomorphismSearch
from topologies.exact import Int32Array, frozen
from topologies.permutations import orbits_of, twin_permutation
from topologies.symmetries import likely_symmetries
from topologies.topology import Topology

DEFAULT_EFFORT = 10**9
"""Links that a search may look at (a few seconds)."""


@dataclass(frozen=True, eq=False)
class Group:
    """A group of automorphisms by generators.

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
        """int32 (nodes,): the least node in the orbit of each."""
        return orbits_of(self.nodes, self.topology.num_nodes)

    @cached_property
    def link_orbits(self) -> Int32Array:
        """int32 (links,): the least link in the orbit of each; equal parallel links are in one orbit."""
        twins = twin_permutation(self.topology)
        return orbits_of(np.vstack([self.links, twins[None, :]]), self.topology.num_links)

    @property
    def is_vertex_transitive(self) -> bool:
        """Whether all ranks are in one orbit."""
        return not self.node_orbits[: self.topology.num_ranks].any()

    def elements(self, most: int) -> tuple[Int32Array, Int32Array] | None:
        """Return all elements, as node and link permutations, or None if they are more than `most`.

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

    def limited(self, most: int) -> Group:
        """Return a subgroup of at most `most` elements, by the first generators that keep it so."""
        group = Group(self.topology, self.nodes[:0], self.links[:0])
        for index in range(len(self.nodes)):
            nodes = np.vstack([group.nodes, self.nodes[index : index + 1]])
            links = np.vstack([group.links, self.links[index : index + 1]])
            larger = Group(self.topology, frozen(nodes, np.int32), frozen(links, np.int32))
            group = larger if larger.elements(most) else group
        return group

    def preserving(self, matrix: npt.NDArray[Any]) -> Group:
        """Return the generators under which a matrix over the ranks stays as it is, shape (N, N)."""
        ranks = self.topology.num_ranks
        kept = [
            index
            for index, nodes in enumerate(self.nodes)
            if np.array_equal(matrix[np.ix_(nodes[:ranks], nodes[:ranks])], matrix)
        ]
        return Group(self.topology, frozen(self.nodes[kept], np.int32), frozen(self.links[kept], np.int32))


def automorphisms(topology: Topology, effort: int = DEFAULT_EFFORT) -> Group:
    """Return a group of automorphisms: of all of them, as far as `effort` goes.

    The symmetries that the families are known for (shifts, reflections, exchanged dimensions, multipliers)
    are tried first, and kept where the network has them.

    Parameters
    ----------
    topology
        The network.
    effort
        How many links the search may look at; 0: the families' symmetries only.

    Examples
    --------
    >>> from topologies.families import mesh
    >>> automorphisms(mesh(2, 3)).node_orbits.tolist()
    [0, 1, 0, 0, 1, 0]
    """
    search = AutomorphismSearch(topology, effort)
    search.offer(likely_symmetries(topology))
    search.run()
    nodes = np.array(search.nodes, dtype=np.int32).reshape(-1, topology.num_nodes)
    links = np.array(search.links, dtype=np.int32).reshape(-1, topology.num_links)
    return Group(topology, frozen(nodes, np.int32), frozen(links, np.int32))
