r"""Proofs of how long a set of demands takes: lengths from below, a flow from above, both in integers.

Let l be lengths of the links, none negative, dist_l the distances that they make, b the bandwidths.
Whatever carries the demands d, each unit from s to t runs over links whose lengths add up to at least
dist_l(s, t), and in T seconds link e carries at most b_e T:

    sum over s, t of d[s, t] dist_l(s, t)  <=  sum over e of l_e load_e  <=  T  sum over e of l_e b_e

So T is at least the quotient of the outer sums, for any l (`lower_bound`). The dual of linear program (A.1)
is the search for the best l. From above, a flow that delivers d takes T = max over e of load_e / b_e
(`upper_bound`), once pipelined. Both hold however l and the flow were found, and to whatever tolerance.

Times are in seconds per byte of M.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from tutti.models.all_to_all.demand import Demand
from tutti.topologies.errors import InputError, TuttiError
from tutti.topologies.exact import INT64_MAX, Int64Array, frozen
from tutti.topologies.graphs.shortest_paths import length_distances
from tutti.topologies.topology import Topology


class FlowError(TuttiError):
    """A flow that does not deliver its demands."""


def lower_bound(topology: Topology, demand: Demand, lengths: Int64Array) -> Fraction:
    """Return a lower bound of every schedule's time, by these lengths: exact, in s/B of M.

    Parameters
    ----------
    topology, demand
        The problem.
    lengths
        int64, shape (links,): not negative, not all zero.

    Raises
    ------
    InputError
        If the lengths are no such array, or they and the demands together do not fit 64 bits.
    """
    where, given = f"lengths of the links of {topology.name}", np.asarray(lengths)
    if given.shape != (topology.num_links,) or given.dtype.kind not in "iu":
        raise InputError(f"{where}: {topology.num_links} integers are needed, one a link")
    if not given.any() or given.min() < 0:
        raise InputError(f"{where} must not be negative, nor all zero")
    if given.sum(dtype=np.float64) >= INT64_MAX / 2:
        raise InputError(f"{where} add up to more than 64 bits")
    checked = np.ascontiguousarray(given, dtype=np.int64)
    moved = sum(
        _weighted_distances(demand, length_distances(topology, checked, rows), rows)
        for rows in np.array_split(demand.sources, -(-len(demand.sources) // 256))
    )
    band = topology.bandwidth
    capacity = sum(int(b) * int(length) for b, length in zip(band.numerators, checked, strict=True))
    return Fraction(moved * band.denominator, capacity * demand.denominator)


def _weighted_distances(demand: Demand, distances: Int64Array, sources: Int64Array) -> int:
    """Return the sum of demand times distance over these sources, exact."""
    amounts = demand.amounts[sources]
    ranks = distances[:, : demand.topology.num_ranks]
    if float(ranks.max()) * amounts.sum(dtype=np.float64) < INT64_MAX / 2:
        return int((amounts * ranks).sum())
    rows = zip(amounts.astype(object), ranks.astype(object), strict=True)
    return int(sum(int((row * way).sum()) for row, way in rows))


class Flow(Protocol):
    """A flow that delivers demands: a `SourceFlow`, or paths."""

    @property
    def demand(self) -> Demand:
        """The demands that it delivers."""

    @property
    def denominator(self) -> int:
        """The denominator of its amounts, in units of M."""

    @property
    def loads(self) -> Int64Array:
        """int64, shape (links,): what crosses each link, over `denominator`."""

    def check(self) -> None:
        """Raise `FlowError` unless it delivers the demands exactly."""


@dataclass(frozen=True, eq=False)
class SourceFlow:
    """Flows on the links, those of one source together: ``amounts / denominator``, in units of M.

    Parameters
    ----------
    demand
        What is to be delivered.
    amounts
        int64, shape (len(demand.sources), links): numerators; row i is of source ``demand.sources[i]``.
    denominator
        A multiple of the demand's.
    """

    demand: Demand
    amounts: Int64Array
    denominator: int

    def __post_init__(self) -> None:
        """Freeze the array."""
        object.__setattr__(self, "amounts", frozen(self.amounts, np.int64))

    @cached_property
    def loads(self) -> Int64Array:
        """int64, shape (links,): what crosses each link, over `denominator`."""
        if self.amounts.sum(axis=0, dtype=np.float64).max() >= INT64_MAX / 2:
            raise InputError(f"the load of a link does not fit 64 bits over {self.denominator}")
        return self.amounts.sum(axis=0)

    @cached_property
    def delivered(self) -> Int64Array:
        """int64, shape (sources, nodes): what stays at each node (in minus out), over `denominator`."""
        from scipy.sparse import csr_array

        topology = self.demand.topology
        links = np.arange(topology.num_links)
        ends = np.concatenate([topology.target, topology.source]).astype(np.int64)
        signs = np.repeat(np.array([1, -1], dtype=np.int64), topology.num_links)
        shape = (topology.num_links, topology.num_nodes)
        return self.amounts @ csr_array((signs, (np.tile(links, 2), ends)), shape=shape)

    def check(self) -> None:
        """Raise unless what stays of each source's flow at each other node is its demand there, exactly.

        Raises
        ------
        FlowError
            Naming the link with a negative flow, or the pair that does not get what it needs.
        """
        demand, topology = self.demand, self.demand.topology
        factor, rest = divmod(self.denominator, demand.denominator)
        if rest:
            raise FlowError(
                f"a flow over {self.denominator} for demands over {demand.denominator}, which does not divide"
            )
        for row, link in np.argwhere(self.amounts < 0)[:1].tolist():
            source, name = topology.labels[demand.sources[row]], topology.link_name(link)
            raise FlowError(f"the flow of source {source} on link {name} is negative")
        needed = np.zeros_like(self.delivered)
        needed[:, : topology.num_ranks] = demand.amounts[demand.sources] * factor
        wrong = self.delivered != needed
        wrong[np.arange(len(demand.sources)), demand.sources] = False
        for row, node in np.argwhere(wrong)[:1].tolist():
            got = Fraction(int(self.delivered[row, node]), self.denominator)
            want = Fraction(int(needed[row, node]), self.denominator)
            pair = f"{topology.labels[demand.sources[row]]}->{topology.labels[node]}"
            raise FlowError(f"the flow delivers {got} of M for {pair}; it must deliver {want}")


def upper_bound(flow: Flow) -> Fraction:
    """Return the time of a flow, its congestion: exact, in s/B of M.

    Raises
    ------
    FlowError
        If it does not deliver its demands exactly.
    """
    flow.check()
    band = flow.demand.topology.bandwidth
    return largest_ratio(flow.loads, band.numerators) * band.denominator / flow.denominator


def largest_ratio(loads: npt.NDArray[Any], capacities: npt.NDArray[Any]) -> Fraction:
    """Return the largest load over capacity of links, or of orbits, exactly."""
    largest: dict[int, int] = {}  # for each capacity: few fractions to compare
    for load, capacity in zip(loads.tolist(), capacities.tolist(), strict=True):
        largest[capacity] = max(load, largest.get(capacity, 0))
    return max(Fraction(load, capacity) for capacity, load in largest.items())


@dataclass(frozen=True)
class Interval:
    """The interval in which the optimum lies, proven by lengths from below, by a flow from above; s/B of M.

    Raises
    ------
    TuttiError
        If it is empty, which only a mistake in a proof can make.
    """

    lower: Fraction
    upper: Fraction

    def __post_init__(self) -> None:
        """Check the order."""
        if self.lower > self.upper:
            raise TuttiError(f"a flow of {self.upper} s/B beats the bound of {self.lower} s/B")

    @property
    def gap(self) -> Fraction:
        """Upper over lower, less one; 0 where the optimum is known exactly."""
        return self.upper / self.lower - 1

    @property
    def exact(self) -> bool:
        """Whether both ends meet."""
        return self.lower == self.upper
