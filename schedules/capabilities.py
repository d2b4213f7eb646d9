"""A method declares here what it can do; `schedules.method.Method.supports` refuses everything else.

A declaration covers no options, no sizes and no numbers that outgrow a method; its `check` does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, StrEnum
from itertools import chain

import numpy as np

from tutti.schedules.collective import KINDS, Collective, Kind
from tutti.topologies.graphs.grid_structure import Grid, LineKind, grid_of, hosts_of, uneven_hosts
from tutti.topologies.topology import Topology, components
from tutti.topologies.units import format_bandwidth


class Groups(Enum):
    """The groups of ranks over which a method does a collective."""

    NONE = "all ranks"
    ONE = "one group, of all ranks or some"
    ANY = "any groups"


class Switches(Enum):
    """The networks with switches on which a method works.

    Ranks outside the one group of a collective only forward, as switches do, and count as such.
    """

    NONE = "no switches"
    EULERIAN = "a network with switches to be Eulerian"
    """Every node has equal bandwidth in and out."""
    BALANCED = "switches to send as much bandwidth as they take in"
    """Every switch has equal bandwidth in and out; ranks need not."""
    ANY = "nothing of switches"


class Shape(StrEnum):
    """The sort of network that a method is made for, in words that follow "needs"."""

    ANY = "any network"
    GRID = (
        "a network in dimensions whose lines are rings, paths, complete or on one switch, such as "
        "torus, mesh, hypercube, switch2d or rfs"
    )
    TORUS = "a torus or mesh"
    EVEN_TORUS = "a torus whose sides are powers of two"
    MESH = "a 2D mesh of at least 3x3"
    NOTATION = "a network in the papers' notation, such as L(C(16,{3,4}))"
    # Only the method itself can check the following ones.
    CIRCULANT = "a circulant network, links i to i ± a for all i"
    HOSTS = "hosts of equally many ranks"
    ONE_HOST = "one host, or hosts of equally many ranks"
    SHARP = "switches that multicast and aggregate, which join all ranks or those of each of equal hosts"
    PLANES = "machines whose ranks have a port to a switch and an adapter, or planes joined place by place"
    DGX1 = "8 ranks without switches with two disjoint binary trees, as dgx1 is"


_FITS: Mapping[Shape, Callable[[Grid], bool]] = {
    Shape.GRID: lambda grid: True,
    Shape.TORUS: lambda grid: set(grid.lines) <= {LineKind.RING, LineKind.PATH},
    Shape.EVEN_TORUS: lambda grid: all(
        size & (size - 1) == 0 and (line is LineKind.RING or (line is LineKind.PATH and size == 2))
        for size, line in zip(grid.shape, grid.lines, strict=True)
    ),
    Shape.MESH: lambda grid: grid.lines == (LineKind.PATH, LineKind.PATH) and min(grid.shape) >= 3,
}
"""For each shape, a test whether a grid has it."""


@dataclass(frozen=True)
class Capabilities:
    """The collectives that a method does, and the networks that it needs; by default all.

    Parameters
    ----------
    collectives
        The kinds that it does. `Kind.MIXED` among them means several kinds at the same time.
    groups
        The groups of ranks over which it does them.
    uneven_shards
        Whether the shards of one collective may differ in size.
    switches
        The networks with switches that it takes.
    one_way_links
        Whether links may have one direction only. False: in a network without switches, the links that have
        both directions must join all ranks.
    uneven_links
        Whether bandwidths may be arbitrary. False: they must be multiples of the least one.
    shape
        The sort of network that it is made for.
    power_of_two
        Whether it needs a power of two ranks.
    most_ranks
        The largest number of ranks; None: any.
    further
        A further need, in words; the method's `check` tests it.

    Examples
    --------
    >>> from tutti.schedules.collective import collective
    >>> from tutti.topologies.families.grids import torus
    >>> halving = Capabilities((Kind.ALLREDUCE,), power_of_two=True)
    >>> halving.refusal(torus(3, 5), collective("allreduce", 15))
    'needs a power of two ranks; torus:3x5 has 15'
    >>> halving.needs
    ('a power of two ranks',)
    """

    collectives: tuple[Kind, ...] = (*KINDS, Kind.MIXED)
    groups: Groups = Groups.ANY
    uneven_shards: bool = True
    switches: Switches = Switches.ANY
    one_way_links: bool = True
    uneven_links: bool = True
    shape: Shape = Shape.ANY
    power_of_two: bool = False
    most_ranks: int | None = None
    further: str = ""

    @property
    def needs(self) -> tuple[str, ...]:
        """Its needs of a network, in words that follow "needs"; empty if it takes any."""
        needs = {
            self.switches.value: self.switches is not Switches.ANY,
            "bidirectional links that join all ranks": not self.one_way_links,
            "bandwidths that are multiples of the least one": not self.uneven_links,
            str(self.shape): self.shape is not Shape.ANY,
            "a power of two ranks": self.power_of_two,
            f"at most {self.most_ranks} ranks": self.most_ranks is not None,
            self.further: bool(self.further),
        }
        return tuple(need for need, needed in needs.items() if needed)

    def refusal(self, topology: Topology, what: Collective) -> str | None:
        """Return why a collective on a network is refused, in words that follow the name, or None."""
        if what.kind not in self.collectives:
            return f"does {', '.join(self.collectives)}; not {what.kind}"
        reasons = chain(self._data(what), self._links(topology, what), self._layout(topology))
        return next(reasons, None)

    def _data(self, what: Collective) -> Iterator[str]:
        """Yield the objections to the groups and shards."""
        grouped = self.groups is Groups.NONE and what.groups is not None
        parts = [] if self.uneven_shards else [part for part in what.parts or (what,) if not _even(part)]
        if self.groups is Groups.NONE and not self.uneven_shards and (grouped or parts):
            yield f"needs all ranks in one collective with equal shards; this is {what}"
        if grouped and what.groups is not None:
            some = f"one of {len(what.groups[0])} of the {what.num_ranks}"
            has = some if len(what.groups) == 1 else len(what.groups)
            yield f"needs one group of all ranks; this {what.kind} has {has}"
        if self.groups is Groups.ONE and len(what.members) > 1:
            yield f"does one group at a time; this is {what}"
        for part in parts:
            own = (
                "has groups of several sizes"
                if part.shards is None and part.matrix is None
                else "gives its own"
            )
            yield f"needs shards of one size; this {part.kind} {own}"

    def _links(self, topology: Topology, what: Collective) -> Iterator[str]:
        """Yield the objections to the switches and links."""
        if self.switches is Switches.NONE and topology.num_switches:
            number = topology.num_switches
            yield f"needs a switch-free topology; {topology.name} has {number} switch{'es' * (number > 1)}"
        if self.switches is Switches.EULERIAN and len(what.members[0]) < topology.num_nodes:
            yield from _uneven(topology, self.switches.value)
        if self.switches is Switches.BALANCED:
            yield from _uneven(topology, self.switches.value, free=what.members[0])
        if not self.one_way_links and not topology.num_switches and not joined_both_ways(topology):
            yield f"needs bidirectional links that join all ranks; those of {topology.name} do not"
        speeds = topology.bandwidth.numerators
        if not self.uneven_links and (speeds % speeds.min()).any():
            yield f"needs bandwidths that are multiples of the least one; {topology.name} has others"

    def _layout(self, topology: Topology) -> Iterator[str]:
        """Yield the objections to the shape and the number of ranks."""
        if self.shape is Shape.NOTATION and topology.expression is None:
            yield f"needs {self.shape}; {topology.name} is not"
        if self.shape in _FITS:
            grid = grid_of(topology, hosts_of(topology, infer=True))  # an option may forbid to infer
            if grid is None or not _FITS[self.shape](grid):
                uneven = uneven_hosts(topology)
                why = "" if grid is not None or uneven is None else f", with {uneven}"
                yield f"needs {self.shape}; {topology.name} is {'none' if grid is None else grid}{why}"
        ranks = topology.num_ranks
        if self.power_of_two and ranks & (ranks - 1):
            yield f"needs a power of two ranks; {topology.name} has {ranks}"
        if self.most_ranks is not None and ranks > self.most_ranks:
            yield f"takes at most {self.most_ranks} ranks; {topology.name} has {ranks}"


EVERYTHING = Capabilities()
"""The capabilities of a method that does any collective on any network."""


def _even(what: Collective) -> bool:
    """Return whether all shards have one size."""
    if what.shards is None and what.matrix is None and len({len(members) for members in what.members}) == 1:
        return True
    return what.items.share.uniform


def _uneven(topology: Topology, needed: str, free: Sequence[int] = ()) -> Iterator[str]:
    """Yield an objection that names a node whose bandwidths in and out differ, unless all such are free."""
    node = topology.eulerian_defect(free)
    if node is not None:
        into, out = (format_bandwidth(total[node]) for total in (topology.ingress, topology.egress))
        yield f"needs {needed}; node {topology.labels[node]} of {topology.name} has {into} in and {out} out"


def joined_both_ways(topology: Topology) -> bool:
    """Return whether the pairs of nodes with links in both directions join all nodes.

    Examples
    --------
    >>> from tutti.topologies.families.grids import ring, uniring
    >>> joined_both_ways(ring(4)), joined_both_ways(uniring(4))
    (True, False)
    """
    nodes, source, target = topology.num_nodes, topology.source.astype(np.int64), topology.target
    near, far = np.divmod(np.intersect1d(source * nodes + target, target * nodes + source), nodes)
    return components(nodes, near, far)[0] == 1
