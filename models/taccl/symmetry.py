"""Algorithm symmetry: permutations under which sends are to be the same (TACCL, section 3.3; eqs 12 to 14).

A permutation p of the ranks takes the datum of rank r to that of p(r), and the link (u, v) to (p(u), p(v)).
It must be an automorphism: every link goes to a link of the same cost. Of a network without a sketch, the
permutations are a group of automorphisms in which none but the identity fixes two ranks: then a chunk that is
its own image can still reach every rank by one link, for the in-link of (chunk, rank) is never asked to be
two links at once.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from models.taccl.logical import LogicalTopology
from models.taccl.sketch import Sketch
from topologies.automorphisms import Group, automorphisms
from topologies.errors import InputError
from topologies.exact import Int32Array, Int64Array
from topologies.topology import Topology

MOST_ELEMENTS = 512
"""Of a larger group only generators are looked at."""
MOST_TRIED = 64
"""How many elements are tried as further generators."""
EFFORT = 10**7
"""Links that the search for automorphisms may look at (under a second)."""
MOST_FIXED = 1
"""Ranks that an element other than the identity may fix."""


def sketched_symmetry(logical: LogicalTopology, sketch: Sketch) -> list[Int64Array]:
    """Return the rotations that a sketch asks for, as permutations of the ranks.

    Raises
    ------
    InputError
        If a group size does not divide the ranks, or a rotation is no automorphism, naming the first link
        that breaks it.
    """
    ranks = np.arange(logical.topology.num_ranks)
    found = []
    for offset, size in sketch.symmetry:
        if len(ranks) % size:
            raise InputError(
                f"{sketch.name}: symmetry_offsets [{offset}, {size}]: the {len(ranks)} ranks of "
                f"{logical.topology.name} are not groups of {size}"
            )
        image = ranks // size * size + (ranks % size + offset % size) % size
        _check(logical, image, f"{sketch.name}: symmetry_offsets [{offset}, {size}]")
        found.append(image)
    return found


def _check(logical: LogicalTopology, image: Int64Array, where: str) -> None:
    for number, link in enumerate(logical.links):
        ends = int(image[link.source]), int(image[link.target])
        other = logical.number_of.get(ends)
        if other is None or _cost(logical, other) != _cost(logical, number):
            what = "is no link" if other is None else "has another cost or policy"
            labels = logical.topology.labels
            raise InputError(
                f"{where} is no automorphism: the image of link {logical.link_name(number)}, "
                f"{labels[ends[0]]}->{labels[ends[1]]}, {what}"
            )


def _cost(logical: LogicalTopology, number: int) -> tuple[object, ...]:
    link, where = logical.links[number], logical.topology
    hops = tuple((where.bandwidth[hop], where.alpha[hop]) for hop in link.lanes[0])
    return link.split, link.policy, len(link.lanes), hops


def found_symmetry(topology: Topology) -> list[Int64Array]:
    """Return generators of a group of automorphisms, none but the identity fixing two ranks.

    It has as many elements as there are ranks at most: more would forbid more schedules and save little.
    """
    group = automorphisms(topology, EFFORT)
    kept, size = Group(topology, group.nodes[:0], group.links[:0]), 1
    for nodes, links in _candidates(group):
        if size >= topology.num_ranks:
            break
        larger = Group(topology, np.vstack([kept.nodes, nodes]), np.vstack([kept.links, links]))
        order = _order(larger)
        if order > size:
            kept, size = larger, order
    return [row[: topology.num_ranks].astype(np.int64) for row in kept.nodes]


def _candidates(group: Group) -> Iterator[tuple[Int32Array, Int32Array]]:
    """Yield generators, then other elements where the group is small; first those that fix fewest ranks."""
    found = [(group.nodes, group.links)]
    elements = group.elements(MOST_ELEMENTS)
    if elements is not None:
        found.append(elements)
    for nodes, links in found:
        if len(nodes):
            fixed = _fixed(nodes, group.topology.num_ranks)
            for i in np.argsort(fixed, kind="stable")[:MOST_TRIED].tolist():
                if fixed[i] <= MOST_FIXED:
                    yield nodes[i : i + 1], links[i : i + 1]


def _order(group: Group) -> int:
    """Return how many elements a group has; 0 if they are too many or one fixes too many ranks."""
    ranks = group.topology.num_ranks
    elements = group.elements(ranks)
    if elements is None:
        return 0
    return len(elements[0]) if (_fixed(elements[0][1:], ranks) <= MOST_FIXED).all() else 0


def _fixed(nodes: Int32Array, ranks: int) -> Int64Array:
    return (nodes[:, :ranks] == np.arange(ranks)).sum(axis=1)
