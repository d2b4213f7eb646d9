r"""Blink: all data over trees of one root, as many as fit; an allreduce reduces to the root and broadcasts.

Wang, Venkataraman, Phanishayee, Devanur, Thelin, Stoica: Blink: Fast and Generic Collectives for Distributed
ML (MLSys 2020). Of all packings of spanning out-trees of a root r the best one moves

.. math::

    \lambda(r) = \min_v \operatorname{maxflow}(r, v)

bytes per second (Edmonds). As in the dissertation (section 4.6.2) the packing is exact, not the paper's
approximation, and networks with switches are first freed of them by edge splitting: "Blink+Switch". Trees
that reduce are those of the transposed network, turned round.

* broadcast, reduce: the trees themselves, of the collective's root.
* allreduce: reduce and then broadcast. The buffer is a line, and each tree moves its interval of it.
* allgather: as the paper suggests, an allreduce without the reduction. A shard goes up to the root along the
  trees that reduce its interval, then down to all whom it has not passed. (The dissertation leaves it out, as
  it takes about twice as long as it must.) A reduce-scatter is the reverse of one.

On an Eulerian network all roots are alike: λ is the least cut between ranks, and a cut has as much in as out.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Annotated, ClassVar

import numpy as np

from heuristics.blink.line import Leg, Line, Rows
from heuristics.blink.packing import broadcast_leg
from schedules.capabilities import Capabilities, Groups, Switches
from schedules.collective import Kind
from schedules.compose import BY_ALLGATHER, from_allgather
from schedules.method import Method, Problem
from schedules.schedule import Schedule
from topologies.exact import BoolArray
from topologies.ranges import Options, Whole
from topologies.topology import Topology
from topologies.transforms import transpose

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
        If a packing needs more trees than `topologies.scaling` allows.
    """
    METHOD.supports(problem, options)
    topology, what = problem.topology, problem.collective
    if what.kind in (Kind.ALLGATHER, Kind.REDUCE_SCATTER):
        return from_allgather(problem, partial(_allgather, root=options.root))
    root = options.root if what.root is None else what.root
    up = [] if what.kind is Kind.BROADCAST else [_leg_up(topology, root)]
    down = [] if what.kind is Kind.REDUCE else [broadcast_leg(topology, root)]
    line = Line.of(what, up + down)
    return line.schedule(
        topology, [line.rows(leg) for leg in line.legs], [True] * len(up) + [False] * len(down)
    )


def _leg_up(topology: Topology, root: int) -> Leg:
    """Return transfers that collect all of M at the root, at the best rate."""
    return broadcast_leg(transpose(topology), root).backwards()


def _allgather(problem: Problem, root: int) -> Schedule:
    topology, what = problem.topology, problem.collective
    up, down = _leg_up(topology, root), broadcast_leg(topology, root)
    line = Line.of(what, [up, down])
    passed, rising = _ways_up(line, up, topology.num_ranks)
    falling = line.rows(down)
    lacking = ~passed[falling.chunk, down.heads[falling.arc]]
    return line.schedule(topology, [rising, falling.where(lacking)], [False, False])


def _ways_up(line: Line, up: Leg, ranks: int) -> tuple[BoolArray, Rows]:
    """Return which ranks hold each chunk once it is at the root, and the transfers of its way there."""
    rows = line.rows(up)
    way = np.full((len(line.start), ranks), -1)
    way[rows.chunk, up.tails[rows.arc]] = rows.arc
    passed = np.zeros(way.shape, dtype=np.bool_)
    chunk, rank = np.arange(len(way)), line.collective.items.owner[line.item]
    chunks, arcs = [chunk[:0]], [chunk[:0]]
    while len(chunk):
        passed[chunk, rank] = True
        arc = way[chunk, rank]
        chunk, arc = chunk[arc >= 0], arc[arc >= 0]  # the root has no way on
        rank = up.heads[arc]
        chunks.append(chunk)
        arcs.append(arc)
    return passed, Rows(np.concatenate(chunks), np.concatenate(arcs))


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
