"""The method `one_shot_allreduce`: the choice of roots, links and pieces.

The shortest paths of the sums are balanced much as in `heuristics.classic.stepwise`. A link that is busy for
L in a step costs s (2 L + t) for a message of s bytes that takes t. So the sum of bandwidth times load
squared falls, which is least where all links are busy equally long. All messages choose again a few times.
The roots are those of the least time, by the sum over steps of α and the largest load over bandwidth.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, NamedTuple

import numpy as np

from tutti.heuristics.one_shot.moves import MessageKeys, Move, OneShotPart, Orders, moves_of, part_of
from tutti.heuristics.one_shot.roots import TUNING, DimensionalNetwork, Roots, RootSet, RootSpacing
from tutti.schedules.capabilities import Capabilities, Groups, Switches
from tutti.schedules.collective import Kind
from tutti.schedules.method import Method, Problem
from tutti.schedules.schedule import NO_COPY, Chunks, Clock, Schedule
from tutti.topologies.exact import FloatArray, Int64Array, joined_rows, offsets_of
from tutti.topologies.kernels import kernel
from tutti.topologies.options import Options, Whole


@dataclass(frozen=True)
class OneShotOptions(Options):
    """Options of one_shot_allreduce.

    Parameters
    ----------
    hub_radius
        Largest distance, in hops and in each dimension, from a rank to the nearest hub. Each hub adds up all
        data over an in-tree of its own. With 0 every rank is a hub. By default the best for the size.
    """

    OWNER: ClassVar[str] = "one_shot_allreduce"
    hub_radius: Annotated[int | None, Whole(0)] = None


class _Laid(NamedTuple):
    """Parts whose messages have links.

    Parameters
    ----------
    seconds
        The sum over steps of α and the largest load over bandwidth.
    pieces
        The number of pieces of each part.
    parts
        In the order of items, turns and pieces.
    link
        int64: the links of all messages that are added, then of all that are spread.
    """

    seconds: float
    pieces: int
    parts: list[OneShotPart]
    link: Int64Array


class _RootTrial:
    """A trial of some shapes.

    Parameters
    ----------
    network, problem
        The network and the task.
    shapes
        The shape of each dimension; those of equivalent dimensions take turns.
    alternate
        Whether the moves of dimensions alternate.
    """

    def __init__(
        self,
        network: DimensionalNetwork,
        problem: Problem,
        shapes: Sequence[RootSpacing],
        *,
        alternate: bool = False,
    ) -> None:
        self.network, self.problem, self.shapes, self.alternate = network, problem, shapes, alternate
        self.near: dict[tuple[int, bytes], RootSet] = {}
        self.found: dict[tuple[int, RootSpacing, int], list[Move]] = {}
        self.made: dict[tuple[object, ...], OneShotPart] = {}
        ranks, k = len(network.hops), len(shapes)
        lines = [
            [
                [self.moves(d, shape, seed) for seed in range(network.line[d].size if alternate else 1)]
                for d, shape in enumerate(self.turned(first))
            ]
            for first in range(k)
        ]
        plain = [own[0] for own in lines[0]]
        self.turns = 1
        """The number of parts of an item."""
        if k > 1:
            least = TUNING.least_parts if alternate else 1
            part = part_of(network, list(itertools.chain(*plain)))
            few = TUNING.few_transfers // (ranks * k * (len(part.chunk) + len(part.target)))
            self.turns = k * min(few, -(-least // (ranks * k))) or 1
        parts = ranks * self.turns
        self.orders = Orders(network, lines, max(k, parts // -(-parts // TUNING.most_orders) // k * k))
        """The orders in which the dimensions move."""
        items = np.unique(np.linspace(0, ranks - 1, TUNING.sample).astype(int))
        sample = [self.part(item, 0, self.orders.nested()) for item in items]
        mean = sum(len(part.chunk) + len(part.target) for part in sample) / len(sample)
        self.rows = mean * ranks * self.turns
        """The approximate number of transfers."""
        steps = max(max(part.step.max(), part.later.max(initial=0)) for part in sample)
        alpha, bandwidth = network.topology.alpha, network.topology.bandwidth
        rate = int(bandwidth.numerators.sum(dtype=object)) / bandwidth.denominator
        latency = int(steps) * int(alpha.numerators.max()) / alpha.denominator
        self.estimate = latency + mean * float(problem.size or 0) / rate
        """Seconds, if the links were used evenly."""

    def part(self, item: int, turn: int, orders: Int64Array) -> OneShotPart:
        """Return a part of an item: how it is added up."""
        k, number = len(self.shapes), item * self.turns + turn
        first = (int(self.network.place[:, item].sum()) + turn) % k
        order = orders[(first + number // k * k) % len(orders)]
        moves = [
            self.moves(dimension, shape, int(self.network.place[dimension, item]))
            for dimension, shape in enumerate(self.turned(first))
        ]
        key = order.tobytes(), *(near.number for own in moves for near in own[0].roots.cliques)
        if key not in self.made:
            left = [iter(own) for own in moves]
            self.made[key] = part_of(self.network, [next(left[dimension]) for dimension in order])
        return self.made[key]

    def turned(self, first: int) -> list[RootSpacing]:
        """Return the shape of each dimension, where equivalent ones take turns from the `first` on."""
        kind, k = self.network.kind, len(self.shapes)
        left = {
            own: [shape for shape, like in zip(self.shapes, kind, strict=True) if like == own] for own in kind
        }
        turn = [(first + i) % k for i in range(k)]
        shape = {dimension: left[kind[dimension]].pop(0) for dimension in turn}
        return [shape[dimension] for dimension in range(k)]

    def moves(self, dimension: int, shape: RootSpacing, seed: int) -> list[Move]:
        """Return a dimension's moves; a root is at the seed if it can be."""
        if (dimension, shape, seed) not in self.found:
            line = self.network.line[dimension]
            chosen = line.roots(shape, seed)
            cliques = tuple(self._near(dimension, own) for own in line.cliques(shape, chosen, seed))
            roots = Roots(shape.gathers, self._near(dimension, chosen), cliques)
            self.found[dimension, shape, seed] = moves_of(dimension, roots, shape)
        return self.found[dimension, shape, seed]

    def _near(self, dimension: int, chosen: Int64Array) -> RootSet:
        key = dimension, chosen.tobytes()
        if key not in self.near:
            self.near[key] = self.network.near(len(self.near), dimension, chosen)
        return self.near[key]

    def laid(self, pieces: int) -> list[_Laid]:
        """Return the parts with links for several orders, in pieces that follow each other by a step."""
        orders = [self.orders.alternating(pieces)] if self.alternate else self.orders.phases()
        return [self._laid(pieces, each) for each in orders]

    def _laid(self, pieces: int, orders: Int64Array) -> _Laid:
        topology, problem = self.network.topology, self.problem
        parts = [
            part._replace(step=part.step + piece, later=part.later + piece)
            for item in range(len(self.network.hops))
            for turn in range(self.turns)
            for part in [self.part(item, turn, orders)]
            for piece in range(pieces)
        ]
        share = problem.collective.items.share.reduced
        size = np.repeat(share.numerators, len(parts) // len(share))
        steps = [part.step for part in parts] + [part.later for part in parts]
        key = np.concatenate([part.toward for part in parts] + [part.along for part in parts])
        step, of = np.concatenate(steps), np.repeat(np.tile(np.arange(len(parts)), 2), list(map(len, steps)))
        slowness = 1 / topology.bandwidth.numerators.astype(np.float64)
        load = np.zeros((int(step.max()) + 1, topology.num_links))
        link = np.zeros(len(key), dtype=np.int64)
        _choose(self.links(), key, step, size[of].astype(np.float64), slowness, load, link, TUNING.rounds)
        whole = share.denominator * self.turns * pieces
        unit = float(problem.size or 0) * topology.bandwidth.denominator / whole
        time = np.where(load > 0, topology.alpha.floats + load * unit, 0)
        return _Laid(float(time.max(axis=1).sum()), pieces, parts, link)

    def links(self) -> _AllowedLinks:
        """Return which links the messages of each key may take."""
        ranks, topology = len(self.network.hops), self.network.topology
        numbers = MessageKeys(ranks)
        keys, links = [numbers.between(topology.source, topology.target)], [np.arange(topology.num_links)]
        for near in self.near.values():
            keys.append(numbers.inward(near, topology.source[near.inward]))
            keys.append(numbers.outward(near, topology.target[near.outward]))
            links += [near.inward, near.outward]
        joined = np.concatenate(keys)
        count = np.bincount(joined, minlength=(ranks + 2 * len(self.near)) * ranks)
        return _AllowedLinks(offsets_of(count), np.concatenate(links)[np.argsort(joined, kind="stable")])

    def schedule(self, laid: _Laid) -> Schedule:
        """Return the schedule of parts that have links."""
        topology, parts = self.network.topology, laid.parts
        share = self.problem.collective.items.share.reduced
        cut = len(parts) // len(share)
        base = offsets_of([len(part.copy_of) for part in parts])
        up, down = (
            np.repeat(np.arange(len(parts)), [len(getattr(part, name)) for part in parts])
            for name in ("step", "later")
        )
        of = joined_rows(parts)
        # The copy that a rank gets of those that are spread depends on the link over which it comes.
        held = of.held.reshape(len(parts), len(self.network.hops))
        chunk = np.concatenate([base[up] + of.chunk, 0 * down])
        for now in np.unique(of.later):
            rows = np.flatnonzero(of.later == now)
            copy = held[down[rows], topology.source[laid.link[len(up) + rows]]]
            held[down[rows], of.target[rows]] = copy
            chunk[len(up) + rows] = base[down[rows]] + copy
        part, step = np.repeat(np.arange(len(parts)), np.diff(base)), np.concatenate([of.step, of.later])
        rows = np.lexsort((chunk, laid.link, step))
        item, copy_of = part // cut, np.where(of.copy_of == NO_COPY, NO_COPY, of.copy_of + base[part])
        chunks = Chunks(item.astype(np.int32), share.numerators[item], share.denominator * cut, copy_of)
        columns = chunk[rows], laid.link[rows], step[rows]
        return self.problem.schedule(Clock.STEP, chunks, *columns, reduce=rows < len(up))


class _AllowedLinks(NamedTuple):
    """The links that messages may take, in CSR form: those of key i are links[begin[i] : begin[i + 1]]."""

    begin: Int64Array
    links: Int64Array


@kernel
def _choose(
    allowed: _AllowedLinks,
    key: Int64Array,
    step: Int64Array,
    size: FloatArray,
    slowness: FloatArray,
    load: FloatArray,
    link: Int64Array,
    rounds: int,
) -> None:
    """Let each message choose the cheapest of its links, `rounds` times."""
    for turn in range(rounds):
        for message in range(len(key)):
            busy = load[step[message]]
            if turn > 0:
                busy[link[message]] -= size[message] * slowness[link[message]]
            least = np.inf
            for at in range(allowed.begin[key[message]], allowed.begin[key[message] + 1]):
                other = allowed.links[at]
                time = size[message] * slowness[other]
                cost = size[message] * (2 * busy[other] + time)
                if cost < least:
                    least, link[message] = cost, other
            busy[link[message]] += size[message] * slowness[link[message]]


def synthesize(problem: Problem, options: OneShotOptions, rng: np.random.Generator) -> Schedule:
    """Return a schedule in the step clock.

    Raises
    ------
    Unsupported
        As `METHOD.supports`.
    """
    METHOD.supports(problem, options)
    network = DimensionalNetwork(problem.topology)
    choices = _choices(network, options)
    best = _fastest([_RootTrial(network, problem, shapes) for shapes in choices], TUNING.tried_transfers)
    if len(network.line) > 1:
        alternating = [_RootTrial(network, problem, shapes, alternate=True) for shapes in choices]
        able = [trial for trial in alternating if trial.orders.alternate]
        best = _fastest(able, TUNING.alternating_transfers, best) if able else best
    return best[0].schedule(best[1])


def _fastest(
    trials: Sequence[_RootTrial], left: int, best: tuple[_RootTrial, _Laid] | None = None
) -> tuple[_RootTrial, _Laid]:
    """Return the fastest trial, in as many pieces as help; the work is bounded for any α."""
    small = [trial for trial in trials if trial.rows <= TUNING.most_transfers] or list(trials[-1:])
    small.sort(key=lambda trial: trial.estimate)
    best = best or (small[0], small[0].laid(1)[0])
    for number, trial in enumerate(small):
        if trial.estimate >= best[1].seconds or (number >= TUNING.tries and left <= 0):
            break
        pieces, before = 1, [math.inf]
        most = min(TUNING.most_pieces, TUNING.few_transfers / trial.rows)
        while pieces == 1 or (pieces <= most and left > 0):
            made = trial.laid(pieces)
            left -= int(pieces * trial.rows)
            best = min([best, *((trial, laid) for laid in made)], key=lambda one: one[1].seconds)
            seconds = [laid.seconds for laid in made]
            if all(np.greater_equal(seconds, before)):
                break
            pieces, before = pieces + max(1, pieces // 4), seconds
    return best


def _choices(network: DimensionalNetwork, options: OneShotOptions) -> list[tuple[RootSpacing, ...]]:
    """Return the shapes that are tried, one for each dimension; equivalent dimensions have one order."""
    lines, kind = network.line, network.kind
    if options.hub_radius is not None:
        return [tuple(RootSpacing(min(options.hub_radius, line.widest), None) for line in lines)]
    pairs = [(a, b) for a, b in itertools.combinations(range(len(kind)), 2) if kind[a] == kind[b]]
    numbers = [
        choice
        for choice in itertools.product(*(range(len(line.shapes)) for line in lines))
        if all(choice[a] <= choice[b] for a, b in pairs)
    ]
    if len(numbers) > TUNING.most_choices:
        most = max(len(line.shapes) for line in lines)
        numbers = [tuple(min(number, len(line.shapes) - 1) for line in lines) for number in range(most)]
    return [tuple(line.shapes[i] for line, i in zip(lines, choice, strict=True)) for choice in numbers]


def check(problem: Problem, options: OneShotOptions) -> None:
    """Raise `Unsupported` for too many ranks."""
    ranks = problem.topology.num_ranks
    if 2 * ranks * (ranks - 1) > TUNING.most_transfers:
        raise METHOD.unsupported(
            f"makes at most {TUNING.most_transfers} transfers; of {ranks} ranks there are more"
        )


METHOD = Method(
    name="one_shot_allreduce",
    kind="heuristic",
    synthesize=synthesize,
    options=OneShotOptions,
    capabilities=Capabilities((Kind.ALLREDUCE,), Groups.NONE, switches=Switches.NONE),
    check=check,
    size_dependent=lambda problem, options: options.hub_radius is None,
    summary="allreduce in few steps: every rank, or some, add up everything over shortest paths",
)
