"""Larger networks from smaller ones: line graph, degree expansion, Cartesian product and power.

Each takes networks without switches, returns one, and drops `Topology.expression`. A network never holds
self-loops; its nominal degree remembers them: a node that has fewer links than this degree has as many
self-loops as it lacks links (`topologies.families.grids.gen_kautz`, `topologies.families.direct.de_bruijn`).

The number and the label of a node of the result show where it comes from. Links are numbered by source:

================================  ===========================  ==========================================
network                           node                         label
================================  ===========================  ==========================================
L(G), Definition 12               link i of G is node i        ``"u>v"``; in L(L(G)) ``"u>v>w"``
G * n, Definition 13              copy i of node v is v·n + i  ``"v_1"``, ..., ``"v_n"``
G1 □ G2 □ ..., Definition 3       row-major                    ``"u.v"``
================================  ===========================  ==========================================

Unidirectional to bidirectional (dissertation A.1.6) is `topologies.transforms.union_with_transpose`. Source:
dissertation, section 3.5 and A.4.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from itertools import product

import numpy as np

from tutti.topologies.assembly import at_least, check_size, product_links
from tutti.topologies.errors import InputError, listed
from tutti.topologies.exact import INT64_MAX, Int64Array, Rationals, frozen, offsets_of
from tutti.topologies.topology import Topology


def self_loops(topology: Topology) -> Int64Array:
    """Return the number of self-loops of each rank that the network has dropped, int64 (ranks,)."""
    if topology.nominal_degree is None:
        return np.zeros(topology.num_ranks, dtype=np.int64)
    missing = topology.nominal_degree - topology.out_degrees[: topology.num_ranks]
    return np.maximum(missing, 0).astype(np.int64)


def line_graph(topology: Topology) -> Topology:
    """Return L(G): a node for each link of G, and a link from link uv to each link vw.

    Parallel links are separate nodes. A self-loop of G (see `self_loops`) is also a node; these nodes follow
    those of the links, in the order of ranks. Such a node's own self-loop is dropped again, but counts in the
    nominal degree. Links are numbered by source and then as the links of G. Source: dissertation,
    Definition 12.

    Raises
    ------
    InputError
        If there are switches, links differ in bandwidth or α, or there would be too many nodes or links.

    Examples
    --------
    >>> from tutti.topologies.families.grids import complete
    >>> line_graph(complete(3)).labels
    ('0>1', '0>2', '1>0', '1>2', '2>0', '2>1')
    """
    name = f"L({topology.name})"
    _check_ranks_only(name, topology)
    if not topology.homogeneous:
        raise InputError(f"topology {name}: a line graph needs links of one bandwidth and one alpha")
    loops = np.repeat(np.arange(topology.num_ranks), self_loops(topology))
    tail = np.concatenate([topology.source, loops])
    head = np.concatenate([topology.target, loops])
    degrees = np.bincount(tail, minlength=topology.num_ranks)
    check_size(name, len(tail), int(degrees[head].sum()))
    # Each arc leads to all that leave the node which it enters, sorted by the arc, then by the other.
    leaving = np.argsort(tail, kind="stable")
    counts = degrees[head]
    source = np.repeat(np.arange(len(tail)), counts)
    within = np.arange(len(source)) - np.repeat(offsets_of(counts)[:-1], counts)
    target = leaving[offsets_of(degrees)[head[source]] + within]
    proper = source != target
    first = np.zeros(int(proper.sum()), dtype=np.int64)
    return Topology(
        name=name,
        num_ranks=len(tail),
        labels=_walks(topology.labels, tail, head),
        source=source[proper].astype(np.int32),
        target=target[proper].astype(np.int32),
        bandwidth=topology.bandwidth.take(first),
        alpha=topology.alpha.take(first),
        nominal_degree=topology.nominal_degree,
    )


def _walks(labels: Sequence[str], tail: Int64Array, head: Int64Array) -> tuple[str, ...]:
    """Return a label for each arc: the walk that its ends make, with ``#2``, ... on parallel arcs."""
    walks = [label.split(">") for label in labels]
    plain = [[step.partition("#")[0] for step in walk] for walk in walks]
    names: list[str] = []
    for u, v in zip(tail.tolist(), head.tolist(), strict=True):
        overlap = len(walks[u]) > 1 and plain[u][1:] == plain[v][:-1]
        names.append(f"{labels[u]}>{walks[v][-1] if overlap else labels[v]}")
    return _distinct(names)


def _distinct(names: list[str]) -> tuple[str, ...]:
    """Number the names that occur more than once: the second becomes ``name#2``."""
    if len(set(names)) == len(names):
        return tuple(names)
    seen: Counter[str] = Counter()
    numbered = []
    for name in names:
        seen[name] += 1
        numbered.append(name if seen[name] == 1 else f"{name}#{seen[name]}")
    return tuple(numbered)


def degree_expansion(topology: Topology, factor: int) -> Topology:
    """Return G * n: n copies of each node, and for each link uv a link from each copy of u to each of v.

    Links are numbered by source, then as the links of G, then by the copy of v. Source: dissertation,
    Definition 13.

    Raises
    ------
    InputError
        If `factor` is less than 1, there are switches or self-loops, or there would be too many nodes.

    Examples
    --------
    >>> from tutti.topologies.families.grids import uniring
    >>> degree_expansion(uniring(4), 2).labels[:3]
    ('0_1', '0_2', '1_1')
    """
    name = f"{_grouped(topology.name)} * {factor}"
    _check_ranks_only(name, topology)
    at_least(name, 1, factor=factor)
    loops = np.flatnonzero(self_loops(topology))
    if len(loops):
        which = listed([topology.labels[node] for node in loops], 5)
        raise InputError(
            f"topology {name}: degree expansion needs a network without self-loops; they are at {which}"
        )
    check_size(name, topology.num_ranks * factor, topology.num_links * factor**2)
    link, i, j = (axis.reshape(-1) for axis in np.indices((topology.num_links, factor, factor)))
    source = topology.source[link].astype(np.int64) * factor + i
    order = np.argsort(source, kind="stable")
    target = topology.target[link].astype(np.int64) * factor + j
    return Topology(
        name=name,
        num_ranks=topology.num_ranks * factor,
        labels=tuple(f"{label}_{copy}" for label in topology.labels for copy in range(1, factor + 1)),
        source=source[order].astype(np.int32),
        target=target[order].astype(np.int32),
        bandwidth=topology.bandwidth.take(link[order]),
        alpha=topology.alpha.take(link[order]),
    )


def cartesian_product(*factors: Topology) -> Topology:
    """Return G1 □ G2 □ ...: a link changes one coordinate of a node, along a link of that factor.

    Nodes are numbered row-major (the last coordinate varies fastest), links by source, then by dimension,
    then as in the factor. Source: dissertation, Definition 3.

    Raises
    ------
    InputError
        If there is no factor, one has switches, or there would be too many nodes or links.

    Examples
    --------
    >>> from tutti.topologies.families.grids import ring, uniring
    >>> product = cartesian_product(ring(4), uniring(3))
    >>> product.num_ranks, product.degree, product.labels[:4]
    (12, 3, ('0.0', '0.1', '0.2', '1.0'))
    """
    if not factors:
        raise InputError("a Cartesian product needs at least one network")
    name = " x ".join(_grouped(factor.name) for factor in factors)
    return _product(name, factors)


def cartesian_power(topology: Topology, exponent: int) -> Topology:
    """Return the Cartesian product of a network with itself, `exponent` times.

    Raises
    ------
    InputError
        If `exponent` is less than 1, there are switches, or there would be too many nodes or links.
    """
    name = f"{_grouped(topology.name)}^{exponent}"
    at_least(name, 1, exponent=exponent)
    check_size(name, topology.num_ranks ** min(exponent, 64), 0)
    return _product(name, [topology] * exponent)


def _product(name: str, factors: Sequence[Topology]) -> Topology:
    for factor in factors:
        _check_ranks_only(name, factor)
    ranks = math.prod(factor.num_ranks for factor in factors)
    links = sum(factor.num_links * (ranks // factor.num_ranks) for factor in factors)
    check_size(name, ranks, links)
    arcs, origins, before = [], [], 0
    for factor in factors:
        ends = (factor.source.astype(np.int64), factor.target.astype(np.int64))
        arcs.append((factor.num_ranks, ends))
        # Each link of the product copies one of all factors' list.
        own = np.arange(before, before + factor.num_links)
        origins.append(np.tile(own, ranks // factor.num_ranks))
        before += factor.num_links
    source, target = (np.concatenate(parts) for parts in zip(*product_links(arcs), strict=True))
    origin = np.concatenate(origins)
    order = np.argsort(source, kind="stable")
    return Topology(
        name=name,
        num_ranks=ranks,
        labels=tuple(".".join(labels) for labels in product(*(factor.labels for factor in factors))),
        source=source[order].astype(np.int32),
        target=target[order].astype(np.int32),
        bandwidth=_joined([factor.bandwidth for factor in factors]).take(origin[order]).reduced,
        alpha=_joined([factor.alpha for factor in factors]).take(origin[order]).reduced,
        nominal_degree=_nominal_degree(factors),
    )


def _joined(vectors: Sequence[Rationals]) -> Rationals:
    """Return the vectors one after the other, over their common denominator."""
    denominator = math.lcm(*(vector.denominator for vector in vectors))
    scales = [denominator // vector.denominator for vector in vectors]
    for vector, scale in zip(vectors, scales, strict=True):
        if int(vector.numerators.max(initial=0)) * scale > INT64_MAX:
            raise InputError("values too far apart: over their common denominator they do not fit 64 bits")
    numerators = [vector.numerators * scale for vector, scale in zip(vectors, scales, strict=True)]
    return Rationals(frozen(np.concatenate(numerators), np.int64), denominator)


def _nominal_degree(factors: Sequence[Topology]) -> int | None:
    """Return the sum of the degrees if one of them is nominal; None if the links determine it."""
    if all(factor.nominal_degree is None for factor in factors):
        return None
    degrees = [factor.degree for factor in factors]
    return None if None in degrees else sum(degree for degree in degrees if degree is not None)


def _check_ranks_only(name: str, topology: Topology) -> None:
    if topology.num_switches:
        raise InputError(
            f"topology {name}: {topology.name} has {topology.num_switches} switch(es); "
            "only networks of ranks alone are expanded"
        )


def _grouped(name: str) -> str:
    """Return a name in parentheses if it is itself a product or an expansion."""
    return f"({name})" if " " in name else name
