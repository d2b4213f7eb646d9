"""Integers for a solver's doubles: lengths that prove a bound, a flow that conserves exactly, shares.

The solver need not be trusted: any lengths prove some bound (`models.all_to_all.certificate`), and any
flow is made to deliver what it must.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tutti.models.all_to_all.certificate import SourceFlow
from tutti.models.all_to_all.demand import Demand
from tutti.models.solvers.outcome import ROUNDING
from tutti.topologies.exact import INT64_MAX, FloatArray, Int64Array, IntArray
from tutti.topologies.graphs.shortest_paths import Adjacency, ShortestTree, shortest_tree
from tutti.topologies.kernels import kernel

FINE_LENGTH = 2**30
"""Largest length on a grid, which is as fine as the errors of a solver's duals. A larger value makes it
finer."""

ALIKE = 2**8
"""Ratio of bandwidths up to which the solver gets them as they are. A larger value gives solvers programs
whose numbers differ more."""

MOST_COMMON = 2**31
"""Largest common denominator of simple rationals that a solver's values may stand for. A larger value lets
more values count as rationals."""

PARTS = 2**4 * 3**3 * 5**2 * 7 * 11 * 13
"""Parts of the largest demand to which flows are rounded; many fractions are whole numbers of them. A larger
value makes rounding finer."""


def rational_lengths(values: FloatArray) -> list[Int64Array]:
    """Return integers in proportion to these values: simple ratios that are close to them, and fine ones.

    Parameters
    ----------
    values
        float64, shape (links,): a dual solution, none negative. All zero gives an empty list.
    """
    largest = float(values.max(initial=0.0))
    if not largest > 0 or not np.isfinite(values).all():
        return []
    ratios = values / largest
    grid = np.rint(ratios * min(FINE_LENGTH, INT64_MAX // 4 // len(values))).astype(np.int64)
    parts = common_parts(ratios)
    return [grid] if parts is None else [np.rint(ratios * parts).astype(np.int64), grid]


def common_parts(values: FloatArray) -> int | None:
    """Return the common denominator of the simple rationals that all these values are close to, or None.

    Examples
    --------
    >>> common_parts(np.array([0.5, 0.33333333, 2.0]))
    6
    """
    common = 1
    for value in np.unique(np.round(values, 7)).tolist():
        if abs(value * common - round(value * common)) <= ROUNDING * common:
            continue
        simple = Fraction(value).limit_denominator(1000)
        common = math.lcm(common, simple.denominator)
        if abs(value - simple) > ROUNDING or common > MOST_COMMON:
            return None
    return common


def exact_flow(demand: Demand, flows: FloatArray, parts: int = PARTS) -> SourceFlow:
    """Return a flow in whole multiples of the largest demand over `parts` that delivers the demands exactly.

    Flows are rounded and cycles cancelled. Then each source's flow is corrected from the sinks back: a node's
    needs, which are its demand and what it passes on, are split over its in-links as the rounded flow is. So
    where nodes have enough, no link gets more than it had. A node that the flow does not reach is served over
    a path with few links.

    Parameters
    ----------
    demand
        What is to be delivered.
    flows
        float64, shape (sources, links): a flow that nearly delivers it, in units of the largest demand.
    parts
        Parts of the largest demand; fewer are used where sums would not fit 64 bits.
    """
    topology, sources = demand.topology, demand.sources
    largest = int(demand.amounts.max())
    widest = int(topology.in_degrees.max())
    total = float(demand.amounts.sum()) + demand.denominator * topology.num_ranks
    # on the grid of 1/(denominator * factor) demands are whole, and so are multiples of largest / parts
    surplus = 100  # times what a source sends, on one link: (A.1) lets nodes keep what they need not have
    room = int(INT64_MAX // 4 / (total * widest * surplus))
    factor = max(1, min(parts // math.gcd(parts, largest), room))
    most = surplus * demand.amounts[sources].sum(axis=1, keepdims=True)
    weights = np.rint(np.minimum(flows * largest, most) * factor).astype(np.int64)
    needed = np.zeros((len(sources), topology.num_nodes), dtype=np.int64)
    needed[:, : topology.num_ranks] = demand.amounts[sources] * factor
    amounts = np.zeros_like(weights)
    deliver(Adjacency.of(topology), sources, weights, needed, amounts)
    return SourceFlow(demand, amounts, demand.denominator * factor)


@kernel
def deliver(
    graph: Adjacency, sources: Int64Array, weights: Int64Array, needed: Int64Array, amounts: Int64Array
) -> None:
    """Set `amounts` to flows that deliver `needed`, split as `weights`, which lose their cycles.

    All are of shape (sources, links), but `needed`, which is used up, (sources, nodes). Each source's amounts
    form no cycle.
    """
    num_nodes = len(graph.out_offsets) - 1
    order = np.empty(num_nodes, np.int64)
    distance, reached = np.empty(num_nodes, np.int64), np.empty(num_nodes, np.int32)
    last_link = np.empty(num_nodes, np.int32)
    tree, ones = ShortestTree(distance, last_link, reached), np.ones(len(graph.head), np.int64)
    for row in range(len(sources)):
        cancel_cycles(graph, weights[row], order)
        cut_short = False
        # without cycles, flow only leads to nodes earlier in `order`: a node's needs are complete when its
        # turn comes
        for node in order:
            if node == sources[row] or needed[row, node] == 0:
                continue
            if not _split(graph, node, weights[row], needed[row], amounts[row]):
                if not cut_short:
                    shortest_tree(graph, ones, sources[row], tree)
                cut_short = True
                amount, place = needed[row, node], node
                while place != sources[row]:
                    amounts[row, last_link[place]] += amount
                    place = graph.tail[last_link[place]]
        if cut_short:
            cancel_cycles(graph, amounts[row], order)


@kernel
def _split(graph: Adjacency, node: int, weights: Int64Array, needed: Int64Array, amounts: Int64Array) -> bool:
    """Add a node's needs to the tails of its in-links, in proportion to the weights; False if all are 0.

    Where the weights sum to the needs, they are the amounts.
    """
    in_links = graph.in_links[graph.in_offsets[node] : graph.in_offsets[node + 1]]
    total = 0
    for link in in_links:
        total += weights[link]
    if total == 0:
        return False
    need, seen, given = needed[node], 0, 0
    for link in in_links:
        # Amounts are differences of rounded prefix sums, so they add up to the need exactly.
        seen += weights[link]
        until = seen
        if total != need:
            until = need if seen == total else min(np.int64(need * (seen / total)), need)
        amounts[link] += until - given
        needed[graph.tail[link]] += until - given
        given = until
    return True


class _DepthFirst(NamedTuple):
    """A depth-first search: its stack, the link into each place; each node: 0 new, 1 on it, 2 done."""

    stack: Int64Array
    via: Int64Array
    state: npt.NDArray[np.int8]


@kernel
def cancel_cycles(graph: Adjacency, flow: Int64Array, order: Int64Array) -> None:
    """Take flow off cycles until none is left; then links with flow lead to earlier nodes of `order` only.

    A depth-first search keeps on its stack the nodes and the link into each. A link back to one of them
    closes a cycle, whose least flow is taken off it, and the search steps back to where the cycle broke.
    """
    num_nodes, head = len(graph.out_offsets) - 1, graph.head
    state = np.zeros(num_nodes, np.int8)
    position = graph.out_offsets[:-1].copy()
    stack = np.empty(num_nodes, np.int64)
    via = np.empty(num_nodes, np.int64)
    done = 0
    for root in range(num_nodes):
        depth = 0
        if state[root] == 0:
            stack[0], state[root], depth = root, 1, 1
        while depth > 0:
            node = stack[depth - 1]
            if position[node] == graph.out_offsets[node + 1]:
                state[node], order[done] = 2, node  # its flow leads to nodes that are done already
                done += 1
                depth -= 1
                continue
            link = graph.out_links[position[node]]
            if flow[link] <= 0 or state[head[link]] == 2:
                position[node] += 1
            elif state[head[link]] == 0:
                stack[depth], via[depth], state[head[link]] = head[link], link, 1
                depth += 1
            else:
                depth = _break_cycle(link, head[link], _DepthFirst(stack, via, state), depth, flow)


@kernel
def _break_cycle(link: int, node: int, search: _DepthFirst, depth: int, flow: Int64Array) -> int:
    """Take the least flow off the cycle that the link back to `node` closes; return the stack's new depth."""
    stack, via, state = search
    least, first = flow[link], depth - 1
    while stack[first] != node:
        least = min(least, flow[via[first]])
        first -= 1
    flow[link] -= least
    kept = depth
    for place in range(depth - 1, first, -1):
        flow[via[place]] -= least
        if flow[via[place]] == 0:
            kept = place
    state[stack[kept:depth]] = 0
    return kept


def rounded_shares(shares: FloatArray, owners: IntArray) -> Iterator[tuple[list[int], int]]:
    """Yield integers near `shares`, and their sum for each owner: simple fractions first, then fine ones.

    Parameters
    ----------
    shares
        float64, shape (columns,): nearly summing to 1 for each owner.
    owners
        int64, shape (columns,): the owner of each share.
    """
    given, fine = np.maximum(shares, 0.0).tolist(), 2**36
    exact = {share: Fraction(share).limit_denominator(10**4) for share in given}
    common = math.lcm(*{simple.denominator for simple in exact.values()})
    if common <= fine:
        yield _completed([int(exact[share] * common) for share in given], owners, common), common
    yield _completed([int(share * fine) for share in given], owners, fine), fine


def _completed(shares: list[int], owners: IntArray, denominator: int) -> list[int]:
    """Return the shares, with each owner's largest changed so that they add up to the denominator."""
    totals: dict[int, int] = {}
    largest: dict[int, int] = {}
    for index, owner in enumerate(owners.tolist()):
        totals[owner] = totals.get(owner, 0) + shares[index]
        if owner not in largest or shares[index] > shares[largest[owner]]:
            largest[owner] = index
    for owner, total in totals.items():
        shares[largest[owner]] += denominator - total
    return shares
