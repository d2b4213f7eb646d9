"""What SCCL asks about: chunks with their starts and ends, links with what they carry in a round."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from tutti.models.bounds import lower_bounds
from tutti.schedules.collective import EVERYONE, Collective, Kind
from tutti.schedules.compose import BY_ALLGATHER, from_allgather
from tutti.schedules.method import Problem
from tutti.schedules.reversal import reverse, useful_transfers
from tutti.schedules.schedule import Schedule
from tutti.topologies.errors import Unsupported
from tutti.topologies.exact import BoolArray, Int32Array, Int64Array, IntArray
from tutti.topologies.graphs.shortest_paths import hop_distances
from tutti.topologies.topology import Topology
from tutti.topologies.transforms import transpose

MOST_CHUNKS = 2**20
"""Most chunks of all items together: each is a variable a link and more."""


def by_copies(problem: Problem, make: Callable[[Problem], Schedule]) -> Schedule:
    """Return a schedule of any collective, given how to make one of a collective that does not combine."""
    if problem.collective.kind in BY_ALLGATHER:
        return from_allgather(problem, make)
    if problem.collective.kind is not Kind.REDUCE:
        return make(problem)
    turned = Problem(transpose(problem.topology), problem.collective.reverse, problem.size)
    return reverse(make(turned), problem.topology)


@dataclass(frozen=True, eq=False)
class ScclInstance:
    """A collective that does not combine, every item cut into C chunks, on a network without switches.

    Parameters
    ----------
    topology, collective
        The network and what to do on it.
    chunks
        C, of each item.
    method
        The one that asks, for messages.
    switches
        Whether it can do with switches; only `hops` and what follows from it can not.

    Raises
    ------
    Unsupported
        If there are switches (unless allowed) or items of several sizes; by `capacity`, if bandwidths are
        no multiples of the least one.
    """

    topology: Topology
    collective: Collective
    chunks: int
    method: str = "sccl"
    switches: bool = False

    def __post_init__(self) -> None:
        """Check that rounds can be counted."""
        name = self.topology.name
        if self.topology.num_switches and not self.switches:
            raise Unsupported(
                f"{self.method} needs a network without switches; {name} has {self.topology.num_switches}"
            )
        if not self.collective.items.share.uniform:
            raise Unsupported(f"{self.method} needs shards of one size, as it moves whole chunks")
        if self.chunks * len(self.collective.items.start) > MOST_CHUNKS:
            raise Unsupported(
                f"{self.method}: {self.chunks} chunks a shard are too many, over {MOST_CHUNKS} in all"
            )

    @cached_property
    def item(self) -> Int32Array:
        """int32, shape (moved,): the items that must go anywhere, C times each."""
        moved = np.flatnonzero((self.holders ^ self.wanters).any(axis=1) & self.wanters.any(axis=1))
        return np.repeat(moved, self.chunks).astype(np.int32)

    def rows_of(self, number: IntArray) -> Int32Array:
        """Return the rows of these chunks in a schedule's table, where those of an item stand together."""
        return (self.item[number] * self.chunks + number % self.chunks).astype(np.int32)

    @cached_property
    def holders(self) -> BoolArray:
        """Shape (items, nodes): who has each item before."""
        return self._ranks(self.collective.items.start)

    @cached_property
    def wanters(self) -> BoolArray:
        """Shape (items, nodes): who must have it after."""
        return self._ranks(self.collective.items.end)

    @cached_property
    def missing(self) -> BoolArray:
        """Shape (items, nodes): who must have each item after and has it not before."""
        missing: BoolArray = self.wanters & ~self.holders
        return missing

    def _ranks(self, ends: Int32Array) -> BoolArray:
        table = np.zeros((len(ends), self.topology.num_nodes), dtype=np.bool_)
        for row, (end, group) in enumerate(
            zip(ends.tolist(), self.collective.items.group.tolist(), strict=True)
        ):
            table[row, list(self.collective.members[group]) if end == EVERYONE else [end]] = True
        return table

    @cached_property
    def capacity(self) -> Int64Array:
        """int64, shape (links,): b, the chunks that a link carries in a round; 1 on the slowest."""
        speeds = self.topology.bandwidth.numerators
        if (speeds % speeds.min()).any():
            raise Unsupported(
                f"{self.method} needs bandwidths that are multiples of the least one; "
                f"{self.topology.name} has others"
            )
        return speeds // speeds.min()

    @cached_property
    def hops(self) -> Int32Array:
        """int32, shape (items, ranks): links from the nearest holder."""
        return self._nearest(hop_distances(self.topology), self.holders)

    @cached_property
    def hops_left(self) -> Int32Array:
        """int32, shape (items, ranks): links to the nearest rank that must have the item and does not yet."""
        return self._nearest(hop_distances(self.topology).T, self.missing)

    def _nearest(self, distance: Int32Array, chosen: BoolArray) -> Int32Array:
        far = np.iinfo(np.int32).max
        rows = [distance[row].min(axis=0) if row.any() else np.full(len(row), far) for row in chosen]
        return np.stack(rows).astype(np.int32)

    def useful(self, chunk: IntArray, source: IntArray, target: IntArray) -> BoolArray:
        """Return which transfers serve a postcondition, in order of time (`useful_transfers`).

        Parameters
        ----------
        chunk, source, target
            Shape (transfers,): what each moves (in `item`), from where and to where.
        """
        return useful_transfers(chunk, source, target, self.missing[self.item])

    @cached_property
    def least_steps(self) -> int:
        """The most hops that any item must make: no schedule has fewer steps."""
        return int(self.hops[self.wanters].max())

    @cached_property
    def least_rounds(self) -> int:
        """No schedule of so many chunks has fewer rounds, a round being a chunk on the slowest link."""
        share = self.collective.items.share[0] / self.chunks
        slowest = min(self.topology.bandwidth)
        bounds = [
            bound.value for bound in lower_bounds(self.topology, self.collective) if bound.unit == "s/B"
        ]
        return max(1, *(math.ceil(Fraction(value) * slowest / share) for value in bounds))
