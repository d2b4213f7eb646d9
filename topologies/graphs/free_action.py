"""Groups of automorphisms that act freely on the ranks: only the identity fixes a rank.

Under such a group every orbit of ranks, and every orbit of links between them, has as many members as the
group has elements. On a torus, a hypercube or a circulant the translations form one, with one orbit of ranks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
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
    _, best = grown_group(topology, ())
    for attempt in range(TUNING.attempts if len(group.nodes) else 0):
        _, elements = grown_group(topology, _candidates(group, attempt, rng))
        if len(elements[0]) > len(best[0]):
            best = elements
        if len(best[0]) == topology.num_ranks:
            break
    return best


def grown_group(
    topology: Topology, candidates: Iterable[tuple[Int32Array, Int32Array]], most_fixed: int = 0
) -> tuple[AutomorphismGroup, tuple[Int32Array, Int32Array]]:
    """Return a group of some automorphisms, and its elements, the identity first.

    An automorphism is added if the group grows, has no more elements than there are ranks, and has none but
    the identity that fixes more than `most_fixed` ranks.

    Parameters
    ----------
    topology
        The network.
    candidates
        Images of the nodes and of the links, int32, shapes (nodes,) and (links,), tried in this order.
    most_fixed
        The number of ranks that an element may fix; 0: the group acts freely on the ranks.
    """
    ranks = topology.num_ranks
    none = (np.empty((0, size), np.int32) for size in (topology.num_nodes, topology.num_links))
    kept = AutomorphismGroup(topology, *none)
    elements = kept.some_elements(1)
    for nodes, links in candidates:
        if len(elements[0]) >= ranks:
            break
        larger = AutomorphismGroup(topology, np.vstack([kept.nodes, nodes]), np.vstack([kept.links, links]))
        found = larger.elements(ranks)
        if found is None or len(found[0]) <= len(elements[0]):
            continue
        fixed = (found[0][1:, :ranks] == np.arange(ranks)).sum(axis=1)
        if (fixed <= most_fixed).all():
            kept, elements = larger, found
    return kept, elements


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
