"""Simulated annealing over plans: a message, a route or a cut is changed, and kept if it is not too late.

Most changes are made where it matters: at a message of the critical path, the chain of messages that wait for
each other, or for their link, up to the last one.

Source: Kirkpatrick, Gelatt, Vecchi, Optimization by simulated annealing, Science 1983; critical paths as
neighbourhoods: van Laarhoven, Aarts, Lenstra, Job shop scheduling by simulated annealing, Oper. Res. 1992.
"""

from __future__ import annotations

import numpy as np

from tutti.heuristics.refine.moves import change, end_of
from tutti.heuristics.refine.plan import NEVER, Parcels, Plan, Roads, Times, play
from tutti.topologies.exact import FloatArray, Int32Array
from tutti.topologies.kernels import kernel

CRITICAL = 0.6
"""Share of the changes that are made on the critical path."""
MEAN = 0.5
"""Weight of the mean of the links' ends, beside the end of all."""
LEAST = 1e-12
"""Of the end: less is no gain."""


@kernel
def copy(plan: Plan, to: Plan) -> None:
    """Copy a plan into another's arrays."""
    length = plan.length[0]
    to.length[0] = length
    to.slot[:length], to.begins[:length] = plan.slot[:length], plan.begins[:length]
    to.start[:length] = plan.start[:length]
    to.route[:], to.origin[:], to.goal[:], to.size[:] = plan.route, plan.origin, plan.goal, plan.size


@kernel
def sort(plan: Plan) -> None:
    """Put the messages in the order of their starts; those that start together stay as they stand."""
    slot, begins, start = plan.slot, plan.begins, plan.start
    for place in range(1, plan.length[0]):
        a, b, c = slot[place], begins[place], start[place]
        at = place
        while at > 0 and start[at - 1] > c:
            slot[at], begins[at], start[at] = slot[at - 1], begins[at - 1], start[at - 1]
            at -= 1
        slot[at], begins[at], start[at] = a, b, c


@kernel
def _chosen(rng: np.random.Generator, plan: Plan, last: int, waits: Int32Array, path: Int32Array) -> int:
    """Return a place to change something at: on the critical path, or anywhere."""
    length = plan.length[0]
    if rng.random() < CRITICAL:
        count, at = 0, last
        while at >= 0:
            path[count] = at
            count += 1
            at = waits[at]
        head = path[int(rng.random() * count)]
        return head + int(rng.random() * (end_of(plan, head) - head))
    return int(rng.random() * length)


@kernel
def anneal(
    roads: Roads,
    parcels: Parcels,
    plans: tuple[Plan, Plan, Plan],
    times: tuple[Times, Times],
    rng: np.random.Generator,
    ends: FloatArray,
    rounds: int,
    heat: float,
) -> int:
    """Change the first plan for some rounds; the third becomes the best that was found.

    Parameters
    ----------
    roads, parcels
        The problem.
    plans
        The plan, room for another, and the best so far.
    times
        Room for the times of two.
    rng
        Where random numbers come from.
    ends
        float64, shape (1,): when the best ends; it changes.
    rounds
        Changes that are tried.
    heat
        Seconds: an end this much later is accepted once in e times.

    Returns
    -------
    int
        Which of the first two plans is the plan then.
    """
    plan, trial, best = plans
    own, spare = times
    sort(plan)
    end, last, mean = play(roads, parcels.of, plan, own, NEVER)
    value, which = end + MEAN * mean, 0
    path = np.empty(len(plan.slot), np.int32)
    for _ in range(rounds):
        copy(plan, trial)
        place = _chosen(rng, plan, last, own.waits, path)
        if not change(rng, roads, parcels, trial, place, own):
            continue
        limit = value - heat * np.log(1 - rng.random())
        end, _, mean = play(roads, parcels.of, trial, spare, limit)
        if end == NEVER or end + MEAN * mean > limit:
            continue
        sort(trial)
        plan, trial, which = trial, plan, 1 - which
        value = end + MEAN * mean
        _, last, _ = play(roads, parcels.of, plan, own, NEVER)  # anew: what waits are places in the sequence
        if end < ends[0] * (1 - LEAST):
            ends[0] = end
            copy(plan, best)
    return which
