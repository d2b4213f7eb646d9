"""Paths of a few sources become those of all: their images under a group of automorphisms.

Let Y be a flow that a group G leaves as it is, and H a subgroup with the same orbits of sources. The source
h(s) then gets the images under h of the paths of s, for every h in H, each divided by the number of elements
that fix s. *The loads are right for any paths of the representatives:* H spreads what they load on an orbit
O of links evenly over it, so the load of a link is (sum over s of weight_s load_s(O)) / |O|.

H is as small as can be, often without an element but the identity that fixes a source: then a pair's paths
are not multiplied.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from models.all_to_all.averaging import MOST_ELEMENTS
from models.all_to_all.decomposition import PathFlow
from models.all_to_all.orbits import ReducedProblem
from topologies.automorphisms import Group
from topologies.exact import Int32Array, Int64Array, frozen, offsets_of
from topologies.permutations import orbits_of


@dataclass(frozen=True, eq=False)
class Images:
    """A problem on orbits, and the elements of a group that is just large enough for its sources.

    Parameters
    ----------
    problem
        The problem on the orbits of a larger group.
    nodes
        int32, shape (elements, nodes): node v goes to nodes[h, v].
    links
        int32, shape (elements, links): link e goes to links[h, e].
    """

    problem: ReducedProblem
    nodes: Int32Array
    links: Int32Array

    @classmethod
    def of(cls, problem: ReducedProblem, most_elements: int = MOST_ELEMENTS) -> Images | None:
        """Return them, or None if even the smaller group has more elements."""
        listed = just_enough(problem.group).elements(most_elements)
        return None if listed is None else cls(problem, *listed)

    @cached_property
    def orbit(self) -> Int32Array:
        """int32 (links,): the orbit of each link, numbered from 0."""
        least = orbits_of(self.links, self.problem.topology.num_links)
        return np.unique(least, return_inverse=True)[1].reshape(-1).astype(np.int32)

    @cached_property
    def capacity(self) -> Int64Array:
        """int64 (orbits,): the total bandwidth of each; numerators."""
        capacity = np.zeros(int(self.orbit.max()) + 1, dtype=np.int64)
        np.add.at(capacity, self.orbit, self.problem.topology.bandwidth.numerators)
        return capacity

    @cached_property
    def row_of(self) -> Int32Array:
        """int32 (nodes,): which representative each is, -1 for others."""
        row_of = np.full(self.problem.topology.num_nodes, -1, dtype=np.int32)
        row_of[self.problem.sources] = np.arange(len(self.problem.sources))
        return row_of

    def congestion(self, paths: PathFlow) -> Fraction:
        """Return the time of the images of the representatives' paths, exact, in s/B of M."""
        lengths = np.diff(paths.offsets)
        weights = self.problem.weights[self.row_of[paths.source]]
        loads = np.zeros(len(self.capacity), dtype=object)
        carried = np.repeat((paths.amounts.astype(object) * weights), lengths)
        np.add.at(loads, self.orbit[paths.links], carried)
        pairs = zip(loads.tolist(), self.capacity.tolist(), strict=True)
        worst = max(Fraction(load, capacity) for load, capacity in pairs)
        return worst * self.problem.topology.bandwidth.denominator / paths.denominator

    def of_all(self, paths: PathFlow) -> PathFlow:
        """Return the paths of all sources."""
        fixing = [len(self.nodes) // weight for weight in self.problem.weights.tolist()]
        common = math.lcm(*fixing)
        shares = np.array([common // fixed for fixed in fixing], dtype=np.int64)
        amounts = paths.amounts * shares[self.row_of[paths.source]]
        elements = len(self.nodes)
        lengths = np.tile(np.diff(paths.offsets), elements)
        return PathFlow(
            self.problem.whole,
            np.tile(amounts, elements),
            paths.denominator * common,
            offsets_of(lengths),
            self.links[:, paths.links].reshape(-1),
        )


def just_enough(group: Group) -> Group:
    """Return a subgroup with the same orbits of nodes, by the first generators that join any."""
    kept: list[int] = []
    orbits = np.arange(group.topology.num_nodes, dtype=np.int32)
    for index in range(len(group.nodes)):
        joined = orbits_of(group.nodes[[*kept, index]], group.topology.num_nodes)
        if not np.array_equal(joined, orbits):
            kept.append(index)
            orbits = joined
    return Group(group.topology, frozen(group.nodes[kept], np.int32), frozen(group.links[kept], np.int32))
