"""Groups of automorphisms that act freely on the ranks: only the identity fixes a rank.

Under such a group every orbit of ranks, and every orbit of links between them, has as many members as the
group has elements. On a torus, a hypercube or a circulant the translations form one, with one orbit of ranks.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from tutti.topologies.exact import Int32Array
from tutti.topologies.graphs.symmetry import AutomorphismGroup, automorphisms
from tutti.topologies.topology import Topology


class FreeActionTuning(NamedTuple):
    """Effort of the search for generators. Larger values may find larger groups, and take longer."""

    attempts: int
    """Number of orders in which generators are tried."""
    products: int
    """Number of products of generators that are tried in addition to them."""


TUNING = FreeActionTuning(attempts=8, products=40)


def free_group(topology: Topology) -> tuple[Int32Array, Int32Array]:
    """Return the elements of a large free group, the identity first.

    Automorphisms are added one after the other, in several orders, as long as the group stays free; the
    largest group that is found is returned.

    Returns
    -------
    nodes, links
        int32, shape (elements, nodes) and (elements, links): the images of the nodes and the links under each
        element.

    Examples
    --------
    >>> from tutti.topologies.families.grids import mesh, torus
    >>> len(free_group(torus(3, 4))[0]), len(free_group(mesh(3, 4))[0]), len(free_group(mesh(3, 3))[0])
    (12, 2, 1)
    """
    group, rng = automorphisms(topology), np.random.default_rng(0)
    identity = np.arange(topology.num_nodes, dtype=np.int32), np.arange(topology.num_links, dtype=np.int32)
    best = identity[0][None], identity[1][None]
    for attempt in range(TUNING.attempts if len(group.nodes) else 0):
        kept = AutomorphismGroup(topology, group.nodes[:0], group.links[:0])
        elements = identity[0][None], identity[1][None]
        for nodes, links in _candidates(group, attempt, rng):
            larger = AutomorphismGroup(
                topology, np.vstack([kept.nodes, nodes]), np.vstack([kept.links, links])
            )
            found = larger.elements(topology.num_ranks)
            if (
                found is not None
                and len(found[0]) > len(elements[0])
                and (found[0][1:, : topology.num_ranks] != np.arange(topology.num_ranks)).all()
            ):
                kept, elements = larger, found
        if len(elements[0]) > len(best[0]):
            best = elements
        if len(best[0]) == topology.num_ranks:
            break
    return best


def _candidates(
    group: AutomorphismGroup, attempt: int, rng: np.random.Generator
) -> Iterator[tuple[Int32Array, Int32Array]]:
    """Yield automorphisms that fix no rank: the generators, and from attempt 1 on random products, too."""
    pairs = list(zip(group.nodes, group.links, strict=True))
    if attempt:
        for _ in range(TUNING.products):
            (nodes, links), (then, after) = (pairs[i] for i in rng.integers(len(pairs), size=2))
            pairs.append((then[nodes], after[links]))
        pairs = [pairs[i] for i in rng.permutation(len(pairs))]
    ranks = group.topology.num_ranks
    yield from (pair for pair in pairs if not (pair[0][:ranks] == np.arange(ranks)).any())
