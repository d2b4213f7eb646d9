"""The memory that TACOS needs, against what there is and what is allowed."""

from __future__ import annotations

import os

import numpy as np

from heuristics.tacos.options import TacosOptions
from schedules.collective import EVERYONE
from schedules.method import Problem
from topologies.errors import InputError
from topologies.topology import Topology
from topologies.units import parse_size

ROW_BYTES = 16
"""Of a transfer in a schedule."""

LINK_BYTES = 128
"""Of a link in the network, its copies and the room to work in, rounded up."""


TREE_BYTES = 400
"""Of a rank in a tree, with the times of its transfers, while they are scheduled; measured, rounded up."""


def check_table(problem: Problem, options: TacosOptions) -> None:
    """Raise `InputError` if what ranks have and lack, and the transfers at least, need more than there is."""
    items = problem.collective.items
    reached = np.array([len(members) - 1 for members in problem.collective.members])[items.group]
    transfers = options.chunks * int(np.where(items.end == EVERYONE, reached, items.end != items.start).sum())
    state = options.chunks * len(items) * problem.topology.num_ranks // 4
    _check(problem.topology, f"{transfers} transfers", ROW_BYTES * transfers + state, options)


def check_trees(problem: Problem, options: TacosOptions) -> None:
    """Raise `InputError` if a tree for each chunk needs more than there is."""
    trees = options.chunks * len(problem.collective.items)
    needed = TREE_BYTES * trees * problem.topology.num_ranks
    _check(problem.topology, f"{trees} trees", needed, options)


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
