"""A search among orders of events: simulated annealing, each order judged by its linear program.

Events move, pairs of them come and go, and a class of links does as another does. Kirkpatrick, Gelatt,
Vecchi, doi 10.1126/science.220.4598.671.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from models.all_to_all.message_flow.program import FlowProgram, Order, Timed
from topologies.kernels import now
from topologies.progress import tell
from topologies.units import duration

HEAT = 2e-3
"""Of the time: so much longer it may get at first, with a probability of 1 / e."""
MOVED, DROPPED, ADDED = 0.75, 0.85, 0.93
"""Up to which of all chances events are moved, a message is dropped, one is added; else a class is copied."""
MANY, FAR = (1, 1, 2, 3, 5), (1, 1, 2, 3, 4, 6, 8, 12)
"""Of events that move, how many, and how far."""
SLACK = 1e-9
"""Of times, relatively."""
MICRO = 1e6

Found = tuple[list[int], Timed]
"""An order of events and its solution."""


def searched(
    program: FlowProgram, starts: Sequence[list[int]], until: float, rng: np.random.Generator
) -> Found | None:
    """Return the order that ends soonest, of those found until a moment; None if no start has a solution.

    Parameters
    ----------
    program
        The network.
    starts
        Orders, as `FlowProgram.solved` takes them.
    until
        By `topologies.kernels.now`.
    rng
        Chooses among changes.
    """
    best: Found | None = None
    for start in starts:
        solved = program.solved(start, until - now())
        if solved is not None and (best is None or solved.time[-1] < best[1].time[-1]):
            best = start, solved
    if best is None:
        return None
    current, began = (_sorted(*best), best[1]), now()
    while (left := until - now()) > 0:
        events = _changed(current[0], len(program.examples), rng)
        solved = program.solved(events, left) if events else None
        if solved is None:
            continue
        heat = HEAT * best[1].time[-1] * left / (until - began)
        if rng.random() < np.exp(min(0.0, (current[1].time[-1] - solved.time[-1]) / heat)):
            current = _sorted(events, solved), solved
        if solved.time[-1] < best[1].time[-1] * (1 - SLACK):
            best = events, solved
            tell(f"message_flow: {duration(float(solved.time[-1]) * MICRO)}")
    return best


def _sorted(events: list[int], solved: Timed) -> list[int]:
    """Return the events in order of time, of those at one time ends first: so data may go on at once."""
    starts = np.ones(len(events), dtype=np.bool_)
    starts[Order.of(events).end] = False
    time = np.round(solved.time / solved.time[-1], 6)
    return [events[place] for place in np.lexsort((starts, time))]


def _changed(events: list[int], kinds: int, rng: np.random.Generator) -> list[int]:
    """Return the events in another order, with a message more or less, or a class that copies another."""
    found, chance = list(events), rng.random()
    if chance < MOVED:
        for _ in range(rng.choice(MANY)):
            place = int(rng.integers(len(found)))
            kind = found.pop(place)
            found.insert(max(0, place + int(rng.choice((-1, 1)) * rng.choice(FAR))), kind)
    elif chance < DROPPED:
        kind = found[rng.integers(len(found))]
        places = [place for place, other in enumerate(found) if other == kind]
        first = int(rng.integers(len(places) - 1))
        for place in reversed(places[first : first + 2]):
            del found[place]
    elif chance < ADDED:
        kind = int(rng.integers(kinds))
        for _ in range(2):
            found.insert(int(rng.integers(len(found) + 1)), kind)
    else:
        one, other = rng.integers(kinds, size=2).tolist()
        if one != other:
            others = [kind for kind in found if kind != other]
            found = [twin for kind in others for twin in ((one, other) if kind == one else (kind,))]
    return found
