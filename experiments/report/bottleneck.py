"""The links and nodes that a lower bound rests on, as its certificate says, ready to be drawn.

The cut bound rests on the links out of a set of nodes; the partition bound of allreduce on the links between
parts; the bounds of linear programs (``mcf`` of all-to-all, ``lp`` of allreduce) on links with a length,
their dual. All of them are here links with a *length* (1 in a cut), and nodes with a *part*. Of the bounds of
a collective the largest is shown, of equal ones the one that says most.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from tutti.models.allreduce.bound import lp_bound
from tutti.models.bounds import Bound, lower_bounds
from tutti.schedules.collective import KINDS, Collective, collective
from tutti.topologies.exact import NONE, BoolArray, Int64Array
from tutti.topologies.topology import Topology

_TELLING = ("degree", "cut", "lp", "partition", "mcf")
"""Of equal bounds the last of these is shown."""


@dataclass(frozen=True, eq=False)
class Bottleneck:
    """The links and nodes on which one bound depends.

    Parameters
    ----------
    bound
        The bound with its certificate.
    lengths
        A whole number for each link, which is 0 if the bound does not depend on the link.
    part
        int64, shape (nodes,). For a cut, it is 0 inside and `NONE` outside. For a partition, it is the number
        of the part. It is `NONE` for nodes that the certificate does not name.
    """

    topology: Topology
    bound: Bound
    lengths: tuple[int, ...]
    part: Int64Array

    @cached_property
    def felt(self) -> BoolArray:
        """The links that the certificate names, shape (links,)."""
        links = self.bound.certificate.get("links")
        if links is None:
            return np.array([length > 0 for length in self.lengths])
        found = np.zeros(len(self.lengths), dtype=bool)
        found[links] = True
        return found

    @property
    def has_lengths(self) -> bool:
        """Whether it is the dual of a linear program, not a cut or a partition."""
        return self.bound.kind in ("mcf", "lp")

    @property
    def longest(self) -> int:
        """The largest length."""
        return max(self.lengths)

    @cached_property
    def sizes(self) -> Int64Array:
        """Nodes of each part, shape (parts,)."""
        return np.bincount(self.part[self.part != NONE])

    @property
    def capacity(self) -> Fraction:
        """The bandwidth of the links that it feels, bytes/s."""
        total = sum(self.topology.bandwidth.numerators[self.felt].tolist())
        return Fraction(total, self.topology.bandwidth.denominator)


def known_collective(text: str, num_ranks: int) -> Collective | None:
    """Return the collective that a row names, None where it says more than a kind."""
    return collective(text, num_ranks) if text in set(KINDS) else None


def bottleneck(topology: Topology, what: Collective) -> Bottleneck:
    """Return what the largest bandwidth bound of a collective rests on.

    Raises
    ------
    TuttiError
        If its bounds can't be computed.
    """
    return read(topology, largest(bounds(topology, what)))


def bounds(topology: Topology, what: Collective) -> list[Bound]:
    """Return the bandwidth bounds that can be drawn, and the allreduce LP's where it is quick."""
    found = [bound for bound in lower_bounds(topology, what) if bound.kind in _READERS]
    partition = next((bound for bound in found if bound.kind == "partition"), None)
    trees = lp_bound(topology, what, partition)
    return [*found, *([trees] if trees else [])]


def largest(found: Sequence[Bound]) -> Bound:
    """Return the largest bound, of equal ones the one that says most."""
    return max(found, key=lambda bound: (bound.value, _TELLING.index(bound.kind)))


def read(topology: Topology, bound: Bound) -> Bottleneck:
    """Return what a bound's certificate says of links and nodes."""
    lengths, part = _READERS[bound.kind](topology, bound.certificate)
    return Bottleneck(topology, bound, tuple(lengths), part)


Certificate = Mapping[str, Any]
Read = tuple[Sequence[int], Int64Array]


def _cut(topology: Topology, certificate: Certificate) -> Read:
    part = _inside(topology, certificate)
    leaving = (part[topology.source] == 0) & (part[topology.target] != 0)
    return leaving.astype(int).tolist(), part


def _degree(topology: Topology, certificate: Certificate) -> Read:
    node = certificate["node"]
    part = np.full(topology.num_nodes, NONE)
    part[node] = 0
    end = topology.source if certificate["direction"] == "out" else topology.target
    return (end == node).astype(int).tolist(), part


def _partition(topology: Topology, certificate: Certificate) -> Read:
    part = np.full(topology.num_nodes, NONE)
    for index, members in enumerate(certificate["parts"]):
        part[members] = index
    end = topology.source if certificate["direction"] == "out" else topology.target
    used = (part[topology.source] != part[topology.target]) & (part[end] != NONE)
    return used.astype(int).tolist(), part


def _mcf(topology: Topology, certificate: Certificate) -> Read:
    """Return the lengths of a dual, and the part of the cut that proves as much, if there is one."""
    nobody = np.full(topology.num_nodes, NONE)
    cut = certificate.get("cut")
    return certificate["lengths"], nobody if cut is None else _inside(topology, cut)


def _inside(topology: Topology, nodes: Certificate) -> Int64Array:
    part = np.full(topology.num_nodes, NONE)
    part[[*nodes["ranks"], *nodes["switches"]]] = 0
    return part


_READERS: Mapping[str, Callable[[Topology, Certificate], Read]] = {
    "cut": _cut,
    "degree": _degree,
    "partition": _partition,
    "mcf": _mcf,
    "lp": _mcf,
}
