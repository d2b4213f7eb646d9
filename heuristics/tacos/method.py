"""TACOS: greedy link-chunk matching over the time-expanded network (MICRO 2024, section IV).

Allgather and broadcast by Algorithms 1 and 2, event by event (`kernel`) or, between links of one cost, round
by round (`rounds`); reduce-scatter, reduce and scatter as reverses of what they are the reverse of, on the
transposed network; allreduce as one half and then the other (Fig. 11). Gather, all-to-all and collectives
over groups, where chunks pass through ranks that do not want them, are guided by distance (`guided`).
Switches are unwound to links between ranks and the schedule is put back on their ports (`switches`; IV-G).
Of links of unlike cost the cheapest is matched first (IV-F). A chunk is sent only if its source holds it when
the transfer starts. The chunk replacement of the 2023 version (IV-F), which gives an earlier transfer another
chunk, is not done: its source may not have it yet.

The paper chooses uniformly. That meets the bound, ceil(chunks to receive / in-links) rounds, on most meshes
and misses it on tori by a round or two; the default rule met it, within a few seeds, on all that were tried.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from heuristics.tacos.copying import bytes_of_chunk, copies
from heuristics.tacos.options import SAMPLED, TacosOptions
from heuristics.tacos.retiming import retimed
from heuristics.tacos.switches import check_degree, degrees, on_ports, unwind
from schedules.collective import Kind
from schedules.compose import BY_ALLGATHER, compose_allreduce, from_allgather
from schedules.method import Method, Problem
from schedules.reverse import reverse
from schedules.schedule import Schedule
from topologies.errors import InputError
from topologies.transforms import transpose

COPYING = (Kind.ALLGATHER, Kind.BROADCAST, Kind.GATHER, Kind.ALL_TO_ALL)
"""What is made as it is; the rest is their reverses, and allreduce."""

HALVES = (Kind.REDUCE_SCATTER, Kind.ALLGATHER)


DEFAULT_SIZE = Fraction(2**30)
"""M in bytes where none is given: between like links the schedule is the same for all sizes."""


def synthesize(problem: Problem, options: TacosOptions, rng: np.random.Generator) -> Schedule:
    """Return a schedule in the time clock.

    Parameters
    ----------
    problem
        Any collective with shards of one size. Between like links, without switches, the size may be None:
        the schedule is then for `DEFAULT_SIZE`.
    options
        Chunks a shard and the variant.
    rng
        Source of the kernels' seeds.

    Raises
    ------
    Unsupported
        As `supports`.
    InputError
        If the size is not positive, or is needed and not given; or as `supports`.
    """
    supports(problem, options)
    size = _size(problem, options)
    through = _through_switches if problem.topology.num_switches else _between_ranks
    return through(Problem(problem.topology, problem.collective, size), size, options, rng)


def _through_switches(
    problem: Problem, size: Fraction, options: TacosOptions, rng: np.random.Generator
) -> Schedule:
    """Return the schedule that ends first of those for each degree, of an allreduce half by half."""
    where, what = problem.topology, problem.collective
    if what.kind is Kind.ALLREDUCE:
        halves = (Problem(where, what.with_kind(kind), size) for kind in HALVES)
        return retimed(compose_allreduce(*(_through_switches(half, size, options, rng) for half in halves)))
    made = []
    for degree in degrees(where) if options.degree is None else [options.degree]:
        unwound = unwind(where, degree)
        plan = _between_ranks(Problem(unwound.topology, what, size), size, options, rng)
        made.append(on_ports(plan, where, unwound.routes, bytes_of_chunk(plan.chunks, size)))
    return min(made, key=lambda schedule: schedule.stats["ticks"] * (schedule.tick or 0))


def _between_ranks(
    problem: Problem, size: Fraction, options: TacosOptions, rng: np.random.Generator
) -> Schedule:
    """Return a schedule on a network without switches."""

    def make(copying: Problem) -> Schedule:
        return copies(copying, size, options, rng)

    what = problem.collective
    if what.kind in BY_ALLGATHER:
        return from_allgather(problem, make)
    if what.kind in COPYING:
        return make(problem)
    turned = Problem(transpose(problem.topology), what.reverse, size)
    return reverse(make(turned), problem.topology)


def _size(problem: Problem, options: TacosOptions) -> Fraction:
    where = problem.topology
    if problem.size is None and size_dependent(problem, options):
        why = "it has switches" if where.num_switches else "its links differ"
        raise InputError(f"tacos needs a size on {where.name}: {why}, so the schedule depends on it")
    size = DEFAULT_SIZE if problem.size is None else Fraction(problem.size)
    if size <= 0:
        raise InputError(f"tacos: the size is {size} bytes; it must be positive")
    return size


def supports(problem: Problem, options: TacosOptions) -> None:
    """Raise `Unsupported` for uneven shards and for samples between unlike links.

    Raises
    ------
    InputError
        If the degree is past the ports of all switches.
    """
    what, where = problem.collective, problem.topology
    if not what.items.share.uniform:
        own = "gives its own" if what.shards is not None else "has groups of several sizes"
        raise METHOD.unsupported(f"needs shards of one size; this {what.kind} {own}")
    if options.pick == SAMPLED and (where.num_switches or not where.homogeneous):
        raise METHOD.unsupported(f"with pick 'sampled' needs links of one cost; those of {where.name} differ")
    if where.num_switches:
        check_degree(where, options.degree)


def size_dependent(problem: Problem, options: TacosOptions) -> bool:
    """Return whether links differ or share ports: then the order of events depends on the size."""
    return bool(problem.topology.num_switches) or not problem.topology.homogeneous


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
