"""Blink: all data over trees of one root, as many as fit; an allreduce reduces to the root and broadcasts.

Wang, Venkataraman, Phanishayee, Devanur, Thelin, Stoica: Blink: Fast and Generic Collectives for Distributed
ML (MLSys 2020). Of all packings of spanning out-trees of a root r the best one moves λ(r) = min over v of
maxflow(r, v) bytes per second (Edmonds). As in the dissertation (section 4.6.2) the packing is exact, not the
paper's approximation, and networks with switches are first freed of them by edge splitting: "Blink+Switch".
Trees that reduce are those of the transposed network, turned round.

* broadcast, reduce: the trees themselves, of the collective's root.
* allreduce: reduce and then broadcast. The buffer is a line, and each tree moves its interval of it.
* allgather: as the paper suggests, an allreduce without the reduction. A shard goes up to the root along the
  trees that reduce its interval, then down to all whom it has not passed. (The dissertation leaves it out, as
  it takes about twice as long as it must.) A reduce-scatter is the reverse of one.

On an Eulerian network all roots are equal: λ is the least cut between ranks, and a cut has as much in as out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Annotated, ClassVar, NamedTuple

import numpy as np

from tutti.schedules.capabilities import Capabilities, Groups, Switches
from tutti.schedules.collective import Collective, Kind
from tutti.schedules.compose import BY_ALLGATHER, from_allgather
from tutti.schedules.intervals import CutLine, IntervalTransfers, joined_routes, line_width, tree_transfers
from tutti.schedules.method import Method, Problem
from tutti.schedules.schedule import Clock, Schedule
from tutti.topologies.errors import InputError, NoSchedule
from tutti.topologies.exact import INT64_MAX, BoolArray, Int32Array, Int64Array, offsets_of
from tutti.topologies.graphs.max_flow import DinicNetwork
from tutti.topologies.options import Options, Whole
from tutti.topologies.topology import Topology
from tutti.topologies.transforms import transpose
from tutti.topologies.trees.forest import LogicalNetwork, largest_height, mean_height, tree_capacities
from tutti.topologies.trees.packing import pack_trees
from tutti.topologies.trees.switch_removal import remove_switches


def broadcast_rate(topology: Topology, root: int) -> Fraction:
    """Return λ(root) = min over the other ranks v of maxflow(root, v), bytes/s (Edmonds' theorem).

    One flow serves all ranks: a rank that has been tried joins the source, since the cuts left to try have
    it inside.

    Examples
    --------
    >>> from tutti.topologies.families.grids import ring
    >>> int(broadcast_rate(ring(4), 0)) // 10**9  # both links of 50 GB/s
    100
    """
    network = DinicNetwork(
        topology.num_nodes, topology.source, topology.target, topology.bandwidth.numerators
    )
    network.absorb(root)
    rate = int(topology.egress.numerators[root])
    for rank in range(topology.num_ranks):
        if rank != root:
            rate = min(rate, network.grow(rank, rate))
            network.absorb(rank)
    return Fraction(rate, topology.bandwidth.denominator)


class Broadcast(NamedTuple):
    """Transfers that carry all of M from one rank to all, or turned round from all to one.

    Parameters
    ----------
    width
        The units of all of M.
    transfers
        In replay order.
    network
        The network whose arcs they go over.
    height, mean_height
        Heights of the trees, in hops between ranks; the mean is weighted by what a tree carries.
    """

    width: int
    transfers: IntervalTransfers
    network: LogicalNetwork
    height: int
    mean_height: float

    def backwards(self) -> Broadcast:
        """Return the transfers turned round, last first: those of the transposed network are this one's."""
        network, last = self.network, len(self.network.tails) - 1
        begin, end, arc, turn = (column[::-1] for column in self.transfers)
        turned = LogicalNetwork(
            network.num_ranks,
            network.heads[::-1],
            network.tails[::-1],
            network.capacity[::-1],
            offsets_of(np.diff(network.offsets)[::-1]),
            network.links[::-1],
        )
        return self._replace(transfers=IntervalTransfers(begin, end, last - arc, -turn), network=turned)

    def scaled(self, width: int) -> IntervalTransfers:
        """Return the transfers where M has `width` units, a multiple of its own number."""
        return self.transfers.scaled(width // self.width)


def best_broadcast(topology: Topology, root: int) -> Broadcast:
    """Return transfers that carry all of M from the root to every rank at the best rate, nearest first.

    Raises
    ------
    NoSchedule
        If the trees are more than `topologies.trees.forest` allows.
    """
    weights = [int(rank == root) for rank in range(topology.num_ranks)]
    try:
        k, capacity = tree_capacities(topology, 1 / broadcast_rate(topology, root), weights)
    except NoSchedule as error:
        needs = str(error).partition(";")[0]  # what follows is advice on an option that is not here
        raise NoSchedule(f"blink: {needs}; give bandwidths a larger common divisor") from error
    network = remove_switches(topology, capacity, k, weights)
    forest = pack_trees(network, k, weights)
    return Broadcast(
        width=int(forest.weight.sum()),
        transfers=tree_transfers(network, forest, up=False, down=True).in_turn(),
        network=network,
        height=largest_height(forest),
        mean_height=float(mean_height(forest)),
    )


KINDS = (*BY_ALLGATHER, Kind.BROADCAST, Kind.REDUCE)


@dataclass(frozen=True)
class BlinkOptions(Options):
    """Options of Blink.

    Parameters
    ----------
    root
        The rank whose trees all data takes, where the collective has no root of its own.

    Raises
    ------
    InputError
        If it is no rank.
    """

    OWNER: ClassVar[str] = "blink"

    root: Annotated[int, Whole(0, words="it must be a rank, 0 or more")] = 0


def synthesize(problem: Problem, options: BlinkOptions, rng: np.random.Generator) -> Schedule:
    """Return Blink's schedule, in the flow clock.

    Raises
    ------
    Unsupported
        As `METHOD.supports`.
    NoSchedule
        If a packing needs more trees than `topologies.trees.forest` allows.
    """
    METHOD.supports(problem, options)
    topology, what = problem.topology, problem.collective
    if what.kind in (Kind.ALLGATHER, Kind.REDUCE_SCATTER):
        return from_allgather(problem, partial(_allgather, root=options.root))
    root = options.root if what.root is None else what.root
    up = [] if what.kind is Kind.BROADCAST else [_best_reduce(topology, root)]
    down = [] if what.kind is Kind.REDUCE else [best_broadcast(topology, root)]
    line = _cut(what, up + down)
    every = [(each, *line.each_chunk(*each.scaled(line.width)[:2])) for each in up + down]
    rows = [(chunk, each.transfers.arc[which]) for each, chunk, which in every]
    reduce = np.repeat([True] * len(up) + [False] * len(down), [len(chunk) for chunk, _ in rows])
    return _schedule(problem, line, up + down, rows, reduce if up else None)


def _best_reduce(topology: Topology, root: int) -> Broadcast:
    """Return transfers that collect all of M at the root, at the best rate."""
    return best_broadcast(transpose(topology), root).backwards()


def _cut(what: Collective, broadcasts: Sequence[Broadcast]) -> CutLine:
    """Return the line of all of M, cut where an item or a transfer ends.

    Raises
    ------
    InputError
        If its length does not fit 64 bits.
    """
    width = line_width(what, *(each.width for each in broadcasts))
    if width > INT64_MAX:
        raise InputError(f"blink: cutting {what} for {broadcasts[0].width} trees needs sizes beyond 64 bits")
    return CutLine.of(what, width, np.concatenate([each.scaled(width).end for each in broadcasts]))


def _schedule(
    problem: Problem,
    line: CutLine,
    broadcasts: Sequence[Broadcast],
    rows: Sequence[tuple[Int64Array, Int64Array]],
    reduce: BoolArray | None = None,
) -> Schedule:
    """Return the schedule of each broadcast's chunks and arcs; `reduce` says which add, None: none."""
    base = offsets_of([len(each.network.tails) for each in broadcasts])
    arcs = [arc + first for (_, arc), first in zip(rows, base, strict=False)]
    return problem.schedule(
        Clock.FLOW,
        line.chunks,
        np.concatenate([chunk for chunk, _ in rows]),
        np.concatenate(arcs),
        reduce=reduce,
        routes=joined_routes(*(each.network for each in broadcasts)),
        stats={
            "trees": max(each.width for each in broadcasts),
            "height": sum(each.height for each in broadcasts),
            "mean_height": sum(each.mean_height for each in broadcasts),
        },
    )


def _allgather(problem: Problem, root: int) -> Schedule:
    """Send each shard up to the root, then down to the ranks that it has not passed."""
    up, down = _best_reduce(problem.topology, root), best_broadcast(problem.topology, root)
    line = _cut(problem.collective, [up, down])
    passed, chunks, arcs = _passed_upwards(line, problem.collective.items.owner[line.item], up)
    falling, which = line.each_chunk(*down.scaled(line.width)[:2])
    arc = down.transfers.arc[which]
    lacking = ~passed[falling, down.network.heads[arc]]
    return _schedule(problem, line, [up, down], [(chunks, arcs), (falling[lacking], arc[lacking])])


def _passed_upwards(
    line: CutLine, owner: Int32Array, up: Broadcast
) -> tuple[BoolArray, Int64Array, Int64Array]:
    """Return which ranks hold each chunk once it is at the root, and chunk and arc of each transfer there."""
    ranks, network = up.network.num_ranks, up.network
    moved, which = line.each_chunk(*up.scaled(line.width)[:2])
    onwards = np.full((len(line.start), ranks), -1)
    onwards[moved, network.tails[up.transfers.arc[which]]] = up.transfers.arc[which]
    passed = np.zeros(onwards.shape, dtype=np.bool_)
    chunk, rank = np.arange(len(onwards)), owner
    chunks, arcs = [chunk[:0]], [chunk[:0]]
    while len(chunk):
        passed[chunk, rank] = True
        arc = onwards[chunk, rank]
        chunk, arc = chunk[arc >= 0], arc[arc >= 0]  # the root has no arc onwards
        rank = network.heads[arc]
        chunks.append(chunk)
        arcs.append(arc)
    return passed, np.concatenate(chunks), np.concatenate(arcs)


def check(problem: Problem, options: BlinkOptions) -> None:
    """Raise `Unsupported` if the option names no rank."""
    topology = problem.topology
    if options.root >= topology.num_ranks:
        raise METHOD.unsupported(
            f"option root is {options.root}; ranks of {topology.name} are 0..{topology.num_ranks - 1}"
        )


METHOD = Method(
    name="blink",
    kind="heuristic",
    synthesize=synthesize,
    options=BlinkOptions,
    capabilities=Capabilities(KINDS, Groups.NONE, switches=Switches.EULERIAN),
    check=check,
    summary="Blink: all data over trees of one root; switches removed by edge splitting",
)
