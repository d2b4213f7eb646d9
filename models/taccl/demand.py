"""Chunks: where each starts, where it must end, and which logical links may carry it.

Three rules leave out links for a chunk:

* the chunk-to-relay map (Listing 1): it leaves the node in which it starts by its relay rank only;
* shortest paths (section 5.1): it passes only ranks that are on a shortest path, in links, from its start to
  one of its ends;
* none leads back to its start, and none leaves an end behind which no other end lies.

The paper counts shortest paths in the logical topology. With a chunk-to-relay map the two rules contradict
each other wherever another sender is nearer to the end than the chunk's relay is: of an all-to-all with
dgx2-sk-1, what is for rank 18 has to leave rank 0's box by rank 1, while the shortest path is 0 -> 3 -> 18
(an allgather never has this, as every rank is an end). This is why the published sketch is infeasible there.
Here shortest paths are those that the map allows (``paths="sketch"``); ``"logical"`` is the paper's rule,
``"all"`` has none.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from fractions import Fraction

import numpy as np

from models.taccl.logical import LogicalTopology
from models.taccl.sketch import Sketch
from schedules.collective import EVERYONE, Collective
from schedules.schedule import Chunks
from topologies.errors import NoSchedule
from topologies.exact import BoolArray, Int64Array, IntArray


class Paths(StrEnum):
    """Which ranks a chunk may pass."""

    SKETCH = "sketch"
    """Those on shortest paths among the links that the relay map leaves it."""

    LOGICAL = "logical"
    """Those on shortest paths of the logical topology, as in the paper."""

    ALL = "all"
    """All."""


@dataclass(frozen=True, eq=False)
class Demand:
    """What is to be routed.

    Parameters
    ----------
    logical
        The links.
    chunks
        The chunk table of the schedule; `number` says which of its rows each chunk here is.
    number
        int64 (chunks,): those that have anywhere to go.
    start
        int64 (chunks,): the rank of each.
    ends
        The ranks that must get each; its start is none of them.
    allowed
        bool (chunks, links).
    bytes
        Of a chunk; exact.
    symmetry
        Permutations of the chunks, the links and the ranks, in triples.
    """

    logical: LogicalTopology
    chunks: Chunks
    number: Int64Array
    start: Int64Array
    ends: tuple[tuple[int, ...], ...]
    allowed: BoolArray
    bytes: Fraction
    symmetry: tuple[tuple[Int64Array, Int64Array, Int64Array], ...] = ()

    def __len__(self) -> int:
        return len(self.start)


def demand_of(
    logical: LogicalTopology,
    what: Collective,
    chunks: Chunks,
    size: Fraction,
    rules: tuple[Sketch | None, Paths],
) -> Demand:
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
        The sketch, if any, and which ranks a chunk may pass.

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
            _check_reached(logical, (number, start, there), cached[start, there], rules)
        numbers.append(number)
        starts.append(start)
        ends.append(there)
        allowed.append(cached[start, there])
    return Demand(
        logical,
        chunks,
        np.array(numbers, np.int64),
        np.array(starts, np.int64),
        tuple(ends),
        np.array(allowed),
        size * int(chunks.size[0]) / chunks.denominator,
    )


def _allowed(
    logical: LogicalTopology, start: int, ends: tuple[int, ...], rules: tuple[Sketch | None, Paths]
) -> BoolArray:
    """Return which links may carry a chunk, bool (links,)."""
    sketch, paths = rules
    links = logical.links
    mapped = logical.targets != start
    relay = relay_of(logical, sketch, start)
    if relay is not None:
        node = logical.node
        leaves = [link.between and node[link.source] == node[start] for link in links]
        mapped &= ~np.array(leaves) | np.array([link.source == relay for link in links])
    if len(ends) == 1:
        mapped &= logical.sources != ends[0]
    if paths == Paths.ALL:
        return mapped
    if relay is None or paths == Paths.LOGICAL:
        passed = _between(logical, start, ends)
    else:
        passed = _on_shortest_paths(logical, start, ends, mapped)
    return mapped & passed[logical.sources] & passed[logical.targets]


def relay_of(logical: LogicalTopology, sketch: Sketch | None, start: int) -> int | None:
    """Return the rank by which a chunk must leave its node; None: any."""
    if sketch is None or sketch.relay_map is None:
        return None
    ranks = [rank for rank, node in enumerate(logical.node) if node == logical.node[start]]
    width, place = sketch.relay_map
    return ranks[ranks.index(start) // width * width + place]


def _between(logical: LogicalTopology, start: int, ends: tuple[int, ...]) -> BoolArray:
    """Return the ranks on a shortest path from the start to an end, over any links, bool (ranks,).

    No shortest path goes back to its start or on from its end, so links that do are left in.
    """
    hops, far = logical.hops, logical.topology.num_ranks
    there = [end for end in ends if hops[start, end] < far]
    via = hops[start][:, None] + hops[:, there] == hops[start, there]
    passed: BoolArray = np.asarray(via.any(axis=1))
    return passed


def _on_shortest_paths(
    logical: LogicalTopology, start: int, ends: Iterable[int], within: BoolArray
) -> BoolArray:
    """Return the ranks on a shortest path from the start to an end, over the links `within`."""
    ranks = logical.topology.num_ranks
    forth = _hops(logical, start, within, backwards=False)
    passed = np.zeros(ranks, np.bool_)
    for end in ends:
        back = _hops(logical, end, within, backwards=True)
        if forth[end] < ranks:
            passed |= forth + back == forth[end]
    return passed


def _hops(logical: LogicalTopology, origin: int, within: BoolArray, *, backwards: bool) -> Int64Array:
    """Return how many links each rank is away; as many as there are ranks where it is out of reach."""
    ranks, usable = logical.topology.num_ranks, within.tolist()
    distance = [ranks] * ranks
    distance[origin] = 0
    queue = deque([origin])
    incident = logical.in_links if backwards else logical.out_links
    while queue:
        here = queue.popleft()
        for number in incident[here]:
            link = logical.links[number]
            there = link.source if backwards else link.target
            if usable[number] and distance[there] == ranks:
                distance[there] = distance[here] + 1
                queue.append(there)
    return np.array(distance)


def _check_reached(
    logical: LogicalTopology,
    chunk: tuple[int, int, tuple[int, ...]],
    allowed: BoolArray,
    rules: tuple[Sketch | None, Paths],
) -> None:
    """Raise `NoSchedule` if the rules cut a chunk off from one of its ends."""
    number, start, ends = chunk
    if relay_of(logical, rules[0], start) is None and (logical.hops[start, ends] < len(logical.hops)).all():
        return
    distance = _hops(logical, start, allowed, backwards=False)
    far = logical.topology.num_ranks
    for end in ends:
        if distance[end] == far:
            relay = relay_of(logical, rules[0], start)
            by = "" if relay is None else f"; chunk_to_relay_map sends it by rank {relay}"
            via = "" if rules[1] == Paths.ALL else f" within the ranks on shortest paths ({rules[1]})"
            raise NoSchedule(
                f"taccl: {logical.name} leaves chunk {number} no way from rank {start} to rank {end}{via}{by}"
            )


def image_of_chunks(demand: Demand, what: Collective, ranks: Int64Array) -> Int64Array | None:
    """Return where a permutation of the ranks takes each chunk; None if it is none of the collective."""
    items, per_item = what.items, _per_item(demand)
    place = {pair: item for item, pair in enumerate(_names(items.owner, items.dest))}
    dest = np.where(items.dest >= 0, ranks[items.dest], -1)
    images = [place.get(pair, -1) for pair in _names(ranks[items.owner], dest)]
    if -1 in images or not _keeps(what, ranks):
        return None
    here = np.array(images)[demand.chunks.item[demand.number]] * per_item + demand.number % per_item
    back = np.full(len(demand.chunks), -1, np.int64)
    back[demand.number] = np.arange(len(demand))
    return back[here]


def _names(owner: IntArray, dest: IntArray) -> list[tuple[int, int]]:
    return list(zip(owner.tolist(), dest.tolist(), strict=True))


def _keeps(what: Collective, ranks: Int64Array) -> bool:
    """Whether groups go to groups and the root to the root."""
    groups = {frozenset(members) for members in what.members}
    images = {frozenset(ranks[list(members)].tolist()) for members in what.members}
    roots = {members[what.root] for members in what.members} if what.root is not None else set()
    return groups == images and {int(ranks[root]) for root in roots} == roots


def _per_item(demand: Demand) -> int:
    return int((demand.chunks.item == 0).sum())


def with_symmetry(demand: Demand, what: Collective, permutations: Iterable[Int64Array]) -> Demand:
    """Return the demand with those permutations of the ranks that the collective has as well.

    Raises
    ------
    NoSchedule
        If a chunk may use a link and its image may not use the link's image, naming both.
    """
    logical, triples = demand.logical, []
    for ranks in permutations:
        chunks = image_of_chunks(demand, what, ranks)
        if chunks is None:
            continue
        links = np.array(
            [logical.number_of[int(ranks[k.source]), int(ranks[k.target])] for k in logical.links], np.int64
        )
        broken = np.argwhere(demand.allowed != demand.allowed[np.ix_(chunks, links)])
        if len(broken):
            chunk, link = broken[0].tolist()
            raise NoSchedule(
                f"taccl: {logical.name}: its symmetry takes chunk {demand.number[chunk]} on link "
                f"{logical.link_name(link)} to chunk {demand.number[chunks[chunk]]} on "
                f"{logical.link_name(int(links[link]))}, and chunk_to_relay_map allows only one of them"
            )
        triples.append((chunks, links, ranks))
    return replace(demand, symmetry=tuple(triples))
