"""All-to-all-v in balanced one-to-one stages, as a method."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, NamedTuple

import numpy as np

from tutti.heuristics.birkhoff.stages import StagePieces, Stages, part_of, pieces, sliced, stages
from tutti.heuristics.classic.steps import MOST_ROWS, StepTransfers, schedule_of_steps
from tutti.heuristics.hosts import hosts_for
from tutti.schedules.capabilities import Capabilities, Groups, Shape
from tutti.schedules.collective import Kind
from tutti.schedules.method import Method, Problem
from tutti.schedules.schedule import Chunks, Schedule
from tutti.topologies.exact import INT64_MAX, BoolArray, FloatArray, Int32Array, Int64Array
from tutti.topologies.graphs.grid_structure import Hosts
from tutti.topologies.graphs.shortest_paths import shortest_routes
from tutti.topologies.options import Number, Options
from tutti.topologies.topology import Topology, components


class Fabric(NamedTuple):
    """A network of hosts.

    Parameters
    ----------
    inside, outside
        bool, shape (links,): the links inside hosts, and the others; None where they do not join all ranks of
        each host, or all ranks.
    lengths, links
        Routes from each rank of a host to the others, over links inside the host if they join them.
    speed
        Bytes/s of each link.
    host_speed
        Bytes/s of the slowest host, to or from others.
    alpha
        The largest α, in seconds.
    """

    inside: BoolArray | None
    outside: BoolArray | None
    lengths: Int64Array
    links: Int32Array
    speed: FloatArray
    host_speed: float
    alpha: float

    @classmethod
    def of(cls, topology: Topology, hosts: Hosts) -> Fabric:
        """Return the fabric of a network."""
        ends, speed = np.stack([topology.source, topology.target]), topology.bandwidth.floats
        host = hosts.of[ends]
        within = (host[0] == host[1]) & (host[0] >= 0)
        near, far = (
            components(topology.num_nodes, *ends[:, links], strong=True)[1][hosts.ranks]
            for links in (within, ~within)
        )
        inside = within if (near == near[:, :1]).all() else None
        apart = ~np.eye(hosts.ranks.shape[1], dtype=np.bool_)
        first, second = np.broadcast_arrays(hosts.ranks[:, :, None], hosts.ranks[:, None, :])
        offsets, links = shortest_routes(topology, first[:, apart].ravel(), second[:, apart].ravel(), inside)
        host_speed = min(
            float(np.bincount(of[mask], speed[mask], len(hosts.ranks)).min())
            for of, mask in zip(host, (host >= 0) & ~within, strict=True)
        )
        alpha = float(topology.alpha.floats.max())
        outside = ~within if (far == far[0, 0]).all() else None
        return cls(inside, outside, np.diff(offsets), links, speed, host_speed, alpha)

    def busy(self, moved: FloatArray) -> FloatArray:
        """Return how long each link is busy with the data that ranks move inside their hosts.

        Parameters
        ----------
        moved
            Shape (hosts, g, g), what each rank sends to each; in units of a host's data to others in a
            second.
        """
        apart = ~np.eye(moved.shape[1], dtype=np.bool_)
        loads = np.bincount(self.links, np.repeat(moved[:, apart].ravel(), self.lengths), len(self.speed))
        return loads * self.host_speed / self.speed


class BirkhoffTuning(NamedTuple):
    """Parameters for how finely the stages are cut."""

    later: float
    """Fraction of all stages for which a piece waits after its arrival. The first stages serve the balanced
    data. Half or twice this value changes times by -1 to +9 % where most bytes stay in hosts, and not at all
    elsewhere."""
    default_slices: int
    """Number of slices if no size is given."""
    most_slices: int
    """Largest number of slices."""
    parts: int
    """Number of slices for each part of the data that a rank sends inside its host. Half or twice this value
    changes times by -14 to +18 % where most bytes stay in hosts; neither is better in general."""
    grains: int
    """Number of units in a slice of the matrices between hosts. A larger value balances them better and needs
    more stages. Half or twice this value changes times by at most 0.02 %."""
    shares: int
    """Number of shares that are tried. A share is the fraction of the data inside hosts that goes over the
    links between hosts. Half or twice this value makes times 0 to 8 % longer."""


TUNING = BirkhoffTuning(later=1 / 4, default_slices=64, most_slices=1024, parts=2, grains=32, shares=64)

INSIDE, ANY, OUTSIDE = range(3)
"""The links that a transfer may use: inside hosts, any, or between hosts."""


class _Demand(NamedTuple):
    """Amounts and numbers of items between ranks, host by host, int64 (N, N), and where each rank is (N,).

    Amounts are over `denominator`, in units of M.
    """

    amounts: Int64Array
    item: Int64Array
    position: Int64Array
    denominator: int

    def finer(self, factor: int) -> _Demand:
        """Return the same demand in smaller units."""
        return self._replace(amounts=self.amounts * factor, denominator=self.denominator * factor)


@dataclass(frozen=True)
class BirkhoffOptions(Options):
    """Options of the stages.

    Parameters
    ----------
    slices
        Number of slices: no stage takes more than 1/slices of all time; None: by the size, 64 without one.
    """

    OWNER: ClassVar[str] = "birkhoff"

    slices: Annotated[int | None, Number(least=1, most=TUNING.most_slices)] = None


class _Inside(NamedTuple):
    """Parts of items that stay in their host: int64 (parts,). `kind` says which links a route may use."""

    item: Int64Array
    amount: Int64Array
    source: Int64Array
    target: Int64Array
    stage: Int64Array
    kind: Int64Array


class _StagePlan(NamedTuple):
    """The plan for the exchange between hosts.

    Parameters
    ----------
    time
        Approximate time, in units of what a host sends to others.
    turns, cut
        Turns and pieces of the data between hosts.
    shares
        How many of the shares of data inside hosts go over the links between hosts.
    width
        Number of stages in which ranks move data inside hosts together.
    """

    time: float
    turns: int
    cut: StagePieces
    shares: int
    width: int


def check(problem: Problem, options: BirkhoffOptions) -> None:
    """Refuse networks without hosts, amounts that do not fit 64 bits, and too many transfers.

    Raises
    ------
    Unsupported
        If it is one of these.
    """
    hosts, places = hosts_for(METHOD, problem.topology, infer=True).ranks.shape
    share = problem.collective.items.share.reduced
    if float(share.numerators.sum(dtype=np.float64)) * places > INT64_MAX // 2:
        raise METHOD.unsupported(
            "needs amounts that fit 64 bits when cut in a part for each two ranks of hosts"
        )
    rows = 3 * (len(share) + hosts * hosts * places**2 * 2 + hosts**3 * places)
    if rows > MOST_ROWS:
        raise METHOD.unsupported(f"makes at most {MOST_ROWS} transfers; there may be {rows}")


def synthesize(problem: Problem, options: BirkhoffOptions, rng: np.random.Generator) -> Schedule:
    """Return the schedule, in the step clock.

    Raises
    ------
    Unsupported
        As `METHOD.supports`.
    """
    METHOD.supports(problem, options)
    found = hosts_for(METHOD, problem.topology, infer=True)
    places = found.ranks.shape[1]
    fabric = Fabric.of(problem.topology, found)
    demand = _demand(problem, found.ranks.reshape(-1))
    between, own = _blocks(demand.amounts, places)
    unit = float(problem.size or 0) / demand.denominator / fabric.host_speed
    most = int(max(between.sum(axis=0).max(), between.sum(axis=1).max()))
    slices = options.slices or _slices(unit * max(most, fabric.busy(own).max()), fabric.alpha)
    grains = TUNING.grains * slices
    if most < grains:
        demand, between, most, unit = demand.finer(grains), between * grains, most * grains, unit / grains
    alpha = fabric.alpha / unit if unit else 0.0
    chosen = sliced(_stages(between, max(most // grains, 1), alpha), slices)
    plan = _plan(demand.amounts, chosen, fabric, places, alpha)
    until = np.cumsum(chosen.amount.max(axis=1)) if most else np.arange(1, slices + 1)
    return _schedule(problem, found, fabric, plan, _inside(problem, found.ranks, demand, plan, until), demand)


def _blocks(amounts: Int64Array, places: int) -> tuple[Int64Array, FloatArray]:
    """Return the data between hosts, (H, H), and between ranks inside their host, (H, g, g)."""
    hosts = np.arange(len(amounts) // places)
    blocks = amounts.reshape(len(hosts), places, len(hosts), places).swapaxes(1, 2)
    between = blocks.sum(axis=(2, 3)) * (hosts[:, None] != hosts)
    return between, blocks[hosts, hosts] * (1 - np.eye(places))


def _slices(seconds: float, alpha: float) -> int:
    """Return the number of slices: each costs α, and in the first and last only some links work.

    With n of them that is about 2 n α + T/n more than T.
    """
    if not seconds or not alpha:
        return TUNING.default_slices
    return int(np.clip(np.sqrt(seconds / (2 * alpha)), 1, TUNING.most_slices))


def _stages(between: Int64Array, grain: int, alpha: float) -> Stages:
    """Return the stages of this grain or a coarser one for which they and their α take least time."""
    tried = []
    while True:
        found = stages(between, grain)
        tried.append((found.amount.max(axis=1, initial=0).sum() + alpha * len(found.target), found))
        if grain >= between.max() or not alpha:
            return min(tried, key=lambda pair: pair[0])[1]
        grain *= 4


def _plan(amounts: Int64Array, chosen: Stages, fabric: Fabric, places: int, alpha: float) -> _StagePlan:
    """Return the plan that takes least time; times are in units of what a host sends to others.

    If links inside hosts take longer than those between, less is moved inside if each rank sends to each of
    another host in turn. Also a share of the data inside hosts may go over the links outside, if they lead
    there. Ranks move data in rounds: each costs the α of its messages, and in the first and last only links
    inside work.
    """
    (between, own), count = _blocks(amounts, places), len(chosen.target)
    crossing = np.stack([between.sum(axis=1), between.sum(axis=0)])[:, :, None]
    stays = np.stack([own.sum(axis=2), own.sum(axis=1)]) * places
    several = fabric.outside is not None
    shares = np.arange(TUNING.shares + 1 if several else 1)[:, None] / TUNING.shares
    rounds = np.unique(-(-max(count, 1) // 2 ** np.arange(count.bit_length() + 1)))
    cuttable = float(amounts.sum(dtype=np.float64)) * places**2 < INT64_MAX // 2
    plans = []
    for turns in (1, places) if several and cuttable else (1,):
        cut = pieces(amounts, places, turns, chosen)
        moved = cut.moved(len(between), places) / (places * turns)
        outside = (crossing + shares[:, None, None] * stays).max(axis=(1, 2, 3))
        outside += alpha * (count + (turns - 1) * (len(between) - 1) + (places - 1) * (shares[:, 0] > 0))
        inside = (fabric.busy(own + moved) - shares * fabric.busy(own)).max(axis=1)
        best = int(np.maximum(outside, inside).argmin())
        messages = max(np.count_nonzero(moved, axis).max() for axis in (1, 2))
        times = np.maximum(outside[best], inside[best] + alpha * messages * rounds) + inside[best] / rounds
        least = int(times.argmin())
        plans.append(_StagePlan(times[least], turns, cut, best, -(-count // int(rounds[least])) or 1))
        if inside[0] <= outside[0]:
            break
    return min(plans, key=lambda plan: plan.time)


def _schedule(
    problem: Problem, hosts: Hosts, fabric: Fabric, plan: _StagePlan, inside: _Inside, demand: _Demand
) -> Schedule:
    """Return the schedule in which each piece is balanced, sent to the other host and passed on there.

    Links inside hosts carry what is balanced for later stages while the adapters are at earlier ones.
    """
    ranks, places, cut = hosts.ranks.reshape(-1), hosts.ranks.shape[1], plan.cut
    item = np.concatenate([demand.item[cut.owner, cut.dest], inside.item])
    order = np.argsort(item, kind="stable")
    sent, kept = np.split(np.argsort(order), [len(cut.stage)])
    size = np.concatenate([cut.amount, inside.amount])[order]
    chunks = Chunks(item[order], size, demand.denominator * places * plan.turns)

    stage = cut.stage.astype(np.int64)
    sender, receiver = cut.ends(places)
    first, early = (number // plan.width * plan.width for number in (stage, inside.stage))
    later = first + plan.width + 2 + int(TUNING.later * stage.max(initial=0))
    parts = [
        StepTransfers(first + 1, ranks[cut.owner], ranks[sender], sent),
        StepTransfers(early + 1, inside.source, inside.target, kept),
        StepTransfers(stage + 2, ranks[sender], ranks[receiver], sent),
        StepTransfers(later, ranks[receiver], ranks[cut.dest], sent),
    ]
    kinds = [np.full(len(sent), kind) for kind in (INSIDE, ANY, INSIDE)]
    kind = np.concatenate([kinds[0], inside.kind, *kinds[1:]])
    rows = StepTransfers.joined(parts)
    goes = np.argsort((demand.position[rows.target] - demand.position[rows.source]) % places, kind="stable")
    goes = goes[(rows.source != rows.target)[goes]]
    return schedule_of_steps(
        problem, rows.kept(goes), chunks, kind=kind[goes], allowed=(fabric.inside, None, fabric.outside)
    )


def _demand(problem: Problem, ranks: Int64Array) -> _Demand:
    items, number, position = problem.collective.items, len(ranks), np.argsort(ranks)
    amounts, item = np.zeros((number, number), np.int64), np.full((number, number), -1)
    share = items.share.reduced
    amounts[position[items.start], position[items.end]] = share.numerators
    item[position[items.start], position[items.end]] = np.arange(len(items))
    return _Demand(amounts, item, position, share.denominator)


def _inside(
    problem: Problem, ranks: Int64Array, demand: _Demand, plan: _StagePlan, until: Int64Array
) -> _Inside:
    """Return the parts of items that stay in their host, spread over stages that last until then.

    Each rank sends to the next in its host, to the one after, and so on. What takes longer than some stages
    is cut, so that what these need inside the host goes between.
    """
    items, places = problem.collective.items, ranks.shape[1]
    position = demand.position
    source, target = position[items.start], position[items.end]
    amount = demand.amounts[source, target] * places * plan.turns
    item = np.flatnonzero((source // places == target // places) | (amount == 0))
    source, target, amount = source[item], target[item], amount[item]
    sent = np.bincount(source, np.where(source == target, 0, amount), len(position)).max()

    away = np.where(source == target, 0, part_of(amount, np.array(plan.shares), np.array(TUNING.shares)))
    near = np.where(source // places == target // places, INSIDE, ANY)
    kind = np.concatenate([near, np.full(len(item), OUTSIDE)])
    item, source, target = (np.tile(column, 2) for column in (item, source, target))
    whole, amount = np.tile(amount, 2), np.concatenate([amount - away, away])
    goes = (amount > 0) | ((whole == 0) & (kind != OUTSIDE))
    item, source, target, amount, kind = (column[goes] for column in (item, source, target, amount, kind))

    parts = np.clip(np.ceil(amount * (len(until) / TUNING.parts / max(sent, 1))), 1, None).astype(np.int64)
    parts[source == target] = 1
    row = np.repeat(np.arange(len(item)), parts)
    number = np.arange(len(row)) - np.repeat(np.cumsum(parts) - parts, parts)
    begin, end = (part_of(amount[row], place, parts[row]) for place in (number, number + 1))
    turn = (target - source) % places
    moment = (number + np.maximum(turn[row] - 1, 0) / places) / parts[row]
    stage = np.searchsorted(until, moment * until[-1], side="right")
    flat = ranks.reshape(-1)
    return _Inside(item[row], end - begin, flat[source[row]], flat[target[row]], stage, kind[row])


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
