"""The memory that TACOS needs, against what there is and what is allowed."""

from __future__ import annotations

import os

from heuristics.tacos.options import TacosOptions
from topologies.errors import InputError
from topologies.topology import Topology
from topologies.units import parse_size

ROW_BYTES = 16
"""Of a transfer in a schedule."""

LINK_BYTES = 128
"""Of a link in the network, its copies and the room to work in, rounded up."""


def check_table(topology: Topology, chunks: int, options: TacosOptions) -> None:
    """Raise `InputError` if what all ranks have and lack, and the transfers, need more than there is."""
    transfers = chunks * (topology.num_ranks - 1)
    _check(
        topology, f"{transfers} transfers", ROW_BYTES * transfers + chunks * topology.num_ranks // 4, options
    )


def check_state(topology: Topology, chunks: int, options: TacosOptions) -> None:
    """Raise `InputError` if what all ranks have needs more than there is: a bit for each rank and chunk."""
    needed = chunks * topology.num_ranks // 8 + LINK_BYTES * topology.num_links
    _check(topology, f"the sets of {chunks} chunks", needed, options)


def _check(topology: Topology, what: str, needed: int, options: TacosOptions) -> None:
    there, verb = memory(), "this machine has"
    allowed = None if options.memory is None else parse_size(options.memory)
    if allowed is not None and (there is None or allowed < there):
        there, verb = int(allowed), "allowed are"
    if there is not None and needed > there:
        raise InputError(
            f"tacos: {what} on {topology.name} need {needed / 1e9:.3g} GB of memory; "
            f"{verb} {there / 1e9:.3g} GB"
        )


def memory() -> int | None:
    """Return the bytes of main memory of this machine; None where it does not tell."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None
