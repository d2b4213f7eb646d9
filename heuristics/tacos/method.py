"""TACOS: greedy link-chunk matching over the time-expanded network (MICRO 2024, section IV).

Allgather and broadcast by Algorithms 1 and 2, event by event (`kernel`) or, between links of one cost, round
by round (`rounds`); reduce-scatter, reduce and scatter as reverses of what they are the reverse of, on the
transposed network; allreduce as one half and then the other (Fig. 11). Gather, all-to-all and collectives
over groups, where chunks pass through ranks that do not want them, are guided by distance (`guided`).
Switches are unwound to links between ranks and the schedule is put back on their ports (`switches`; IV-G).
Where links differ or share ports chunks may also follow trees of least load (`following`), and an allreduce
may reduce and broadcast at once, over trees balanced both ways (`overlapped`).
Several kinds at once are made one by one, and then all transfers are put as early as the others allow.
Of links of unlike cost the cheapest is matched first (IV-F). A chunk is sent only if its source holds it when
the transfer starts. The chunk replacement of the 2023 version (IV-F), which gives an earlier transfer another
chunk, is not done: its source may not have it yet.

The paper chooses uniformly. That meets the bound, ceil(chunks to receive / in-links) rounds, on most meshes
and misses it on tori by a round or two; the default rule met it, within a few seeds, on all that were tried.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np

from heuristics.tacos.at_once import at_once
from heuristics.tacos.copying import bytes_of_chunk, copies
from heuristics.tacos.following import followed, follows, goes_to_all
from heuristics.tacos.options import AUTO, NOTHING, OVERLAPPED, SAMPLED, TREES, TacosOptions
from heuristics.tacos.overlapped import can_overlap, overlapped, worth_overlapping
from heuristics.tacos.retiming import ends, retimed
from heuristics.tacos.switches import check_degree, check_unwinding, degrees, on_ports, unwind
from schedules.capabilities import Capabilities
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
        As `METHOD.supports`.
    InputError
        If the size is not positive, or is needed and not given; or as `check`.
    """
    METHOD.supports(problem, options)
    size = _size(problem, options)
    if problem.collective.parts:
        return at_once(problem, size, options, lambda part, own: _made(part, size, own, rng))
    return _made(Problem(problem.topology, problem.collective, size), size, options, rng)


def _made(problem: Problem, size: Fraction, options: TacosOptions, rng: np.random.Generator) -> Schedule:
    """Return a schedule of one collective."""
    ways = [_through_switches if problem.topology.num_switches else _between_ranks]
    if problem.collective.kind is Kind.ALLREDUCE and options.allreduce == OVERLAPPED:
        ways = [overlapped]
    elif options.allreduce == AUTO and worth_overlapping(problem, options):
        ways.append(overlapped)
    made = [way(problem, size, options.shared(len(ways)), rng) for way in ways]
    return min(made, key=ends) if len(made) > 1 else made[0]


def _through_switches(
    problem: Problem, size: Fraction, options: TacosOptions, rng: np.random.Generator
) -> Schedule:
    """Return the schedule that ends first of those for each degree, of an allreduce half by half."""
    where, what = problem.topology, problem.collective
    if what.kind is Kind.ALLREDUCE:
        halves = [Problem(where, what.with_kind(kind), size) for kind in HALVES]
        own = options.shared(len(halves))
        return retimed(compose_allreduce(*(_through_switches(half, size, own, rng) for half in halves)))
    made = [_following(problem, size, options)] if follows(problem, options) else []
    if options.guide != TREES:
        worth = degrees(where) if options.degree is None else [options.degree]
        own = replace(options.shared(len(worth)), guide=NOTHING)
        for degree in worth:
            unwound = unwind(where, degree)
            plan = _between_ranks(Problem(unwound.topology, what, size), size, own, rng)
            made.append(on_ports(plan, where, unwound.routes, bytes_of_chunk(plan.chunks, size)))
    return min(made, key=ends) if len(made) > 1 else made[0]


def _following(problem: Problem, size: Fraction, options: TacosOptions) -> Schedule:
    """Return a schedule whose chunks follow trees, on a network with switches."""
    what = problem.collective
    if what.kind in COPYING:
        return followed(problem, size, options)
    turned = followed(Problem(transpose(problem.topology), what.reverse, size), size, options)
    return retimed(reverse(turned, problem.topology))


def _between_ranks(
    problem: Problem, size: Fraction, options: TacosOptions, rng: np.random.Generator
) -> Schedule:
    """Return a schedule on a network without switches."""
    what = problem.collective
    own = options.shared(2 if what.kind is Kind.ALLREDUCE else 1)

    def make(copying: Problem) -> Schedule:
        made = [followed(copying, size, options)] if follows(copying, options) else []
        if options.guide != TREES:
            made.append(copies(copying, size, own, rng))
        return min(made, key=ends) if len(made) > 1 else made[0]

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


def check(problem: Problem, options: TacosOptions) -> None:
    """Raise `Unsupported` for what options rule out, and for some one-way switches.

    Raises
    ------
    InputError
        If the degree is past the ports of all switches.
    """
    what, where = problem.collective, problem.topology
    for part in what.parts:
        check(Problem(where, part, problem.size), options)
    if options.pick == SAMPLED and (where.num_switches or not where.homogeneous):
        raise METHOD.unsupported(f"with pick 'sampled' needs links of one cost; those of {where.name} differ")
    if where.num_switches:
        check_degree(where, options.degree)
        check_unwinding(where)
    if options.guide == TREES and not what.parts and not goes_to_all(what):
        raise METHOD.unsupported(f"with guide 'trees' does what goes to or comes from all ranks; not {what}")
    if what.kind is Kind.ALLREDUCE and options.allreduce == OVERLAPPED:
        _check_overlap(problem)


def _check_overlap(problem: Problem) -> None:
    where = problem.topology
    if problem.collective.groups is not None:
        raise METHOD.unsupported(f"with allreduce 'overlapped' needs all ranks; this is {problem.collective}")
    if not can_overlap(where, problem.collective):
        raise METHOD.unsupported(
            f"with allreduce 'overlapped' needs links both ways that join all ranks without switches; "
            f"those of {where.name} do not"
        )


def size_dependent(problem: Problem, options: TacosOptions) -> bool:
    """Return whether links differ or share ports: then the order of events depends on the size."""
    return bool(problem.topology.num_switches) or not problem.topology.homogeneous


METHOD = Method(
    name="tacos",
    kind="heuristic",
    synthesize=synthesize,
    options=TacosOptions,
    capabilities=Capabilities(uneven_shards=False),
    check=check,
    size_dependent=size_dependent,
    seeded=True,
    summary="greedy link-chunk matching over the time-expanded network (TACOS)",
)
