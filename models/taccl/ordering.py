"""Heuristic ordering (TACCL, section 5.1 and Appendix B.2): which transfer goes first on every link.

Transfers are chosen one after the other, always one that can start soonest. Among those, the chunk with the
longest path from now on goes first, and among these the one with the shortest path until now. The times at
which ports are free and chunks arrive are recorded. The same is done backwards from the ends of the paths,
with the two lengths exchanged. The better of the two orders is kept; as the paper says, which one it is
depends on the architecture.

The paper stops here. If the order takes longer than the routing's time, which is a lower bound, priorities
are disturbed at random and the orders tried again, forwards and backwards in turn.

An order is judged by the times that it leads to: every message in turn starts as early as its data and ports
allow.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from tutti.models.taccl.solving import NEVER, Deadline
from tutti.models.taccl.transfers import RoutedTransfers
from tutti.topologies.exact import FloatArray, Int64Array, offsets_of
from tutti.topologies.kernels import kernel

NOISE = (0.25, 1.0, 4.0)
"""Standard deviations of the disturbances, in lengths of a transfer, taken in turn. A larger value gives
orders that differ more from the heuristic's."""


@dataclass(frozen=True, eq=False)
class TimedMessages:
    """Messages in the order of their starts.

    Parameters
    ----------
    transfers
        The transfers that are ordered.
    messages
        The transfers of each message, in order.
    start
        The tick at which each message starts; non-decreasing.
    end
        Ticks until all has arrived.
    """

    transfers: RoutedTransfers
    messages: tuple[tuple[int, ...], ...]
    start: tuple[int, ...]
    end: int

    @classmethod
    def of(
        cls, transfers: RoutedTransfers, messages: Sequence[tuple[int, ...]], start: Int64Array, end: int
    ) -> TimedMessages:
        """Return these messages, in any order, by their starts."""
        order = np.argsort(start, kind="stable")
        return cls(transfers, tuple(messages[i] for i in order), tuple(start[order].tolist()), end)


def ordered(
    transfers: RoutedTransfers, bound: int, tries: int, rng: np.random.Generator, deadline: Deadline = NEVER
) -> TimedMessages:
    """Return the best order that is found.

    Parameters
    ----------
    transfers
        The transfers to order.
    bound
        Ticks; no order takes less, so the search ends when one takes no more.
    tries
        Largest number of disturbed orders that are tried.
    rng
        Draws the disturbances.
    deadline
        After it no other order is tried, not even the first one backwards.
    """
    search = _TransferOrdering(transfers)
    first = [search.tried(backwards) for backwards in (False, True) if not (backwards and deadline.over)]
    start, end = min(first, key=lambda found: found[1])
    unit = max(transfers.message(link).arrival for link in set(transfers.link))
    for turn in range(tries):
        if end <= bound or deadline.over:
            break
        spread = NOISE[turn // 2 % len(NOISE)] * unit
        other, time = search.tried(bool(turn % 2), rng.normal(0.0, spread, len(transfers)))
        if time < end:
            start, end = other, time
    return TimedMessages.of(transfers, [(transfer,) for transfer in range(len(transfers))], start, end)


class _TransferOrdering:
    """Orders of one set of transfers."""

    def __init__(self, transfers: RoutedTransfers) -> None:
        self.arrays = {backwards: arrays_of(transfers, backwards=backwards) for backwards in (False, True)}
        self.until_now, self.from_now = np.array(transfers.until_now), np.array(transfers.from_now)

    def tried(self, backwards: bool, noise: FloatArray | None = None) -> tuple[Int64Array, int]:
        """Return the starts in ticks, and the end, of the order that the rule gives in one direction."""
        lengths = (self.until_now, self.from_now) if backwards else (self.from_now, self.until_now)
        longest = lengths[0] if noise is None else lengths[0] + noise
        rank = np.empty(len(longest), np.int64)
        rank[np.lexsort((lengths[1], -longest))] = np.arange(len(longest))
        # The rule gives an order alone: it is timed forwards in any case.
        chosen = choose(self.arrays[backwards], rank, backwards)
        start, end = earliest(self.arrays[False], np.lexsort((rank, chosen)))
        return start, int(end)


def timed(transfers: RoutedTransfers, messages: Sequence[tuple[int, ...]]) -> TimedMessages:
    """Return the messages, taken in turn, each as early as its data and its ports allow.

    Parameters
    ----------
    transfers
        The transfers.
    messages
        The transfers that travel together, of one link each; every transfer once, after those it waits for.
    """
    start, end = earliest(arrays_of(transfers, messages), np.arange(len(messages)))
    return TimedMessages.of(transfers, messages, start, int(end))


def arrays_of(
    transfers: RoutedTransfers,
    messages: Sequence[tuple[int, ...]] | None = None,
    *,
    backwards: bool = False,
) -> MessageArrays:
    """Return messages as arrays; backwards, each waits for those that wait for it.

    Parameters
    ----------
    transfers
        The transfers.
    messages
        The transfers that travel together, of one link each; None: each alone.
    backwards
        Whether time counts back from the end.
    """
    if messages is None:
        messages = [(transfer,) for transfer in range(len(transfers))]
    kinds = [(transfers.link[message[0]], len(message)) for message in messages]
    row = {kind: number for number, kind in enumerate(sorted(set(kinds)))}
    lasting = [transfers.message(*kind) for kind in row]
    uses = [use for lasts in lasting for use in lasts.uses]
    of = {transfer: number for number, message in enumerate(messages) for transfer in message}
    after, before = transfers.after, transfers.before
    if backwards:
        after, before = before, after
    later = [[of[other] for transfer in message for other in after[transfer]] for message in messages]
    places: list[list[int]] = [[] for _ in messages]
    if transfers.reduces and not transfers.together:
        # A number for each pair of rank and chunk that transfers add to.
        ranks = transfers.logical.topology.num_ranks
        keys = [transfers.chunk[o] * ranks + transfers.at(o) for o in range(len(transfers))]
        number_of = np.unique(keys, return_inverse=True)[1].reshape(-1).tolist()
        places = [[number_of[transfer] for transfer in message] for message in messages]
    return MessageArrays(
        kind=np.array([row[kind] for kind in kinds], np.int64),
        place_first=offsets_of([len(adds) for adds in places]),
        place=np.array([place for adds in places for place in adds], np.int64),
        arrival=np.array([lasts.arrival for lasts in lasting], np.int64),
        first=offsets_of([len(lasts.uses) for lasts in lasting]),
        port=np.array([use.port for use in uses], np.int64),
        enter=np.array([use.enter for use in uses], np.int64),
        hold=np.array([use.hold for use in uses], np.int64),
        after_first=offsets_of([len(others) for others in later]),
        after=np.array([other for others in later for other in others], np.int64),
        waits=np.array([sum(len(before[o]) for o in message) for message in messages], np.int64),
    )


class MessageArrays(NamedTuple):
    """Messages as arrays.

    Parameters
    ----------
    kind
        int64 (messages,): rows of the tables of `arrival` and `first`.
    place_first, place
        int64, CSR: where the parts of each message are added to what is there, and nothing else may be added
        meanwhile.
    arrival
        int64 (kinds,): ticks from the start until the data is there.
    first
        int64 (kinds + 1,): the ports of kind k are entries first[k] to first[k + 1] - 1 of the next three.
    port, enter, hold
        int64.
    after_first, after
        int64, CSR: the messages that wait for each.
    waits
        int64 (messages,): for how many messages each waits.
    """

    kind: Int64Array
    place_first: Int64Array
    place: Int64Array
    arrival: Int64Array
    first: Int64Array
    port: Int64Array
    enter: Int64Array
    hold: Int64Array
    after_first: Int64Array
    after: Int64Array
    waits: Int64Array


@kernel
def _soonest(
    arrays: MessageArrays, ports: Int64Array, places: Int64Array, message: int, ready: int, backwards: bool
) -> int:
    """Return when a message can start whose data is there at `ready`.

    Backwards, time counts from the end of all, and `lead` is the time from leaving a port to the arrival.
    """
    kind = arrays.kind[message]
    now, arrival = ready, arrays.arrival[kind]
    for use in range(arrays.first[kind], arrays.first[kind + 1]):
        lead = arrival - arrays.enter[use] - arrays.hold[use] if backwards else arrays.enter[use]
        now = max(now, ports[arrays.port[use]] - lead)
    # Parts that are added to one chunk at a rank are received one after the other.
    received = 0 if backwards else arrays.enter[arrays.first[kind + 1] - 1]
    for index in range(arrays.place_first[message], arrays.place_first[message + 1]):
        now = max(now, places[arrays.place[index]] - received)
    return now


@kernel
def _take(
    arrays: MessageArrays, ports: Int64Array, places: Int64Array, message: int, now: int, backwards: bool
) -> int:
    """Hold the ports of a message that starts now, and its places, and return its end."""
    kind = arrays.kind[message]
    arrival = arrays.arrival[kind]
    for use in range(arrays.first[kind], arrays.first[kind + 1]):
        lead = arrival - arrays.enter[use] - arrays.hold[use] if backwards else arrays.enter[use]
        ports[arrays.port[use]] = now + lead + arrays.hold[use]
    spent = arrays.enter[arrays.first[kind + 1] - 1] if backwards else 0
    for index in range(arrays.place_first[message], arrays.place_first[message + 1]):
        places[arrays.place[index]] = now + arrival - spent
    return now + arrival


@kernel
def choose(arrays: MessageArrays, rank: Int64Array, backwards: bool) -> Int64Array:
    """Return when each transfer starts if always one that can soonest is chosen, of those the lowest in rank.

    Invariant: a transfer leaves the queue for good at the earliest moment at which any transfer in it can
    start. Backwards, `arrays.after` and `arrays.waits` are those of the reverse, and starts count back from
    the end.
    """
    transfers = len(rank)
    ports, places = np.zeros(arrays.port.max() + 1, np.int64), np.zeros(len(arrays.place), np.int64)
    ready, waits = np.zeros(transfers, np.int64), arrays.waits.copy()
    start = np.zeros(transfers, np.int64)
    queue = [
        (np.int64(0), rank[transfer], np.int64(transfer))
        for transfer in range(transfers)
        if waits[transfer] == 0
    ]
    heapq.heapify(queue)
    while len(queue) > 0:
        moment, place, transfer = heapq.heappop(queue)
        now: Any = _soonest(arrays, ports, places, transfer, ready[transfer], backwards)
        # If its ports were taken since, it waits with its new moment, which keeps the invariant.
        if now > moment:
            heapq.heappush(queue, (now, place, transfer))
            continue
        end = _take(arrays, ports, places, transfer, now, backwards)
        start[transfer] = -end if backwards else now
        for index in range(arrays.after_first[transfer], arrays.after_first[transfer + 1]):
            later = arrays.after[index]
            ready[later] = max(ready[later], end)
            waits[later] -= 1
            if waits[later] == 0:
                heapq.heappush(queue, (ready[later], rank[later], later))
    return start


@kernel
def earliest(arrays: MessageArrays, order: Int64Array) -> tuple[Int64Array, int]:
    """Return when each transfer starts, in turn as early as data and ports allow, and when all is there."""
    ports, places = np.zeros(arrays.port.max() + 1, np.int64), np.zeros(len(arrays.place), np.int64)
    ready, start = np.zeros(len(order), np.int64), np.zeros(len(order), np.int64)
    latest = 0
    for transfer in order:
        now = _soonest(arrays, ports, places, transfer, ready[transfer], False)
        end = _take(arrays, ports, places, transfer, now, False)
        for index in range(arrays.after_first[transfer], arrays.after_first[transfer + 1]):
            later = arrays.after[index]
            ready[later] = max(ready[later], end)
        start[transfer] = now
        latest = max(latest, end)
    return start, latest
