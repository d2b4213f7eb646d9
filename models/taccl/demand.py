"""Chunks: where each starts, where it must end, which logical links may carry it, and which are symmetric.

Three rules leave out links for a chunk:

* The chunk-to-relay map (Listing 1): a chunk leaves the host in which it starts by its relay rank only. *
Shortest paths (section 5.1): a chunk passes only ranks that are on a shortest path, in links, from its start
  to one of its ends.
* No link leads back to the chunk's start, and none leaves an end behind which no other end lies.

The paper counts shortest paths in the logical topology. With a chunk-to-relay map the two rules contradict
each other wherever another sender is nearer to the end than the chunk's relay is. For example, in an
all-to-all with dgx2-sk-1 the data for rank 18 has to leave rank 0's host by rank 1, but the shortest path is
0 -> 3 -> 18. (An allgather never has this, as every rank is an end.) This is why the published sketch is
infeasible there. Here shortest paths are those that the map allows (``paths="sketch"``). ``"logical"`` is the
paper's rule, and ``"all"`` has no such rule.

Algorithm symmetry (section 3.3; eqs 12 to 14): permutations under which transfers are to be the same, each
with a partition of the ranks. A permutation p takes the datum of rank r to that of p(r), and the link (u, v)
to (p(u), p(v)). Sends within a subset of the partition are tied to their images; "sends between GPUs in
different NDv2s are not affected" (Example 3.4). So p must be an automorphism of the links within subsets:
each goes to a link of the same cost. Where a sketch has ``symmetry_offsets = [[o, g]]``, the subsets are the
groups of g ranks, as in the published code.

Without a sketch, the permutations are a group of automorphisms in which none but the identity fixes two
ranks, and all ranks are one subset. Then a chunk that is its own image can still reach every rank by one
link, for the in-link of (chunk, rank) is never asked to be two different links.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple

import numpy as np

from tutti.models.taccl.logical import LogicalTopology
from tutti.models.taccl.sketch import Sketch
from tutti.schedules.collective import EVERYONE, Collective
from tutti.schedules.schedule import Chunks
from tutti.topologies.errors import InputError, NoSchedule
from tutti.topologies.exact import BoolArray, Int32Array, Int64Array, IntArray
from tutti.topologies.graphs.free_action import grown_group
from tutti.topologies.graphs.symmetry import AutomorphismGroup, automorphisms
from tutti.topologies.topology import Topology


class Paths(StrEnum):
    """The ranks that a chunk may pass."""

    SKETCH = "sketch"
    """The ranks on shortest paths among the links that the relay map leaves the chunk."""

    LOGICAL = "logical"
    """The ranks on shortest paths of the logical topology, as in the paper."""

    ALL = "all"
    """All ranks."""


class PathRules(NamedTuple):
    """Rules on the links that may carry a chunk: the sketch with its relay map, and the ranks it may pass."""

    sketch: Sketch | None = None
    paths: Paths = Paths.SKETCH

    def relay(self, logical: LogicalTopology, start: int) -> int | None:
        """Return the rank by which a chunk must leave its host; None: any."""
        if self.sketch is None or self.sketch.relay_map is None:
            return None
        ranks = [rank for rank, host in enumerate(logical.host) if host == logical.host[start]]
        width, place = self.sketch.relay_map
        return ranks[ranks.index(start) // width * width + place]


class PartitionedPermutation(NamedTuple):
    """A permutation of the ranks, and a partition that it keeps: int64 (ranks,) each."""

    ranks: Int64Array
    """The image of each rank."""
    subset: Int64Array
    """The subset of the partition that each rank is in."""


class Symmetry(NamedTuple):
    """A permutation of chunks, links and ranks, int64, and the links that it ties to their images."""

    chunks: Int64Array
    links: Int64Array
    """The image of each link; -1 where that is no link."""
    ranks: Int64Array
    tied: BoolArray
    """Shape (links,): those within a subset of the partition."""


@dataclass(frozen=True, eq=False)
class ChunkDemand:
    """The chunks that are to be routed.

    Parameters
    ----------
    logical
        The links of the logical topology.
    chunks
        The chunk table of the schedule; `number` says which of its rows each chunk here is.
    number
        int64 (chunks,): those that some rank other than their start must get.
    start
        int64 (chunks,): the rank of each.
    ends
        The ranks that must get each; its start is none of them.
    allowed
        bool (chunks, links).
    bytes
        A chunk's size; exact.
    symmetry
        Permutations under which transfers are the same.
    """

    logical: LogicalTopology
    chunks: Chunks
    number: Int64Array
    start: Int64Array
    ends: tuple[tuple[int, ...], ...]
    allowed: BoolArray
    bytes: Fraction
    symmetry: tuple[Symmetry, ...] = ()

    def __len__(self) -> int:
        return len(self.start)

    @cached_property
    def first_equal(self) -> list[int]:
        """For each chunk the first one of its start and ends, which may use the same links."""
        first: dict[tuple[int, tuple[int, ...]], int] = {}
        pairs = zip(self.start.tolist(), self.ends, strict=True)
        return [first.setdefault(pair, c) for c, pair in enumerate(pairs)]


def demand_of(
    logical: LogicalTopology, what: Collective, chunks: Chunks, size: Fraction, rules: PathRules
) -> ChunkDemand:
    """Return what a collective that copies asks for.

    Parameters
    ----------
    logical
        The links.
    what, chunks
        The collective, whose items each start at one rank, and its equal chunks.
    size
        M, bytes.
    rules
        The rules by which links may carry a chunk.

    Raises
    ------
    NoSchedule
        If a chunk is cut off from an end, naming both.
    """
    items = what.items
    numbers, starts, ends, allowed = [], [], [], []
    cached: dict[tuple[int, tuple[int, ...]], BoolArray] = {}
    for number, item in enumerate(chunks.item.tolist()):
        start, end = int(items.start[item]), int(items.end[item])
        everyone = what.members[int(items.group[item])] if end == EVERYONE else (end,)
        there = tuple(rank for rank in everyone if rank != start)
        if not there:
            continue
        if (start, there) not in cached:
            cached[start, there] = _allowed(logical, start, there, rules)
            _check_reached(logical, rules, (number, start, there), cached[start, there])
        numbers.append(number)
        starts.append(start)
        ends.append(there)
        allowed.append(cached[start, there])
    return ChunkDemand(
        logical,
        chunks,
        np.array(numbers, np.int64),
        np.array(starts, np.int64),
        tuple(ends),
        np.array(allowed),
        size * int(chunks.size[0]) / chunks.denominator,
    )


def _allowed(logical: LogicalTopology, start: int, ends: tuple[int, ...], rules: PathRules) -> BoolArray:
    """Return which links may carry a chunk, bool (links,)."""
    links, far = logical.links, logical.topology.num_ranks
    mapped = logical.targets != start
    relay = rules.relay(logical, start)
    if relay is not None:
        host = logical.host
        leaves = [link.between and host[link.source] == host[start] for link in links]
        mapped &= ~np.array(leaves) | np.array([link.source == relay for link in links])
    if len(ends) == 1:
        mapped &= logical.sources != ends[0]
    if rules.paths == Paths.ALL:  # but of no rank that the chunk can't come to
        return mapped & (logical.hops_from(start, mapped) < far)[logical.sources]
    if relay is None or rules.paths == Paths.LOGICAL:
        hops = logical.hops
        there = [end for end in ends if hops[start, end] < far]
        via = hops[start][:, None] + hops[:, there] == hops[start, there]
        passed: BoolArray = np.asarray(via.any(axis=1))
    else:
        forth = logical.hops_from(start, mapped)
        passed = np.zeros(far, np.bool_)
        for end in ends:
            back = logical.hops_from(end, mapped, backwards=True)
            if forth[end] < far:
                passed |= forth + back == forth[end]
    return mapped & passed[logical.sources] & passed[logical.targets]


def _check_reached(
    logical: LogicalTopology, rules: PathRules, chunk: tuple[int, int, tuple[int, ...]], allowed: BoolArray
) -> None:
    """Raise `NoSchedule` if the rules cut a chunk (its number, start and ends) off from one of its ends."""
    number, start, ends = chunk
    relay = rules.relay(logical, start)
    if relay is None and (logical.hops[start, ends] < len(logical.hops)).all():
        return
    distance = logical.hops_from(start, allowed)
    for end in ends:
        if distance[end] == logical.topology.num_ranks:
            by = "" if relay is None else f"; chunk_to_relay_map sends it by rank {relay}"
            via = "" if rules.paths == Paths.ALL else f" within the ranks on shortest paths ({rules.paths})"
            raise NoSchedule(
                f"taccl: {logical.name} leaves chunk {number} no way from rank {start} to rank {end}{via}{by}"
            )


def image_of_chunks(demand: ChunkDemand, what: Collective, ranks: Int64Array) -> Int64Array | None:
    """Return where a permutation of the ranks takes each chunk; None if it is none of the collective.

    It is one if items go to items, groups to groups and the root to the root.
    """
    items, per_item = what.items, int((demand.chunks.item == 0).sum())
    place = {pair: item for item, pair in enumerate(_names(items.owner, items.dest))}
    dest = np.where(items.dest >= 0, ranks[items.dest], -1)
    images = [place.get(pair, -1) for pair in _names(ranks[items.owner], dest)]
    groups = {frozenset(members) for members in what.members}
    moved = {frozenset(ranks[list(members)].tolist()) for members in what.members}
    roots = {members[what.root] for members in what.members} if what.root is not None else set()
    if -1 in images or groups != moved or {int(ranks[root]) for root in roots} != roots:
        return None
    here = np.array(images)[demand.chunks.item[demand.number]] * per_item + demand.number % per_item
    back = np.full(len(demand.chunks), -1, np.int64)
    back[demand.number] = np.arange(len(demand))
    return back[here]


def _names(owner: IntArray, dest: IntArray) -> list[tuple[int, int]]:
    return list(zip(owner.tolist(), dest.tolist(), strict=True))


def with_symmetry(demand: ChunkDemand, what: Collective, sketch: Sketch | None = None) -> ChunkDemand:
    """Return the demand with the symmetry of the sketch or, without one, of the network.

    Of its permutations of the ranks, those are kept that the collective has as well.

    Raises
    ------
    InputError
        As `sketched_symmetry`.
    NoSchedule
        If a chunk may use a link and its image may not use the link's image, naming both.
    """
    logical, found = demand.logical, []
    if sketch is None:
        permutations = found_symmetry(logical.topology)
    else:
        permutations = sketched_symmetry(logical, sketch)
    for ranks, subset in permutations:
        chunks = image_of_chunks(demand, what, ranks)
        if chunks is None:
            continue
        links = logical.image_of_links(ranks)
        tied = subset[logical.sources] == subset[logical.targets]
        broken = np.argwhere(tied & (demand.allowed != demand.allowed[np.ix_(chunks, links)]))
        if len(broken):
            chunk, link = broken[0].tolist()
            raise NoSchedule(
                f"taccl: {logical.name}: its symmetry takes chunk {demand.number[chunk]} on link "
                f"{logical.link_name(link)} to chunk {demand.number[chunks[chunk]]} on "
                f"{logical.link_name(int(links[link]))}, and chunk_to_relay_map allows only one of them"
            )
        found.append(Symmetry(chunks, links, ranks, tied))
    return replace(demand, symmetry=tuple(found))


def sketched_symmetry(logical: LogicalTopology, sketch: Sketch) -> list[PartitionedPermutation]:
    """Return the rotations that a sketch asks for, each with its groups as the partition.

    Raises
    ------
    InputError
        If a group size does not divide the ranks, or a rotation is no automorphism of the links within
        groups, naming the first link that breaks it.
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
        rotation = PartitionedPermutation(image, ranks // size)
        _check(logical, rotation, f"{sketch.name}: symmetry_offsets [{offset}, {size}]")
        found.append(rotation)
    return found


def _check(logical: LogicalTopology, rotation: PartitionedPermutation, where: str) -> None:
    image, subset = rotation
    images = logical.image_of_links(image).tolist()
    for number in np.flatnonzero(subset[logical.sources] == subset[logical.targets]).tolist():
        other = images[number]
        if other < 0 or _cost(logical, other) != _cost(logical, number):
            what = "is no link" if other < 0 else "has another cost or policy"
            link, labels = logical.links[number], logical.topology.labels
            raise InputError(
                f"{where} is no automorphism: the image of link {logical.link_name(number)}, "
                f"{labels[image[link.source]]}->{labels[image[link.target]]}, {what}"
            )


def _cost(logical: LogicalTopology, number: int) -> tuple[object, ...]:
    link, where = logical.links[number], logical.topology
    route = tuple((where.bandwidth[port], where.alpha[port]) for port in link.lanes[0])
    return link.split, link.policy, len(link.lanes), route


def found_symmetry(topology: Topology) -> list[PartitionedPermutation]:
    """Return generators of a group of automorphisms, none but the identity fixing two ranks.

    All ranks are one subset. The group has as many elements as there are ranks at most: more would forbid
    more schedules and save little.
    """
    group = automorphisms(topology, 10**7)  # under a second
    kept, _ = grown_group(topology, _candidates(group), most_fixed=1)
    whole = np.zeros(topology.num_ranks, np.int64)
    rows = kept.nodes[:, : topology.num_ranks].astype(np.int64)
    return [PartitionedPermutation(row, whole) for row in rows]


def _candidates(group: AutomorphismGroup) -> Iterator[tuple[Int32Array, Int32Array]]:
    """Yield generators, then other elements where the group is small; first those that fix fewest ranks."""
    found = [(group.nodes, group.links)]
    elements = group.elements(512)
    if elements is not None:
        found.append(elements)
    for nodes, links in found:
        if len(nodes):
            ranks = group.topology.num_ranks
            fixed = (nodes[:, :ranks] == np.arange(ranks)).sum(axis=1)
            for i in np.argsort(fixed, kind="stable")[:64].tolist():
                if fixed[i] <= 1:
                    yield nodes[i], links[i]
