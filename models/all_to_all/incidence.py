"""A network as kernels take it."""

from __future__ import annotations

from typing import NamedTuple

from topologies.exact import Int32Array, Int64Array
from topologies.topology import Topology


class Incidence(NamedTuple):
    """Links at nodes in CSR form, and nodes at links.

    Parameters
    ----------
    out_offsets, out_links
        int64 (nodes + 1,), int32 (links,): the links out of each node.
    in_offsets, in_links
        Likewise into each.
    tail, head
        int32 (links,): where each starts and ends.
    """

    out_offsets: Int64Array
    out_links: Int32Array
    in_offsets: Int64Array
    in_links: Int32Array
    tail: Int32Array
    head: Int32Array

    @classmethod
    def of(cls, topology: Topology) -> Incidence:
        """Return that of a network."""
        return cls(*topology.out_links, *topology.in_links, topology.source, topology.target)
