r"""Allreduce over spanning trees. Their congestion is the partition bound if link directions are equal.

For every partition P of the ranks T ≥ M · 2(|P| - 1) / cap(P) (``docs/proofs.md``). On a network without
switches whose pairs have equal capacity in both directions, cap(P) is twice the undirected capacity. The
largest such bound is M / σ, σ being the strength. Spanning trees of total weight σ fit (Nash-Williams,
Tutte). Each takes its share of M, reduces it to its root and broadcasts it, which uses each direction of each
of its edges once. So no link carries more than its bandwidth times M / σ, and the bound is met. For a given
size each link gets an order in which it sends pieces of its data (`trees_timed`).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, ClassVar

import numpy as np

from tutti.models.allreduce.certificate import CLOSE
from tutti.models.allreduce.grids import cube_of, grid_packing
from tutti.models.allreduce.spanning_trees import Packing, TreeNetwork, pack, spine_packing, tree_network
from tutti.models.allreduce.trees_timed import can_be_timed, rounds_are_worth_it, timed_schedule
from tutti.schedules.capabilities import Capabilities, Groups, Switches
from tutti.schedules.collective import Collective, Kind
from tutti.schedules.intervals import interval_schedule, line_width, tree_transfers
from tutti.schedules.message_durations import FarApartError
from tutti.schedules.method import Method, Problem
from tutti.schedules.schedule import Routes, Schedule
from tutti.schedules.simulation.simulate import SLICING, best_slices, simulate
from tutti.topologies.errors import InputError, NoSchedule
from tutti.topologies.exact import INT64_MAX
from tutti.topologies.kernels import now
from tutti.topologies.options import Number, Options
from tutti.topologies.topology import Topology
from tutti.topologies.trees.forest import LogicalNetwork, largest_height, mean_height

LEAST_EPSILON = Fraction(1, 10**6)
"""Least ε of greedy trees. They come no nearer to the bound in floating point, in any reasonable time."""


@dataclass(frozen=True)
class AllreduceTreesOptions(Options):
    """Options of the packing.

    Parameters
    ----------
    epsilon
        Largest distance of the congestion from the bound, relative to it: 0 packs exactly; a larger value is
        faster on large networks. None: 0 where an exact packing is fast, else 1/100.
    products
        Whether a Cartesian product gets the low trees of its factors where these are as good.
    timed
        Whether messages get times, for the size asked, where `can_be_timed`. Else, or where no size is given,
        the schedule is a flow for any size.

    Raises
    ------
    InputError
        If `epsilon` is not in 0..1, below 1.
    """

    OWNER: ClassVar[str] = "allreduce_trees"

    epsilon: Annotated[Fraction | None, Number(least=0, below=1)] = None
    products: bool = True
    timed: bool = True

    def __post_init__(self) -> None:
        """Check the values, and that greedy trees can come so near."""
        super().__post_init__()
        given = self.epsilon
        if given is not None and 0 < given < LEAST_EPSILON:
            least = f"0 (exact) or at least {float(LEAST_EPSILON):g}"
            raise InputError(f"allreduce_trees option epsilon is {float(given):g}; it must be {least}")


def size_dependent(problem: Problem, options: AllreduceTreesOptions) -> bool:
    """Whether messages get times, which depend on the size."""
    return options.timed and can_be_timed(problem.topology)


def synthesize(problem: Problem, options: AllreduceTreesOptions, rng: np.random.Generator) -> Schedule:
    """Return a schedule whose congestion is the partition bound, if both directions have equal capacity.

    Without a size it is a flow. With one, where messages can get times, it is the shorter of both.

    Raises
    ------
    Unsupported
        As `METHOD.supports`.
    InputError
        If capacities are too far apart for 64 bits.
    NoSchedule
        If the table would be too large, or switches leave no links in both directions that join all ranks.
    """
    METHOD.supports(problem, options)
    topology, begin = problem.topology, now()
    network = tree_network(topology)
    if network is None:
        raise NoSchedule(
            f"allreduce_trees on {topology.name}: without its switches no links both ways join all ranks"
        )
    packing = pack(network.graph, options.epsilon, products=options.products)
    packed = now()
    schedule = trees_schedule(topology, problem.collective, network.arcs, packing)
    if problem.size is not None and size_dependent(problem, options):
        schedule, packing = _timed(problem, network, (schedule, packing), options)
    stats = {
        "packing_s": packed - begin,
        "build_s": now() - packed,
        "trees": len(packing.forest),
        "height": 2 * largest_height(packing.forest),
        "mean_height": float(2 * mean_height(packing.forest)),
    }
    claims = {"congestion": packing.ratio / network.unit} if network.symmetric else {}
    return schedule.replace(claims=claims, stats=stats)


def trees_schedule(topology: Topology, what: Collective, arcs: LogicalNetwork, packing: Packing) -> Schedule:
    """Return the flow schedule that reduces every tree's part of M to its root and broadcasts it from there.

    Parameters
    ----------
    topology
        The physical network.
    what
        An allreduce in one group of all ranks.
    arcs
        Routes between ranks.
    packing
        Spanning trees whose edges all have an arc each way. An arc gets at most its capacity times the ratio.

    Raises
    ------
    NoSchedule
        If the table would be too large, or the cuts do not fit 64 bits.
    """
    units = sum(packing.forest.weight.tolist())
    load = units * packing.ratio  # on a capacity of 1
    scale = line_width(what, units, units * load.denominator) // units
    most = int(load * scale) * max(arcs.capacity.tolist())
    if max(units * scale, most) > INT64_MAX // 4:
        raise NoSchedule(
            f"allreduce_trees on {topology.name}: cutting {what} for {units} trees needs sizes beyond 64 bits"
        )
    moved = tree_transfers(arcs, packing.forest, up=True, down=True, scale=scale, load=int(load * scale))
    routes = Routes(arcs.offsets, arcs.links)
    return interval_schedule(topology, what, moved.in_turn(), units * scale, routes)[0]


def _timed(
    problem: Problem, network: TreeNetwork, flow: tuple[Schedule, Packing], options: AllreduceTreesOptions
) -> tuple[Schedule, Packing]:
    """Return the schedule with times for the problem's size, if it is shorter than the flow."""
    size, packing = Fraction(problem.size or 0), flow[1]
    shortest = best_slices(flow[0], size, SLICING.few_hops)[1]
    if shortest <= packing.ratio / network.unit * size * (1 + CLOSE):
        return flow
    try:
        found = timed_schedule(problem, network, *_candidates(problem, network, packing, options))
    except FarApartError:
        return flow
    return flow if found is None or shortest < simulate(found[0], size).time else found


def _candidates(
    problem: Problem, network: TreeNetwork, packing: Packing, options: AllreduceTreesOptions
) -> tuple[list[Packing], Packing | None]:
    """Return the trees that are tried: packings as good as the first, and those for large messages."""
    if not options.products or options.epsilon:
        return [packing], None
    spines = spine_packing(network.graph)
    even = None
    if cube_of(network.graph) is not None and rounds_are_worth_it(problem, packing):
        even = grid_packing(network.graph)
    return [packing] if spines is None else [packing, spines], even


def _exact_for(options: AllreduceTreesOptions) -> str:
    within = f" within {float(options.epsilon):g}" if options.epsilon else ""
    return f"bytes{within}, without switches and with links equal in both directions"


METHOD = Method(
    name="allreduce_trees",
    kind="exact",
    synthesize=synthesize,
    options=AllreduceTreesOptions,
    capabilities=Capabilities(
        (Kind.ALLREDUCE,), Groups.NONE, switches=Switches.EULERIAN, one_way_links=False
    ),
    size_dependent=size_dependent,
    exact_for=_exact_for,
    summary="spanning trees that meet the partition bound of allreduce, where both directions are equal",
)
