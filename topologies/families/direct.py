"""Direct-connect families of Table A.3, and networks without switches that are compared with them.

Ranks, links, `bandwidth` and `alpha` are as in `topologies.families.grids`: one value serves all links, or
each dimension of a torus has its own. Source: dissertation, Table A.3 and A.6, and the papers named at each
family.

Random regular networks, as in Xpander and Jellyfish, are bidirectional, simple and connected. Source:
Valadarsky et al., Xpander: towards optimal-performance datacenters (CoNEXT 2016), the dissertation's [143]:
lifts of the complete network; Cooper, Dyer and Greenhill, Sampling regular graphs (2007), for the switches
that mix a regular graph.

The dissertation shows Diamond and the modified de Bruijn networks only as pictures (Figs A.8, A.9). They were
found by a search for the properties in Table A.3: size, degree, no self-loop, no parallel links, reverse
symmetry or its absence, and a BW-optimal allgather of T_L steps. CP-SAT decided whether such a schedule
exists. Every shard is cut into d equal chunks, and a boolean says whether a chunk crosses a link in a step. A
chunk arrives at each rank exactly once and leaves a rank only after it arrived there. All links carry the
same number of chunks in each step, N - 1 in all. The linear relaxation of that model shows that fewer steps
don't suffice, however shards are cut.

Diamond. Of the 256 networks of 8 ranks, in- and out-degree 2 and diameter 3 (without self-loops and parallel
links, up to isomorphism), 20 have a BW-optimal allgather of 3 steps with shards in 2 or 4 parts. Two of these
give the all-to-all throughput of Table A.1 for Diamond^2, 1.87e-2 (exactly 3/160): the one below and its
transpose. Neither is reverse-symmetric, as Table A.3 says of Diamond.

Modified de Bruijn. By the caption of Fig A.9, the self-loops and 2-cycles of DBJ(d, n) are rewired to form a
single long cycle: their arcs are removed, and the nodes that they joined are visited in some order.

- DBJMod(2, 3): nodes 000, 010, 101, 111. All four different cycles are reverse-symmetric and take 4 steps,
  and no table distinguishes them. The order of DBJMod(2, 4) is taken.
- DBJMod(2, 4): nodes 0000, 0101, 1010, 1111. Only one cycle and its transpose have diameter 4 (Table A.1) and
  are not reverse-symmetric. The square has the all-to-all throughput 2.94e-3 of Table A.1.
- DBJMod(3, 2): all nodes. It is the first cycle in lexicographic order whose network has diameter 2, the
  least; it needs 3 steps. No table distinguishes it from others.
- DBJMod(4, 2): all nodes. Adding 1 to both letters (modulo 4) moves the cycle along itself: 00, 23, 10, 20,
  then 11, 30, 21, 31, and so on. Of the 148 such cycles (up to renaming letters) the 65 of least total
  distance were tried. Three, and their transposes, have diameter 3, a BW-optimal allgather of 3 steps and the
  all-to-all throughputs of Table A.1: 2.21e-2 (2.2093e-2) for the line graph, 4.10e-3 (4.096e-3) for the line
  graph of that. This is the first of the three.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from tutti.topologies.assembly import HUGE, Values, assemble, at_least, check_size
from tutti.topologies.errors import InputError
from tutti.topologies.exact import Int64Array
from tutti.topologies.families.algebraic import affine_plane, undirected
from tutti.topologies.families.finite_fields import FiniteField, check_prime_power, finite_field
from tutti.topologies.families.grids import gen_kautz, there_and_back
from tutti.topologies.topology import Topology, components


def kautz(degree: int, times: int, *, bandwidth: Values = None, alpha: Values = None) -> Topology:
    """Return the Kautz network K(d, n) = L^n(K_{d+1}) of (d + 1)·d^n ranks, numbered as Π_{d,m} of that size.

    Source: dissertation, Table A.3 and A.6.2. K(d, 0) is the complete network.

    Raises
    ------
    InputError
        If `degree` is less than 1 or `times` is less than 0.

    Examples
    --------
    >>> kautz(2, 2).num_ranks
    12
    """
    name = f"kautz:{degree},{times}"
    at_least(name, 1, degree=degree)
    at_least(name, 0, times=times)
    check_size(name, (degree + 1) * degree ** min(times, HUGE), 0)
    if degree == 1 and times > 0:
        times = 0  # L(K_2) is K_2
    ranks = (degree + 1) * degree**times
    return replace(gen_kautz(degree, ranks, bandwidth=bandwidth, alpha=alpha), name=name)


def de_bruijn(degree: int, length: int, *, bandwidth: Values = None, alpha: Values = None) -> Topology:
    """Return the de Bruijn network DBJ(d, n): of the d^n ranks, x sends to d·x + a modulo d^n, a = 0..d-1.

    Its d self-loops are dropped, but count in the degree by which T_B is measured
    (`Topology.nominal_degree`). Source: dissertation, Table A.3.

    Raises
    ------
    InputError
        If `degree` is less than 2 or `length` is less than 1.
    """
    name = f"debruijn:{degree},{length}"
    at_least(name, 2, degree=degree)
    at_least(name, 1, length=length)
    check_size(name, degree ** min(length, HUGE), 0)
    ranks = degree**length
    check_size(name, ranks, degree * ranks)
    source = np.repeat(np.arange(ranks), degree)
    target = (degree * source + np.tile(np.arange(degree), ranks)) % ranks
    proper = source != target
    arcs = (source[proper], target[proper])
    return assemble(name, ranks, [arcs], bandwidth, alpha, nominal_degree=degree)


def directed_circulant(degree: int, *, bandwidth: Values = None, alpha: Values = None) -> Topology:
    """Return the network of d + 2 ranks where x sends to x + 1, ..., x + d modulo d + 2.

    Source: dissertation, Table A.3: Moore- and BW-optimal.

    Raises
    ------
    InputError
        If `degree` is less than 1.
    """
    name = f"directed_circulant:{degree}"
    at_least(name, 1, degree=degree)
    check_size(name, degree + 2, (degree + 2) * degree)
    return _ring(name, degree + 2, np.arange(1, degree + 1), bandwidth, alpha)


def unidirectional_ring(
    degree: int, ranks: int, *, bandwidth: Values = None, alpha: Values = None
) -> Topology:
    """Return UniRing(d, m): m ranks, rank i has d parallel links to i + 1 modulo m.

    Source: dissertation, Table A.3.

    Raises
    ------
    InputError
        If `degree` is less than 1 or `ranks` is less than 2.
    """
    name = f"directed_ring:{degree},{ranks}"
    at_least(name, 1, degree=degree, ranks=ranks)
    if ranks == 1:
        raise InputError(f"topology {name} has one node and only self-loops; at least 2 ranks")
    check_size(name, ranks, ranks * degree)
    return _ring(name, ranks, np.repeat(1, degree), bandwidth, alpha)


def bidirectional_ring(
    degree: int, ranks: int, *, bandwidth: Values = None, alpha: Values = None
) -> Topology:
    """Return BiRing(d, m): m ranks, rank i has d/2 parallel links to i + 1 and then as many to i - 1.

    Source: dissertation, Table A.3.

    Raises
    ------
    InputError
        If `degree` is odd or less than 2, or `ranks` is less than 3.
    """
    name = f"biring:{degree},{ranks}"
    at_least(name, 2, degree=degree)
    at_least(name, 3, ranks=ranks)
    if degree % 2:
        raise InputError(f"topology {name}: degree {degree} is odd; half of the links go each way")
    check_size(name, ranks, ranks * degree)
    return _ring(name, ranks, np.repeat([1, -1], degree // 2), bandwidth, alpha)


def _ring(name: str, ranks: int, steps: Int64Array, bandwidth: Values, alpha: Values) -> Topology:
    """Return the network where rank i has a link to i + s modulo `ranks` for each of these steps s."""
    source = np.repeat(np.arange(ranks), len(steps))
    arcs = (source, (source + np.tile(steps, ranks)) % ranks)
    return assemble(name, ranks, [arcs], bandwidth, alpha)


def twisted_torus(
    *lengths: int, twist: int | None = None, bandwidth: Values = None, alpha: Values = None
) -> Topology:
    """Return a twisted torus: a link that wraps round a short dimension also moves along long ones.

    Without `twist`, the lengths are n and 2n (n×2n, n×n×2n, n×2n×2n, in any order, as in TPU v4), and a link
    that wraps round a dimension of length n moves by n along every dimension of length 2n. With it, there are
    two dimensions a×b of any lengths, and a link that wraps round the first moves by `twist` along the
    second. Links are as in `topologies.families.grids.torus`; the wrap upwards adds the twist, the wrap
    downwards subtracts it. Source: dissertation, section 3.6; Cámara et al., Twisted Torus Topologies for
    Enhanced Interconnection Networks (IEEE TPDS 21, 2010), its [30]; Jouppi et al., TPU v4 (ISCA 2023), its
    [62].

    Raises
    ------
    InputError
        If a length is less than 2, there are fewer than two, or they aren't n and 2n (without `twist`).

    Examples
    --------
    >>> twisted_torus(4, 8).target[:4].tolist()  # rank (0, 0): up, down in each dimension
    [8, 28, 1, 7]
    """
    name = f"twisted_torus:{'x'.join(map(str, lengths))}"
    shifts = _twists(name, lengths, twist)
    ranks = math.prod(lengths)
    check_size(name, ranks, 2 * len(lengths) * ranks)
    strides = np.array([math.prod(lengths[i + 1 :]) for i in range(len(lengths))])
    place = np.arange(ranks) // strides[:, None] % np.array(lengths)[:, None]
    classes = []
    for dimension in range(len(lengths)):
        up, down = (_step(place, dimension, lengths, shifts[dimension], sign) for sign in (1, -1))
        classes.append(there_and_back(np.arange(ranks), up @ strides, down @ strides))
    return assemble(name, ranks, classes, bandwidth, alpha)


def _step(
    place: Int64Array, dimension: int, lengths: Sequence[int], shift: Int64Array, sign: int
) -> Int64Array:
    """Return where a step up or down a dimension leads from each place, shape (ranks, dimensions)."""
    moved = place.copy()
    moved[dimension] += sign
    wraps = (moved[dimension] < 0) | (moved[dimension] >= lengths[dimension])
    moved += sign * shift[:, None] * wraps
    return (moved % np.array(lengths)[:, None]).T


def _twists(name: str, lengths: Sequence[int], twist: int | None) -> Int64Array:
    """Return how far a wrap round each dimension moves along each, shape (dimensions, dimensions)."""
    if len(lengths) < 2 or min(lengths) < 2:
        raise InputError(f"topology {name}: at least two dimensions of at least 2 ranks")
    shifts = np.zeros((len(lengths), len(lengths)), dtype=np.int64)
    if twist is not None:
        if len(lengths) != 2:
            raise InputError(f"topology {name}: twist= is for two dimensions")
        shifts[0, 1] = twist
        return shifts
    short = min(lengths)
    if set(lengths) != {short, 2 * short}:
        raise InputError(
            f"topology {name}: lengths must be n and 2n, such as 4x8, 4x4x8 or 4x8x8; "
            "two dimensions of other lengths take twist="
        )
    long = np.array(lengths) == 2 * short
    shifts[np.ix_(~long, long)] = short
    return shifts


def twisted_hypercube(dimension: int, *, bandwidth: Values = None, alpha: Values = None) -> Topology:
    """Return the twisted n-cube: the hypercube with two opposite edges of one 4-cycle exchanged.

    Of the ranks 0, 1, 2, 3, which form the cycle 0-1-3-2, the edges 0-1 and 2-3 become 0-3 and 1-2: the
    diameter is n - 1. Source: Esfahanian, Ni and Sagan, The twisted n-cube (IEEE TC 40, 1991), the
    dissertation's [38]; dissertation, A.1.1.

    Raises
    ------
    InputError
        If `dimension` is less than 3.
    """
    name = f"twisted_hypercube:{dimension}"
    at_least(name, 3, dimension=dimension)
    check_size(name, 1 << min(dimension, HUGE), 0)
    ranks = 1 << dimension
    check_size(name, ranks, dimension * ranks)
    source = np.repeat(np.arange(ranks), dimension)
    target = source ^ np.tile(1 << np.arange(dimension)[::-1], ranks)
    twisted = (source < 4) & (source ^ target == 1)
    target[twisted] ^= 2
    return assemble(name, ranks, [(source, target)], bandwidth, alpha)


def slim_fly(order: int, *, bandwidth: Values = None, alpha: Values = None) -> Topology:
    """Return the Slim Fly (McKay-Miller-Širáň) network of 2q² ranks, diameter 2 and degree (3q - δ)/2.

    q = 4w + δ is a prime power, δ one of -1, 0, 1. Rank x·q + y is (0, x, y), rank q² + m·q + c is (1, m, c).
    (0, x, y) is linked to (0, x, y + s) for s in X. (1, m, c) is linked to (1, m, c + s) for s in X'. (0, x,
    y) is linked to (1, m, c) where y = m·x + c. Links are numbered by source, then by target. Source: Besta
    and Hoefler, Slim Fly (SC 2014), the dissertation's [16]; Hafner, Geometric realisation of the graphs of
    McKay-Miller-Širáň (2004), for X and X'.

    Raises
    ------
    InputError
        If `order` is no prime power or less than 3.
    """
    name = f"slim_fly:{order}"
    check_prime_power(name, order)
    if order < 3:
        raise InputError(f"topology {name}: q = {order} is too small; at least 3")
    field = finite_field(order)
    check_size(name, 2 * order**2, 3 * order**3)
    within = [_cayley(field, steps) for steps in _slim_fly_steps(field)]
    edges = np.concatenate([affine_plane(order), within[0], order**2 + within[1]])
    return undirected(name, 2 * order**2, edges, bandwidth, alpha)


def _cayley(field: FiniteField, steps: Int64Array) -> Int64Array:
    """Return the edges, each once, of q disjoint Cayley graphs of the field's addition with these steps."""
    x, y, s = (axis.reshape(-1) for axis in np.indices((field.order, field.order, len(steps))))
    ends = np.stack([x * field.order + y, x * field.order + field.plus[y, steps[s]]], axis=1)
    return ends[ends[:, 0] < ends[:, 1]]


def _slim_fly_steps(field: FiniteField) -> tuple[Int64Array, Int64Array]:
    """Return Hafner's symmetric sets X and X' of powers of a primitive element."""
    q = field.order
    w = (q + 1) // 4
    if q % 4 == 3:  # δ = -1
        exponents = (
            [*range(0, 2 * w - 1, 2), *range(2 * w - 1, 4 * w - 2, 2)],
            [*range(1, 2 * w, 2), *range(2 * w, 4 * w - 1, 2)],
        )
    else:
        exponents = ([*range(0, q - 1, 2)], [*range(1, q, 2)])
    even, odd = (field.powers[np.array(chosen) % (q - 1)] for chosen in exponents)
    return even, odd


_DIAMOND = ((1, 2), (3, 4), (5, 6), (2, 6), (0, 7), (3, 4), (1, 7), (0, 5))
"""The two ranks to which each of the 8 ranks sends."""

_CYCLES: Mapping[tuple[int, int], Sequence[int]] = {
    (2, 3): (0, 2, 5, 7),
    (2, 4): (0, 5, 10, 15),
    (3, 2): (0, 3, 1, 7, 2, 6, 4, 8, 5),
    (4, 2): (0, 11, 4, 8, 5, 12, 9, 13, 10, 1, 14, 2, 15, 6, 3, 7),
}
"""The long cycle of DBJMod(d, n), by (d, n)."""


def diamond(*, bandwidth: Values = None, alpha: Values = None) -> Topology:
    """Return Diamond: 8 ranks of degree 2, an allgather that is Moore- and BW-optimal (3 steps).

    Source: dissertation, Table A.3 and Fig A.8; found as the module's text says, up to transposition.

    Examples
    --------
    >>> diamond().degree
    2
    """
    targets = np.array(_DIAMOND)
    source = np.repeat(np.arange(len(targets)), targets.shape[1])
    return assemble("diamond", len(targets), [(source, targets.reshape(-1))], bandwidth, alpha)


def modified_de_bruijn(
    degree: int, length: int, *, bandwidth: Values = None, alpha: Values = None
) -> Topology:
    """Return DBJMod(d, n): DBJ(d, n) with its self-loops and 2-cycles rewired to one long cycle.

    Links are numbered by source; the one on the cycle comes last. Source: dissertation, Table A.3 and
    Fig A.9; the cycle was found as the module's text says.

    Parameters
    ----------
    degree, length
        d and n, one of the four pairs of Table A.3.
    bandwidth, alpha
        One for all links.

    Raises
    ------
    InputError
        If the pair is none of the four.
    """
    name = f"modified_debruijn:{degree},{length}"
    if (degree, length) not in _CYCLES:
        known = ", ".join(f"{d},{n}" for d, n in _CYCLES)
        raise InputError(f"topology {name}: modified de Bruijn networks are those of {known}")
    ranks = degree**length
    source = np.repeat(np.arange(ranks), degree)
    target = (degree * source + np.tile(np.arange(degree), ranks)) % ranks
    arcs = set(zip(source.tolist(), target.tolist(), strict=True))
    kept = ~np.array([(v, u) in arcs for u, v in zip(source.tolist(), target.tolist(), strict=True)])
    cycle = np.array(_CYCLES[degree, length])
    source = np.concatenate([source[kept], cycle])
    target = np.concatenate([target[kept], np.roll(cycle, -1)])
    return assemble(name, ranks, [(source, target)], bandwidth, alpha)


_ROUNDS = 10
"""Number of switches tried for each edge. A larger value mixes the graph more."""


def random_regular(
    degree: int, ranks: int, seed: int = 0, *, bandwidth: Values = None, alpha: Values = None
) -> Topology:
    """Return a random d-regular network: a circulant network whose edges exchanged ends many times.

    Two edges ab and cd chosen at random become ad and cb if that makes no self-loop and no parallel edge,
    10 times for each edge, and again until the network is connected. Links are numbered by source, then by
    target.

    Parameters
    ----------
    degree
        d, at least 3.
    ranks
        n, above d; n·d is even.
    seed
        The same seed gives the same network.
    bandwidth, alpha
        One for all links.

    Raises
    ------
    InputError
        If `degree` is less than 3, `ranks` is not above it, or both are odd.
    """
    name = f"random_regular:{degree},{ranks},{seed}"
    at_least(name, 3, degree=degree)
    if ranks <= degree or ranks * degree % 2:
        raise InputError(f"topology {name}: {ranks} ranks; more than the degree, and one of the two even")
    check_size(name, ranks, degree * ranks)
    rng = np.random.default_rng(seed)
    rank = np.arange(ranks)
    rows = [np.stack([rank, (rank + step) % ranks], axis=1) for step in range(1, degree // 2 + 1)]
    if degree % 2:
        half = rank[: ranks // 2]
        rows.append(np.stack([half, half + ranks // 2], axis=1))
    edges = np.concatenate(rows)
    switched = _switched(edges, rng)
    while not _connected(switched, ranks):
        switched = _switched(switched, rng)
    return undirected(name, ranks, switched, bandwidth, alpha)


def xpander(
    degree: int, copies: int, seed: int = 0, *, bandwidth: Values = None, alpha: Values = None
) -> Topology:
    """Return Xpander's random lift of K_{d+1}: k copies of each of its nodes, k (d + 1) ranks.

    For every edge ij of K_{d+1} a random permutation p joins copy u of i (rank i·k + u) and copy p(u) of j;
    they are drawn again until the network is connected. Links are numbered by source, then by target.

    Parameters
    ----------
    degree
        d, at least 3.
    copies
        k, at least 1.
    seed
        The same seed gives the same network.
    bandwidth, alpha
        One for all links.

    Raises
    ------
    InputError
        If `degree` is less than 3 or `copies` is less than 1.
    """
    name = f"xpander:{degree},{copies},{seed}"
    at_least(name, 3, degree=degree)
    at_least(name, 1, copies=copies)
    ranks = (degree + 1) * copies
    check_size(name, ranks, degree * ranks)
    rng = np.random.default_rng(seed)
    i, j = np.triu_indices(degree + 1, 1)
    edges = _lifted(i, j, copies, rng)
    while not _connected(edges, ranks):
        edges = _lifted(i, j, copies, rng)
    return undirected(name, ranks, edges, bandwidth, alpha)


def _lifted(i: Int64Array, j: Int64Array, copies: int, rng: np.random.Generator) -> Int64Array:
    partner = np.stack([rng.permutation(copies) for _ in i])
    tail = i[:, None] * copies + np.arange(copies)
    return np.stack([tail.reshape(-1), (j[:, None] * copies + partner).reshape(-1)], axis=1)


def _switched(edges: Int64Array, rng: np.random.Generator) -> Int64Array:
    """Return the edges after random switches, each of which keeps every degree and the graph simple."""
    ends = edges.tolist()
    present = {frozenset(edge) for edge in ends}
    first, second = rng.integers(len(ends), size=(2, _ROUNDS * len(ends))).tolist()
    turned = rng.integers(2, size=len(first)).tolist()
    for one, other, turn in zip(first, second, turned, strict=True):
        (a, b), (c, d) = ends[one], ends[other][:: -1 if turn else 1]
        new = frozenset((a, d)), frozenset((c, b))
        if one == other or a == d or b == c or new[0] in present or new[1] in present:
            continue
        present -= {frozenset(ends[one]), frozenset(ends[other])}
        present |= set(new)
        ends[one], ends[other] = [a, d], [c, b]
    return np.array(ends)


def _connected(edges: Int64Array, ranks: int) -> bool:
    return components(ranks, edges[:, 0], edges[:, 1])[0] == 1
