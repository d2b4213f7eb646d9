"""Postal gossip: every free port sends all that is new to the rank that gains most.

A message holds each link for α, however little it carries, so small allgathers are about the number of
messages: what a rank knows should double with one port, triple with two, and more where messages follow each
other before the first has arrived: the postal model (Bar-Noy and Kipnis, doi 10.1145/140901.140903). One
message goes over a *route*: a link, or links through switches that only forward. Routes that a symmetry of
the network maps to each other are a class, and are used together.

There the best gossip on one switch is translation-invariant: all ranks send over equal distances at equal
times. So the greedy search (`heuristics.gossip.kernel`) uses all images of a route under the network's
translations together, or under those along one dimension, or none; it counts α alone, or α and bytes; its
preferences are random. The schedule that is fastest when simulated is kept.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from itertools import product
from typing import Annotated, ClassVar

import numpy as np

from tutti.heuristics.gossip.kernel import NEVER, Found, GossipNetwork, Priorities, gossip
from tutti.heuristics.gossip.routes import MessageRoutes, translations
from tutti.schedules.capabilities import Capabilities, Groups
from tutti.schedules.compose import BY_ALLGATHER, from_allgather
from tutti.schedules.method import Method, Problem
from tutti.schedules.schedule import Chunks, Clock, Schedule, step_numbers
from tutti.schedules.simulation.simulate import simulate
from tutti.topologies.exact import BoolArray, Int32Array, Int64Array, offsets_of
from tutti.topologies.kernels import now
from tutti.topologies.options import SECONDS, Options, Whole

MOST_RANKS = 256
"""Every rank may send to every other at every moment."""
DEFAULT_TRIES = 200
WORK = 2**28
"""Routes times chunks times tries: on larger networks there are fewer tries."""
MOMENTS = 32
"""So many moments have noise of their own; later ones use it again."""
NOISE = (0.9, 0.9, 2.0, 4.0)
"""The largest noise of a try, by turns: below 1, a new chunk, it only settles ties."""
RARITY = (0.0, 0.25, 1.0)
"""What a chunk gains besides, by turns, for each neighbour of the target that lacks it."""
PATIENT = 5
"""One try in so many has long routes wait until they have several new chunks."""


@dataclass(frozen=True)
class PostalOptions(Options):
    """Options of postal gossip.

    Parameters
    ----------
    tries
        How often at most the search is run, in each of its variants; large networks get fewer.
    time_limit
        Seconds after which no further search is begun, if one has found something; None for none.

    Raises
    ------
    InputError
        If `tries` is not a whole number from 1, or the time is not positive.
    """

    OWNER: ClassVar[str] = "postal"

    tries: Annotated[int, Whole(1, words="it must be a whole number from 1")] = DEFAULT_TRIES
    time_limit: Annotated[float | None, SECONDS] = None


def synthesize(problem: Problem, options: PostalOptions, rng: np.random.Generator) -> Schedule:
    """Return the fastest schedule found, in the step clock.

    Raises
    ------
    Unsupported
        As `METHOD.supports`.
    """
    METHOD.supports(problem, options)
    until = math.inf if options.time_limit is None else now() + options.time_limit
    return from_allgather(problem, partial(_allgather, tries=options.tries, until=until, rng=rng))


def _allgather(problem: Problem, tries: int, until: float, rng: np.random.Generator) -> Schedule:
    size = Fraction(1) if problem.size is None else problem.size
    found = list(_candidates(problem, tries, until, rng))
    times = [simulate(schedule, size).time for schedule in found]
    return found[int(np.argmin(times))]


def _candidates(problem: Problem, tries: int, until: float, rng: np.random.Generator) -> Iterator[Schedule]:
    """Yield the best of each variant of the search: with symmetries or without, by α or by α and bytes."""
    topology = problem.topology
    symmetries = translations(topology)
    variants = list(product([symmetries, []] if symmetries else [[]], (False, True)))
    found = False
    for left, (used, with_bytes) in zip(range(len(variants), 0, -1), variants, strict=True):
        if found and now() > until:
            return
        network = MessageRoutes.of(topology, used)
        best = _search(problem, network, with_bytes, tries, now() + (until - now()) / left, rng)
        if best is not None:
            found = True
            yield _schedule(problem, network, best)


def _search(
    problem: Problem,
    network: MessageRoutes,
    with_bytes: bool,
    tries: int,
    until: float,
    rng: np.random.Generator,
) -> Found | None:
    """Return the fastest gossip of all tries begun in time, None if none reached everyone."""
    net = _arrays_of(problem, network, with_bytes)
    work = len(network.source) * problem.topology.num_ranks
    best, fastest = None, NEVER
    for number in range(max(1, min(tries, WORK // work // MOMENTS))):
        priorities = _priorities(net, number, rng)
        time, found = gossip(net, problem.topology.num_nodes, priorities, fastest)
        if time < fastest:
            best, fastest = found, time
        if best is not None and now() > until:
            break
    return best


def _arrays_of(problem: Problem, network: MessageRoutes, with_bytes: bool) -> GossipNetwork:
    topology, chunks = problem.topology, Chunks.even(problem.collective)
    size = Fraction(1) if problem.size is None else problem.size
    alpha = topology.alpha.floats
    bandwidth = topology.bandwidth.floats
    return GossipNetwork(
        network.routes.offsets,
        network.routes.links,
        network.source,
        network.target,
        network.classes,
        alpha,
        1 / bandwidth if with_bytes or not alpha.any() else np.zeros_like(bandwidth),
        np.add.reduceat(alpha[network.routes.links], network.routes.offsets[:-1]),
        np.multiply(chunks.size, float(size / chunks.denominator), dtype=np.float64),
        *_neighbours(network, topology.num_nodes),
    )


def _neighbours(network: MessageRoutes, nodes: int) -> tuple[Int64Array, Int32Array]:
    """Return the nodes that each node has a link to, if these keep data, in CSR form."""
    direct = np.diff(network.routes.offsets) == 1
    pairs = np.unique(network.source[direct].astype(np.int64) * nodes + network.target[direct])
    return offsets_of(np.bincount(pairs // nodes, minlength=nodes)), (pairs % nodes).astype(np.int32)


def _priorities(net: GossipNetwork, number: int, rng: np.random.Generator) -> Priorities:
    """Return the preferences of one try: the first are greedy, the others less so and less."""
    noise = rng.random((MOMENTS, len(net.classes) - 1)) * NOISE[number % len(NOISE)]
    ranks, rare = len(net.size), RARITY[number % len(RARITY)]
    if number % PATIENT:
        return Priorities(noise, rare, NEVER, 1)
    long = float(rng.choice(np.unique(net.latency)))
    return Priorities(noise, rare, long, int(rng.integers(1, max(3, ranks // 2 + 1))))


def _schedule(problem: Problem, network: MessageRoutes, found: Found) -> Schedule:
    """Return the schedule of all that was sent; a step is a moment at which something left."""
    node, chunk = np.nonzero(_used(found, network, problem.topology.num_ranks))
    route, moment = found.route[node, chunk], found.moment[node, chunk]
    order = np.lexsort((chunk, route, moment))
    steps = np.unique(moment[order], return_inverse=True)[1] + 1
    return Schedule(
        topology=problem.topology,
        collective=problem.collective,
        clock=Clock.STEP,
        chunks=Chunks.even(problem.collective),
        chunk=chunk[order].astype(np.int32),
        route=route[order],
        order=step_numbers(steps),
        routes=network.routes,
    )


def _used(found: Found, network: MessageRoutes, ranks: int) -> BoolArray:
    """Return what was sent, bool (nodes, chunks), but for what came to a switch that never passed it on."""
    sent = found.route >= 0
    while True:
        node, chunk = np.nonzero(sent)
        passed = np.zeros_like(sent)
        passed[network.source[found.route[node, chunk]], chunk] = True
        useless = sent & ~passed
        useless[:ranks] = False
        if not useless.any():
            return sent
        sent = sent & ~useless


def check(problem: Problem, options: PostalOptions) -> None:
    """Raise `Unsupported` for over 256 ranks."""
    ranks = problem.topology.num_ranks
    if ranks > MOST_RANKS:
        raise METHOD.unsupported(f"takes at most {MOST_RANKS} ranks; {problem.topology.name} has {ranks}")


def _by_size(problem: Problem, options: PostalOptions) -> bool:
    return True


METHOD = Method(
    name="postal",
    kind="heuristic",
    synthesize=synthesize,
    options=PostalOptions,
    capabilities=Capabilities(BY_ALLGATHER, Groups.NONE, further=f"at most {MOST_RANKS} ranks"),
    check=check,
    size_dependent=_by_size,
    seeded=True,
    summary="greedy gossip for small messages: every free port sends all that is new to who gains most",
)
