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
        What is ordered.
    messages
        The transfers of each message, in order.
    start
        Ticks, of each message; non-decreasing.
    end
        Ticks until all has arrived.
    """

    transfers: RoutedTransfers
    messages: tuple[tuple[int, ...], ...]
    start: tuple[int, ...]
    end: int


def ordered(
    transfers: RoutedTransfers, bound: int, tries: int, rng: np.random.Generator, deadline: Deadline = NEVER
) -> TimedMessages:
    """Return the best order found.

    Parameters
    ----------
    transfers
        What is ordered.
    bound
        Ticks; no order takes less, so the search ends when one takes no more.
    tries
        Most disturbed orders that are tried.
    rng
        For the disturbances.
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
    order = np.argsort(start, kind="stable").tolist()
    return TimedMessages(
        transfers,
        tuple((transfer,) for transfer in order),
        tuple(int(start[transfer]) for transfer in order),
        end,
    )


class _TransferOrdering:
    """Orders of one set of transfers."""

    def __init__(self, transfers: RoutedTransfers) -> None:
        self.arrays = {backwards: arrays_of(transfers, backwards=backwards) for backwards in (False, True)}
        self.num_ports = transfers.logical.topology.num_links
        self.num_places = max(0, *self.arrays[False].place) + 1
        self.until_now, self.from_now = np.array(transfers.until_now), np.array(transfers.from_now)

    def tried(self, backwards: bool, noise: FloatArray | None = None) -> tuple[Int64Array, int]:
        """Return the starts in ticks, and the end, of the order that one rule gives."""
        lengths = (self.until_now, self.from_now) if backwards else (self.from_now, self.until_now)
        longest = lengths[0] if noise is None else lengths[0] + noise
        rank = np.empty(len(longest), np.int64)
        rank[np.lexsort((lengths[1], -longest))] = np.arange(len(longest))
        chosen = choose(self.arrays[backwards], rank, self.num_ports, self.num_places, backwards)
        start, end = earliest(self.arrays[False], np.lexsort((rank, chosen)), self.num_ports, self.num_places)
        return start, int(end)


def arrays_of(transfers: RoutedTransfers, *, backwards: bool = False) -> TransferArrays:
    """Return the transfers as arrays; backwards, each waits for those that wait for it."""
    links = sorted(set(transfers.link))
    messages = [transfers.message(link) for link in links]
    row = {link: kind for kind, link in enumerate(links)}
    uses = [use for message in messages for use in message.uses]
    after = transfers.before if backwards else transfers.after
    before = transfers.after if backwards else transfers.before
    return TransferArrays(
        kind=np.array([row[link] for link in transfers.link], np.int64),
        place=_places(transfers),
        arrival=np.array([message.arrival for message in messages], np.int64),
        first=offsets_of([len(message.uses) for message in messages]),
        port=np.array([use.port for use in uses], np.int64),
        enter=np.array([use.enter for use in uses], np.int64),
        hold=np.array([use.hold for use in uses], np.int64),
        after_first=offsets_of([len(later) for later in after]),
        after=np.array([other for later in after for other in later], np.int64),
        waits=np.array([len(earlier) for earlier in before], np.int64),
    )


def _places(transfers: RoutedTransfers) -> Int64Array:
    """Return a number for each pair of rank and chunk that transfers add to; -1 if they may at any time."""
    if not transfers.reduces or transfers.together:
        return np.full(len(transfers), -1, np.int64)
    ranks = transfers.logical.topology.num_ranks
    keys = [transfers.chunk[transfer] * ranks + transfers.at(transfer) for transfer in range(len(transfers))]
    return np.unique(keys, return_inverse=True)[1].reshape(-1).astype(np.int64)


def timed(transfers: RoutedTransfers, messages: Sequence[tuple[int, ...]]) -> TimedMessages:
    """Return the messages, taken in turn, each as early as its data and its ports allow.

    Parameters
    ----------
    transfers
        What is ordered.
    messages
        The transfers that travel together, of one link each; every transfer once, after those it waits for.
    """
    ports: dict[int, int] = {}
    places: dict[int, int] = {}
    place, ready = _places(transfers).tolist(), [0] * len(transfers)
    starts, latest = [], 0
    for message in messages:
        lasts = transfers.message(transfers.link[message[0]], len(message))
        now = max(ready[transfer] for transfer in message)
        now = max([now, *(ports.get(port, 0) - enter for port, enter, _ in lasts.uses)])
        adds = [place[transfer] for transfer in message if place[transfer] >= 0]
        now = max([now, *(places.get(where, 0) - lasts.received_from for where in adds)])
        end = now + lasts.arrival
        ports |= {port: now + enter + hold for port, enter, hold in lasts.uses}
        places |= dict.fromkeys(adds, end)
        for later in (later for transfer in message for later in transfers.after[transfer]):
            ready[later] = max(ready[later], end)
        starts.append(now)
        latest = max(latest, end)
    order = sorted(range(len(messages)), key=lambda i: (starts[i], i))
    return TimedMessages(
        transfers, tuple(messages[i] for i in order), tuple(starts[i] for i in order), latest
    )


class TransferArrays(NamedTuple):
    """Transfers as arrays.

    Parameters
    ----------
    kind
        int64 (transfers,): rows of the tables below.
    place
        int64 (transfers,): where each is added to what is there; -1 if nothing else may be added
        meanwhile.
    arrival
        int64 (kinds,): ticks from the start until the data is there.
    first
        int64 (kinds + 1,): the ports of kind k are entries first[k] to first[k + 1] - 1 of the next three.
    port, enter, hold
        int64.
    after_first, after
        int64, CSR: the transfers that wait for each.
    waits
        int64 (transfers,): for how many transfers each waits.
    """

    kind: Int64Array
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
    arrays: TransferArrays, ports: Int64Array, places: Int64Array, transfer: int, ready: int, backwards: bool
) -> int:
    """Return when a transfer can start whose data is there at `ready`."""
    kind = arrays.kind[transfer]
    now, arrival = ready, arrays.arrival[kind]
    for use in range(arrays.first[kind], arrays.first[kind + 1]):
        lead = arrival - arrays.enter[use] - arrays.hold[use] if backwards else arrays.enter[use]
        now = max(now, ports[arrays.port[use]] - lead)
    if arrays.place[transfer] >= 0:
        received = 0 if backwards else arrays.enter[arrays.first[kind + 1] - 1]
        now = max(now, places[arrays.place[transfer]] - received)
    return now


@kernel
def _take(
    arrays: TransferArrays, ports: Int64Array, places: Int64Array, transfer: int, now: int, backwards: bool
) -> int:
    """Note that a transfer starts, and return its end."""
    kind = arrays.kind[transfer]
    arrival = arrays.arrival[kind]
    for use in range(arrays.first[kind], arrays.first[kind + 1]):
        lead = arrival - arrays.enter[use] - arrays.hold[use] if backwards else arrays.enter[use]
        ports[arrays.port[use]] = now + lead + arrays.hold[use]
    if arrays.place[transfer] >= 0:
        spent = arrays.enter[arrays.first[kind + 1] - 1] if backwards else 0
        places[arrays.place[transfer]] = now + arrival - spent
    return now + arrival


@kernel
def choose(
    arrays: TransferArrays, rank: Int64Array, num_ports: int, num_places: int, backwards: bool
) -> Int64Array:
    """Return when each transfer starts if always one that can soonest is chosen, of those the lowest in rank.

    Invariant: a transfer leaves the queue for good at the earliest moment at which any transfer in it can
    start. Backwards, `arrays.after` and `arrays.waits` are those of the reverse, and starts count back from
    the end.
    """
    transfers = len(rank)
    ports, places = np.zeros(num_ports, np.int64), np.zeros(num_places, np.int64)
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
        if now > moment:  # its ports were taken since: it waits with its new moment, as the queue needs
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
def earliest(
    arrays: TransferArrays, order: Int64Array, num_ports: int, num_places: int
) -> tuple[Int64Array, int]:
    """Return when each transfer starts, in turn as early as data and ports allow, and when all is there."""
    ports, places = np.zeros(num_ports, np.int64), np.zeros(num_places, np.int64)
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
