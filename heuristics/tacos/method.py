"""TACOS: greedy link-chunk matching over the time-expanded network (MICRO 2024, section IV).

Allgather and broadcast are made by Algorithms 1 and 2 (`event_loop`, `matching`). Reduce-scatter, reduce and
scatter are reverses of other collectives, made on the transposed network. Allreduce is one half and then the
other (Fig. 11). Gather, all-to-all and collectives over groups, where chunks pass through ranks that do not
want them, are guided by distance (`guided`). Switches are unwound to links between ranks, and the schedule is
then put back on their ports (`network`; IV-G). Several kinds together (mixed collectives) are made one by
one, and then all transfers are put as early as the others allow. If costs of links differ, the cheapest is
matched first (IV-F). Chunk replacement (2023 version, IV-F) gives a transfer that is under way another chunk,
which its source held when the transfer started.

The paper chooses uniformly. This meets the bound, ceil(chunks to receive / in-links) rounds, on most meshes,
but misses it on tori by a round or two. The default rule met it, within a few seeds, on all that were tried.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from tutti.heuristics.tacos import guided, matching
from tutti.heuristics.tacos.event_loop import MatchedTransfers
from tutti.heuristics.tacos.network import (
    TacosNetwork,
    check_degree,
    check_unwinding,
    cut,
    degrees,
    time_expanded,
    unwind,
)
from tutti.heuristics.tacos.options import AUTO, SAMPLED, SCARCEST, TUNING, TacosOptions, check_table
from tutti.heuristics.tacos.round_state import threads_for
from tutti.schedules.capabilities import Capabilities
from tutti.schedules.collective import EVERYONE, Collective, Kind
from tutti.schedules.compose import BY_ALLGATHER, compose_allreduce, from_allgather, shard_seconds
from tutti.schedules.groups import together
from tutti.schedules.message_durations import sizes_of, tick_of
from tutti.schedules.method import Method, Problem
from tutti.schedules.retiming import ends, retimed
from tutti.schedules.reversal import reverse
from tutti.schedules.schedule import Chunks, Clock, Routes, Schedule
from tutti.topologies.errors import InputError
from tutti.topologies.exact import Int64Array
from tutti.topologies.kernels import now
from tutti.topologies.topology import Topology
from tutti.topologies.transforms import transpose

COPYING = (Kind.ALLGATHER, Kind.BROADCAST, Kind.GATHER, Kind.ALL_TO_ALL)
"""Kinds that are made directly; the others are their reverses, or allreduce."""

HALVES = (Kind.REDUCE_SCATTER, Kind.ALLGATHER)


MOST_TIMES = 16
"""Largest factor by which a part may have more chunks a shard than the part with the smallest shards. A
larger value makes sizes of chunks more equal, and schedules longer to make."""
DEFAULT_SIZE = Fraction(2**30)
"""M in bytes where none is given: between links of one cost the schedule is the same for all sizes."""


def synthesize(problem: Problem, options: TacosOptions, rng: np.random.Generator) -> Schedule:
    """Return a schedule in the time clock.

    Parameters
    ----------
    problem
        Any collective. Between equal links, with shards of one size, without switches, the size may be None:
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
    where = problem.topology
    if problem.size is None and size_dependent(problem, options):
        differ = "shards differ" if where.homogeneous else "its links differ"
        why = "it has switches" if where.num_switches else differ
        raise InputError(f"tacos needs a size on {where.name}: {why}, so the schedule depends on it")
    size = DEFAULT_SIZE if problem.size is None else Fraction(problem.size)
    if size <= 0:
        raise InputError(f"tacos: the size is {size} bytes; it must be positive")
    if problem.collective.parts:
        return _mixed(problem, size, options, lambda part, own: _made(part, part.size or size, own, rng))
    return _made(Problem(problem.topology, problem.collective, size), size, options, rng)


def _made(problem: Problem, size: Fraction, options: TacosOptions, rng: np.random.Generator) -> Schedule:
    """Return a schedule of one collective."""
    make = _through_switches if problem.topology.num_switches else _between_ranks
    return make(problem, size, options, rng)


def _through_switches(
    problem: Problem, size: Fraction, options: TacosOptions, rng: np.random.Generator
) -> Schedule:
    """Return the schedule that ends first of those for each degree, of an allreduce half by half."""
    where, what = problem.topology, problem.collective
    if what.kind is Kind.ALLREDUCE:
        halves = [Problem(where, what.with_kind(kind), size) for kind in HALVES]
        own = options.shared(len(halves))
        return retimed(compose_allreduce(*(_through_switches(half, size, own, rng) for half in halves)))
    worth = degrees(where) if options.degree is None else [options.degree]
    own, made = options.shared(len(worth)), []
    for degree in worth:
        unwound = unwind(where, degree, bidirectional=options.bidirectional)
        plan = _between_ranks(Problem(unwound.topology, what, size), size, own, rng)
        made.append(_on_ports(plan, where, unwound.routes, size))
    return min(made, key=ends) if len(made) > 1 else made[0]


def _between_ranks(
    problem: Problem, size: Fraction, options: TacosOptions, rng: np.random.Generator
) -> Schedule:
    """Return a schedule on a network without switches."""
    what = problem.collective
    own = options.shared(2 if what.kind is Kind.ALLREDUCE else 1)

    def make(copying: Problem) -> Schedule:
        return _copies(copying, size, own, rng)

    if what.kind in BY_ALLGATHER:
        return from_allgather(problem, make)
    if what.kind in COPYING:
        return make(problem)
    # IV-E, Fig. 11: what combines is the reverse of what copies, on the network with its links turned round.
    return reverse(make(Problem(transpose(problem.topology), what.reverse, size)), problem.topology)


def _on_ports(schedule: Schedule, topology: Topology, routes: Routes | None, size: Fraction) -> Schedule:
    """Return a schedule of the unwound network on the one with switches, with new times.

    In the order of the plan each transfer starts as soon as its data is there and all links of its route are
    free for it.
    """
    tick = tick_of(topology, sizes_of(schedule.chunks, size), len(schedule))
    return retimed(schedule.replace(topology=topology, routes=routes, tick=tick))


class Try(NamedTuple):
    """The transfers made from one seed, and their last arrival in ticks."""

    transfers: MatchedTransfers
    end: int


def _copies(problem: Problem, size: Fraction, options: TacosOptions, rng: np.random.Generator) -> Schedule:
    """Return the best of several tries at a collective that only copies, on a network without switches."""
    check_table(problem, options)
    what, where = problem.collective, problem.topology
    chunks = cut(what, options.chunks)
    largest = sizes_of(chunks, size)[-1]
    network, tick = time_expanded(where, largest, len(chunks) * (where.num_ranks - 1))
    if what.groups is None and (what.items.end == EVERYONE).all():
        make = _to_all(network, what.items.start[chunks.item].astype(np.int64), options)
    else:
        make = _to_goals(where, network, what, chunks)
    best, tried = _first_to_end(make, options, rng)
    for column in best.transfers:
        column.flags.writeable = False  # no one else has them, so the schedule need not copy them
    made = problem.schedule(Clock.TIME, chunks, *best.transfers, tick=tick, size=size, stats={"tries": tried})
    # All chunks were taken to be as large as the largest.
    return made if what.items.share.uniform else _on_ports(made, where, None, size)


def _first_to_end(
    make: Callable[[np.uint64], Try], options: TacosOptions, rng: np.random.Generator
) -> tuple[Try, int]:
    """Return the try that ends first, from several seeds, and the number of tries; of equal ones the first.

    The number is `restarts`, or less if a time limit ends them.
    """
    until = math.inf if options.time_limit is None else now() + options.time_limit
    workers = min(options.restarts, os.cpu_count() or 1)
    together = options.restarts if math.isinf(until) else workers
    best: list[Try] = []
    tried = 0
    with ThreadPoolExecutor(workers) as pool:
        while tried < options.restarts and (not best or now() < until):
            seeds = rng.integers(2**64, size=min(together, options.restarts - tried), dtype=np.uint64)
            best = [min([*best, *pool.map(make, seeds)], key=lambda each: each.end)]
            tried += len(seeds)
    return best[0], tried


def _to_goals(
    where: Topology, network: TacosNetwork, what: Collective, chunks: Chunks
) -> Callable[[np.uint64], Try]:
    """Return a function from seeds to tries, for chunks that pass through ranks which do not want them."""
    goals, distance = guided.goals_of(what, chunks), guided.distances_to(where, network)
    return lambda seed: _ended(network, guided.synthesize(network, goals, distance, seed))


def _to_all(network: TacosNetwork, owner: Int64Array, options: TacosOptions) -> Callable[[np.uint64], Try]:
    """Return a function from seeds to tries, by the rule that suits the network."""
    nodes, wait = len(network.in_first) - 1, options.wait_for_faster_link
    many = len(owner) * (nodes - 1) > TUNING.sampled_above and len(network.duration) == 1
    pick = (SAMPLED if many else SCARCEST) if options.chunk_rule == AUTO else options.chunk_rule
    replaces = options.replace_chunks and len(network.duration) > 1
    threads = threads_for(nodes) if options.restarts == 1 else 1
    return lambda seed: _ended(
        network, matching.synthesize(network, owner, pick, wait, replaces, seed, threads)
    )


def _ended(network: TacosNetwork, made: MatchedTransfers) -> Try:
    if len(network.duration) == 1:  # what starts last also ends last
        return Try(made, int(made.start[-1] + network.duration[0]) if len(made.start) else 0)
    return Try(made, int((made.start + network.duration[network.cost[made.link]]).max(initial=0)))


def _mixed(
    problem: Problem, size: Fraction, options: TacosOptions, make: Callable[[Problem, TacosOptions], Schedule]
) -> Schedule:
    """Return the schedule of a mixed collective (2023 version, VI-E) that ends first of those tried.

    Each part is made separately, in chunks of about the same size; then all are combined
    (`schedules.groups`).

    Parameters
    ----------
    problem
        Its collective has parts.
    size
        M in bytes.
    options
        ``chunks`` is for the shards of the smallest size; larger ones are cut into more.
    make
        A function that returns the schedule of one part, given it and its options.
    """
    what = problem.collective
    own = options.shared(len(what.parts))
    parts = [
        make(Problem(problem.topology, part, size * w), replace(own, chunks=chunks))
        for w, part, chunks in zip(what.part_weights, what.parts, _chunks(what, options.chunks), strict=True)
    ]
    return together(what, parts, size)


def _chunks(what: Collective, chunks: int) -> list[int]:
    """Return the chunks a shard of each part, for nearly equal sizes of chunks."""
    shards = [w * max(part.items.share) for w, part in zip(what.part_weights, what.parts, strict=True)]
    return [chunks * min(math.ceil(shard / min(shards)), MOST_TIMES) for shard in shards]


def check(problem: Problem, options: TacosOptions) -> None:
    """Raise `Unsupported` for problems that options rule out, and for some one-way switches.

    Raises
    ------
    InputError
        If the degree exceeds the ports of all switches.
    """
    what, where = problem.collective, problem.topology
    for part in what.parts:
        check(Problem(where, part, problem.size), options)
    if options.chunk_rule == SAMPLED and (where.num_switches or not where.homogeneous):
        raise METHOD.unsupported(
            f"with chunk_rule 'sampled' needs links of one cost; those of {where.name} differ"
        )
    if where.num_switches:
        check_degree(where, options.degree)
        check_unwinding(where)
    elif options.degree is not None or options.bidirectional:
        given = "bidirectional" if options.degree is None else "a degree"
        raise METHOD.unsupported(f"with {given} unwinds switches; {where.name} has none")


def size_dependent(problem: Problem, options: TacosOptions) -> bool:
    """Return whether links, shards or parts differ, or ports are shared: then all depends on the size."""
    if problem.collective.parts:
        return True
    even = problem.collective.items.share.uniform
    return bool(problem.topology.num_switches) or not problem.topology.homogeneous or not even


METHOD = Method(
    name="tacos",
    kind="heuristic",
    synthesize=synthesize,
    options=TacosOptions,
    capabilities=Capabilities(),
    check=check,
    size_dependent=size_dependent,
    seeded=True,
    estimate=lambda problem, options: shard_seconds(problem, options.chunks),
    summary="greedy link-chunk matching over the time-expanded network (TACOS)",
)
