"""Demands of a multi-commodity flow: what every rank has to send to every other, exactly.

d[s, t] is what rank s sends to rank t in units of M. In the all-to-all of dissertation A.1.5 every pair has
the same; here each may have its own, so all-to-all over groups or with uneven shards, scatter and gather are
demands too.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from tutti.schedules.collective import EVERYONE, Collective
from tutti.topologies.errors import InputError
from tutti.topologies.exact import INT64_MAX, Int64Array, frozen
from tutti.topologies.topology import Topology
from tutti.topologies.transforms import transpose


@dataclass(frozen=True, eq=False)
class Demand:
    """Demands between the ranks of a network, exact: ``amounts / denominator``, in units of M.

    Parameters
    ----------
    topology
        The network. Its ranks all reach each other, so no demand is without a path.
    amounts
        int64, shape (N, N): numerators; row s is what rank s sends. The diagonal is zero.
    denominator
        Positive.

    Raises
    ------
    InputError
        If the shape is wrong, an entry is negative (naming the pair), a rank has a demand on itself, or the
        total does not fit 64 bits.
    """

    topology: Topology
    amounts: Int64Array
    denominator: int

    def __post_init__(self) -> None:
        """Freeze and check the matrix."""
        object.__setattr__(self, "amounts", frozen(self.amounts, np.int64))
        _check(self)

    @classmethod
    def of(cls, topology: Topology, collective: Collective) -> Demand:
        """Return the demands of an all-to-all, scatter or gather, over any groups and shards.

        Raises
        ------
        InputError
            If an item starts or ends at several ranks, or the network has another number of ranks.
        """
        if collective.num_ranks != topology.num_ranks:
            raise InputError(
                f"{collective.kind} over {collective.num_ranks} ranks on {topology.name}, "
                f"which has {topology.num_ranks} ranks"
            )
        items = collective.items
        if (items.start == EVERYONE).any() or (items.end == EVERYONE).any():
            raise InputError(f"{collective.kind} is no flow between pairs of ranks; all-to-all is")
        share, between = items.share.reduced, items.start != items.end
        amounts = np.zeros((topology.num_ranks,) * 2, dtype=np.int64)
        np.add.at(amounts, (items.start[between], items.end[between]), share.numerators[between])
        return cls(topology, amounts, share.denominator)

    @classmethod
    def uniform(cls, topology: Topology) -> Demand:
        """Return the demands of the plain all-to-all: M/N from each rank to each other."""
        ranks = topology.num_ranks
        return cls(topology, 1 - np.eye(ranks, dtype=np.int64), ranks)

    @cached_property
    def sources(self) -> Int64Array:
        """int64: the ranks that send something, increasing."""
        return np.flatnonzero(self.amounts.any(axis=1))

    @cached_property
    def sinks(self) -> Int64Array:
        """int64: the ranks that receive something, increasing."""
        return np.flatnonzero(self.amounts.any(axis=0))

    @cached_property
    def reverse(self) -> Demand:
        """The same demands the other way on the transposed network, whose links keep their numbers."""
        return Demand(transpose(self.topology), self.amounts.T, self.denominator)

    def __getitem__(self, pair: tuple[int, int]) -> Fraction:
        """Return what the first rank sends to the second, in units of M."""
        return Fraction(int(self.amounts[pair]), self.denominator)


def _check(demand: Demand) -> None:
    topology, amounts = demand.topology, demand.amounts
    where, ranks = f"demands on {topology.name}", topology.num_ranks
    if amounts.shape != (ranks, ranks):
        raise InputError(f"{where}: the matrix must be {ranks} x {ranks}, not of shape {amounts.shape}")
    if demand.denominator < 1:
        raise InputError(f"{where}: denominator {demand.denominator}; it must be positive")
    for s, t in np.argwhere(amounts < 0)[:1].tolist():
        pair, value = f"{topology.labels[s]}->{topology.labels[t]}", demand[s, t]
        raise InputError(f"demand of {pair} on {topology.name} is {value}; it must be a number, at least 0")
    for s in np.flatnonzero(np.diagonal(amounts))[:1].tolist():
        raise InputError(f"{where}: rank {topology.labels[s]} has a demand on itself; it must be 0")
    if amounts.sum(dtype=np.float64) >= INT64_MAX / 2:
        raise InputError(f"{where}: their total over {demand.denominator} does not fit 64 bits")
