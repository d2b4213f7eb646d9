"""Networks made from networks: transposed, with failures or slow links, with parallel links, bidirectional.

Every transform returns a new `Topology`, drops `Topology.expression`, keeps labels and hosts, and drops the
nominal degree where it changes degrees unevenly.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np

from tutti.topologies.assembly import check_size
from tutti.topologies.errors import Disconnected, InputError, listed
from tutti.topologies.exact import INT64_MAX, BoolArray, Int64Array, Rationals, frozen
from tutti.topologies.topology import Topology, components


def transpose(topology: Topology) -> Topology:
    """Return the network with every link turned round; link i stays link i.

    Switches that multicast then aggregate and vice versa, because a reversed copy is a sum. Transposing twice
    gives the network back (its name too). Source: dissertation, Theorem 1.

    Examples
    --------
    >>> from tutti.topologies.families.grids import uniring
    >>> transpose(uniring(3)).source.tolist()
    [1, 2, 0]
    """
    return replace(
        topology,
        name=_transposed_name(topology.name),
        source=topology.target,
        target=topology.source,
        multicast=topology.aggregate,
        aggregate=topology.multicast,
        expression=None,
    )


def _transposed_name(name: str) -> str:
    opening, closing = "transpose(", ")"
    if name.startswith(opening) and name.endswith(closing):
        return name[len(opening) : -len(closing)]
    return f"{opening}{name}{closing}"


def union_with_transpose(topology: Topology) -> Topology:
    """Return the union of the network and its transpose: of L links, link L + i is link i turned round.

    Degrees double, the nominal degree too; switches keep their abilities.

    Raises
    ------
    InputError
        If there would be too many links.
    """
    name = f"union({topology.name}, {_transposed_name(topology.name)})"
    check_size(name, topology.num_nodes, 2 * topology.num_links)
    twice = np.tile(np.arange(topology.num_links), 2)
    return replace(
        topology,
        name=name,
        source=np.concatenate([topology.source, topology.target]),
        target=np.concatenate([topology.target, topology.source]),
        bandwidth=topology.bandwidth.take(twice),
        alpha=topology.alpha.take(twice),
        nominal_degree=None if topology.nominal_degree is None else 2 * topology.nominal_degree,
        expression=None,
    )


def parallel_links(topology: Topology, factor: int) -> Topology:
    """Return the network with `factor` parallel links in place of each link.

    Link i becomes i·factor .. i·factor + factor - 1. Each has the bandwidth of the link that it copies;
    the nominal degree grows by `factor`.

    Raises
    ------
    InputError
        If `factor` is less than 1 or there would be too many links.
    """
    name = _with_key(topology.name, f"links={factor}")
    if factor < 1:
        raise InputError(f"topology {name}: {factor} parallel links; at least 1")
    check_size(name, topology.num_nodes, factor * topology.num_links)
    copies = np.repeat(np.arange(topology.num_links), factor)
    return replace(
        topology,
        name=name,
        source=topology.source[copies],
        target=topology.target[copies],
        bandwidth=topology.bandwidth.take(copies),
        alpha=topology.alpha.take(copies),
        nominal_degree=None if topology.nominal_degree is None else factor * topology.nominal_degree,
        expression=None,
    )


def drop_nodes(topology: Topology, nodes: Iterable[int]) -> Topology:
    """Return the network after these nodes failed, with all their links.

    The rest are renumbered from 0 in order; labels keep the old names. A switch that has no link left is
    removed too.

    Parameters
    ----------
    topology
        The network.
    nodes
        Node numbers, ranks or switches.

    Raises
    ------
    InputError
        If there is no such node, or what remains is not strongly connected.

    Examples
    --------
    >>> from tutti.topologies.families.grids import mesh
    >>> drop_nodes(mesh(2, 2), [1]).labels
    ('0', '2', '3')
    """
    gone = list(nodes)
    names = ",".join(topology.labels[node] for node in gone if 0 <= node < topology.num_nodes)
    return without(topology, nodes=gone, name=_with_key(topology.name, f"drop_nodes={names}"))


def drop_links(topology: Topology, pairs: Iterable[tuple[int, int]], *, both: bool = True) -> Topology:
    """Return the network after the links between these nodes failed, parallel ones included.

    Parameters
    ----------
    topology
        The network.
    pairs
        Node numbers (a, b).
    both
        Whether the links from b to a fail as well as those from a to b.

    Raises
    ------
    InputError
        If two nodes have no link, or what remains is not strongly connected.
    """
    ends = list(pairs)
    links = [link for a, b in ends for link in links_between(topology, a, b, both=both)]
    sign = "-" if both else ">"
    names = ",".join(f"{topology.labels[a]}{sign}{topology.labels[b]}" for a, b in ends)
    return without(topology, links=links, name=_with_key(topology.name, f"drop_links={names}"))


def keep_ranks(topology: Topology, ranks: Iterable[int]) -> Topology:
    """Return the network of these ranks and all switches; the other ranks are removed with their links.

    Raises
    ------
    InputError
        If there is no such rank, or what remains is not strongly connected.
    """
    kept = set(ranks)
    _check_nodes(topology, kept, topology.num_ranks, "rank")
    return drop_nodes(topology, [rank for rank in range(topology.num_ranks) if rank not in kept])


def ranks_beyond(topology: Topology, counts: Sequence[int]) -> list[int]:
    """Return the ranks to remove so that the first counts[b] of each box b remain.

    Raises
    ------
    InputError
        If the network has no boxes, another number of them, or fewer ranks in one.
    """
    where = f"topology {topology.name}"
    hosts = topology.hosts
    if hosts is None or (hosts[: topology.num_ranks] < 0).any():
        raise InputError(f"{where} has no boxes to count ranks in; use drop_nodes")
    box_of = hosts[: topology.num_ranks]
    boxes = [np.flatnonzero(box_of == host).tolist() for host in np.unique(box_of)]
    if len(counts) != len(boxes):
        example = "+".join(str(len(box)) for box in boxes)
        raise InputError(
            f"{where} has {len(boxes)} boxes, not {len(counts)}; give one number a box, e.g. {example}"
        )
    for number, (box, count) in enumerate(zip(boxes, counts, strict=True)):
        if not 1 <= count <= len(box):
            raise InputError(f"{where}: box {number} has {len(box)} ranks; keep 1 to {len(box)}, not {count}")
    return [rank for box, count in zip(boxes, counts, strict=True) for rank in box[count:]]


def links_between(topology: Topology, a: int, b: int, *, both: bool = True) -> list[int]:
    """Return the numbers of the links from node a to node b, and of those from b to a if `both`.

    Raises
    ------
    InputError
        If there is no such node or no such link.
    """
    _check_nodes(topology, (a, b), topology.num_nodes, "node")
    found = (topology.source == a) & (topology.target == b)
    if both:
        found |= (topology.source == b) & (topology.target == a)
    if not found.any():
        near = [topology.labels[node] for node in np.unique(topology.target[topology.source == a])]
        raise InputError(
            f"topology {topology.name} has no link {topology.labels[a]}->{topology.labels[b]}; "
            f"{topology.labels[a]} has links to {listed(near, 5)}"
        )
    return [int(link) for link in np.flatnonzero(found)]


def random_nodes(topology: Topology, count: int, seed: int, *, failed: Iterable[int] = ()) -> list[int]:
    """Return ranks and switches that fail at random, in addition to those that have failed.

    The same seed gives the same nodes, and a larger count includes the nodes of a smaller one.

    Parameters
    ----------
    topology
        The network.
    count, seed
        The number of nodes that fail, and the seed of numpy's generator.
    failed
        Nodes that have failed.

    Raises
    ------
    InputError
        If fewer than `count` nodes are left.
    """
    left = np.setdiff1d(np.arange(topology.num_nodes), list(failed))
    return [int(node) for node in _drawn(topology, "nodes", left, count, [seed, 0])]


def linked_pairs(topology: Topology) -> Int64Array:
    """Return the pairs of nodes that links join, in either direction: int64, shape (pairs, 2), in order."""
    ends = np.stack([topology.source, topology.target]).astype(np.int64)
    return np.unique(np.sort(ends, axis=0), axis=1).T


def adapters(topology: Topology) -> Int64Array:
    """Return the network adapters: the pairs of linked nodes that are not in the same host.

    They are int64, shape (pairs, 2), in order.

    Raises
    ------
    InputError
        If there are none.
    """
    pairs = linked_pairs(topology)
    hosts = topology.hosts
    leaves = np.zeros(len(pairs), bool) if hosts is None else hosts[pairs[:, 0]] != hosts[pairs[:, 1]]
    if not leaves.any():
        raise InputError(f"topology {topology.name} has no hosts with adapters to fail; links can")
    return pairs[leaves]


def random_links(
    topology: Topology,
    count: int,
    seed: int,
    *,
    pairs: Int64Array | None = None,
    nodes: Iterable[int] = (),
    links: Iterable[int] = (),
) -> list[int]:
    """Return the links between pairs of nodes that fail at random: both directions, parallel ones included.

    The same seed gives the same links, and a larger count includes the links of a smaller one.

    Parameters
    ----------
    topology
        The network.
    count, seed
        The number of pairs that fail, and the seed of numpy's generator.
    pairs
        The pairs that may fail; by default all linked pairs.
    nodes, links
        Those that have failed already; they are not drawn.

    Raises
    ------
    InputError
        If fewer than `count` pairs are left.
    """
    ends = np.stack([topology.source, topology.target]).astype(np.int64)
    pair = ends.min(axis=0) * topology.num_nodes + ends.max(axis=0)
    works = ~np.isin(ends, list(nodes)).any(axis=0)
    works &= ~np.isin(pair, pair[list(links)])
    if pairs is not None:
        works &= np.isin(pair, pairs[:, 0] * topology.num_nodes + pairs[:, 1])
    chosen = _drawn(topology, "pairs of linked nodes", np.unique(pair[works]), count, [seed, 1])
    return [int(link) for link in np.flatnonzero(np.isin(pair, chosen))]


def _drawn(topology: Topology, what: str, left: Int64Array, count: int, seed: list[int]) -> Int64Array:
    """Return `count` random entries of `left`."""
    if count > len(left):
        raise InputError(f"topology {topology.name}: {count} {what} can't fail; only {len(left)} are left")
    return np.random.default_rng(seed).permutation(left)[:count]


def degraded(topology: Topology, links: Iterable[int], factor: Fraction) -> Topology:
    """Return the network with the bandwidth of these links times a factor, exactly.

    Parameters
    ----------
    topology
        The network.
    links
        The numbers of the links.
    factor
        Above 0, at most 1.

    Raises
    ------
    InputError
        If the factor is out of range, or bandwidths do not fit 64 bits over their common denominator.
    """
    if not 0 < factor <= 1:
        raise InputError(f"topology {topology.name}: the factor {factor} must be above 0 and at most 1")
    speed = topology.bandwidth
    if int(speed.numerators.max()) * factor.denominator > INT64_MAX:
        raise InputError(f"topology {topology.name}: bandwidths times {factor} do not fit 64 bits")
    numerators = speed.numerators * factor.denominator
    slow = list(links)
    numerators[slow] = speed.numerators[slow] * factor.numerator
    slower = Rationals(frozen(numerators, np.int64), speed.denominator * factor.denominator).reduced
    return replace(topology, bandwidth=slower, expression=None)


def without(
    topology: Topology, *, nodes: Iterable[int] = (), links: Iterable[int] = (), name: str | None = None
) -> Topology:
    """Return the network without these nodes and links; it is checked after both are removed.

    Parameters
    ----------
    topology
        The network.
    nodes, links
        Their numbers.
    name
        The name of the result; by default that of the network.

    Raises
    ------
    InputError
        If there is no such node, or what remains is not strongly connected (naming the ranks cut off).
    """
    gone = list(nodes)
    _check_nodes(topology, gone, topology.num_nodes, "node")
    stays = np.ones(topology.num_nodes, dtype=bool)
    stays[gone] = False
    works = stays[topology.source] & stays[topology.target]
    works[list(links)] = False
    linked = np.zeros(topology.num_nodes, dtype=bool)
    linked[topology.source[works]] = True
    linked[topology.target[works]] = True
    stays[topology.num_ranks :] &= linked[topology.num_ranks :]
    changed = name or topology.name
    _, part = components(topology.num_nodes, topology.source[works], topology.target[works], strong=True)
    ranks = np.flatnonzero(stays[: topology.num_ranks])
    if len(ranks) < 2:
        raise InputError(f"topology {changed} has {len(ranks)} rank(s) left; a collective needs at least 2")
    largest = int(np.argmax(np.bincount(part[ranks])))
    cut_off = ranks[part[ranks] != largest]
    if len(cut_off):
        raise Disconnected(
            f"topology {changed} is not strongly connected: "
            f"cut off from the rest: {listed([topology.labels[rank] for rank in cut_off], 5)}"
        )
    return _restricted(topology, stays, works, changed)


def _restricted(topology: Topology, stays: BoolArray, works: BoolArray, name: str) -> Topology:
    number: Int64Array = np.cumsum(stays) - 1
    kept = np.flatnonzero(stays)

    def renumbered(nodes: frozenset[int]) -> frozenset[int]:
        return frozenset(int(number[node]) for node in nodes if stays[node])

    return Topology(
        name=name,
        num_ranks=int(stays[: topology.num_ranks].sum()),
        labels=tuple(topology.labels[node] for node in kept),
        source=number[topology.source[works]].astype(np.int32),
        target=number[topology.target[works]].astype(np.int32),
        bandwidth=topology.bandwidth.take(works),
        alpha=topology.alpha.take(works),
        multicast=renumbered(topology.multicast),
        aggregate=renumbered(topology.aggregate),
        hosts=None if topology.hosts is None else frozen(topology.hosts[kept], np.int32),
        nominal_degree=topology.nominal_degree if works.all() else None,
        notes=topology.notes,
        gamma=topology.gamma,
    )


def _check_nodes(topology: Topology, nodes: Iterable[int], count: int, what: str) -> None:
    for node in nodes:
        if not 0 <= node < count:
            raise InputError(f"topology {topology.name} has no {what} {node}; {what}s are 0..{count - 1}")


def _with_key(name: str, key: str) -> str:
    return f"{name}{'&' if '?' in name else '?'}{key}"


def among(topology: Topology, members: tuple[int, ...]) -> Topology:
    """Return the network whose ranks are `members`; all other nodes follow them as switches.

    Links keep their numbers.
    """
    if members == tuple(range(topology.num_ranks)):
        return topology
    others = np.setdiff1d(np.arange(topology.num_nodes), members)
    nodes = np.concatenate([np.array(members), others])
    place = np.empty(len(nodes), dtype=np.int32)
    place[nodes] = np.arange(len(nodes))
    return replace(
        topology,
        num_ranks=len(members),
        labels=tuple(topology.labels[node] for node in nodes),
        source=place[topology.source],
        target=place[topology.target],
        multicast=frozenset(place[sorted(topology.multicast)].tolist()),
        aggregate=frozenset(place[sorted(topology.aggregate)].tolist()),
        hosts=None if topology.hosts is None else frozen(topology.hosts[nodes], np.int32),
        expression=None,
    )


def only_among(topology: Topology, members: Sequence[int]) -> tuple[Topology, Int64Array]:
    """Return the network of these ranks, in order, and all switches, and the number that each link had.

    Raises
    ------
    InputError
        If it is not strongly connected.
    """
    mine = among(topology, tuple(members))
    others = np.setdiff1d(np.arange(topology.num_ranks), members)
    gone = np.isin(np.arange(topology.num_nodes), others)
    links = np.flatnonzero(~gone[topology.source] & ~gone[topology.target])
    # the other ranks stand behind the members, before the switches
    return without(mine, nodes=range(len(members), topology.num_ranks)), links


def aggregating(topology: Topology) -> Topology:
    """Return the network with switches that all multicast and add, as with SHARP in InfiniBand switches."""
    switches = frozenset(range(topology.num_ranks, topology.num_nodes))
    return replace(topology, multicast=switches, aggregate=switches)


def forwarding(topology: Topology) -> Topology:
    """Return the network with switches that only forward; none multicasts or adds."""
    return replace(topology, multicast=frozenset(), aggregate=frozenset())
