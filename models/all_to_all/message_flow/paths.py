"""The paths of a flow through messages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from tutti.models.all_to_all.message_flow.program import FlowProgram, Order, Timed
from tutti.models.solvers.outcome import TOLERANCE
from tutti.topologies.exact import FloatArray

Hop = tuple[int, int]
"""A message and a link."""


class Path(NamedTuple):
    """The part of a pair's shard that takes some hops."""

    source: int
    target: int
    share: float
    hops: list[Hop]


class _Flow(NamedTuple):
    """What is left of a rank's data, parts of shards, shape (messages, links); and the links into nodes.

    Messages have their start and end, as events; `latest` has them all, the last to end first.
    """

    start: list[int]
    end: list[int]
    latest: list[int]
    left: FloatArray
    into: list[list[int]]
    tail: list[int]


def paths(program: FlowProgram, order: Order, timed: Timed, source: int) -> Iterator[Path]:
    """Yield paths of all data of a rank.

    They are found from their ends, at each node over what came last of what is left: so what leaves it
    earlier still finds what came earlier.
    """
    topology = program.topology
    left = np.zeros((len(order.kind), topology.num_links))
    for message, (kind, flow) in enumerate(zip(order.kind.tolist(), timed.flow, strict=True)):
        taken = np.flatnonzero((program.kind == kind) & (program.pair[source] >= 0))
        left[message, taken] = flow[np.searchsorted(program.ends[kind].pairs, program.pair[source, taken])]
    into = [np.flatnonzero(topology.target == node).tolist() for node in range(topology.num_nodes)]
    latest = np.argsort(-order.end).tolist()
    flow_left = _Flow(order.start.tolist(), order.end.tolist(), latest, left, into, topology.source.tolist())
    for target in range(topology.num_ranks):
        needed = float(target != source)
        while needed > TOLERANCE:
            hops = _back(flow_left, source, target)
            if not hops:
                break
            way = tuple(np.array(hops).T)
            share = min(needed, float(left[way].min()))
            left[way] -= share
            needed -= share
            tails = [flow_left.tail[link] for _, link in hops]
            yield Path(source, target, share, _straight(hops, tails, target))


def _back(flow: _Flow, source: int, node: int) -> list[Hop]:
    """Return messages and links of a path on which something is left; none if there is no path."""
    hops: list[Hop] = []
    until = 2 * len(flow.end)
    while node != source:
        came = (
            (message, link)
            for message in flow.latest
            if flow.end[message] < until
            for link in flow.into[node]
        )
        hop = next((hop for hop in came if flow.left[hop] > TOLERANCE), None)
        if hop is None:
            return []
        hops.append(hop)
        node, until = flow.tail[hop[1]], flow.start[hop[0]]
    return hops[::-1]


def _straight(hops: Sequence[Hop], tails: Sequence[int], target: int) -> list[Hop]:
    """Return hops without those that lead back to where data were before: they wait there instead."""
    end = tails.index(target) if target in tails else len(hops)
    kept, place = list[Hop](), 0
    while place < end:
        place = max(later for later in range(place, end) if tails[later] == tails[place])
        kept.append(hops[place])
        place += 1
    return kept
