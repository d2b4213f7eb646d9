"""The soonest end of an all-to-all whose messages start and end in a given order: a linear program.

Links of a class send a few messages, one after the other, all at the same times. Once the order of all starts
and ends is given, times and flows are linear. Of the data of rank r, w(r, v, k) waits at node v after the
k-th start there, and f(r, e, m) goes over link e in message m:

    minimise T, the time of the last event.
    t(1) <= t(2) <= ...                                                                   For all events.
    t(end of m) >= t(start of m) + α + sum over r of f(r, e, m) / b                       For each message m.
    w(r, v, k) = w(r, v, k - 1) + what ended at v since start k - 1, less what starts there at k.
    A shard of r is at each v in the end.

Pairs of a rank and a node, or a link, that symmetries take to each other have one variable. No link is taken
that leads nearer to r.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from tutti.models.solvers import CompiledModel, HighsOptions, SolutionStatus, solve
from tutti.models.solvers.options import LEAST_SECONDS
from tutti.topologies.exact import BoolArray, FloatArray, Int32Array, Int64Array, offsets_of
from tutti.topologies.graphs.shortest_paths import hop_distances
from tutti.topologies.graphs.symmetry import orbits_of
from tutti.topologies.topology import Topology


class MessageOrder(NamedTuple):
    """Messages in the order of their starts.

    Parameters
    ----------
    kind
        int64, shape (messages,): the class of links of each.
    start, end
        int64, shape (messages,): its number among all events.
    """

    kind: Int64Array
    start: Int64Array
    end: Int64Array

    @classmethod
    def of(cls, events: Sequence[int]) -> MessageOrder:
        """Return the order of events, given as classes: each event starts or ends a message of its class.

        Examples
        --------
        >>> MessageOrder.of([0, 1, 0, 1]).end.tolist()
        [2, 3]
        """
        kinds = np.asarray(events, dtype=np.int64)
        by_kind = np.argsort(kinds, kind="stable")
        start, end = by_kind[::2], by_kind[1::2]
        first = np.argsort(start)
        return cls(kinds[start[first]], start[first], end[first])

    @property
    def before(self) -> Int64Array:
        """int64, shape (messages,): the number of messages that start before each ends."""
        return np.searchsorted(self.start, self.end)


class TimedFlow(NamedTuple):
    """A solution: the seconds of all events; and of each message the parts of shards in it, for each pair."""

    time: FloatArray
    flow: list[FloatArray]


class Ends(NamedTuple):
    """The pairs of a rank and a link, of a class of links.

    Parameters
    ----------
    pairs
        int64, shape (pairs,).
    often
        The number of ranks that have each on one link.
    enter, leave
        int64, shape (2, ...): balances at the links' ends, and where in `pairs` what enters or leaves is.
    """

    pairs: Int64Array
    often: Int64Array
    enter: Int64Array
    leave: Int64Array


@dataclass(frozen=True, eq=False)
class MessageFlowProgram:
    """The parts that the programs of all orders have in common.

    Parameters
    ----------
    topology
        The network, without switches.
    nodes, links
        int32, shapes (elements, nodes) and (elements, links): symmetries.
    shard
        The bytes that each rank has for each other.
    """

    topology: Topology
    nodes: Int32Array
    links: Int32Array
    shard: float

    @cached_property
    def sources(self) -> dict[int, Int64Array]:
        """A rank of each orbit, and symmetries that take it to each of the orbit, one each."""
        orbit = self.nodes[:, : self.topology.num_ranks].min(axis=0)
        return {
            source: np.unique(self.nodes[:, source], return_index=True)[1]
            for source in np.unique(orbit).tolist()
        }

    @cached_property
    def far(self) -> Int32Array:
        """Hops from each rank to each."""
        return hop_distances(self.topology)

    @property
    def width(self) -> int:
        """The network's diameter, in hops."""
        return int(self.far.max())

    @cached_property
    def kind(self) -> Int32Array:
        """int32, shape (links,): classes of links."""
        orbits = orbits_of(self.links, self.topology.num_links)
        return np.unique(orbits, return_inverse=True)[1].astype(np.int32)

    @cached_property
    def examples(self) -> Int64Array:
        """int64, shape (classes,): a link of each class."""
        return np.unique(self.kind, return_index=True)[1]

    @cached_property
    def alpha(self) -> FloatArray:
        """The α of each class, in seconds."""
        return self.topology.alpha.floats[self.examples]

    @cached_property
    def lasts(self) -> FloatArray:
        """For how many seconds a shard holds a link of each class, without α."""
        return self.shard / self.topology.bandwidth.floats[self.examples]

    @cached_property
    def pair(self) -> Int64Array:
        """int64, shape (ranks, links): equal for pairs that symmetries take to each other; -1: not taken."""
        topology, ranks, far = self.topology, self.topology.num_ranks, self.far
        maps = self.nodes[:, :ranks, None] * np.int64(topology.num_links) + self.links[:, None, :]
        orbit = orbits_of(maps.reshape(len(maps), -1), ranks * topology.num_links).reshape(ranks, -1)
        taken = far[:, topology.target] >= np.maximum(far[:, topology.source], 1)
        numbers = np.full(orbit.shape, -1, dtype=np.int64)
        numbers[taken] = np.unique(orbit[taken], return_inverse=True)[1]
        return numbers

    @cached_property
    def balances(self) -> Int64Array:
        """int64, shape (2, balances): a rank and another node, one pair of each orbit."""
        ranks = self.topology.num_ranks
        maps = self.nodes[:, :ranks, None] * np.int64(ranks) + self.nodes[:, None, :ranks]
        rank, node = np.divmod(np.unique(orbits_of(maps.reshape(len(maps), -1), ranks**2)), ranks)
        return np.stack([rank, node])[:, rank != node]

    @cached_property
    def ends(self) -> list[Ends]:
        """The pairs of a rank and a link, of each class of links."""
        rank, node = self.balances
        found = []
        for kind, example in enumerate(self.examples.tolist()):
            pairs, often = np.unique(self.pair[:, example], return_counts=True)
            pairs, often = pairs[pairs >= 0], often[pairs >= 0]
            links, sides = np.flatnonzero(self.kind == kind), []
            for side in (self.topology.target, self.topology.source):
                balance, link = np.nonzero(side[links] == node[:, None])
                here = self.pair[rank[balance], links[link]]
                sides.append(np.stack([balance[here >= 0], np.searchsorted(pairs, here[here >= 0])]))
            found.append(Ends(pairs, often, *sides))
        return found

    @cached_property
    def leaves(self) -> BoolArray:
        """bool, shape (balances, classes): whether a link of a class takes data on from that node."""
        found = np.zeros((self.balances.shape[1], len(self.ends)), dtype=np.bool_)
        for kind, ends in enumerate(self.ends):
            found[ends.leave[0], kind] = True
        return found

    @cached_property
    def apart(self) -> Int64Array:
        """int64, shape (2, classes): a link's distance from the ranks whose data it alone brings to its head.

        The second row is the distance from its head to the ranks whose data only it takes from its tail. Only
        shortest paths count.
        """
        source, target = self.topology.source, self.topology.target
        sides = (self.far, source, target), (self.far.T, target, source)
        return np.array([[_alone(*side, link) for link in self.examples] for side in sides])

    def in_steps(self, steps: int, more: int | None = None) -> list[int]:
        """Return the events of steps, in each of which every link sends a message.

        Parameters
        ----------
        steps
            The number of steps.
        more
            If not None, a link's first message is as many steps long as data from the farthest rank take to
            come (`apart`), and this many more. Its last message is so likewise.
        """
        first, last = np.ones_like(self.apart) if more is None else np.clip(self.apart + more, 1, steps)
        events = []
        for kind, (begin, end) in enumerate(zip(first.tolist(), (steps - last).tolist(), strict=True)):
            for start, stop in pairwise(sorted({0, *range(begin, end + 1), steps})):
                events += [(start, True, kind), (stop, False, kind)]
        return [kind for _, _, kind in sorted(events)]

    def columns(self, steps: int) -> int:
        """Return the number of columns of a program with this many steps, without those of times."""
        return steps * (int(self.leaves.sum()) + sum(len(ends.pairs) for ends in self.ends))

    def solved(self, events: Sequence[int], seconds: float, *, few: bool = True) -> TimedFlow | None:
        """Return a solution that ends soonest for an order of events; None if none is found in time.

        Parameters
        ----------
        events
            As `MessageOrder.of` takes them.
        seconds
            Time limit of the solver.
        few
            Whether data should take few paths. If not, large programs are solved sooner.
        """
        order = MessageOrder.of(events)
        model = self._model(order)
        limit = max(seconds, LEAST_SECONDS)
        options = HighsOptions(method="simplex", time_limit=limit)
        if len(model.cost) > 2**13:  # then an interior-point method is faster
            options = HighsOptions(method="ipm", crossover=few, time_limit=limit)
        result = solve(model, "highs", options)
        if result.status is not SolutionStatus.OPTIMAL or result.values is None:
            return None
        upto = np.cumsum([len(self.ends[kind].pairs) for kind in order.kind.tolist()])
        flow = np.split(result.values[len(result.values) - upto[-1] :], upto[:-1])
        return TimedFlow(result.values[: len(events)] * self._unit, flow)

    @property
    def _unit(self) -> float:
        """The unit of time in the programs, in seconds."""
        return float(self.alpha.max() + self.lasts.max())

    def _model(self, order: MessageOrder) -> CompiledModel:
        """Return the program: columns are times, what waits, and the flows of one message after the other."""
        from scipy.sparse import coo_array

        messages, leaves = len(order.kind), self.leaves[:, order.kind]
        events, parts = 2 * messages, list[tuple[Int64Array, Int64Array, FloatArray]]()

        def add(row: Int64Array, column: Int64Array, value: float | FloatArray) -> None:
            parts.append((row, column, np.broadcast_to(np.asarray(value, np.float64), row.shape)))

        later, lasting = np.arange(events - 1), events - 1 + np.arange(messages)
        add(later, later + 1, 1)
        add(later, later, -1)
        add(lasting, order.end, 1)
        add(lasting, order.start, -1)
        turn = np.pad(np.cumsum(leaves, axis=1), ((0, 0), (1, 0)))
        turns = turn[:, -1]
        first = events - 1 + messages + offsets_of(turns + 1)
        waits = np.arange(turns.sum())
        balance = waits + np.repeat(first[:-1] - offsets_of(turns)[:-1], turns)
        add(balance, events + waits, -1)
        add(balance + 1, events + waits, 1)
        columns = events + len(waits)
        for number, (kind, before) in enumerate(zip(order.kind.tolist(), order.before.tolist(), strict=True)):
            ends = self.ends[kind]
            flow = columns + np.arange(len(ends.pairs))
            add(np.full(len(flow), lasting[number]), flow, -self.lasts[kind] / self._unit * ends.often)
            (enters, entering), (goes, going) = ends.enter, ends.leave
            add(first[enters] + turn[enters, before], flow[entering], 1)
            add(first[goes] + turn[goes, number], flow[going], -1)
            columns += len(flow)
        row, column, value = (np.concatenate(part) for part in zip(*parts, strict=True))
        low, high = np.zeros((2, int(first[-1])))
        high[: events - 1 + messages] = np.inf
        low[lasting] = self.alpha[order.kind] / self._unit
        low[first[1:] - 1] = high[first[1:] - 1] = 1
        cost = np.zeros(columns)
        cost[events - 1] = 1
        matrix = coo_array((value, (row, column)), (len(low), columns)).tocsr()
        return CompiledModel.of_matrix("windowed_mcf", matrix, cost, low, high)


def _alone(far: Int32Array, tails: Int32Array, heads: Int32Array, link: int) -> int:
    """Return the largest distance to a tail from ranks whose shortest paths to the head all go through it."""
    tail, head = tails[link], heads[link]
    before = np.unique(tails[heads == head])
    on_time = far[:, before] + 1 == far[:, [head]]
    alone = on_time[:, before == tail].ravel() & (on_time.sum(axis=1) == 1)
    return int(far[alone, tail].max())
