"""The network: an immutable directed multigraph of ranks, switches and links.

Two searches on any directed graph are here, too: breadth-first distances, and components (weak, or strong
if asked).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tutti.topologies.errors import InputError
from tutti.topologies.exact import (
    INT64_MAX,
    BoolArray,
    Int32Array,
    Int64Array,
    IntArray,
    Rationals,
    frozen,
    offsets_of,
)
from tutti.topologies.kernels import kernel
from tutti.topologies.units import format_bandwidth

if TYPE_CHECKING:
    import networkx as nx

DEFAULT_BANDWIDTH = Fraction(50 * 10**9)
DEFAULT_ALPHA = Fraction(1, 2 * 10**6)


@dataclass(frozen=True)
class Link:
    """A directed link. It serves to build and to read single links; a `Topology` holds arrays.

    Parameters
    ----------
    source, target
        Node numbers.
    bandwidth
        Bytes per second, exact.
    alpha
        Seconds, exact.
    """

    source: int
    target: int
    bandwidth: Fraction = DEFAULT_BANDWIDTH
    alpha: Fraction = DEFAULT_ALPHA


class Incidence(NamedTuple):
    """The links at each node in CSR form: those of node v are links[offsets[v] : offsets[v + 1]]."""

    offsets: Int64Array
    links: Int32Array


class Neighbours(NamedTuple):
    """The nodes that each node leads to: those of node v are heads[offsets[v] : offsets[v + 1]]."""

    offsets: Int64Array
    heads: Int32Array

    @classmethod
    def of(cls, tails: IntArray, heads: IntArray, num_nodes: int) -> Neighbours:
        """Return the neighbours in a graph of arcs, in the order of the arcs."""
        offsets = offsets_of(np.bincount(tails, minlength=num_nodes))
        return cls(offsets, heads[np.argsort(tails, kind="stable")].astype(np.int32))


@kernel(light=1)
def breadth_first(graph: Neighbours, sources: Int64Array, hops: Int32Array, queue: Int32Array) -> None:
    """Set hops[v] to the distance from the nearest of the sources to node v, -1 where there is no path.

    `queue` (nodes,) receives the nodes found, in the order of their distance. If `graph` has the tails of
    in-links, the distances are those to the sources.
    """
    hops[:] = -1
    first, found = 0, len(sources)
    for index in range(found):
        hops[sources[index]] = 0
        queue[index] = sources[index]
    while first < found < len(hops):
        node = queue[first]
        first += 1
        for position in range(graph.offsets[node], graph.offsets[node + 1]):
            head = graph.heads[position]
            if hops[head] < 0:
                hops[head] = hops[node] + 1
                queue[found] = head
                found += 1


def components(
    num_nodes: int, source: npt.ArrayLike, target: npt.ArrayLike, *, strong: bool = False
) -> tuple[int, Int32Array]:
    """Return the number of components and the component of each node, int32, shape (nodes,).

    Parameters
    ----------
    num_nodes
        The number of nodes.
    source, target
        The ends of the edges, which count in both directions unless `strong`.
    strong
        Whether two nodes share a component only if each reaches the other along the edges.
    """
    from scipy.sparse import coo_array  # slow to import, and few commands need it
    from scipy.sparse.csgraph import connected_components

    tails, heads = np.asarray(source), np.asarray(target)
    graph = coo_array((np.ones(len(tails)), (tails, heads)), shape=(num_nodes, num_nodes))
    count, label = connected_components(graph, directed=strong, connection="strong" if strong else "weak")
    return int(count), label


@dataclass(frozen=True, eq=False, repr=False)
class Topology:
    """A network. Ranks are nodes 0..N-1, and switches follow; parallel links are separate links.

    `tutti.topology` makes one of a text, a file or a networkx graph; `from_links` of a list of links.

    Parameters
    ----------
    name
        The text or path that the network was made from. Results call it by this name.
    num_ranks
        N, at least 2.
    labels
        The name of each node, ranks first, then switches.
    source, target
        int32, shape (links,): the ends of each link.
    bandwidth
        Bytes per second of each link, exact.
    alpha
        Seconds of each link, exact.
    multicast, aggregate
        Switches that can copy one message to several links, or add several into one.
    hosts
        int32, shape (nodes,): the machine of each node, -1 for none.
    nominal_degree
        The degree with which T_B is measured. A family may count links that it dropped, as generalized Kautz
        graphs do with their self-loops. None: the common in- and out-degree, if there is one.
    expression
        The parsed text in the papers' notation, if the network was made from one. Transforms drop it.
    notes
        Sentences about what was guessed because a file does not say it. Comparisons ignore them.
    gamma
        γ: seconds for which a rank reduces a byte that it receives, exact (dissertation, A.3.4).

    Raises
    ------
    InputError
        If a link ends nowhere, joins a node to itself or has no positive bandwidth, if an α or γ is
        negative, if there are fewer than two ranks, or if some rank can't reach another.

    Examples
    --------
    >>> from fractions import Fraction
    >>> both_ways = [Link(a, b, bandwidth=Fraction(50 * 10**9)) for a, b in ((0, 1), (1, 0))]
    >>> Topology.from_links("pair", 2, both_ways)
    <Topology pair: 2 ranks, 0 switches, 2 links>
    """

    name: str
    num_ranks: int
    labels: tuple[str, ...]
    source: Int32Array
    target: Int32Array
    bandwidth: Rationals
    alpha: Rationals
    multicast: frozenset[int] = frozenset()
    aggregate: frozenset[int] = frozenset()
    hosts: Int32Array | None = None
    nominal_degree: int | None = None
    expression: object | None = field(default=None, repr=False)
    notes: tuple[str, ...] = field(default=(), repr=False)
    gamma: Fraction = Fraction(0)

    @classmethod
    def from_links(
        cls,
        name: str,
        num_ranks: int,
        links: Iterable[Link],
        *,
        labels: Sequence[str] | None = None,
        num_switches: int = 0,
        multicast: Iterable[int] = (),
        aggregate: Iterable[int] = (),
        hosts: Sequence[int] | None = None,
        nominal_degree: int | None = None,
        expression: object | None = None,
        notes: Iterable[str] = (),
    ) -> Topology:
        """Return the topology with these links. By default labels are ``"0"``, ``"1"``, ... and ``"s0"``, ...

        Raises
        ------
        InputError
            As `Topology`; also if a bandwidth or α is no finite number, or they do not fit 64 bits.
        """
        table = list(links)
        names = labels or [*map(str, range(num_ranks)), *(f"s{i}" for i in range(num_switches))]
        return cls(
            name=name,
            num_ranks=num_ranks,
            labels=tuple(names),
            source=np.array([link.source for link in table], dtype=np.int32),
            target=np.array([link.target for link in table], dtype=np.int32),
            bandwidth=_exact(name, names, table, "bandwidth"),
            alpha=_exact(name, names, table, "alpha"),
            multicast=frozenset(multicast),
            aggregate=frozenset(aggregate),
            hosts=None if hosts is None else np.array(hosts, dtype=np.int32),
            nominal_degree=nominal_degree,
            expression=expression,
            notes=tuple(notes),
        )

    def __repr__(self) -> str:
        """Return the name and size, because the arrays would fill pages."""
        sizes = f"{self.num_ranks} ranks, {self.num_switches} switches, {self.num_links} links"
        return f"<Topology {self.name}: {sizes}>"

    def __post_init__(self) -> None:
        """Freeze the arrays and check the network."""
        for name in ("source", "target"):
            object.__setattr__(self, name, frozen(getattr(self, name), np.int32))
        if self.hosts is not None:
            object.__setattr__(self, "hosts", frozen(self.hosts, np.int32))
        where = f"topology {self.name}"
        n, nodes = self.num_ranks, self.num_nodes
        if n < 2:
            raise InputError(f"{where}: {n} rank(s); a collective needs at least 2")
        if len(set(self.labels)) != nodes:
            raise InputError(f"{where}: node labels must differ")
        _check_links(self, where)
        if self.gamma < 0:
            raise InputError(f"{where}: gamma is {self.gamma} s/B; it must not be negative")
        switches = self.multicast | self.aggregate
        if any(not n <= node < nodes for node in switches):
            known = f"nodes {n}..{nodes - 1}" if nodes > n else "it has none"
            raise InputError(f"{where}: only switches ({known}) can multicast or aggregate")
        for incidence, other, word in (
            (self.out_links, self.target, "reach"),
            (self.in_links, self.source, "be reached from"),
        ):
            hops, queue = np.empty((2, nodes), np.int32)
            graph = Neighbours(incidence.offsets, other[incidence.links])
            breadth_first(graph, np.zeros(1, np.int64), hops, queue)
            missing = np.flatnonzero(hops[:n] < 0)
            if len(missing):
                cut = ", ".join(self.labels[i] for i in missing[:5]) + (", ..." if len(missing) > 5 else "")
                raise InputError(
                    f"{where} is not strongly connected: rank {self.labels[0]} can't {word} {cut}"
                )

    @property
    def num_nodes(self) -> int:
        """The number of ranks and switches."""
        return len(self.labels)

    @property
    def num_switches(self) -> int:
        """The number of nodes that only forward."""
        return self.num_nodes - self.num_ranks

    @property
    def num_links(self) -> int:
        """The number of directed links. Each of several parallel links counts."""
        return len(self.source)

    def link(self, index: int) -> Link:
        """Return one link with its exact numbers."""
        return Link(
            int(self.source[index]), int(self.target[index]), self.bandwidth[index], self.alpha[index]
        )

    def link_name(self, index: int) -> str:
        """Return ``"a->b"`` with the labels of its ends."""
        return f"{self.labels[self.source[index]]}->{self.labels[self.target[index]]}"

    @property
    def attributes(self) -> dict[str, Any]:
        """The network's own attributes in a networkx graph or a file: name, nominal degree, notes and 1/γ."""
        result: dict[str, Any] = {"name": self.name}
        if self.nominal_degree is not None:
            result["nominal_degree"] = self.nominal_degree
        if self.notes:
            result["notes"] = list(self.notes)
        if self.gamma:
            result["reduce"] = format_bandwidth(1 / self.gamma)
        return result

    def node_attributes(self, node: int) -> dict[str, Any]:
        """Return a node's attributes in a networkx graph or a file: its kind, and the others that are set."""
        result: dict[str, Any] = {"kind": "compute" if node < self.num_ranks else "switch"}
        if self.labels[node] != str(node):
            result["label"] = self.labels[node]
        if self.hosts is not None:
            result["host"] = int(self.hosts[node])
        if node in self.multicast:
            result["multicast"] = True
        if node in self.aggregate:
            result["aggregate"] = True
        return result

    def to_networkx(self) -> nx.MultiDiGraph:
        """Return the network as a `networkx.MultiDiGraph`; `from_networkx` reads it back.

        Nodes are node numbers; an edge's key is its link number, and its ``bandwidth`` and ``alpha`` are
        Fractions in bytes/s and seconds.
        """
        import networkx as nx  # slow to import, and few callers need it

        graph = nx.MultiDiGraph(**self.attributes)
        graph.add_nodes_from((node, self.node_attributes(node)) for node in range(self.num_nodes))
        bandwidth, alpha = list(self.bandwidth), list(self.alpha)
        for link, ends in enumerate(zip(self.source.tolist(), self.target.tolist(), strict=True)):
            graph.add_edge(*ends, key=link, bandwidth=bandwidth[link], alpha=alpha[link])
        return graph

    @cached_property
    def out_links(self) -> Incidence:
        """CSR of the links out of each node: offsets (nodes + 1,), link numbers, increasing."""
        return _incidence(self.source, self.num_nodes)

    @cached_property
    def in_links(self) -> Incidence:
        """CSR of the links into each node: offsets (nodes + 1,), link numbers, increasing."""
        return _incidence(self.target, self.num_nodes)

    @cached_property
    def out_degrees(self) -> Int64Array:
        """Links out of each node, shape (nodes,)."""
        return np.diff(self.out_links[0])

    @cached_property
    def in_degrees(self) -> Int64Array:
        """Links into each node, shape (nodes,)."""
        return np.diff(self.in_links[0])

    @cached_property
    def holders(self) -> BoolArray:
        """Whether data stay at each node, shape (nodes,): at ranks, and switches that copy or add."""
        found = np.arange(self.num_nodes) < self.num_ranks
        found[list(self.multicast | self.aggregate)] = True
        return found

    @cached_property
    def egress(self) -> Rationals:
        """Total bandwidth out of each node, bytes/s, exact."""
        return self._totals(self.source)

    @cached_property
    def ingress(self) -> Rationals:
        """Total bandwidth into each node, bytes/s, exact."""
        return self._totals(self.target)

    def _totals(self, end: Int32Array) -> Rationals:
        sums = np.zeros(self.num_nodes, dtype=np.int64)
        np.add.at(sums, end, self.bandwidth.numerators)
        return Rationals(frozen(sums, np.int64), self.bandwidth.denominator)

    @cached_property
    def degree(self) -> int | None:
        """d: the nominal degree, or the links in and out of every node where they agree, or None."""
        if self.nominal_degree is not None:
            return self.nominal_degree
        degrees = np.concatenate([self.in_degrees, self.out_degrees])
        return int(degrees[0]) if (degrees == degrees[0]).all() else None

    @property
    def homogeneous(self) -> bool:
        """Whether all links have one bandwidth and one α."""
        return self.bandwidth.uniform and self.alpha.uniform

    @property
    def node_bandwidth(self) -> Fraction | None:
        """B = degree x link bandwidth (dissertation 3.3.2), bytes/s; None with switches or uneven links."""
        if self.num_switches or self.degree is None or not self.bandwidth.uniform:
            return None
        return self.degree * self.bandwidth[0]

    def eulerian_defect(self, free: Iterable[int] = ()) -> int | None:
        """Return the first node, none of the `free`, whose ingress and egress bandwidth differ, or None."""
        uneven = np.flatnonzero(self.egress.numerators != self.ingress.numerators)
        uneven = np.setdiff1d(uneven, list(free))
        return int(uneven[0]) if len(uneven) else None

    def __eq__(self, other: object) -> bool:
        """Compare the networks (labels and links in order), whatever their names."""
        if not isinstance(other, Topology):
            return NotImplemented
        return (
            self.num_ranks == other.num_ranks
            and self.labels == other.labels
            and np.array_equal(self.source, other.source)
            and np.array_equal(self.target, other.target)
            and self.bandwidth == other.bandwidth
            and self.alpha == other.alpha
            and self.multicast == other.multicast
            and self.aggregate == other.aggregate
            and self.gamma == other.gamma
        )

    __hash__ = None  # type: ignore[assignment]


def _exact(name: str, labels: Sequence[str], links: Sequence[Link], what: str) -> Rationals:
    """Return the bandwidths or α of links, naming the first that is no number."""
    values = []
    for link in links:
        value = getattr(link, what)
        try:
            values.append(Fraction(value))
        except (TypeError, ValueError, OverflowError, ZeroDivisionError):
            ends = (labels[end] if 0 <= end < len(labels) else end for end in (link.source, link.target))
            raise InputError(
                f"topology {name}: {what} of link {'->'.join(map(str, ends))} is {value!r}; "
                "it must be a finite number, such as a Fraction"
            ) from None
    try:
        return Rationals.of(values)
    except InputError as error:
        raise InputError(f"topology {name}: {what}: {error}; give them a larger common divisor") from None


def _incidence(end: Int32Array, num_nodes: int) -> Incidence:
    offsets = offsets_of(np.bincount(end, minlength=num_nodes))
    return Incidence(offsets, np.argsort(end, kind="stable").astype(np.int32))


def _check_links(topology: Topology, where: str) -> None:
    nodes = topology.num_nodes
    ends = np.stack([topology.source, topology.target])
    if ends.size and (ends.min() < 0 or ends.max() >= nodes):
        raise InputError(f"{where}: a link ends at node {int(ends.max())}; nodes are 0..{nodes - 1}")
    loops = np.flatnonzero(topology.source == topology.target)
    if len(loops):
        raise InputError(f"{where}: link {topology.link_name(int(loops[0]))} joins a node to itself")
    slow = np.flatnonzero(topology.bandwidth.numerators <= 0)
    if len(slow):
        name, value = topology.link_name(int(slow[0])), topology.bandwidth[slow[0]]
        raise InputError(f"{where}: bandwidth of link {name} is {value} B/s; it must be positive")
    early = np.flatnonzero(topology.alpha.numerators < 0)
    if len(early):
        name, value = topology.link_name(int(early[0])), topology.alpha[early[0]]
        raise InputError(f"{where}: alpha of link {name} is {value} s; it must not be negative")
    for values, what in ((topology.bandwidth, "bandwidths"), (topology.alpha, "alphas")):
        if float(values.numerators.sum(dtype=np.float64)) >= INT64_MAX:  # totals and path lengths are int64
            raise InputError(f"{where}: its {what} over their common denominator add up to more than 64 bits")
