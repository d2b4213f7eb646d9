"""Rounds: the fewest α in which all ranks can have all data, and schedules over the messages found.

Each message holds the ports that it goes through for α, so small sizes need few, well chosen messages.
Messages by which every rank's shard reaches all ranks (`heuristics.rounds.slots`) serve an allgather. They
serve an all-to-all, too: data of many ranks travels together (as in Bruck et al., doi 10.1109/71.642949).
Larger sizes have more time than the fewest α take. So further messages follow on idle links: from as few as
possible to one for every two ranks. The schedule that is fastest when simulated at the problem's size is
kept.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, partial
from itertools import combinations, cycle, islice, takewhile
from typing import Annotated, ClassVar, NamedTuple, TypeVar

import numpy as np

from tutti.heuristics.rounds.loads import loaded, wanted_of
from tutti.heuristics.rounds.slots import (
    MessageRoutes,
    RoundMessages,
    Slots,
    Use,
    alpha_or_hops,
    longer,
    messages_in,
    moments,
    search,
    translations,
)
from tutti.heuristics.rounds.vertex_transitive import TUNING as ALIKE
from tutti.heuristics.rounds.vertex_transitive import VertexTransitiveNetwork
from tutti.heuristics.rounds.vertex_transitive import allreduce as sums
from tutti.schedules.capabilities import Capabilities, Groups
from tutti.schedules.collective import Collective, Kind, collective
from tutti.schedules.compose import BY_ALLGATHER, allreduce_in_clusters, compose_allreduce
from tutti.schedules.method import Method, Problem
from tutti.schedules.reversal import reverse
from tutti.schedules.schedule import Routes, Schedule
from tutti.schedules.simulation.simulate import simulate
from tutti.topologies.errors import NoSchedule, Unsupported
from tutti.topologies.exact import BoolArray, Int64Array, IntArray
from tutti.topologies.graphs.shortest_paths import alpha_distances, hop_distances
from tutti.topologies.kernels import now
from tutti.topologies.options import SECONDS, Options, Whole
from tutti.topologies.topology import Topology
from tutti.topologies.transforms import transpose

T = TypeVar("T")


class MinLatencyTuning(NamedTuple):
    """Limits on the messages that are tried, and on the work that this takes."""

    most_ranks: int
    """Largest number of ranks, as every rank may send to every other at every moment."""
    many: int
    """Largest number of ranks for which messages that differ from rank to rank are also tried."""
    searches: int
    """Largest number of ranks times searches for messages that are the same seen from each rank."""
    further: tuple[int, ...]
    """Additional times that messages may take after every rank can know everything, as multiples of the
    least α."""
    few: int
    """Number of these that are tried for allreduces in clusters."""
    work: int
    """Largest number of messages times data of a schedule. It limits the additional time of messages."""
    most_transfers: int
    """Largest number of transfers of an allreduce in one shot."""
    most_sets: int
    """Largest number of sets of symmetries that are tried."""
    longest: int
    """The search for messages gives up at this many times the least α."""


TUNING = MinLatencyTuning(
    most_ranks=256,
    many=64,
    searches=2**14,
    further=(1, 2, 4, 8, 16, 32, 64),
    few=3,
    work=2**25,
    most_transfers=2**22,
    most_sets=8,
    longest=2**10,
)


@dataclass(frozen=True)
class RoundsOptions(Options):
    """Options of min_latency.

    Parameters
    ----------
    variants
        Number of sets of messages of the fewest α that are tried; more find better ones.
    time_limit
        Seconds after which no further set is tried, if there is a schedule; None for no limit.

    Raises
    ------
    InputError
        If one is out of its range.
    """

    OWNER: ClassVar[str] = "min_latency"

    variants: Annotated[int, Whole(1, 1000)] = 16
    time_limit: Annotated[float | None, SECONDS] = None


class Variant(NamedTuple):
    """Messages by which all ranks have all data, and the time by which they do."""

    network: MessageRoutes
    slots: Slots
    use: Use
    until: int

    def messages(self, further: int) -> tuple[Routes, RoundMessages]:
        """Return the messages, and more that follow on idle links for `further` times the least α."""
        least = int(self.slots.alpha[self.slots.alpha > 0].min())
        return self.network.routes, messages_in(*longer(self.slots, self.use, self.until + further * least))


def synthesize(problem: Problem, options: RoundsOptions, rng: np.random.Generator) -> Schedule:
    """Return the fastest schedule found, in the step clock.

    Raises
    ------
    NoSchedule
        If no messages were found by which all ranks have all data.
    Unsupported
        As `METHOD.supports`.
    """
    METHOD.supports(problem, options)
    topology, what = problem.topology, problem.collective
    size = Fraction(1) if problem.size is None else problem.size
    until = math.inf if options.time_limit is None else now() + options.time_limit
    forwards = Synthesizer(topology, options.variants, rng, until)
    if what.kind in (Kind.ALL_TO_ALL, Kind.ALLGATHER):
        return forwards.fastest(what, size)
    backwards = Synthesizer(transpose(topology), options.variants, rng, until)
    if what.kind is Kind.REDUCE_SCATTER:
        return _scattered(backwards, topology, what, size)
    found = list(forwards.sums(problem))
    # If all of M takes less than α on each link, halving an allreduce would save nothing.
    short = (float(size) / topology.bandwidth.floats < topology.alpha.floats).all()
    if found and topology.num_ranks > TUNING.many and short:
        return found[0]
    ways = _allreduces(forwards, backwards, what, size)
    for left, way in zip(range(len(ways), 0, -1), ways, strict=True):
        if found and now() > until:
            break
        forwards.until = backwards.until = now() + (until - now()) / left
        found.append(way())
    return min(found, key=lambda schedule: simulate(schedule, size).time)


def _scattered(
    backwards: Synthesizer,
    topology: Topology,
    what: Collective,
    size: Fraction,
    most: int = len(TUNING.further),
) -> Schedule:
    """Return a reduce-scatter: an allgather on the transposed network, backwards."""
    return reverse(backwards.fastest(what.with_kind(Kind.ALLGATHER), size, most), topology)


def _allreduces(
    forwards: Synthesizer, backwards: Synthesizer, what: Collective, size: Fraction
) -> list[Callable[[], Schedule]]:
    """Return makers of an allreduce: in clusters of each size, first of single ranks, and in halves."""
    everyone, topology = collective(Kind.REDUCE_SCATTER, what.num_ranks), forwards.topology

    def in_clusters(members: int) -> Schedule:
        clusters, spread = forwards.clusters(members), None
        scatter = _scattered(backwards, topology, everyone, size * len(clusters), TUNING.few)
        if members > 1:
            groups = collective(Kind.ALLGATHER, what.num_ranks, groups=clusters.tolist())
            spread = forwards.fastest(groups, size, TUNING.few)
        return allreduce_in_clusters(what, clusters, scatter, spread)

    def in_halves() -> Schedule:
        gather = forwards.fastest(what.with_kind(Kind.ALLGATHER), size)
        return compose_allreduce(_scattered(backwards, topology, what, size), gather)

    sizes = forwards.cluster_sizes() if what.groups is None else []
    return [*(partial(in_clusters, members) for members in sizes), in_halves]


class Synthesizer:
    """Makes schedules on a network, and keeps the messages that it found.

    Parameters
    ----------
    topology
        The network.
    variants
        Number of sets of messages that are tried.
    rng
        Chooses among messages.
    until
        Time after which the best so far is enough, by `topologies.kernels.now`.
    """

    def __init__(
        self, topology: Topology, variants: int, rng: np.random.Generator, until: float = math.inf
    ) -> None:
        self.topology, self.variants, self.rng, self.until = topology, variants, rng, until
        self.found: dict[bytes, list[Variant]] = {}

    def fastest(self, what: Collective, size: Fraction, most: int = len(TUNING.further)) -> Schedule:
        """Return the fastest allgather or all-to-all over the fewest messages, or over more."""

        def made(variant: Variant, further: int) -> tuple[float, Schedule]:
            schedule = loaded(Problem(self.topology, what, size), *variant.messages(further))
            return simulate(schedule, size).time, schedule

        searches, many = (
            -(-2 * self.variants * most // len(TUNING.further)),
            self.topology.num_ranks > TUNING.many,
        )
        alike = list(self._alike(what, size, searches)) if many else []
        if alike:
            return alike[0][1]
        if self.topology.num_ranks > TUNING.most_ranks:
            raise _too_many(self.topology)
        first, *others = self.fewest(wanted_of(what))
        found = [(*made(first, 0), first)]
        alike += [] if many else self._alike(what, size, searches)
        found += ((*made(one, 0), one) for one in self._in_time(others))
        time, schedule, variant = min(found, key=lambda one: one[0])
        longest = TUNING.work // (self.topology.num_links * len(what.items))
        further = (rounds for rounds in TUNING.further[:most] if rounds <= longest)
        extended = (made(variant, rounds) for rounds in self._in_time(further))
        return min([(time, schedule), *alike, *extended], key=lambda one: one[0])[1]

    def _alike(self, what: Collective, size: Fraction, searches: int) -> Iterator[tuple[float, Schedule]]:
        """Yield a schedule that is the same seen from each rank, if ranks are equivalent and data equal."""
        network = self._network
        if network is None or not what.plain:
            return
        each = what.kind is Kind.ALL_TO_ALL
        shard = float(size * what.items.share[0])
        searches = max(1, min(searches, TUNING.searches // what.num_ranks))
        tried = (network.searched(shard, self.rng, each=each) for _ in self._in_time(range(searches)))
        time, played = min(tried, key=lambda one: one[0], default=(math.inf, None))
        if time < math.inf and played is not None:
            schedule = network.all_to_all(what, played) if each else network.allgather(what, played)
            yield simulate(schedule, size).time, schedule

    def sums(self, problem: Problem) -> Iterator[Schedule]:
        """Yield an allreduce in one shot that is the same seen from each rank, if one is found."""
        if self._network is not None and problem.collective.plain:
            schedule = sums(self._network, problem, self.until, *self.rng.spawn(1))
            if schedule is not None:
                yield schedule

    @cached_property
    def _network(self) -> VertexTransitiveNetwork | None:
        return VertexTransitiveNetwork.of(self.topology) if self._chooses else None

    def _in_time(self, things: Iterable[T]) -> Iterator[T]:
        """Yield things while there is time."""
        return takewhile(lambda thing: now() <= self.until, things)

    def cluster_sizes(self) -> list[int]:
        """Return the sizes of clusters in which an allreduce may be done."""
        ranks = self.topology.num_ranks
        if ranks > TUNING.many and self._network is not None:
            return []
        sizes = (size for size in range(1, ranks) if ranks % size == 0)
        return [size for size in sizes if ranks * ranks * (ranks // size) <= TUNING.most_transfers]

    def clusters(self, size: int) -> Int64Array:
        """Return clusters of a size: ranks in a row, or equally spaced ranks if these need fewer α."""
        rank = np.arange(self.topology.num_ranks)
        ways = [rank.reshape(-1, size), rank.reshape(size, -1).T]
        return min(ways, key=self._until) if size > 1 else ways[0]

    def _until(self, clusters: Int64Array) -> int:
        groups = collective(Kind.ALLGATHER, self.topology.num_ranks, groups=clusters.tolist())
        return self.fewest(wanted_of(groups))[0].until

    def fewest(self, wanted: BoolArray) -> list[Variant]:
        """Return messages by which all get what they need in the fewest α found, for several symmetries.

        The number of α is doubled until there are some, then the least number is found by halving.

        Raises
        ------
        NoSchedule
            If none were found.
        """
        key = wanted.tobytes()
        if key in self.found:
            return self.found[key]
        alpha = alpha_or_hops(self.topology)
        first, step = int(self._distances[wanted].max()), int(alpha[alpha > 0].min())
        few, more = -1, 0
        found = self._variants(wanted, first)
        while not found:
            few, more = more, max(1, 2 * more)
            if more > TUNING.longest:
                name = self.topology.name
                raise NoSchedule(f"min_latency found no messages on {name} that bring all data to all ranks")
            found = self._variants(wanted, first + more * step)
        while more - few > 1:
            between = (few + more) // 2
            fewer = self._variants(wanted, first + between * step)
            few, more, found = (few, between, fewer) if fewer else (between, more, found)
        others = islice(cycle(list(found)), max(0, self.variants - len(found)) * self._chooses)
        for other in self._in_time(others):
            found += self._variants(wanted, other.until, other.network)
        self.found[key] = found[: self.variants]
        return self.found[key]

    @cached_property
    def _distances(self) -> IntArray:
        """Distances from each rank to each, in α over its denominator or in hops."""
        topology, ranks = self.topology, self.topology.num_ranks
        distances = alpha_distances(topology) if topology.alpha.numerators.any() else hop_distances(topology)
        return distances[:ranks, :ranks].T

    @cached_property
    def _chooses(self) -> bool:
        """Whether messages go through switches that only forward."""
        return bool(_forwarding(self.topology))

    @cached_property
    def _networks(self) -> list[MessageRoutes]:
        """The routes in classes of all translations, of fewer of them, and each alone."""
        symmetries = translations(self.topology) if self._chooses else []
        counts = range(len(symmetries), -1, -1)
        sets = [list(used) for count in counts for used in combinations(symmetries, count)]
        return [
            MessageRoutes.of(self.topology, used) for used in [*sets[:-1][: TUNING.most_sets - 1], sets[-1]]
        ]

    def _variants(self, wanted: BoolArray, until: int, *networks: MessageRoutes) -> list[Variant]:
        """Return the given networks (or of all) on which messages are found, and these messages."""
        found = []
        for network in networks or self._networks:
            slots = Slots.of(self.topology, network, moments(self.topology, until))
            use = search(self.topology, slots, wanted, until, self.rng)
            if use is not None:
                found.append(Variant(network, slots, use, until))
        return found


def check(problem: Problem, options: RoundsOptions) -> None:
    """Raise `Unsupported` for over 256 ranks, unless they may be equivalent behind switches."""
    topology, ranks = problem.topology, problem.topology.num_ranks
    if ranks > TUNING.most_ranks and not (
        ranks <= ALIKE.most_ranks and problem.collective.plain and _forwarding(topology)
    ):
        raise _too_many(topology)


def _too_many(topology: Topology) -> Unsupported:
    return METHOD.unsupported(
        f"takes at most {TUNING.most_ranks} ranks, or {ALIKE.most_ranks} equivalent ones behind switches, "
        f"in one collective of equal shards; {topology.name} has {topology.num_ranks}"
    )


def _forwarding(topology: Topology) -> int:
    """Return the number of switches that only forward."""
    return topology.num_nodes - topology.num_ranks - len(topology.multicast)


METHOD = Method(
    name="min_latency",
    kind="heuristic",
    synthesize=synthesize,
    options=RoundsOptions,
    capabilities=Capabilities(
        (*BY_ALLGATHER, Kind.ALL_TO_ALL),
        Groups.ANY,
        further=f"at most {TUNING.most_ranks} ranks, {ALIKE.most_ranks} if equivalent",
    ),
    check=check,
    size_dependent=lambda problem, options: True,
    seeded=True,
    summary="small sizes: as few α as possible, with messages that the data of all ranks share",
)
