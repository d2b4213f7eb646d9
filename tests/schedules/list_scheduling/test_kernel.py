"""The list scheduler over links, moment by moment, against a twin in plain Python."""

import numpy as np

from tutti.schedules.list_scheduling.kernel import (
    ListScheduleTransfers,
    Sending,
    TimedRoutes,
    earliest_starts,
    send,
)
from tutti.schedules.message_durations import Durations

SEEDS = range(60)


def random_transfers(seed):
    """Return up to 14 transfers over 3 links, and joins; each waits for some earlier ones."""
    rng = np.random.default_rng(seed)
    count = int(rng.integers(1, 15))
    route = rng.integers(0, 3, count).astype(np.int32)
    route[rng.random(count) < 0.2] = -1
    waits = []
    for transfer in range(count):
        able = [t for t in range(transfer) if route[t] >= 0 or route[transfer] >= 0]
        waits.append({t for t in able if rng.random() < 2 / (1 + len(able))})
        if route[transfer] < 0 and not waits[-1]:
            route[transfer] = 0
    return (
        ListScheduleTransfers(route, *followers(waits), rng.integers(1, 5, count)),
        waits,
        rng.integers(0, 4, count),
    )


def followers(waits):
    """Return the number of waits of each transfer, and in CSR form its followers."""
    after = [[t for t, before in enumerate(waits) if b in before] for b in range(len(waits))]
    need = np.array([len(before) for before in waits], np.int32)
    first = np.cumsum([0, *map(len, after)])
    return need, first, np.array([t for each in after for t in each], np.int32)


def plain(transfers, waits, priority, room, lasts):
    """Let every idle link at each moment send ready transfers by (priority, number), up to `room`."""
    start, over, now = {}, {}, 0
    links = transfers.route.tolist()
    while len(start) < sum(link >= 0 for link in links):
        done = {t for t, end in over.items() if end <= now}
        done |= {t for t, link in enumerate(links) if link < 0 and waits[t] <= done}
        for on in set(links) - {-1}:
            if any(links[t] == on and over[t] > now for t in start):
                continue
            able = [t for t, link in enumerate(links) if link == on and t not in start and waits[t] <= done]
            message = []
            for t in sorted(able, key=lambda t: (priority[t], t)):
                if message and sum(transfers.amount[[*message, t]]) > room:
                    break
                message.append(t)
            for t in message:
                start[t], over[t] = now, now + lasts(message)
        now += 1
    return start, over


def test_it_sends_what_its_plain_twin_sends():
    for seed in SEEDS:
        transfers, waits, priority = random_transfers(seed)
        moves = transfers.route >= 0
        for room in (0, 3, 6):  # durations by amount, or equal durations
            one_each = not room
            routes = TimedRoutes.single_links(3, alpha=0 if one_each else 1, seconds=1 if one_each else 0)
            found = send(transfers, routes, priority, room)
            start, over = plain(
                transfers,
                waits,
                priority,
                room,
                lambda message, one=one_each, all_=transfers: int(all_.amount[message].sum()) if one else 1,
            )
            assert {t: found.start[t] for t in np.flatnonzero(moves)} == start, (seed, room)
            assert {t: found.arrival[t] for t in np.flatnonzero(moves)} == over, (seed, room)
            assert found.end == max(over.values(), default=0), (seed, room)
            assert sorted(found.sending.transfer.tolist()) == np.flatnonzero(moves).tolist(), (seed, room)


def test_seconds_are_scheduled_as_ticks_are():
    for seed in SEEDS:
        transfers, _, priority = random_transfers(seed)
        routes = TimedRoutes.single_links(3)
        in_seconds = routes._replace(alpha=routes.alpha * 0.25, seconds=routes.seconds * 0.25)
        ticks = send(transfers, routes, priority)
        seconds = send(transfers._replace(amount=transfers.amount * 1.0), in_seconds, priority)
        assert seconds.start.tolist() == (ticks.start / 4).tolist(), seed


def test_backwards_each_waits_for_what_waited_for_it():
    for seed in SEEDS:
        transfers, waits, _ = random_transfers(seed)
        turned = transfers.reversed
        for t, before in enumerate(waits):
            assert set(turned.follower[turned.first[t] : turned.first[t + 1]].tolist()) == before, seed
        assert turned.need.tolist() == np.diff(transfers.first).tolist(), seed
        again = turned.reversed
        assert again.first.tolist() == transfers.first.tolist(), seed
        assert again.follower.tolist() == transfers.follower.tolist(), seed


def test_transfers_that_wait_for_each_other_are_not_sent():
    waits = [{1}, {0}, set()]
    transfers = ListScheduleTransfers(np.zeros(3, np.int32), *followers(waits), np.ones(3, np.int64))
    found = send(transfers, TimedRoutes.single_links(1), np.zeros(3, np.int64))
    assert found.sending.transfer.tolist() == [2]


def test_messages_in_order_start_when_their_data_and_link_are_there():
    for seed in SEEDS:
        transfers, waits, priority = random_transfers(seed)
        routes = TimedRoutes.single_links(3, alpha=1, seconds=0)
        sending = send(transfers, routes, priority, 6).sending
        held = np.random.default_rng(seed).integers(1, 9, len(sending.first) - 1)
        if not len(held):
            continue
        found = earliest_starts(
            transfers, sending, routes.offsets, routes.links, Durations.over_one_link(held)
        )
        over, free = {}, dict.fromkeys(range(3), 0)
        for message, start in enumerate(found.tolist()):
            taken = sending.transfer[sending.first[message] : sending.first[message + 1]].tolist()
            on = int(transfers.route[taken[0]])
            need = set().union(*(waits[t] for t in taken))
            need |= set().union(*(waits[t] for t in need if transfers.route[t] < 0))
            ready = max((over[t] for t in need if transfers.route[t] >= 0), default=0)
            assert start == max(ready, free[on]), seed
            free[on] = start + int(held[message])
            over |= dict.fromkeys(taken, free[on])


def test_over_a_route_of_two_links_the_second_may_let_a_message_wait():
    """Two routes lead into link 2, one tick late: the second message waits until the first leaves it."""
    links, offsets = np.array([0, 2, 1, 2], np.int32), np.array([0, 2, 4])
    routes = TimedRoutes(
        offsets, links, np.ones(3, np.int64), np.ones(3, np.int64), np.array([0, 1, 2, 2]), np.array([0, 1])
    )
    transfers = ListScheduleTransfers(
        np.array([0, 1], np.int32), *followers([set(), set()]), np.array([5, 5])
    )
    found = send(transfers, routes, np.array([1, 0]))
    assert found.start.tolist() == [0, 0]
    assert sorted(found.arrival.tolist()) == [7, 13]  # 1 + 1 + 5, and 7 + 1 + 5


def test_messages_are_listed_with_what_they_carry():
    sending = Sending(np.array([0, 2, 3]), np.array([4, 1, 0], np.int32))
    assert sending.message.tolist() == [0, 0, 1]
