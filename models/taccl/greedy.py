"""A first routing: chunk after chunk along cheapest paths, where a link costs its latency and its load.

It gives the routing stage an incumbent and the upper bound U of its big-M. Images of a chunk under the
symmetry are routed with it. Then each chunk is taken out and routed again, for a few rounds.
"""

from __future__ import annotations

import heapq

import numpy as np

from models.taccl.costs import Costs, Use
from models.taccl.deadline import Deadline
from topologies.exact import BoolArray, FloatArray, Int64Array

NEVER = Deadline()
ROUNDS = 3
"""How often each chunk is routed again."""


def greedy_routing(costs: Costs, deadline: Deadline = NEVER) -> tuple[BoolArray, float] | None:
    """Return is_sent, bool (chunks, links), and its time; None if its symmetry contradicts it.

    Of a chunk that is its own image the tree may not be; that is the contradiction. After the deadline no
    chunk is routed again.
    """
    demand = costs.demand
    count = len(demand.logical.links)
    sent = np.zeros((len(demand), count), np.bool_)
    load = np.zeros(len(costs.ports))
    images = _images(costs)
    for turn in range(1 + ROUNDS):
        for c, copies in images:
            if turn and deadline.over:
                break
            if turn:
                _count(costs, load, sent, copies, -1.0)
            tree = _tree(costs, load, c)
            for chunk, links in copies:
                sent[chunk] = False
                sent[chunk, links[tree]] = True
            _count(costs, load, sent, copies, 1.0)
    if any((sent[np.ix_(chunks, links)] != sent).any() for chunks, links, _ in demand.symmetry):
        return None
    return sent, routed_time(costs, sent)


def routed_time(costs: Costs, sent: BoolArray) -> float:
    """Return the least time of a routing that the routing stage's constraints allow, in `Costs.unit`.

    That is the latest arrival, or more where the sends on a port that can't begin before some head, or whose
    chunks have some tail ahead of them, take longer (`models.taccl.routing_model`).
    """
    ends = enumerate(costs.demand.ends)
    latest = max(float(arrivals(costs, sent, c)[list(there)].max()) for c, there in ends)
    return max(latest, *(_port_time(costs, sent, port) for port in costs.uses))


def _port_time(costs: Costs, sent: BoolArray, port: dict[int, Use]) -> float:
    links, time = costs.demand.logical.links, 0.0
    sends = [(c, k, use) for k, use in port.items() for c in np.flatnonzero(sent[:, k]).tolist()]
    for free in (
        [(float(costs.head[c, links[k].source]) + use.enter, use.hold) for c, k, use in sends],
        [(float(costs.beyond[c, k]) + use.lag, use.hold) for c, k, use in sends],
    ):
        held = 0.0
        for apart, hold in sorted(free, reverse=True):
            held += hold
            time = max(time, apart + held)
    return time


def arrivals(costs: Costs, sent: BoolArray, c: int) -> FloatArray:
    """Return when each rank has chunk c if nothing waits, float64 (ranks,); inf where it never comes."""
    logical, used = costs.demand.logical, sent[c].tolist()
    arrival = [np.inf] * logical.topology.num_ranks
    arrival[costs.demand.start[c]] = 0.0
    queue = [int(costs.demand.start[c])]
    while queue:
        here = queue.pop()
        for k in logical.out_links[here]:
            there = logical.links[k].target
            if used[k] and arrival[there] == np.inf:
                arrival[there] = arrival[here] + costs.latency[k]
                queue.append(there)
    return np.array(arrival)


def _images(costs: Costs) -> list[tuple[int, list[tuple[int, Int64Array]]]]:
    """Return one chunk of each orbit with its images and the permutation of the links that leads there."""
    demand, seen = costs.demand, set()
    found = []
    for c in range(len(demand)):
        if c in seen:
            continue
        copies = [(c, np.arange(len(demand.logical.links)))]
        seen.add(c)
        for chunk, links in copies:
            for on_chunks, on_links, _ in demand.symmetry:
                image = int(on_chunks[chunk])
                if image not in seen:
                    seen.add(image)
                    copies.append((image, on_links[links]))
        found.append((c, copies))
    return found


def _count(
    costs: Costs, load: FloatArray, sent: BoolArray, copies: list[tuple[int, Int64Array]], sign: float
) -> None:
    for chunk, _ in copies:
        for k in np.flatnonzero(sent[chunk]).tolist():
            for port, hold in costs.ports_of[k]:
                load[port] += sign * hold


def _tree(costs: Costs, load: FloatArray, c: int) -> list[int]:
    """Return the links by which a chunk gets from its start to its ends."""
    busy = load.tolist()
    price = [
        costs.latency[k] + max([busy[port] + hold for port, hold in ports])
        for k, ports in enumerate(costs.ports_of)
    ]
    reached = {int(costs.demand.start[c]): 0.0}
    tree: list[int] = []
    for end in sorted(costs.demand.ends[c], key=lambda r: (costs.head[c, r], r)):
        if end not in reached:
            for k in _path(costs, price, c, reached, end):
                link = costs.demand.logical.links[k]
                reached[link.target] = reached[link.source] + costs.latency[k]
                price[k] = np.inf
                tree.append(k)
                for port, hold in costs.ports_of[k]:
                    for other in costs.ports[port]:
                        price[other] += hold
    return tree


def _path(costs: Costs, price: list[float], c: int, reached: dict[int, float], end: int) -> list[int]:
    """Return the cheapest way from the ranks that have the chunk to another."""
    logical, allowed = costs.demand.logical, costs.demand.allowed[c].tolist()
    least = dict(reached)
    by: dict[int, int] = {}
    queue = [(cost, rank) for rank, cost in reached.items()]
    heapq.heapify(queue)
    while queue:
        cost, here = heapq.heappop(queue)
        if here == end:
            break
        if cost > least[here]:
            continue
        for k in logical.out_links[here]:
            there = logical.links[k].target
            if allowed[k] and cost + price[k] < least.get(there, np.inf):
                least[there] = cost + price[k]
                by[there] = k
                heapq.heappush(queue, (least[there], there))
    path = []
    while end not in reached:
        path.append(by[end])
        end = logical.links[by[end]].source
    return path[::-1]
