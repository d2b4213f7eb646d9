"""The options of TACOS, its parameters that are no options, and the memory that it may use."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

import numpy as np

from tutti.schedules.collective import EVERYONE
from tutti.schedules.method import Problem
from tutti.topologies.errors import InputError
from tutti.topologies.options import SECONDS, Choice, Options, Whole
from tutti.topologies.topology import Topology
from tutti.topologies.units import parse_size

AUTO, UNIFORM, RAREST, SCARCEST = "auto", "uniform", "rarest", "scarcest"
PAPER, MAXIMUM, SAMPLED = "paper", "maximum", "sampled"
PICKS = (AUTO, SAMPLED, UNIFORM, RAREST, SCARCEST, PAPER, MAXIMUM)


@dataclass(frozen=True)
class TacosTuning:
    """Parameters of the method that were measured, on the networks of ``docs/tacos.md``.

    Parameters
    ----------
    sampled_above
        Transfers between links of one cost above which ``"auto"`` samples. Sampling misses the bound on some
        small tori, and takes 0.06 s for a 32x32 mesh where the exact rule takes 0.3 s.
    first_degrees
        The degrees up to here are tried, then powers of two, then the largest. A larger value tries more.
    most_unwound
        Most links, degree times ranks, of a degree that is tried unasked. A larger value tries more degrees.
    row_bytes, link_bytes
        Memory in bytes: of a transfer in a schedule; and of a link, its copies and space for computations,
        rounded up.
    """

    sampled_above: int
    first_degrees: int
    most_unwound: int
    row_bytes: int
    link_bytes: int


TUNING = TacosTuning(sampled_above=2**17, first_degrees=4, most_unwound=2**17, row_bytes=16, link_bytes=128)


@dataclass(frozen=True)
class TacosOptions(Options):
    """The options of TACOS.

    Parameters
    ----------
    chunks
        Equal chunks a shard, at least 1.
    chunk_rule
        The chunk that a free link sends; ties are broken uniformly.

        - ``"uniform"``: any chunk that its source has and its destination wants.
        - ``"rarest"``: of those, one that the fewest ranks have or are being sent. Of these, one that the
          fewest other in-links of the destination could bring (none, one, or more; counting those that are
          still free, then all).
        - ``"scarcest"``: the same two rules in the other order.
        - ``"sampled"``: nearly the same as scarcest, on a few of the candidates; much faster on large
          networks, and only between links of one cost.
        - ``"paper"``: Algorithm 1 as printed, which goes through the unsatisfied postconditions in random
          order and gives each a random one of its cheapest free links. Slower, as each event passes over
          all postconditions.
        - ``"maximum"``: at each event a matching with the most links, and of those one with the rarest chunks
          (`heuristics.tacos.matching`).
        - ``"auto"``: sampled for over 2^17 transfers between links of one cost, else scarcest.

        Where chunks pass through ranks that do not want them (groups, gather, scatter, all-to-all), the chunk
        with the farthest to go is sent, whatever the rule.
    wait_for_faster_link
        Whether a link stays free if faster links into its destination will bring all that is missing there
        before it could. Without effect with ``"paper"``, between links of one cost, and where chunks are
        replaced.
    replace_chunks
        Whether a link that would idle takes over a chunk that a slower link is carrying to its destination
        (2023 version, IV-F). The slower link gets another chunk that its source had when the transfer began,
        or drops the transfer. A slow link then prefers chunks that faster ones can't bring. Without effect
        with ``"maximum"``, between links of one cost, and where chunks pass through ranks that do not want
        them.
    restarts
        The number of schedules, each from other random numbers, of which the one that ends first is kept. For
        an allreduce, each half has this number.
    degree
        The number of links a rank to which switches are unwound (section IV-G). None: several are tried, and
        the schedule that ends first is kept. Only for networks with switches.
    bidirectional
        Whether an unwinding of degree 1 is a ring in both directions: each rank has links to the rank after
        it and to the one before, each with half of the bandwidth (2023 version, IV-G). If several degrees are
        tried, the others stay as they are.
    time_limit
        Seconds after which no other try is begun; ``stats["tries"]`` has the number of tries. None: there are
        `restarts`, and the seed alone decides.
    memory
        The memory that may be used, such as ``"16GB"``; None: all of the machine. A problem that needs more
        is refused.

    Raises
    ------
    InputError
        If a value is not allowed.
    """

    OWNER: ClassVar[str] = "tacos"

    chunks: Annotated[int, Whole(1)] = 1
    chunk_rule: Annotated[str, Choice(PICKS)] = AUTO
    wait_for_faster_link: bool = True
    replace_chunks: bool = True
    restarts: Annotated[int, Whole(1)] = 1
    degree: Annotated[int | None, Whole(1)] = None
    bidirectional: bool = False
    time_limit: Annotated[float | None, SECONDS] = None
    memory: str | None = None

    def __post_init__(self) -> None:
        """Check the values."""
        super().__post_init__()
        if self.bidirectional and self.degree not in (None, 1):
            raise InputError(f"tacos: bidirectional is of degree 1 only; degree is {self.degree}")
        if self.memory is not None:
            parse_size(self.memory)

    def shared(self, parts: int) -> TacosOptions:
        """Return these options for one of several parts, each with its share of the time."""
        return self if self.time_limit is None else replace(self, time_limit=self.time_limit / parts)


def check_table(problem: Problem, options: TacosOptions) -> None:
    """Raise `InputError` if the sets of ranks, and at least the transfers, need more memory than there is."""
    items = problem.collective.items
    reached = np.array([len(members) - 1 for members in problem.collective.members])[items.group]
    transfers = options.chunks * int(np.where(items.end == EVERYONE, reached, items.end != items.start).sum())
    where = problem.topology
    held = where.num_links if options.replace_chunks and not where.homogeneous else 0
    state = options.chunks * len(items) * (2 * where.num_ranks + held) // 8
    _check(where, f"{transfers} transfers", TUNING.row_bytes * transfers + state, options)


def check_state(topology: Topology, chunks: int, options: TacosOptions) -> None:
    """Raise `InputError` if the sets of all ranks, a bit for each rank and chunk, need more than there is."""
    needed = chunks * topology.num_ranks // 8 + TUNING.link_bytes * topology.num_links
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
    """Return the bytes of main memory of this machine; None where it is not known."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None
