r"""Two-level collectives: inside hosts and between them, each by an algorithm of its own.

With H hosts of G ranks, rank (h, g) is number g in host h, and the ranks g of all hosts are a *rail*.

* allgather: along rails, then inside hosts, so that every shard comes to every other host once. A
  reduce-scatter is the reverse, and an allreduce both: reduce-scatter inside, allreduce along rails,
  allgather inside (Cho et al., BlueConnect, IBM JRD 63(6), 2019; of MPI: Karonis et al., IPDPS 2000).
* all-to-all: inside hosts, to the rank on the rail of the destination, then along rails: between two hosts
  there are G messages, not G^2 (PXN, NCCL 2.12).

What a rank sends over its rail, and inside its host, of M:

.. math::

    \frac{H - 1}{N}, \; \frac{G - 1}{G} \quad \text{(allgather)} \qquad
    \frac{H - 1}{H}, \; \frac{G - 1}{G} \quad \text{(all-to-all, direct or pairwise)}.

BlueConnect (`heuristics.classic.by_dimension`) does the same with algorithms that follow from the network.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Annotated, ClassVar, NamedTuple

import numpy as np

from tutti.heuristics.classic import bruck, pat
from tutti.heuristics.classic.butterfly import bine_partners, crossing, doubling, xor_partners
from tutti.heuristics.classic.by_dimension import chunked_spread, line_transfers, spread_over
from tutti.heuristics.classic.steps import StepTransfers, check_allgathers, check_rows, exchange_schedule
from tutti.heuristics.hosts import HostOptions, hosts_for, with_note_on_hosts
from tutti.schedules.capabilities import Capabilities, Groups, Shape
from tutti.schedules.collective import Kind
from tutti.schedules.compose import BY_ALLGATHER, from_allgather
from tutti.schedules.method import Method, Problem
from tutti.schedules.schedule import Schedule
from tutti.topologies.exact import Int64Array
from tutti.topologies.graphs.grid_structure import Grid, Hosts, LineKind
from tutti.topologies.options import Choice, Whole

Rows = Callable[[int], StepTransfers]


class LevelAlgorithm(NamedTuple):
    """The algorithms among the ranks of a host or a rail, given their number; None: it has none.

    Parameters
    ----------
    gather, exchange
        The allgather, whose chunks are owners, and the all-to-all, whose chunks are owner · N + destination.
    power_of_two
        Whether it needs a power of two ranks.
    """

    gather: Rows | None = None
    exchange: Rows | None = None
    power_of_two: bool = False


def _all_pairs(size: int, *, at_once: bool) -> StepTransfers:
    """Return the all-to-all straight from rank i to i + t, in one step or in step t."""
    t, rank = np.arange(1, size)[:, None], np.arange(size)
    to = (rank + t) % size
    return StepTransfers.of(1 if at_once else t, rank, to, rank * size + to)


ALGORITHMS = {
    "direct": LevelAlgorithm(partial(line_transfers, LineKind.COMPLETE), partial(_all_pairs, at_once=True)),
    "ring": LevelAlgorithm(partial(line_transfers, LineKind.RING)),
    "doubling": LevelAlgorithm(lambda size: doubling(xor_partners(size)), power_of_two=True),
    "bruck": LevelAlgorithm(bruck.gather, bruck.exchange),
    "bine": LevelAlgorithm(
        lambda size: doubling(bine_partners(size)),
        lambda size: crossing(bine_partners(size)),
        power_of_two=True,
    ),
    "pat": LevelAlgorithm(pat.trees),
    "pairwise": LevelAlgorithm(exchange=partial(_all_pairs, at_once=False)),
}
"""The algorithms by the names of the options."""


@dataclass(frozen=True)
class HierarchicalOptions(HostOptions):
    """Options of two-level collectives.

    Parameters
    ----------
    inside
        The algorithm inside hosts: ``direct``, ``bruck`` or ``bine``; not for all-to-alls ``ring``,
        ``doubling`` and ``pat``, and for these alone ``pairwise``.
    between
        The algorithm between hosts, one of the same.
    chunks
        The number of equal chunks of each shard, which follow each other through the levels; not for an
        all-to-all.
    infer_hosts
        Whether hosts that the network does not name are inferred if its links make them plain.

    Raises
    ------
    InputError
        If an algorithm is unknown, `chunks` no positive integer or `infer_hosts` neither true nor false.
    """

    OWNER: ClassVar[str] = "hierarchical"

    inside: Annotated[str, Choice(tuple(ALGORITHMS))] = "direct"
    between: Annotated[str, Choice(tuple(ALGORITHMS))] = "direct"
    chunks: Annotated[int, Whole(1, words="it must be an integer of at least 1")] = 1


def synthesize(problem: Problem, options: HierarchicalOptions, rng: np.random.Generator) -> Schedule:
    """Return the two-level schedule over shortest routes, in the step clock.

    Raises
    ------
    Unsupported
        As `METHOD.supports`.
    """
    METHOD.supports(problem, options)
    hosts = hosts_for(METHOD, problem.topology, infer=options.infer_hosts)
    if problem.collective.kind is Kind.ALL_TO_ALL:
        made = exchange_schedule(problem, _all_to_all(hosts.ranks, *_exchanges(hosts, options)))
    else:
        made = from_allgather(problem, partial(_allgather, hosts=hosts, options=options))
    return with_note_on_hosts(made, options)


def _allgather(problem: Problem, hosts: Hosts, options: HierarchicalOptions) -> Schedule:
    count, size = hosts.ranks.shape
    grid = Grid((count, size), (LineKind.SWITCH, LineKind.SWITCH), hosts)
    gathers = ALGORITHMS[options.between].gather, ALGORITHMS[options.inside].gather
    lines = [gather(n) for gather, n in zip(gathers, grid.shape, strict=True) if gather is not None]
    return chunked_spread(problem, [[spread_over(grid, (0, 1), lines)]] * options.chunks)


def _exchanges(hosts: Hosts, options: HierarchicalOptions) -> list[StepTransfers]:
    """Return the all-to-all inside a host and that on a rail."""
    named = zip((options.inside, options.between), hosts.ranks.shape[::-1], strict=True)
    return [rows(size) for name, size in named if (rows := ALGORITHMS[name].exchange) is not None]


def _all_to_all(ranks: Int64Array, inside: StepTransfers, between: StepTransfers) -> StepTransfers:
    """Return the all-to-all, given that of one level each; `ranks` is of shape (hosts, ranks of each)."""

    def level(ranks: Int64Array, rows: StepTransfers, before: int, *, arrived: bool) -> StepTransfers:
        """Return what moves along the rows of a table of ranks: the owner's or, if `arrived`, the receiver's.

        Axes: a row of the transfers, the owner's row of the table, the receiver's row.
        """
        step, source, target, chunk = (column[:, None, None] for column in rows)
        owner, dest = np.divmod(chunk, ranks.shape[1])
        here, there = np.arange(len(ranks))[:, None], np.arange(len(ranks))
        line = there if arrived else here
        pair = ranks[here, owner] * ranks.size + ranks[there, dest]
        return StepTransfers.of(before + step, ranks[line, source], ranks[line, target], pair)

    first = level(ranks, inside, 0, arrived=False)
    second = level(ranks.T, between, int(inside.step.max()), arrived=True)
    return StepTransfers.joined([first, second])


def check(problem: Problem, options: HierarchicalOptions) -> None:
    """Raise `Unsupported` for networks without hosts, algorithms that do not fit, and too many transfers."""
    hosts, kind = hosts_for(METHOD, problem.topology, infer=options.infer_hosts), problem.collective.kind
    count, size = hosts.ranks.shape
    exchanges = kind is Kind.ALL_TO_ALL
    for where, number in (("inside", size), ("between", count)):
        name = getattr(options, where)
        algorithm = ALGORITHMS[name]
        if (algorithm.exchange if exchanges else algorithm.gather) is None:
            able = [other for other, one in ALGORITHMS.items() if (one.exchange if exchanges else one.gather)]
            raise METHOD.unsupported(f"option {where} is {name}; for {kind} it may be {', '.join(able)}")
        if algorithm.power_of_two and number & (number - 1):
            what = "ranks a host" if where == "inside" else "hosts"
            raise METHOD.unsupported(
                f"option {where} is {name}, which needs a power of two {what}; "
                f"{problem.topology.name} has {number}"
            )
    if not exchanges:
        check_allgathers(METHOD, problem, options.chunks)
        return
    check_rows(METHOD, problem, problem.topology.num_ranks**2)
    inside, between = _exchanges(hosts, options)
    check_rows(METHOD, problem, count**2 * len(inside.step) + size**2 * len(between.step))


METHOD = Method(
    name="hierarchical",
    kind="heuristic",
    synthesize=synthesize,
    options=HierarchicalOptions,
    capabilities=Capabilities((*BY_ALLGATHER, Kind.ALL_TO_ALL), Groups.NONE, shape=Shape.HOSTS),
    check=check,
    summary="two levels, inside hosts and between them, each by an algorithm of its own",
)
