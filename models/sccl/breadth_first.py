"""A first schedule of the fewest steps: every chunk comes to a rank in the step that is its distance.

Then each step is an assignment of its own: the chunks that come to a rank in step s, to its links from ranks
at distance s - 1, as few as can be to the busiest one, found by augmenting paths. It is BFB (dissertation,
section 3.5) for whole chunks, and where its rounds are the lower bound no program has to be solved.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from models.sccl.instance import Instance
from topologies.exact import Int64Array


def breadth_first(instance: Instance) -> Int64Array | None:
    """Return rows (step, link, chunk), shape (3, transfers), of a schedule of `least_steps` steps.

    None where not all ranks must have all that moves, as it would bring chunks to ranks that need none.
    """
    items = np.unique(instance.item)
    if not instance.wanters[items].all():
        return None
    topology = instance.topology
    into: list[list[int]] = [[] for _ in range(topology.num_ranks)]
    for link, target in enumerate(topology.target.tolist()):
        into[target].append(link)
    rows: list[tuple[int, int, int]] = []
    for rank, links in enumerate(into):
        distance = instance.hops[instance.item, rank]
        for step in range(1, int(distance.max()) + 1):
            chunks = np.flatnonzero(distance == step)
            before = instance.hops[instance.item[chunks]][:, topology.source[links]] == step - 1
            choices = [np.flatnonzero(row).tolist() for row in before]
            chosen = assigned(choices, instance.capacity[links].tolist())
            rows += [(step, links[place], int(c)) for c, place in zip(chunks, chosen, strict=True)]
    return np.array(sorted(rows), dtype=np.int64).reshape(-1, 3).T


def assigned(choices: Sequence[Sequence[int]], weights: Sequence[int]) -> list[int]:
    """Return for each thing one of its places, so that the largest load over weight, rounded up, is least.

    Parameters
    ----------
    choices
        For each thing the places that it may have; at least one.
    weights
        Of the places, whole numbers.
    """
    rounds = -(-len(choices) // sum(weights))
    while True:
        held: list[list[int]] = [[] for _ in weights]
        if all(_place(thing, (choices, weights, rounds), held, set()) for thing in range(len(choices))):
            break
        rounds += 1
    where = {thing: place for place, things in enumerate(held) for thing in things}
    return [where[thing] for thing in range(len(choices))]


def _place(
    thing: int,
    task: tuple[Sequence[Sequence[int]], Sequence[int], int],
    held: list[list[int]],
    seen: set[int],
) -> bool:
    """Find room for one thing along an augmenting path; whether there is any."""
    choices, weights, rounds = task
    for place in choices[thing]:
        if place in seen:
            continue
        seen.add(place)
        if len(held[place]) < rounds * weights[place]:
            held[place].append(thing)
            return True
        for i, other in enumerate(held[place]):
            if _place(other, task, held, seen):
                held[place][i] = thing
                return True
    return False
