"""Cheap trees: every rank gets the data once, in an epoch after the one in which its parent got it.

A tree is given by the parent of each rank (-1: the root) and the epoch in which it sends (-1 at the root).
The price of a tree is the sum of prices[parent, rank, epoch]. Trees are begun by inserting the nearest rank
and the path to it, one after the other (Takahashi, Matsuyama, Mathematica Japonica 1980, over ranks and
epochs). They are improved by moving one branch at a time to its best parent, with the best epochs within it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tutti.topologies.exact import BoolArray, FloatArray, Int64Array
from tutti.topologies.kernels import kernel


@kernel
def new_trees(
    prices: FloatArray, root: int, count: int, spread: float, rng: np.random.Generator
) -> tuple[Int64Array, Int64Array, FloatArray]:
    """Return `count` trees from a root: parents, epochs (count, N) and prices, infinite where none is found.

    They are begun with prices times e to the `spread` times normal numbers, and improved with the true ones.
    """
    ranks, edges = len(prices), _edges(prices)
    parent, epoch = np.full((count, ranks), -2), np.full((count, ranks), -1)
    cost = np.full(count, np.inf)
    for tree in range(count):
        noisy = prices * np.exp(spread * rng.standard_normal(prices.shape))
        if _inserted(PricedEdges(noisy, edges.begin, edges.sender), root, parent[tree], epoch[tree]):
            cost[tree] = _improve(edges, parent[tree], epoch[tree], rng)
    return parent, epoch, cost


@kernel
def improve_all(
    prices: FloatArray, parent: Int64Array, epoch: Int64Array, rng: np.random.Generator
) -> FloatArray:
    """Improve trees in place, shape (trees, N), and return their prices."""
    cost, edges = np.empty(len(parent)), _edges(prices)
    for tree in range(len(parent)):
        cost[tree] = _improve(edges, parent[tree], epoch[tree], rng)
    return cost


class PricedEdges(NamedTuple):
    """Prices, and the possible senders to each rank r, in order: sender[begin[r] : begin[r + 1]]."""

    prices: FloatArray
    begin: Int64Array
    sender: Int64Array


@kernel
def _edges(prices: FloatArray) -> PricedEdges:
    """Return the edges at which there is some price."""
    ranks = len(prices)
    begin, sender = np.zeros(ranks + 1, np.int64), np.empty(ranks * ranks, np.int64)
    for rank in range(ranks):
        begin[rank + 1] = begin[rank]
        for other in range(ranks):
            if prices[other, rank].min() < np.inf:
                sender[begin[rank + 1]] = other
                begin[rank + 1] += 1
    return PricedEdges(prices, begin, sender)


@kernel
def _improve(edges: PricedEdges, parent: Int64Array, epoch: Int64Array, rng: np.random.Generator) -> float:
    """Move branches as long as one gets cheaper; return the tree's price.

    Invariant: each rank sends in later epochs than the one in which it gets the data.
    """
    prices = edges.prices
    ranks, epochs = len(prices), prices.shape[2]
    below, choice = np.zeros((ranks, epochs)), np.zeros((ranks, epochs), np.int64)
    branch, inside = np.empty(ranks, np.int64), np.zeros(ranks, np.bool_)
    changed = True
    while changed:
        changed = False
        for rank in rng.permutation(ranks):
            if parent[rank] >= 0:
                size = _branch(rank, parent, epoch, branch, inside)
                _price_branch(prices, parent, branch[:size], below, choice)
                changed |= _move(rank, edges, (parent, epoch), below, inside)
                # The ranks below follow with the epochs that are cheapest after their new parent's.
                for other in branch[1:size]:
                    epoch[other] = choice[other, epoch[parent[other]]]
    cost = 0.0
    for rank in range(ranks):
        if parent[rank] >= 0:
            cost += prices[parent[rank], rank, epoch[rank]]
    return cost


@kernel
def _branch(rank: int, parent: Int64Array, epoch: Int64Array, branch: Int64Array, inside: BoolArray) -> int:
    """Write a rank and all below it, in the order in which they get the data; return their number."""
    size = 0
    for start in range(len(parent)):
        other = start
        while other != rank and parent[other] >= 0:
            other = parent[other]
        inside[start] = other == rank
        if inside[start]:
            place = size
            while place > 0 and epoch[branch[place - 1]] > epoch[start]:
                branch[place] = branch[place - 1]
                place -= 1
            branch[place] = start
            size += 1
    return size


@kernel
def _price_branch(
    prices: FloatArray, parent: Int64Array, branch: Int64Array, below: FloatArray, choice: Int64Array
) -> None:
    """Write to below[r, k] the least price of all under r if it gets the data in epoch k; `choice`: when."""
    for rank in branch:
        below[rank] = 0.0
    for place in range(len(branch) - 1, 0, -1):
        rank = branch[place]
        least, when = np.inf, -1
        for epoch in range(below.shape[1] - 1, -1, -1):
            below[parent[rank], epoch] += least
            choice[rank, epoch] = when
            price = prices[parent[rank], rank, epoch] + below[rank, epoch]
            if price < least:
                least, when = price, epoch


@kernel
def _move(rank: int, edges: PricedEdges, tree: Any, below: FloatArray, inside: BoolArray) -> bool:
    """Move a branch of a tree to its best parent and epochs; return whether it became cheaper."""
    (parent, epoch), prices = tree, edges.prices
    least = prices[parent[rank], rank, epoch[rank]] + below[rank, epoch[rank]]
    least -= 1e-12 * abs(least)  # a smaller gain is rounding
    moved = False
    for other in edges.sender[edges.begin[rank] : edges.begin[rank + 1]]:
        if inside[other]:
            continue
        for when in range(epoch[other] + 1, prices.shape[2]):
            price = prices[other, rank, when] + below[rank, when]
            if price < least:
                least, moved = price, True
                parent[rank], epoch[rank] = other, when
    return moved


@kernel
def _inserted(edges: PricedEdges, root: int, parent: Int64Array, epoch: Int64Array) -> bool:
    """Grow a tree by the nearest rank and all on the path to it; return whether it spans."""
    prices = edges.prices
    ranks = len(prices)
    parent[root] = -1
    far, via = np.empty(prices.shape[1:]), np.empty(prices.shape[1:], np.int64)
    for _ in range(ranks):
        _distances(edges, (parent, epoch), far, via)
        nearest = -1
        for rank in range(ranks):
            if parent[rank] == -2 and (nearest < 0 or far[rank, -1] < far[nearest, -1]):
                nearest = rank
        if nearest < 0:
            return True
        if far[nearest, -1] == np.inf:
            return False
        rank, when = nearest, prices.shape[2] - 1
        # From the nearest rank back to the tree; each rank on the way gets the data in an earlier epoch.
        while parent[rank] == -2:
            while via[rank, when] < 0:
                when -= 1
            parent[rank], epoch[rank] = via[rank, when], when
            rank, when = parent[rank], when - 1
    return True


@kernel
def _distances(edges: PricedEdges, tree: Any, far: FloatArray, via: Int64Array) -> None:
    """Write to far[r, k] the least price for r to have the data after epoch k; to via[r, k], its sender."""
    (parent, epoch), prices = tree, edges.prices
    ranks = len(prices)
    for when in range(prices.shape[2]):
        for rank in range(ranks):
            far[rank, when], via[rank, when] = np.inf, -1
            if parent[rank] > -2:
                if when >= epoch[rank]:
                    far[rank, when] = 0.0
                continue
            # Data that is there after an epoch is there after the next one.
            if when > 0:
                far[rank, when] = far[rank, when - 1]
            for other in edges.sender[edges.begin[rank] : edges.begin[rank + 1]]:
                if when > 0:
                    price = far[other, when - 1] + prices[other, rank, when]
                elif parent[other] == -1:
                    price = prices[other, rank, when]
                else:
                    price = np.inf
                if price < far[rank, when]:
                    far[rank, when], via[rank, when] = price, other
