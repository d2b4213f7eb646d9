"""ForestColl as a method: out-trees that meet the throughput bottleneck cut exactly (dissertation 4.5, B.5).

The steps are exact. The bottleneck cut gives 1/x*. From it follow the number k of trees a root and the number
of trees that each link carries (B.5.1). Then the switches are removed (B.5.2), and spanning trees are packed
(B.5.3). They become transfers over the routes that switch removal has kept. The last two steps are first
tried by heuristics (`spread_switches`, `grow_trees`). Their result is used only if it is as good as that of
the exact algorithm, which otherwise takes over. On small networks both are made, and the lower trees are
kept.

The demand says which ranks the trees span. With w_r the share of M of which rank r is the root, trees are
packed for any weights w (4.5.7). The weights are equal in an allgather, and a broadcast has one at its root
only. Where only some shards of an allgather hold data, their ranks are its *several roots*. The bottleneck
cut is that of the same weights, so all of these are met exactly. Ranks that take no part forward, as switches
do.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Annotated, Any, ClassVar

import numpy as np

from tutti.models.bounds.bottleneck_cut import Cut, binary_search_cut, bottleneck_cut
from tutti.models.forestcoll.fixed_k import bisected_density, fixed_k_capacities, raised_density
from tutti.models.forestcoll.multicast import TrafficTotals, multicast
from tutti.models.forestcoll.schedule import forest_schedule
from tutti.schedules.capabilities import Capabilities, Groups, Switches
from tutti.schedules.collective import Collective, Kind
from tutti.schedules.compose import compose_allreduce, shard_seconds
from tutti.schedules.method import Method, Problem
from tutti.schedules.reversal import reverse
from tutti.schedules.schedule import Routes, Schedule
from tutti.topologies.errors import InputError, NoSchedule
from tutti.topologies.exact import Int64Array, Rationals
from tutti.topologies.graphs.max_flow import FlowNetwork
from tutti.topologies.graphs.shortest_paths import shortest_routes
from tutti.topologies.kernels import now
from tutti.topologies.options import Choice, Options, Whole
from tutti.topologies.topology import Topology, components
from tutti.topologies.transforms import among, transpose
from tutti.topologies.trees.forest import (
    Forest,
    LogicalNetwork,
    align_trees,
    largest_height,
    mean_height,
    tree_capacities,
)
from tutti.topologies.trees.packing import pack_trees
from tutti.topologies.trees.packing_heuristic import grow_trees
from tutti.topologies.trees.switch_removal import remove_switches
from tutti.topologies.trees.switch_removal_heuristic import spread_switches

KINDS = (Kind.ALLGATHER, Kind.REDUCE_SCATTER, Kind.ALLREDUCE, Kind.BROADCAST, Kind.REDUCE)
AUTO, BINARY, NEWTON = "auto", "binary", "newton"
SEARCHES = {BINARY: binary_search_cut, NEWTON: bottleneck_cut}
FIXED_K_SEARCHES = {BINARY: bisected_density, NEWTON: raised_density, AUTO: raised_density}
ALGORITHM_1, ALGORITHM_5 = (
    {"program": f"maximum flows of Algorithm {number}", "solver": "ortools"} for number in (1, 5)
)
"""Columns of a result row that say what a binary search has solved."""
BINARY_ARCS = 1000
"""Links, and ranks with data, up to which ``auto`` searches by Algorithm 1.

Measured on one core, CPU ms: 2 and 9 on ``dgx_a100:2`` and ``mi250:2`` (80 and 320 arcs), 33 on
``dgx_a100:16`` (640), 53 on ``hypercube:7`` (1,024), 105 on ``ring:256`` (768), the longest seen; Newton's
method takes 1 to 3."""


@dataclass(frozen=True, eq=False)
class PackingDemand:
    """A packing problem in which every rank is spanned.

    Parameters
    ----------
    topology
        The network. Where only some ranks take part they are its ranks, in order, and the others are switches
        that forward; links keep their numbers.
    weights
        The share of M of which each rank is the root, exact and summing to 1; None: equal.
    """

    topology: Topology
    weights: Rationals | None

    @classmethod
    def of(cls, topology: Topology, what: Collective) -> PackingDemand:
        """Return the demand of an allgather, or of a broadcast, in one group."""
        members = what.members[0]
        if what.kind is Kind.BROADCAST:
            one = [Fraction(int(position == what.root)) for position in range(len(members))]
            return cls(among(topology, members), Rationals.of(one))
        return cls(among(topology, members), None if what.items.share.uniform else what.items.share)

    @property
    def num_roots(self) -> int:
        """The number of ranks that are a root, which is all whose weight is not 0."""
        if self.weights is None:
            return self.topology.num_ranks
        return int(np.count_nonzero(self.weights.numerators))

    @property
    def scale(self) -> Fraction:
        """The share of M that a weight of 1 stands for: 1/x* times this is the time over M."""
        return Fraction(1) if self.weights is not None else Fraction(1, self.topology.num_ranks)

    def connected(self, network: LogicalNetwork) -> LogicalNetwork:
        """Return a network in which every rank reaches every other, if there are empty shards.

        A rank that is no tree's root may have lost all arcs to others when the switches were removed. Its
        shard holds no bytes, so arcs of capacity 0 suffice for it: a ring through the strongly connected
        components, over shortest routes.
        """
        if self.weights is None or self.weights.numerators.all():
            return network
        count, component = components(network.num_ranks, network.tails, network.heads, strong=True)
        if count == 1:
            return network
        _, first = np.unique(component, return_index=True)
        tails, heads = first, np.roll(first, -1)
        ring = Routes(*shortest_routes(self.topology, tails, heads))
        routes = Routes.joined([Routes(network.offsets, network.links), ring])
        return LogicalNetwork(
            num_ranks=network.num_ranks,
            tails=np.concatenate([network.tails, tails]),
            heads=np.concatenate([network.heads, heads]),
            capacity=np.concatenate([network.capacity, np.zeros(count, dtype=np.int64)]),
            offsets=routes.offsets,
            links=routes.links,
        )


@dataclass(frozen=True)
class ForestcollOptions(Options):
    """Options of ForestColl.

    Parameters
    ----------
    trees
        k, a number of trees for every root, for which the best throughput is found (4.5.5); None: the k of
        the optimum.
    fast
        Whether heuristics are tried before the exact algorithms. Throughput is the same; heights may differ.
    multicast
        Whether switches that can multicast or aggregate do so (4.5.6).
    search
        How the bottleneck cut is found: ``"binary"``, Algorithm 1 with OR-Tools' max-flow; ``"newton"``, from
        cut to cut; ``"auto"``: Algorithm 1 up to 1,000 links and roots where its numbers fit 64 bits. They
        give the same ratio. With `trees`, ``"binary"`` is Algorithm 5 with OR-Tools' max-flow, and the others
        go from cut to cut. With ``"binary"`` Algorithms 3 and 4 test capacities by OR-Tools' max-flow, too,
        as printed; with `fast` false nothing else runs. The trees are the same, and take longer.

    Raises
    ------
    InputError
        If `trees` is no whole number or below 1, or there is no such search.
    """

    OWNER: ClassVar[str] = "forestcoll"

    trees: Annotated[int | None, Whole(1)] = None
    fast: bool = True
    multicast: bool = True
    search: Annotated[str, Choice((AUTO, *SEARCHES))] = AUTO


def synthesize(problem: Problem, options: ForestcollOptions, rng: np.random.Generator) -> Schedule:
    """Return a flow schedule with congestion 1/x* exactly; with `trees`, the least for that number of trees.

    Reduce-scatter and reduce are those of the transposed network, reversed; allreduce is a reduce-scatter and
    an allgather, optimal in all topologies that the paper evaluated, though not in general (4.5.7).
    An allgather in which some shards are empty has *several roots*, a reduce-scatter several sinks; both are
    as exact (`models.forestcoll.method`).

    Raises
    ------
    NoSchedule
        If the optimum needs more trees than are allowed, if numbers are too far apart for 64 bits, if `trees`
        leaves a switch that can't be removed, or if the table would be too large.
    """
    schedule, traffic = _schedule(options, problem)
    columns = [each.columns(suffix) for suffix, each in traffic.items()]
    return schedule.replace(stats={**schedule.stats, **{k: v for part in columns for k, v in part.items()}})


Loads = Mapping[str, TrafficTotals]
"""The traffic of a schedule (``""``) and, where switches multicast, without (``"_unicast"``)."""


def _schedule(options: ForestcollOptions, problem: Problem) -> tuple[Schedule, Loads]:
    """Return a schedule and its traffic."""
    what = problem.collective
    if what.kind in (Kind.ALLGATHER, Kind.BROADCAST):
        return _spread(options, problem)
    if what.kind is Kind.ALLREDUCE:
        halves = [Problem(problem.topology, what.with_kind(k)) for k in (Kind.REDUCE_SCATTER, Kind.ALLGATHER)]
        return _composed(*(_schedule(options, half) for half in halves))
    schedule, traffic = _spread(options, Problem(transpose(problem.topology), what.reverse))
    return reverse(schedule, problem.topology), {suffix: each.reverse for suffix, each in traffic.items()}


def _composed(
    reduce_scatter: tuple[Schedule, Loads], allgather: tuple[Schedule, Loads]
) -> tuple[Schedule, Loads]:
    """Return the allreduce; heights and traffic add up, the number of trees does not."""
    (first, before), (second, after) = reduce_scatter, allgather
    schedule = compose_allreduce(first, second)
    trees = max(half.stats["trees"] for half in (first, second))
    traffic = {
        suffix: before.get(suffix, before[""]) + after.get(suffix, after[""])
        for suffix in {**before, **after}
    }
    return schedule.replace(stats={**schedule.stats, "trees": trees}), traffic


def _spread(options: ForestcollOptions, problem: Problem) -> tuple[Schedule, Loads]:
    """Return the schedule of an allgather or a broadcast, and its traffic."""
    demand, watch = PackingDemand.of(problem.topology, problem.collective), _Stopwatches()
    with watch("search_s"):
        k, ratio, capacity, searched = _capacities(demand, options)
    network, forest = _trees(demand, capacity, k, options, watch)
    with watch("build_s"):
        reaching = demand.connected(network) if problem.collective.kind is Kind.ALLGATHER else network
        schedule = forest_schedule(problem.topology, problem.collective, reaching, forest, k)
    stats: dict[str, Any] = {**watch.seconds, **searched, "trees": k}
    if "program" in stats:
        stats["solve_s"] = watch.seconds["search_s"]
    stats |= {"height": largest_height(forest), "mean_height": float(mean_height(forest))}
    traffic = {}
    if options.multicast and problem.topology.multicast:
        traffic["_unicast"] = TrafficTotals.of(schedule)
        schedule = multicast(schedule)
    traffic[""] = TrafficTotals.of(schedule)
    return schedule.replace(claims={"congestion": ratio * demand.scale}, stats=stats), traffic


def _capacities(
    demand: PackingDemand, options: ForestcollOptions
) -> tuple[int, Fraction, Int64Array, dict[str, str]]:
    """Return k, 1/x* (for a fixed k, its best ratio), the trees that each link carries, and the search."""
    if options.trees is not None:
        density = FIXED_K_SEARCHES[options.search]
        fixed = fixed_k_capacities(demand.topology, options.trees, demand.weights, density)
        return options.trees, fixed.ratio, fixed.capacity, ALGORITHM_5 if options.search == BINARY else {}
    try:
        search, cut = _bottleneck(demand, options.search)
    except InputError as error:  # weights are right, so these are numbers that 64 bits do not hold
        raise NoSchedule(str(error)) from error
    k, capacity = tree_capacities(demand.topology, cut.ratio, demand.weights)
    return k, cut.ratio, capacity, {"search": search} | (ALGORITHM_1 if search == BINARY else {})


def _bottleneck(demand: PackingDemand, search: str) -> tuple[str, Cut]:
    """Return the bottleneck cut, and by which search it was found."""
    if search != AUTO:
        return search, SEARCHES[search](demand.topology, demand.weights)
    arcs = demand.topology.num_links + demand.num_roots
    if arcs <= BINARY_ARCS:
        with suppress(InputError):  # X² enters the capacities, which Newton's method does without
            return BINARY, binary_search_cut(demand.topology, demand.weights)
    return NEWTON, bottleneck_cut(demand.topology, demand.weights)


def _trees(
    demand: PackingDemand, capacity: Int64Array, k: int, options: ForestcollOptions, watch: _Stopwatches
) -> tuple[LogicalNetwork, Forest]:
    """Return the network without switches and the trees.

    Where both are cheap, the trees by heuristics and the exact ones are made, and the lower are returned. On
    a small network with a single root only the exact algorithm runs.
    """
    topology = demand.topology
    roots = demand.num_roots
    small = roots * topology.num_nodes * topology.num_links <= 2**15  # tenths of a second
    found = []
    if options.fast and not (small and roots == 1):
        found.append(_packed(demand, capacity, k, options, watch))
    if small or not options.fast:
        found.append(_packed(demand, capacity, k, replace(options, fast=False), watch))
    return min(found, key=lambda pair: (largest_height(pair[1]), mean_height(pair[1]), len(pair[1])))


def _packed(
    demand: PackingDemand, capacity: Int64Array, k: int, options: ForestcollOptions, watch: _Stopwatches
) -> tuple[LogicalNetwork, Forest]:
    """Return network and trees, guessed first if `fast`."""
    max_flow = FlowNetwork if options.search == BINARY else None
    with watch("removal_s"):
        network = spread_switches(demand.topology, capacity, k, demand.weights) if options.fast else None
        if network is None:
            network = remove_switches(demand.topology, capacity, k, demand.weights, max_flow)
    with watch("packing_s"):
        forest = grow_trees(network, k, demand.weights) if options.fast else None
        if forest is None:
            forest = pack_trees(network, k, demand.weights, max_flow)
        return network, align_trees(forest)


@dataclass
class _Stopwatches:
    """The seconds that each part took."""

    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def __call__(self, part: str) -> Iterator[None]:
        begin = now()
        yield
        self.seconds[part] = self.seconds.get(part, 0.0) + now() - begin


def _exact_for(options: ForestcollOptions) -> str:
    over = f" over {options.trees} tree{'s' * (options.trees > 1)} a root" if options.trees else ""
    return f"bytes{over} (of an allreduce, in each half)"


METHOD = Method(
    name="forestcoll",
    kind="exact",
    synthesize=synthesize,
    fast={"search": "newton"},
    options=ForestcollOptions,
    capabilities=Capabilities(KINDS, Groups.ONE, switches=Switches.BALANCED),
    exact_for=_exact_for,
    estimate=lambda problem, options: shard_seconds(problem),
    summary="spanning trees that meet the throughput bottleneck cut, on any network with switches",
)
