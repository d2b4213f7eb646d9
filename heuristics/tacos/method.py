"""TACOS: greedy link-chunk matching over the time-expanded network (MICRO 2024, section IV).

Allgather by Algorithms 1 and 2; reduce-scatter as the reverse of an allgather on the transposed network;
allreduce as one and then the other (Fig. 11). Of links of unlike cost the cheapest is matched first (IV-F).
A chunk is sent only if its source holds it when the transfer starts. The chunk replacement of the 2023
version (IV-F), which gives an earlier transfer another chunk, is not done: its source may not have it yet.

The paper chooses uniformly. That meets the bound, ceil(chunks to receive / in-links) rounds, on most meshes
and misses it on tori by a round or two; the default rule met it, within a few seeds, on all that were tried.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from heuristics.tacos import kernel
from heuristics.tacos.network import time_expanded
from schedules.collective import Kind
from schedules.compose import BY_ALLGATHER, from_allgather
from schedules.method import Method, Problem
from schedules.reverse import reverse
from schedules.schedule import Chunks, Clock, Schedule
from topologies.errors import InputError, suggestion
from topologies.transforms import transpose

PICKS = {
    "uniform": kernel.UNIFORM,
    "rarest": kernel.RAREST,
    "scarcest": kernel.SCARCEST,
    "paper": kernel.PAPER,
}

KINDS = (*BY_ALLGATHER, Kind.BROADCAST, Kind.REDUCE)

DEFAULT_SIZE = Fraction(2**30)
"""M in bytes where none is given: between like links the schedule is the same for all sizes."""


@dataclass(frozen=True)
class TacosOptions:
    """The options of TACOS.

    Parameters
    ----------
    chunks
        Equal chunks a shard, at least 1.
    pick
        What a free link sends, ties being uniform.

        - ``"uniform"``: any chunk that its source has and its destination wants.
        - ``"rarest"``: of those, one that the fewest ranks have or are being sent; of those, one that the
          fewest other in-links of the destination could bring (none, one, or more; counting those that are
          still free, then all).
        - ``"scarcest"``: the same two rules in the other order.
        - ``"paper"``: Algorithm 1 as printed, which goes through the unsatisfied postconditions in random
          order and gives each a random one of its cheapest free links. Slower, as each event passes over
          all postconditions.
    wait
        Whether a link stays free where faster links into its destination will have brought all that
        is missing there before it could; of no effect with ``"paper"`` or between links of one cost.

    Raises
    ------
    InputError
        If a value is not allowed.
    """

    chunks: int = 1
    pick: str = "scarcest"
    wait: bool = True

    def __post_init__(self) -> None:
        """Check the values."""
        if isinstance(self.chunks, bool) or not isinstance(self.chunks, int) or self.chunks < 1:
            raise InputError(f"tacos: chunks is {self.chunks!r}; allowed: an integer of at least 1")
        if self.pick not in PICKS:
            raise InputError(f"tacos: unknown pick '{self.pick}'{suggestion(str(self.pick), PICKS)}")
        if not isinstance(self.wait, bool):
            raise InputError(f"tacos: wait is {self.wait!r}; allowed: true, false")


def synthesize(problem: Problem, options: TacosOptions, rng: np.random.Generator) -> Schedule:
    """Return a schedule in the time clock.

    Parameters
    ----------
    problem
        An allgather, reduce-scatter, allreduce, broadcast or reduce of all ranks on a network without
        switches. Between like links the size may be None: the schedule is then for `DEFAULT_SIZE`.
    options
        Chunks a shard and the variant.
    rng
        Source of the kernel's seed.

    Raises
    ------
    Unsupported
        As `supports`.
    InputError
        If the size is not positive, or is needed and not given.
    """
    supports(problem, options)

    def make(copying: Problem) -> Schedule:
        return _from_owners(copying, options, rng)

    kind = problem.collective.kind
    if kind is Kind.BROADCAST:
        return make(problem)
    if kind is Kind.REDUCE:
        turned = Problem(transpose(problem.topology), problem.collective.reverse, problem.size)
        return reverse(make(turned), problem.topology)
    return from_allgather(problem, make)


def _from_owners(problem: Problem, options: TacosOptions, rng: np.random.Generator) -> Schedule:
    """Return the schedule of a collective in which every datum goes from one rank to all."""
    size = _size(problem)
    chunks = Chunks.even(problem.collective, options.chunks)
    owner = np.repeat(problem.collective.items.start, options.chunks).astype(np.int64)
    chunk_bytes = size * int(chunks.size[0]) / chunks.denominator
    transfers = len(owner) * (problem.topology.num_ranks - 1)
    network, tick = time_expanded(problem.topology, chunk_bytes, transfers)
    seed = rng.integers(2**64, dtype=np.uint64)
    chunk, link, start = kernel.synthesize(network, owner, PICKS[options.pick], options.wait, seed)
    return Schedule(
        topology=problem.topology,
        collective=problem.collective,
        clock=Clock.TIME,
        chunks=chunks,
        chunk=chunk,
        route=link,
        order=start,
        tick=tick,
        size=size,
    )


def _size(problem: Problem) -> Fraction:
    if problem.size is None and not problem.topology.homogeneous:
        raise InputError(
            f"tacos needs a size on {problem.topology.name}: its links differ, so the schedule depends on it"
        )
    size = DEFAULT_SIZE if problem.size is None else Fraction(problem.size)
    if size <= 0:
        raise InputError(f"tacos: the size is {size} bytes; it must be positive")
    return size


def supports(problem: Problem, options: TacosOptions) -> None:
    """Raise `Unsupported` for another collective, groups, uneven shards or switches."""
    what, where = problem.collective, problem.topology
    METHOD.check_kind(what, KINDS)
    METHOD.check_one_group(what)
    if what.shards is not None:
        raise METHOD.unsupported(f"needs shards of one size; this {what.kind} gives its own")
    if where.num_switches:
        noun = "switch" if where.num_switches == 1 else "switches"
        raise METHOD.unsupported(
            "needs a switch-free network until switches are unwound; "
            f"{where.name} has {where.num_switches} {noun}"
        )


def size_dependent(problem: Problem, options: TacosOptions) -> bool:
    """Return whether the links differ: then the order of events depends on the size."""
    return not problem.topology.homogeneous


METHOD = Method(
    name="tacos",
    kind="heuristic",
    synthesize=synthesize,
    options=TacosOptions,
    supports=supports,
    size_dependent=size_dependent,
    seeded=True,
    summary="greedy link-chunk matching over the time-expanded network (TACOS)",
)
