"""All-to-all-v in balanced one-to-one stages, as a method."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, NamedTuple

import numpy as np

from heuristics.birkhoff.decomposition import Stages, part_of, sliced, stages
from heuristics.birkhoff.pieces import Pieces, pieces
from heuristics.classic.steps import MOST_ROWS, StepTransfers, step_schedule
from schedules.capabilities import Capabilities, Groups, Shape
from schedules.collective import Kind
from schedules.method import Method, Problem
from schedules.schedule import Chunks, Schedule
from topologies.exact import INT64_MAX, Int64Array, Rationals, frozen
from topologies.graphs.grid_structure import Hosts, hosts_of
from topologies.ranges import Number, Options
from topologies.topology import Topology

LATER = 16
"""How many stages after it was sent a piece goes on inside its host: balancing may be so far ahead."""
DEFAULT_SLICES, MOST_SLICES = 64, 1024
PARTS = 2
"""Slices to a part of what a rank sends inside its host."""
GRAINS = 32
"""Of matrices between hosts: to a slice."""
OUTSIDE = 2**10
"""Links between hosts are taken to be so much slower where a route inside a host is chosen."""


class _Demand(NamedTuple):
    """Amounts and numbers of items between ranks, host by host, int64 (N, N), and where each rank is (N,).

    Amounts are over `denominator`, in units of M.
    """

    amounts: Int64Array
    item: Int64Array
    position: Int64Array
    denominator: int

    def finer(self, factor: int) -> _Demand:
        """Return the same in smaller units."""
        return self._replace(amounts=self.amounts * factor, denominator=self.denominator * factor)


@dataclass(frozen=True)
class BirkhoffOptions(Options):
    """Options of the stages.

    Parameters
    ----------
    slices
        No stage takes more than so large a part of the time of all; None: by the size, 64 without one.
    """

    OWNER: ClassVar[str] = "birkhoff"

    slices: Annotated[int | None, Number(least=1, most=MOST_SLICES)] = None


class _Inside(NamedTuple):
    """Parts of items that stay in their host: item, amount (g to a unit), ends and stage, int64 (parts,)."""

    item: Int64Array
    amount: Int64Array
    source: Int64Array
    target: Int64Array
    stage: Int64Array


def check(problem: Problem, options: BirkhoffOptions) -> None:
    """Refuse networks without hosts, what does not fit 64 bits, and too many transfers.

    Raises
    ------
    Unsupported
        For these.
    """
    hosts, places = _hosts(problem).ranks.shape
    share = problem.collective.items.share.reduced
    if float(share.numerators.sum(dtype=np.float64)) * places > INT64_MAX // 2:
        raise METHOD.unsupported("needs amounts that fit 64 bits when cut in a part for each rank of a host")
    rows = 3 * (len(share) + hosts * hosts * places * 2 + hosts**3 * places)
    if rows > MOST_ROWS:
        raise METHOD.unsupported(f"makes at most {MOST_ROWS} transfers; there may be {rows}")


def _hosts(problem: Problem) -> Hosts:
    found = hosts_of(problem.topology, infer=True)
    if isinstance(found, str):
        raise METHOD.unsupported(f"needs {Shape.HOSTS}; {problem.topology.name} {found}")
    return found


def synthesize(problem: Problem, options: BirkhoffOptions, rng: np.random.Generator) -> Schedule:
    """Return the schedule, in the step clock.

    Raises
    ------
    Unsupported
        As `METHOD.supports`.
    """
    METHOD.supports(problem, options)
    found = _hosts(problem)
    hosts, places = found.ranks.shape
    demand = _demand(problem, found.ranks.reshape(-1))
    between = demand.amounts.reshape(hosts, places, hosts, places).sum(axis=(1, 3))
    np.fill_diagonal(between, 0)
    slices = options.slices or _slices(problem, found, between)
    most = int(max(between.sum(axis=0).max(), between.sum(axis=1).max()))
    grains = GRAINS * slices
    if most < grains:
        demand, between, most = demand.finer(grains), between * grains, most * grains
    chosen = sliced(stages(between, max(most // grains, 1)), slices)
    cut = pieces(demand.amounts, places, chosen)
    return _schedule(problem, found, cut, _inside(problem, found.ranks, demand, chosen), demand)


def _schedule(problem: Problem, hosts: Hosts, cut: Pieces, inside: _Inside, demand: _Demand) -> Schedule:
    """Return the schedule in which each piece is balanced, sent to the other host and passed on there.

    Links inside hosts carry what is balanced for later stages while the adapters are at earlier ones.
    """
    ranks, places = hosts.ranks.reshape(-1), hosts.ranks.shape[1]
    item = np.concatenate([demand.item[cut.owner, cut.dest], inside.item])
    order = np.argsort(item, kind="stable")
    chunk = np.empty(len(order), np.int64)
    chunk[order] = np.arange(len(order))
    sent, kept = np.split(chunk, [len(cut.stage)])
    size = np.concatenate([cut.amount, inside.amount])[order]
    chunks = Chunks(item[order], size, demand.denominator * places)

    stage = cut.stage.astype(np.int64)
    sender, receiver = (end // places * places + cut.place for end in (cut.owner, cut.dest))
    rows = StepTransfers.joined(
        [
            StepTransfers(stage + 1, ranks[cut.owner], ranks[sender], sent),
            StepTransfers(inside.stage + 1, inside.source, inside.target, kept),
            StepTransfers(stage + 2, ranks[sender], ranks[receiver], sent),
            StepTransfers(stage + 2 + LATER, ranks[receiver], ranks[cut.dest], sent),
        ]
    )
    rows = rows.kept(rows.source != rows.target)
    near = _preferring_inside(problem.topology, hosts)
    return step_schedule(near, problem.collective, chunks, rows).replace(topology=problem.topology)


def _slices(problem: Problem, hosts: Hosts, between: Int64Array) -> int:
    """Return in how many slices the time goes: each costs α, and in the first and last only some links work.

    With n of them that is about 2 n α + T/n more than T.
    """
    topology = problem.topology
    alpha = float(topology.alpha.floats.max())
    if problem.size is None or not alpha or not between.any():
        return DEFAULT_SLICES
    ends = hosts.of[topology.source], hosts.of[topology.target]
    speeds = [
        np.bincount(end[mask], topology.bandwidth.floats[mask], len(between)).min()
        for end, mask in zip(ends, ((end >= 0) & (ends[0] != ends[1]) for end in ends), strict=True)
    ]
    bytes_of = float(problem.size) / problem.collective.items.share.reduced.denominator
    time = bytes_of * max(between.sum(axis=0).max(), between.sum(axis=1).max()) / min(speeds)
    return int(np.clip(np.sqrt(time / (2 * alpha)), 1, MOST_SLICES))


def _demand(problem: Problem, ranks: Int64Array) -> _Demand:
    items, number = problem.collective.items, len(ranks)
    position = np.empty(number, np.int64)
    position[ranks] = np.arange(number)
    amounts, item = np.zeros((number, number), np.int64), np.full((number, number), -1)
    share = items.share.reduced
    amounts[position[items.start], position[items.end]] = share.numerators
    item[position[items.start], position[items.end]] = np.arange(len(items))
    return _Demand(amounts, item, position, share.denominator)


def _inside(problem: Problem, ranks: Int64Array, demand: _Demand, chosen: Stages) -> _Inside:
    """Return the parts of items that stay in their host, spread over the time of all stages.

    Each rank sends to the next in its host, to the one after, and so on. What takes longer than some stages
    is cut, so that what these need inside the host goes between.
    """
    items, places = problem.collective.items, ranks.shape[1]
    position = demand.position
    source, target = position[items.start], position[items.end]
    amount = demand.amounts[source, target] * places
    item = np.flatnonzero((source // places == target // places) | (amount == 0))
    source, target, amount = source[item], target[item], amount[item]
    until = np.cumsum(chosen.amount.max(axis=1, initial=0))
    total = int(until[-1]) if len(until) else 0
    sent = np.bincount(source, np.where(source == target, 0, amount), len(position)).max()
    parts = np.clip(np.ceil(amount * (len(until) / PARTS / max(sent, 1))), 1, None).astype(np.int64)
    parts[source == target] = 1

    row = np.repeat(np.arange(len(item)), parts)
    number = np.arange(len(row)) - np.repeat(np.cumsum(parts) - parts, parts)
    begin, end = (part_of(amount[row], place, parts[row]) for place in (number, number + 1))
    turn = (target - source) % places
    moment = (number + np.maximum(turn[row] - 1, 0) / places) / parts[row]
    stage = np.searchsorted(until, moment * total, side="right")
    flat = ranks.reshape(-1)
    return _Inside(item[row], end - begin, flat[source[row]], flat[target[row]], stage)


def _preferring_inside(topology: Topology, hosts: Hosts) -> Topology:
    """Return the network with slow links between hosts, for routes inside them."""
    ends = hosts.of[topology.source], hosts.of[topology.target]
    outside = (ends[0] != ends[1]) | (ends[0] < 0)
    bandwidth = topology.bandwidth
    slow = np.where(outside, 1, OUTSIDE) * bandwidth.numerators
    return replace(topology, bandwidth=Rationals(frozen(slow, np.int64), bandwidth.denominator * OUTSIDE))


METHOD = Method(
    name="birkhoff",
    kind="heuristic",
    synthesize=synthesize,
    capabilities=Capabilities((Kind.ALL_TO_ALL,), Groups.NONE, shape=Shape.HOSTS),
    options=BirkhoffOptions,
    size_dependent=lambda problem, options: options.slices is None,
    check=check,
    summary="all-to-all-v: balanced inside hosts, then one-to-one stages between them (FAST)",
)
