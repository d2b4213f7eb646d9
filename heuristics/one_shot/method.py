"""The method `one_shot`: which roots, over which links, in how many pieces.

Which of its shortest paths each sum takes is balanced much as in `stepwise`: a link that is busy for L in a
step costs s (2 L + t) for a message of s bytes that takes t, so that the sum of bandwidth times load squared
falls, which is least where all links are busy equally long; and all messages choose anew a few times. The
roots are those of the least time, by the sum over steps of α and the largest load over bandwidth.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, NamedTuple

import numpy as np

from heuristics.one_shot.parts import Part, Ways, part_of
from heuristics.one_shot.roots import Network, Roots, Shape
from schedules.capabilities import Capabilities, Groups, Switches
from schedules.collective import Kind
from schedules.method import Method, Problem
from schedules.schedule import NO_COPY, Chunks, Clock, Schedule, step_numbers
from topologies.exact import FloatArray, Int64Array, offsets_of
from topologies.kernels import kernel
from topologies.ranges import Options, Whole

MOST_TRANSFERS = 2**22
"""Of a schedule; larger ones are for methods that need no sum twice."""
FEW_TRANSFERS = 2**19
"""With no more each item is cut in parts, one for each rotation of the dimensions, and in pieces."""
MOST_CHOICES = 64
"""Of shapes; where there would be more, all dimensions have like ones."""
SAMPLE = 6
"""Parts by which choices are estimated."""
TRIES, TRIED_TRANSFERS = 3, 2**23
"""How many of the best are worked out at least; beyond them, and in pieces, so many transfers in all."""
ROUNDS = 6
"""How often all messages choose."""


@dataclass(frozen=True)
class OneShotOptions(Options):
    """Which ranks add up everything.

    Parameters
    ----------
    radius
        So many hops at most is each rank away from one that does, in each dimension, and each of those has an
        in-tree of its own: 0 for one shot; by default the best for the size, gathered or not.
    """

    OWNER: ClassVar[str] = "one_shot"
    radius: Annotated[int | None, Whole(0)] = None


class _Laid(NamedTuple):
    """Parts whose messages have links.

    Parameters
    ----------
    seconds
        The sum over steps of α and the largest load over bandwidth.
    pieces
        In how many each part is cut.
    parts
        In the order of items, turns and pieces.
    link
        int64: of all messages that are added, then of all that are spread.
    """

    seconds: float
    pieces: int
    parts: list[Part]
    link: Int64Array


class _Trial:
    """What comes of some shapes.

    Parameters
    ----------
    network, problem
        On what, and what is asked.
    shapes
        Of each dimension; those of dimensions alike take turns.
    nested
        Whether all dimensions gather before any exchanges.
    """

    def __init__(self, network: Network, problem: Problem, shapes: Sequence[Shape], nested: bool) -> None:
        self.network, self.problem, self.shapes, self.nested = network, problem, shapes, nested
        self.known: dict[tuple[int, Shape, bytes], Roots] = {}
        self.made: dict[tuple[tuple[int, int], ...], Part] = {}
        ranks, k = len(network.hops), len(shapes)
        sample = [self.part(item, 0) for item in np.unique(np.linspace(0, ranks - 1, SAMPLE).astype(int))]
        mean = sum(len(part.chunk) + len(part.target) for part in sample) / len(sample)
        self.turns = k if k * mean * ranks <= FEW_TRANSFERS else 1
        """In how many parts an item is cut."""
        self.rows = mean * ranks * self.turns
        """About how many transfers there are."""
        steps = max(max(part.step.max(), part.later.max(initial=0)) for part in sample)
        alpha, bandwidth = network.topology.alpha, network.topology.bandwidth
        rate = int(bandwidth.numerators.sum(dtype=object)) / bandwidth.denominator
        latency = int(steps) * int(alpha.numerators.max()) / alpha.denominator
        self.estimate = latency + mean * float(problem.size or 0) / rate
        """Seconds, if the links were used evenly."""

    def part(self, item: int, turn: int) -> Part:
        """Return how a part of an item is added up; which dimension is its first depends on both.

        The roots of an item are at the place of its owner, if they can be, and where else it takes some.
        """
        network, k = self.network, len(self.shapes)
        first = int(network.place[:, item].sum()) + turn
        left = {
            kind: [shape for shape, own in zip(self.shapes, network.kind, strict=True) if own == kind]
            for kind in network.kind
        }
        order = [(first + i) % k for i in range(k)]
        phases = [
            (dimension, self.roots(dimension, left[network.kind[dimension]].pop(0), item))
            for dimension in order
        ]
        key = tuple((dimension, roots.number) for dimension, roots in phases)
        if key not in self.made:
            self.made[key] = part_of(network, phases, self.nested)
        return self.made[key]

    def roots(self, dimension: int, shape: Shape, item: int) -> Roots:
        """Return the roots of an item in the lines of a dimension."""
        chosen = self.network.line[dimension].roots(shape, int(self.network.place[dimension, item]))
        key = dimension, shape, chosen.tobytes()
        if key not in self.known:
            self.known[key] = self.network.roots(len(self.known), dimension, shape, chosen)
        return self.known[key]

    def laid(self, pieces: int) -> _Laid:
        """Return the parts with links; each is cut in so many pieces, which follow each other by a step."""
        topology, problem = self.network.topology, self.problem
        parts = [
            part._replace(step=part.step + piece, later=part.later + piece)
            for item in range(len(self.network.hops))
            for turn in range(self.turns)
            for part in [self.part(item, turn)]
            for piece in range(pieces)
        ]
        share = problem.collective.items.share.reduced
        size = np.repeat(share.numerators, len(parts) // len(share))
        key, step, of = (
            np.concatenate([column for columns in pair for column in columns])
            for pair in (
                ([part.toward for part in parts], [part.along for part in parts]),
                ([part.step for part in parts], [part.later for part in parts]),
                (
                    [np.full(len(part.step), i) for i, part in enumerate(parts)],
                    [np.full(len(part.later), i) for i, part in enumerate(parts)],
                ),
            )
        )
        slowness = 1 / topology.bandwidth.numerators.astype(np.float64)
        load = np.zeros((int(step.max()) + 1, topology.num_links))
        link = np.zeros(len(key), dtype=np.int64)
        _choose(self.links(), key, step, size[of].astype(np.float64), slowness, load, link, ROUNDS)
        unit = (
            float(problem.size or 0)
            * topology.bandwidth.denominator
            / (share.denominator * self.turns * pieces)
        )
        time = np.where(load > 0, topology.alpha.floats + load * unit, 0)
        return _Laid(float(time.max(axis=1).sum()), pieces, parts, link)

    def links(self) -> _Links:
        """Return which links the messages of each key may take."""
        ranks, topology = len(self.network.hops), self.network.topology
        ways, (key, link) = Ways(ranks), self.network.inward
        keys, links = [key], [link]
        for roots in self.known.values():
            keys.append(ways.inward(roots, topology.source[roots.inward]))
            keys.append(ways.outward(roots, topology.target[roots.outward]))
            links += [roots.inward, roots.outward]
        joined = np.concatenate(keys)
        count = np.bincount(joined, minlength=(ranks + 2 * len(self.known)) * ranks)
        return _Links(offsets_of(count), np.concatenate(links)[np.argsort(joined, kind="stable")])

    def schedule(self, laid: _Laid) -> Schedule:
        """Return the schedule of parts that have links."""
        topology, parts, share = (
            self.network.topology,
            laid.parts,
            self.problem.collective.items.share.reduced,
        )
        cut = len(parts) // len(share)
        base = offsets_of([len(part.copy_of) for part in parts])
        up, down = (
            np.repeat(np.arange(len(parts)), [len(getattr(part, name)) for part in parts])
            for name in ("step", "later")
        )
        of = Part(*(np.concatenate(column) for column in zip(*parts, strict=True)))
        # Which copy a rank gets of those that are spread depends on the link over which it comes.
        held = of.held.reshape(len(parts), len(self.network.hops))
        chunk = np.concatenate([base[up] + of.chunk, 0 * down])
        for now in np.unique(of.later):
            rows = np.flatnonzero(of.later == now)
            copy = held[down[rows], topology.source[laid.link[len(up) + rows]]]
            held[down[rows], of.target[rows]] = copy
            chunk[len(up) + rows] = base[down[rows]] + copy
        part, step = np.repeat(np.arange(len(parts)), np.diff(base)), np.concatenate([of.step, of.later])
        rows = np.lexsort((chunk, laid.link, step))
        return Schedule(
            topology=topology,
            collective=self.problem.collective,
            clock=Clock.STEP,
            chunks=Chunks(
                (part // cut).astype(np.int32),
                share.numerators[part // cut],
                share.denominator * cut,
                np.where(of.copy_of == NO_COPY, NO_COPY, of.copy_of + base[part]),
            ),
            chunk=chunk[rows].astype(np.int32),
            route=laid.link[rows].astype(np.int32),
            order=step_numbers(step[rows]),
            reduce=rows < len(up),
        )


class _Links(NamedTuple):
    """In CSR form the links that messages may take: those of key i are links[begin[i] : begin[i + 1]]."""

    begin: Int64Array
    links: Int64Array


@kernel
def _choose(
    ways: _Links,
    key: Int64Array,
    step: Int64Array,
    size: FloatArray,
    slowness: FloatArray,
    load: FloatArray,
    link: Int64Array,
    rounds: int,
) -> None:
    """Let each message choose the cheapest of its links, so many times over."""
    for turn in range(rounds):
        for message in range(len(key)):
            busy = load[step[message]]
            if turn > 0:
                busy[link[message]] -= size[message] * slowness[link[message]]
            least = np.inf
            for at in range(ways.begin[key[message]], ways.begin[key[message] + 1]):
                other = ways.links[at]
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
    network = Network(problem.topology)
    trials = [
        _Trial(network, problem, shapes, nested)
        for shapes in _choices(network, options)
        for nested in ((True, False) if len(shapes) > 1 and all(s.gathers for s in shapes) else (True,))
    ]
    small = [trial for trial in trials if trial.rows <= MOST_TRANSFERS] or trials[-1:]
    best, laid = _fastest(sorted(small, key=lambda trial: trial.estimate))
    return best.schedule(laid)


def _fastest(trials: Sequence[_Trial]) -> tuple[_Trial, _Laid]:
    """Return the fastest, in as many pieces as help; the work is bounded whatever α is."""
    best, left = (trials[0], trials[0].laid(1)), TRIED_TRANSFERS
    for number, trial in enumerate(trials):
        if trial.estimate >= best[1].seconds or (number >= TRIES and left <= 0):
            break
        pieces, before = 1, math.inf
        while pieces == 1 or (pieces * trial.rows <= FEW_TRANSFERS and left > 0):
            made = trial.laid(pieces)
            left -= int(pieces * trial.rows)
            if made.seconds >= before:
                break
            best = min(best, (trial, made), key=lambda one: one[1].seconds)
            pieces, before = pieces + max(1, pieces // 4), made.seconds
    return best


def _choices(network: Network, options: OneShotOptions) -> list[tuple[Shape, ...]]:
    """Return the shapes that are tried, of each dimension one; those of dimensions alike in one order."""
    lines, kind = network.line, network.kind
    if options.radius is not None:
        return [tuple(Shape(min(options.radius, line.widest), None) for line in lines)]
    pairs = [(a, b) for a, b in itertools.combinations(range(len(kind)), 2) if kind[a] == kind[b]]
    numbers = [
        choice
        for choice in itertools.product(*(range(len(line.shapes)) for line in lines))
        if all(choice[a] <= choice[b] for a, b in pairs)
    ]
    if len(numbers) > MOST_CHOICES:
        most = max(len(line.shapes) for line in lines)
        numbers = [tuple(min(number, len(line.shapes) - 1) for line in lines) for number in range(most)]
    return [tuple(line.shapes[i] for line, i in zip(lines, choice, strict=True)) for choice in numbers]


def check(problem: Problem, options: OneShotOptions) -> None:
    """Raise `Unsupported` for too many ranks."""
    ranks = problem.topology.num_ranks
    if 2 * ranks * (ranks - 1) > MOST_TRANSFERS:
        raise METHOD.unsupported(f"makes at most {MOST_TRANSFERS} transfers; of {ranks} ranks there are more")


def _size_dependent(problem: Problem, options: OneShotOptions) -> bool:
    return options.radius is None


METHOD = Method(
    name="one_shot",
    kind="heuristic",
    synthesize=synthesize,
    options=OneShotOptions,
    capabilities=Capabilities((Kind.ALLREDUCE,), Groups.NONE, switches=Switches.NONE),
    check=check,
    size_dependent=_size_dependent,
    summary="allreduce in few steps: every rank, or some, add up everything over shortest paths",
)
