r"""Networks in dimensions: rank (x_1, ..., x_k), numbered row-major, is joined along one dimension at a time.

Two ranks are joined by a link, or by a switch that both are linked to. The ranks that differ only in
dimension i form a *line*. A network is a grid if all lines of a dimension are joined in the same way, so that
it is the Cartesian product of its lines: a torus, a mesh, fully connected groups with switches between them.

Hosts with equal numbers of ranks are two dimensions, the host and the place in it, however they are wired. A
network names the hosts of its nodes (`Topology.hosts`), in any numbering of the ranks. If it names none, they
are *inferred* if they are plain. Take away all links of at most some bandwidth t, and the switches that no
rank then reaches. The ranks that are still joined are a host if links of 2t or more alone join them, too.
Hosts are plain if they have one size, two ranks or more but not all, if no other t gives other hosts, and if
the network is no grid of links, whose dimensions may well differ in bandwidth. Inferred hosts are returned to
callers that ask for them, and never stored in a network.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import NamedTuple

import numpy as np

from tutti.topologies.errors import InputError, listed
from tutti.topologies.exact import NONE, BoolArray, Int32Array, Int64Array, frozen
from tutti.topologies.topology import Topology, components

MOST_BANDWIDTHS = 16
"""Most different bandwidths of a network with plain hosts. Clusters have about five."""


class LineKind(StrEnum):
    """The kinds of lines, by how their ranks are joined."""

    RING = "ring"
    """Each rank is joined to the next and the previous one, cyclically; there are three or more."""

    PATH = "path"
    """Each rank is joined to the next and the previous one; the ends are not joined."""

    COMPLETE = "complete"
    """Each rank is joined to all others by links."""

    SWITCH = "switch"
    """All ranks are joined by a switch, or by other parts of a machine or a cluster."""


@dataclass(frozen=True)
class Grid:
    """The dimensions of a network.

    Parameters
    ----------
    shape
        The number of ranks in a line of each dimension; their product is N.
    lines
        The way in which these are joined.
    hosts
        The hosts, if the two dimensions are the host and the place in it.

    Examples
    --------
    >>> from tutti.topologies.text import parse_topology
    >>> grid_of(parse_topology("rfs:2x4x8"))
    Grid(shape=(2, 4, 8),
         lines=(<LineKind.PATH: 'path'>, <LineKind.COMPLETE: 'complete'>, <LineKind.SWITCH: 'switch'>))
    """

    shape: tuple[int, ...]
    lines: tuple[LineKind, ...]
    hosts: Hosts | None = field(default=None, repr=False, compare=False)

    @property
    def ranks(self) -> Int64Array:
        """The rank at each place, int64, of the grid's shape; in order, unless hosts have other orders."""
        if self.hosts is not None:
            return self.hosts.ranks
        return np.arange(math.prod(self.shape)).reshape(self.shape)

    def rank_at(self, coordinates: Sequence[Int64Array]) -> Int64Array:
        """Return the ranks at coordinates given dimension by dimension, as arrays that broadcast."""
        return self.ranks[tuple(coordinates)]

    def __str__(self) -> str:
        return " x ".join(f"{line} of {size}" for size, line in zip(self.shape, self.lines, strict=True))


@dataclass(frozen=True, eq=False)
class Hosts:
    """Hosts of equal size: two or more, each of two ranks or more, unless trivial hosts were allowed.

    Parameters
    ----------
    ranks
        int64, shape (hosts, ranks of each), in order; hosts are in the order of their first ranks.
    of
        int32, shape (nodes,): the host of each node, -1 for none. A switch without a host of its own belongs
        to that of the ranks that are linked to it, if these are all in one.
    inferred
        Whether the hosts were inferred from the links.
    """

    ranks: Int64Array
    of: Int32Array
    inferred: bool

    @property
    def in_order(self) -> bool:
        """Whether each host's ranks are consecutive."""
        return bool((np.diff(self.ranks.reshape(-1)) == 1).all())

    def __str__(self) -> str:
        count, size = self.ranks.shape
        each = "; ".join(map(runs, self.ranks[:4].tolist()))
        return f"{count} hosts of {size} ranks each ({each}{'; ...' * (count > 4)})"


class UnevenHosts(NamedTuple):
    """Two or more hosts that the network names, with unequal numbers of ranks.

    Parameters
    ----------
    members
        int64, the ranks of each host, in order; hosts are in the order of their first ranks.
    of
        int32, shape (nodes,): the host of each node, as in `Hosts`.
    """

    members: list[Int64Array]
    of: Int32Array

    def __str__(self) -> str:
        sizes = [str(len(members)) for members in self.members]
        return f"hosts of unequal size ({listed(sizes)} ranks)"


def uneven_hosts(topology: Topology) -> UnevenHosts | None:
    """Return the hosts of a network that names them for all ranks, if their sizes differ; else None.

    Examples
    --------
    >>> from tutti.topologies.text import parse_topology
    >>> print(uneven_hosts(parse_topology("dgx_a100:2?drop_nodes=15")))
    hosts of unequal size (8, 7 ranks)
    """
    told = topology.hosts
    if told is None or (told[: topology.num_ranks] == NONE).any():
        return None
    ranks = told[: topology.num_ranks]
    if _are_equal(ranks, trivial=True):
        return None
    names = list(dict.fromkeys(ranks.tolist()))
    every = _with_switches(topology, told)
    of = np.full(topology.num_nodes, NONE, dtype=np.int32)
    for number, name in enumerate(names):
        of[every == name] = number
    return UnevenHosts([np.flatnonzero(ranks == name) for name in names], of)


def members_of(hosts: Hosts | str, topology: Topology) -> list[Int64Array] | None:
    """Return the ranks of each host: of equal hosts from `hosts_of`, or of uneven hosts; or None."""
    if isinstance(hosts, Hosts):
        return list(hosts.ranks)
    uneven = uneven_hosts(topology)
    return None if uneven is None else uneven.members


def runs(ranks: Sequence[int]) -> str:
    """Return increasing numbers as text, consecutive ones as a range.

    Examples
    --------
    >>> runs([0, 1, 2, 5, 7, 8])
    '0-2, 5, 7-8'
    """
    starts = [i for i, rank in enumerate(ranks) if i == 0 or rank > ranks[i - 1] + 1]
    pairs = [(ranks[a], ranks[b - 1]) for a, b in zip(starts, [*starts[1:], len(ranks)], strict=True)]
    words = [str(first) if first == last else f"{first}-{last}" for first, last in pairs]
    return listed(words)


def grid_of(topology: Topology, hosts: Hosts | str = "") -> Grid | None:
    """Return the dimensions of a network, as many as possible; None if it is no grid.

    Hosts that the network names take precedence over lines, if the ranks of each are consecutive. If hosts
    have unequal sizes, the switches inside and between them are no lines.

    Parameters
    ----------
    topology
        Any network. It only matters which ranks are joined, not at which bandwidth.
    hosts
        The result of `hosts_of`. They are the dimensions if lines give fewer than two. Hosts whose ranks are
        not consecutive need a line of all ranks, so that groups such as those of a dragonfly make no grid.

    Examples
    --------
    >>> from tutti.topologies.families.grids import mesh, torus
    >>> grid_of(torus(4, 3)).lines == (LineKind.RING, LineKind.RING), grid_of(mesh(2, 2, 2)).shape
    (True, (2, 2, 2))
    """
    told = hosts_of(topology)
    if isinstance(told, Hosts) and told.in_order:
        return _grid_of_hosts(told)
    grid = _grid_of_lines(topology)
    if grid is not None and LineKind.SWITCH in grid.lines and uneven_hosts(topology) is not None:
        return None  # switches join ranks inside hosts and between them: no line of one kind
    if isinstance(hosts, str) or (grid is not None and len(grid.shape) > 1):
        return grid
    return _grid_of_hosts(hosts) if hosts.in_order or grid is not None else None


def _grid_of_hosts(hosts: Hosts) -> Grid:
    count, size = hosts.ranks.shape
    return Grid((count, size), (LineKind.SWITCH, LineKind.SWITCH), hosts)


def _grid_of_lines(topology: Topology) -> Grid | None:
    """Return the dimensions that lines form."""
    joined = _joined(topology)
    if joined is None:
        return None
    shape: list[int] = []
    lines: list[LineKind] = []
    size, pairs = topology.num_ranks, joined
    while size > 1:
        split = next((s for s in range(2, size + 1) if size % s == 0 and _splits(pairs, size, s)), None)
        line = None if split is None else _line(pairs[:, (pairs[:2] < split).all(axis=0)], split)
        if split is None or line is None:
            return None
        shape.insert(0, split)
        lines.insert(0, line)
        outer = np.vstack([pairs[:2] // split, pairs[2:]])
        pairs = np.unique(outer[:, outer[0] != outer[1]], axis=1)
        size //= split
    return Grid(tuple(shape), tuple(lines))


def hosts_of(topology: Topology, *, infer: bool = False, trivial: bool = False) -> Hosts | str:
    """Return the hosts of a network, or why it has none: a clause that begins with a verb.

    Parameters
    ----------
    topology
        Any network.
    infer
        Whether they may be inferred if the network names no rank's host.
    trivial
        Whether a single host, and hosts of one rank each, count too, if the network names them.

    Examples
    --------
    >>> from tutti.topologies.text import parse_topology
    >>> print(hosts_of(parse_topology("switch2d:4x2")))
    2 hosts of 4 ranks each (0, 2, 4, 6; 1, 3, 5, 7)
    """
    told = topology.hosts if topology.hosts is not None else np.full(topology.num_nodes, NONE, dtype=np.int32)
    ranks = told[: topology.num_ranks]
    if infer and (ranks == NONE).all():
        plain = _plain_hosts(topology)
        if plain is not None:
            return _equal_hosts(plain, topology.num_ranks, inferred=True)
    if (ranks == NONE).any():
        return f"does not say which host each rank is in; {HOW_TO_TELL}"
    if not _are_equal(ranks, trivial=trivial):
        number = "machines of equal size"
        return f"has no {number}" if trivial else f"does not have two or more {number}, at least 2 ranks each"
    return _equal_hosts(_with_switches(topology, told), topology.num_ranks, inferred=False)


HOW_TO_TELL = 'give the nodes of its file the key "host"'


def placed(topology: Topology, *, infer: bool) -> Topology:
    """Return the network with the host of every rank, and of every switch inside a host.

    It is the same network if there are no equal hosts. `Hosts` says which switches are inside.
    """
    hosts = hosts_of(topology, infer=infer)
    return replace(topology, hosts=hosts.of) if isinstance(hosts, Hosts) else topology


def note_on_hosts(topology: Topology, *, infer: bool) -> str:
    """Return a note for a result that depends on hosts: what was inferred, or how to name hosts; or nothing.

    There is no note if hosts are named, if all links are equal or form a grid, or if a method infers nothing.
    """
    hosts = hosts_of(topology, infer=infer)
    uneven = uneven_hosts(topology)
    if uneven is not None:
        return f"{uneven}: this method uses hosts of equal size only, so it treats all ranks as one level"
    if isinstance(hosts, Hosts):
        return f"hosts inferred from the links: {hosts}; infer_hosts = false leaves them out" * hosts.inferred
    told = topology.hosts is not None and (topology.hosts[: topology.num_ranks] != NONE).all()
    if told or not infer or topology.bandwidth.uniform or _is_grid_of_links(topology):
        return ""
    return f"which ranks share a host is unknown, and the links do not say it plainly; {HOW_TO_TELL}"


def check_hosts(topology: Topology) -> None:
    """Refuse hosts that contradict the links, or that only some ranks have.

    A switch in a host is linked to no rank, or to a rank of its host. If links make hosts plain, as for
    `hosts_of`, a host is one plain host, several, or a part of one, unless links inside join all its ranks.

    Raises
    ------
    InputError
        If they do; the message names a node with a wrong host.
    """
    told = topology.hosts
    if told is None:
        return
    lost = np.flatnonzero(told[: topology.num_ranks] == NONE)
    if 0 < len(lost) < topology.num_ranks:
        without = topology.labels[lost[0]]
        raise InputError(
            f"topology {topology.name}: rank {without} has no host, but others have; give one to all or none"
        )
    switch, rank = _links_to_switches(topology)
    home = np.zeros(topology.num_nodes, dtype=np.bool_)
    home[switch[told[switch] == told[rank]]] = True
    away = switch[(told[switch] != NONE) & ~home[switch]]
    if len(away):
        where = f"topology {topology.name}: switch {topology.labels[away[0]]}"
        raise InputError(f"{where} has links to ranks, but to none of its host")
    plain = _plain_hosts(topology)
    if plain is not None:
        for host in np.setdiff1d(told[: topology.num_ranks], NONE):
            _check_host(topology, told == host, plain[: topology.num_ranks])


def _check_host(topology: Topology, inside: BoolArray, plain: Int32Array) -> None:
    """Refuse a host that has parts of several plain hosts, unless links inside it join them."""
    mine = inside[: topology.num_ranks]
    members, split = np.flatnonzero(mine), np.flatnonzero(~mine & np.isin(plain, plain[mine]))
    joined = _components(topology, inside[topology.source] & inside[topology.target])
    if len(split) and len(np.unique(plain[mine])) > 1 and len(np.unique(joined[members])) > 1:
        near = split[0]
        one = members[plain[members] == plain[near]][0]
        other = members[plain[members] != plain[near]][0]
        one, other, near = (topology.labels[rank] for rank in (one, other, near))
        raise InputError(
            f"topology {topology.name}: {one} and {other} have one host, "
            f"but the fast links of {one} join it to {near} of another"
        )


def _links_to_switches(topology: Topology) -> tuple[Int32Array, Int32Array]:
    """Return the switch and the rank of each link between the two."""
    ends = np.stack([topology.source, topology.target])
    low, high = ends.min(axis=0), ends.max(axis=0)
    mixed = (low < topology.num_ranks) & (high >= topology.num_ranks)
    return high[mixed], low[mixed]


def _with_switches(topology: Topology, told: Int32Array) -> Int32Array:
    """Return each node's host; a switch without one gets that of its ranks, if they have one in common."""
    switch, rank = _links_to_switches(topology)
    least = np.full(topology.num_nodes, np.iinfo(np.int32).max, dtype=np.int32)
    most = np.full(topology.num_nodes, NONE, dtype=np.int32)
    np.minimum.at(least, switch, told[rank])
    np.maximum.at(most, switch, told[rank])
    return np.where((told == NONE) & (least == most), least, told)


def _equal_hosts(of: Int32Array, ranks: int, *, inferred: bool) -> Hosts:
    """Return hosts of one size, numbered by their first ranks."""
    names, first = np.unique(of[:ranks], return_index=True)
    number = np.argsort(np.argsort(first))
    at = np.searchsorted(names, of) % len(names)
    numbered = np.where(names[at] == of, number[at], NONE)
    table = np.argsort(numbered[:ranks], kind="stable").reshape(len(names), -1)
    return Hosts(table, frozen(numbered, np.int32), inferred)


def _are_equal(hosts: Int32Array, *, trivial: bool = False) -> bool:
    """Whether hosts have one size and, unless trivial ones count, are two or more of two or more ranks."""
    sizes = np.unique(hosts, return_counts=True)[1]
    return bool((sizes == sizes[0]).all() and (trivial or (len(sizes) > 1 and sizes[0] > 1)))


def _plain_hosts(topology: Topology) -> Int32Array | None:
    """Return each node's plain host as its least rank, -1 for none; None if there are no plain hosts."""
    speed = topology.bandwidth.numerators
    tiers = np.unique(speed)
    if not 1 < len(tiers) <= MOST_BANDWIDTHS:
        return None
    found: dict[bytes, Int32Array] = {}
    for slow in tiers[:-1]:
        near, nearer = (_components(topology, kept) for kept in (speed > slow, speed >= 2 * slow))
        ranks = near[: topology.num_ranks]
        if np.array_equal(ranks, nearer[: topology.num_ranks]) and _are_equal(ranks):
            found.setdefault(ranks.tobytes(), near)
    if len(found) != 1 or _is_grid_of_links(topology):
        return None
    return next(iter(found.values()))


def _components(topology: Topology, kept: BoolArray) -> Int32Array:
    """Return the least rank that each node is joined to over the kept links, -1 if there is none."""
    count, label = components(topology.num_nodes, topology.source[kept], topology.target[kept])
    least = np.full(count, topology.num_nodes, dtype=np.int32)
    np.minimum.at(least, label[: topology.num_ranks], np.arange(topology.num_ranks, dtype=np.int32))
    return np.where(least < topology.num_ranks, least, NONE)[label].astype(np.int32)


def _is_grid_of_links(topology: Topology) -> bool:
    """Whether the network is a grid none of whose lines has a switch."""
    grid = _grid_of_lines(topology)
    return grid is not None and LineKind.SWITCH not in grid.lines


def _joined(topology: Topology) -> Int64Array | None:
    """Return (3, pairs): two joined ranks, and whether a switch joins them; None if switches are linked."""
    source, target = topology.source.astype(np.int64), topology.target.astype(np.int64)
    ranks = topology.num_ranks
    inner = (source < ranks) & (target < ranks)
    if ((source >= ranks) & (target >= ranks)).any():
        return None
    parts = [np.stack([source[inner], target[inner], np.zeros(int(inner.sum()), dtype=np.int64)])]
    for switch in range(ranks, topology.num_nodes):
        into, out = source[target == switch], target[source == switch]
        pairs = np.stack([np.repeat(into, len(out)), np.tile(out, len(into))])
        parts.append(np.vstack([pairs, np.ones(pairs.shape[1], dtype=np.int64)]))
    table = np.concatenate(parts, axis=1)
    return np.unique(table[:, table[0] != table[1]], axis=1)


def _splits(pairs: Int64Array, size: int, inner: int) -> bool:
    """Whether each pair differs in node // inner or node % inner only, equally in every copy of both."""
    (from_outer, to_outer), (from_inner, to_inner) = np.divmod(pairs[:2], inner)
    within, across = from_outer == to_outer, from_inner == to_inner
    if not (within | across).all():
        return False
    (kind_within, kind_across) = pairs[2, within], pairs[2, across]
    return _alike(
        kind_within, from_outer[within], from_inner[within], to_inner[within], size // inner
    ) and _alike(kind_across, from_inner[across], from_outer[across], to_outer[across], inner)


def _alike(kind: Int64Array, copy: Int64Array, tail: Int64Array, head: Int64Array, copies: int) -> bool:
    """Whether every copy has the same pairs of the same kind."""
    if len(kind) % copies:
        return False
    table = np.stack([tail, head, kind])[:, np.lexsort((kind, tail, head, copy))].reshape(3, copies, -1)
    counts = np.bincount(copy, minlength=copies)
    return bool((counts == counts[0]).all() and (table == table[:, :1]).all())


def _line(pairs: Int64Array, size: int) -> LineKind | None:
    """Return the kind of a line with these pairs; None if it has no kind that is named here, or two."""
    found = set(map(tuple, pairs[:2].T.tolist()))
    if len(found) < pairs.shape[1]:
        return None
    complete = len(found) == size * (size - 1)  # no rank is joined to itself here
    if pairs[2].any():
        return LineKind.SWITCH if complete and pairs[2].all() else None
    path = {(a, b) for a in range(size) for b in (a - 1, a + 1) if 0 <= b < size}
    if found == path:
        return LineKind.PATH
    if found == path | {(0, size - 1), (size - 1, 0)}:
        return LineKind.RING
    return LineKind.COMPLETE if complete else None
