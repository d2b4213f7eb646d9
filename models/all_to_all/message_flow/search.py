"""A search among orders of events: simulated annealing, each order judged by its linear program.

Events move, pairs of them are added or dropped, the first or last data of classes take a message less or
more, and a class of links copies another. Kirkpatrick, Gelatt, Vecchi, doi 10.1126/science.220.4598.671.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from tutti.models.all_to_all.message_flow.program import MessageFlowProgram, MessageOrder, TimedFlow
from tutti.models.solvers.outcome import SAME
from tutti.topologies.exact import Int64Array
from tutti.topologies.kernels import now
from tutti.topologies.progress import tell
from tutti.topologies.units import duration


class EventChances(NamedTuple):
    """Probabilities of the changes of an order. `moved`, `dropped` and `added` include those before them."""

    heat: float
    """Relative increase of the time that the search accepts at first with probability 1 / e. A larger value
    accepts more."""
    moved: float
    """Probability that events are moved, given that the change may be anywhere in the order."""
    dropped: float
    """Probability that events are moved or a message is dropped."""
    added: float
    """Probability that events are moved or a message is dropped or added. Otherwise a class copies
    another."""
    anywhere: float
    """Largest probability that the change may be anywhere; it is less with more than one kind of links by
    `MessageFlowProgram.apart`. Otherwise the first or the last messages are joined or cut."""


CHANCES = EventChances(heat=2e-4, moved=0.75, dropped=0.85, added=0.93, anywhere=0.7)
MANY, FAR = (1, 1, 2, 3, 5), (1, 1, 2, 3, 4, 6, 8, 12)
"""Numbers of events that move in a change, and of places by which each moves; one of each is drawn. Larger
values make larger changes."""

Found = tuple[list[int], TimedFlow]
"""An order of events and its solution."""


def searched(
    program: MessageFlowProgram, starts: Sequence[list[int]], until: float, rng: np.random.Generator
) -> Found | None:
    """Return the order that ends soonest, of those found until a moment; None if no start has a solution.

    Parameters
    ----------
    program
        The network.
    starts
        Orders, as `MessageFlowProgram.solved` takes them.
    until
        The moment at which to stop, by `topologies.kernels.now`.
    rng
        Chooses among changes.
    """
    begun, orders = now(), iter(starts)
    first = next(_solutions(program, orders, until), None)
    if first is None:
        return None
    before = until - (now() - begun)  # when the last program starts: it takes about as long as the first
    best = min([first, *_solutions(program, orders, before, few=False)], key=_end)
    best = _annealed(program, best, before, rng)
    last = None if best is first else program.solved(best[0], until - now())
    return best if last is None else (best[0], last)


def _solutions(
    program: MessageFlowProgram, orders: Iterator[list[int]], until: float, *, few: bool = True
) -> Iterator[Found]:
    """Yield those orders that have a solution, until a moment."""
    for order in orders:
        left = until - now()
        solved = program.solved(order, left, few=few) if left > 0 else None
        if solved is not None:
            yield order, solved


def _end(found: Found) -> float:
    return float(found[1].time[-1])


def _annealed(program: MessageFlowProgram, start: Found, until: float, rng: np.random.Generator) -> Found:
    """Return the best of a start and all that is found until a moment."""
    best, current, began = start, (_sorted(*start), start[1]), now()
    while (left := until - now()) > 0:
        events = _changed(current[0], program.apart, rng)
        solved = program.solved(events, left, few=False) if events else None
        if solved is None:
            continue
        heat = CHANCES.heat * _end(best) * left / (until - began)
        if rng.random() < np.exp(min(0.0, (_end(current) - solved.time[-1]) / heat)):
            current = _sorted(events, solved), solved
        if solved.time[-1] < _end(best) * (1 - SAME):
            best = events, solved
            tell(f"windowed_mcf: {duration(_end(best) * 1e6)}")
    return best


def _sorted(events: list[int], solved: TimedFlow) -> list[int]:
    """Return the events in order of time. Ends precede starts of the same time, so data may move on then."""
    starts = np.ones(len(events), dtype=np.bool_)
    starts[MessageOrder.of(events).end] = False
    time = np.round(solved.time / solved.time[-1], 6)
    return [events[place] for place in np.lexsort((starts, time))]


def _changed(events: list[int], apart: Int64Array, rng: np.random.Generator) -> list[int]:
    """Return the events in another order, with messages more or less, or with a class that copies another."""
    found, chance, kinds = list(events), rng.random(), apart.shape[1]
    if rng.random() > min(CHANCES.anywhere, 1 / np.unique(apart, axis=1).shape[1]):
        _cut_otherwise(found, apart, rng)
        return found
    if chance < CHANCES.moved:
        for _ in range(rng.choice(MANY)):
            place = int(rng.integers(len(found)))
            kind = found.pop(place)
            found.insert(max(0, place + int(rng.choice((-1, 1)) * rng.choice(FAR))), kind)
    elif chance < CHANCES.dropped:
        kind = found[rng.integers(len(found))]
        places = [place for place, other in enumerate(found) if other == kind]
        first = int(rng.integers(len(places) - 1))
        for place in reversed(places[first : first + 2]):
            del found[place]
    elif chance < CHANCES.added:
        kind = int(rng.integers(kinds))
        for _ in range(2):
            found.insert(int(rng.integers(len(found) + 1)), kind)
    else:
        one, other = rng.integers(kinds, size=2).tolist()
        if one != other:
            others = [kind for kind in found if kind != other]
            found = [twin for kind in others for twin in ((one, other) if kind == one else (kind,))]
    return found


def _cut_otherwise(events: list[int], apart: Int64Array, rng: np.random.Generator) -> None:
    """Join the first two messages of some classes, or the last two, or cut the first or the last.

    With probability 1/2 these are all classes with the distances (`apart`) of one that is drawn, else that
    class alone. With probability 1/2, classes with the two distances swapped change too, at their other end.
    """
    kind, joins, where = int(rng.integers(apart.shape[1])), rng.random() < 1 / 2, rng.random()
    alike, mirrored = (
        np.flatnonzero((side == apart[:, [kind]]).all(axis=0)).tolist() for side in (apart, apart[::-1])
    )
    ways = [alike if rng.random() < 1 / 2 else [kind], mirrored if rng.random() < 1 / 2 else []]
    for way, kinds in zip(rng.permutation((1, -1)), ways, strict=True):
        for kind in kinds:
            places = [place for place, other in enumerate(events) if other == kind][::way]
            if places and not joins:
                begin, end = sorted(places[:2])
                at = begin + 1 + int((where if way > 0 else 1 - where) * (end - begin - 1))
                events[at:at] = [kind, kind]
            elif len(places) > 2:
                for place in sorted(places[1:3], reverse=True):
                    del events[place]
