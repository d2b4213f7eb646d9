"""Messages on their routes: their values at given prices, and the least cost of their links.

A message of L ticks holds the slowest link of its route for L ticks and α. It holds faster ones for α and a
part of L. Those after the slowest one it may enter later than it could, as long as it does not arrive later.
Nodes that are equivalent for its sender are one *spot*, and links between spots one *arc*. A place is a spot
and a moment by which the message can be there, before or after its slowest link. From a sender to a spot,
pairs with equal prices at both are one *entry*, and data with equal entries one *sort*.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tutti.topologies.exact import BoolArray, FloatArray, Int64Array
from tutti.topologies.kernels import kernel

FAR = 1e300
MOST_FARES = 2**25
"""Largest number of link costs, of all classes, lengths and speeds, that are kept; more are computed
again."""
SLACK = 2
"""Ticks by which a message may be shorter or longer if all its moments stay in the same ticks."""
ROUNDING = 1e-12
"""Relative safety margin of a part of a length, so that it is not rounded up to a whole number."""


Term = tuple[int, int, int, float]
"""The number of a message, a row of prices of data or links, a moment, and a factor."""


class Message(NamedTuple):
    """A sender's number, the tick when it begins, its ticks, and the speed of its slowest link."""

    sender: int
    begin: int
    long: int
    speed: int


class Most(NamedTuple):
    """The largest excess of a message's value over its cost; and its other moment, ticks and speed."""

    over: FloatArray
    message: Int64Array


class TickNetwork(NamedTuple):
    """A network in ticks, as kernels take it.

    Parameters
    ----------
    node
        int64, shape (senders, spots): a node of each spot, first the sender itself; -1: there are fewer.
    arc
        int64, shape (arcs, 3): the spots of its ends, and the class of its links, sender by sender.
    first
        int64, shape (senders + 1,): where the arcs of each sender begin.
    alpha
        int64, shape (classes,): ticks.
    speed
        float64, shape (speeds,): all bandwidths, in parts of the largest.
    part
        float64, shape (speeds, classes): the part of L for which a message with this slowest speed holds a
        link; more than 1 where the link is slower.
    """

    node: Int64Array
    arc: Int64Array
    first: Int64Array
    alpha: Int64Array
    speed: FloatArray
    part: FloatArray


class Asked(NamedTuple):
    """The data that may go from each sender to each spot, as kernels take it.

    Parameters
    ----------
    sorts
        int64, shape (senders × spots + 1,): where the sorts of data of each begin; none where none is held.
    sums
        bool, shape (sorts,): whether each byte has a price for being sent.
    most
        float64, shape (sorts,): bytes of all its data, in units of what the fastest link moves in a tick.
    first
        int64, shape (sorts + 1,): where the entries of each begin.
    entry
        int64, shape (entries, 5): rows of prices at the sender and at the spot, ticks from the pairs' start
        to the sender and from the spot to their end, and the number of pairs of each datum.
    """

    sorts: Int64Array
    sums: BoolArray
    most: FloatArray
    first: Int64Array
    entry: Int64Array


class Fares(NamedTuple):
    """The costs of links for messages of a length and slowest speed, by the moment of their head.

    Parameters
    ----------
    paid
        float64, shape (2, classes, moments): the least, before the slowest link and after it; FAR: too late.
    since
        int64, of that shape: the moment from which the link is held then.
    held
        int64, shape (classes,): the number of ticks for which it is held; -1: it is slower.
    """

    paid: FloatArray
    since: Int64Array
    held: Int64Array


@kernel
def _gains(asked: Asked, price: FloatArray, transfer: float, place: int, begin: int) -> FloatArray:
    """Return the value of a byte of each sort from a sender at a moment to a spot, by moment.

    Shape (ticks + 1, sorts).
    """
    ticks, before, after = price.shape[1], asked.sorts[place], asked.sorts[place + 1]
    total = np.zeros((ticks + 1, after - before))
    for sort in range(before, after):
        if asked.sums[sort]:
            total[begin + 1 :, sort - before] = transfer
        for start, there, come, left, many in asked.entry[asked.first[sort] : asked.first[sort + 1]]:
            if come > begin:
                continue
            here = price[start, begin]
            for end in range(begin + 1, ticks + 1 - left):
                gain = price[there, end - 1] - here
                if gain <= 0.0:  # prices do not rise
                    break
                total[end, sort - before] += many * gain
    return total


@kernel
def _dearest(gains: FloatArray) -> Int64Array:
    """Return the sorts with a positive gain, the largest first."""
    worth = np.flatnonzero(gains > 0.0)
    return worth[np.argsort(-gains[worth], kind="mergesort")]


@kernel
def _loaded(most: FloatArray, dearest: Int64Array, long: int, each: float, load: FloatArray) -> None:
    """Write the bytes of the dearest sorts in a message that takes `long` ticks of `each` bytes.

    All bytes of the last tick are of the sort with which it begins.
    """
    load[: len(dearest)] = 0.0
    left, place = (long - 1) * each, 0
    while place < len(dearest) and left >= most[dearest[place]]:
        load[place] = most[dearest[place]]
        left -= load[place]
        place += 1
    if place < len(dearest):
        load[place] = left + each


@kernel
def _worths(most: FloatArray, dearest: Int64Array, gains: FloatArray, each: float, worth: FloatArray) -> None:
    """Write the values of messages of 1, 2, ... ticks that are loaded so, by their ticks."""
    place, before, left = 0, 0.0, most[dearest[0]]
    for long in range(1, len(worth)):
        worth[long] = before
        if place < len(dearest):
            worth[long] += each * gains[dearest[place]]
        more = each
        while place < len(dearest) and more >= left:
            before += left * gains[dearest[place]]
            more -= left
            place += 1
            left = most[dearest[place]] if place < len(dearest) else 0.0
        if place < len(dearest):
            before += more * gains[dearest[place]]
            left -= more


@kernel
def fares_of(network: TickNetwork, rent: FloatArray, long: int, speed: int) -> Fares:
    """Return the link costs of messages of `long` ticks whose slowest link has a speed.

    The slowest link is held for all these ticks, from the moment the message reaches it. A faster one after
    it may be entered later, or a moment sooner.
    """
    classes, moments = rent.shape
    paid = np.full((2, classes, moments), FAR)
    since, holds = np.zeros((2, classes, moments), dtype=np.int64), np.full(classes, -1)
    for one in range(classes):
        part = network.part[speed, one]
        if part > 1.0:
            continue
        slowest = part == 1.0
        held = network.alpha[one]
        held += long if slowest else int(part * max(0, long - SLACK) * (1.0 - ROUNDING))
        holds[one] = held
        later = 0 if slowest else 2 + int((1.0 - part) * (long + SLACK))
        for passed in range(2):
            for now in range(moments - held):
                first, last = now, now
                if passed and not slowest:
                    first, last = max(0, now - 1), min(now + later, moments - 1 - held)
                # The price of holding a link is the rise of its V over the time; the cheapest moment to enter
                # counts.
                for at in range(first, last + 1):
                    rise = rent[one, at + held] - rent[one, at]
                    if rise < paid[passed, one, now]:
                        paid[passed, one, now], since[passed, one, now] = rise, at
    return Fares(paid, since, holds)


@kernel
def travelled(
    network: TickNetwork, fares: Fares, message: Message, cost: FloatArray, way: Int64Array
) -> None:
    """Write the least cost of each place (ticks + 1, 2, spots), and the last arc on the path to it.

    `way` has shape (ticks + 1, 2, spots, 3), or no rows, and then it is not written: the arc, and the place
    before it, as whether its slowest link was passed, and a moment.
    """
    last, paid, held = len(cost) - 1 - message.long, fares.paid, fares.held
    arcs, alpha, part = network.arc, network.alpha, network.part[message.speed]
    cost[message.begin :] = FAR
    cost[message.begin, 0, 0] = 0.0
    for now in range(message.begin, last + 1):
        if now > message.begin:
            _wait(cost, way, now)
        again = True
        while again:  # more than once where links have no α
            again = False
            for arc in range(network.first[message.sender], network.first[message.sender + 1]):
                tail, head, one = arcs[arc, 0], arcs[arc, 1], arcs[arc, 2]
                there = now + alpha[one]
                if held[one] < 0 or there > last:
                    continue
                for passed in range(2):
                    later = 1 if part[one] == 1.0 else passed
                    total = cost[now, passed, tail] + paid[passed, one, now]
                    if total < cost[there, later, head]:
                        cost[there, later, head] = total
                        again |= there == now
                        if len(way):
                            step = way[there, later, head]
                            step[0], step[1], step[2] = arc, passed, now


@kernel
def _wait(cost: FloatArray, way: Int64Array, now: int) -> None:
    """Write the places of a moment where nothing is better than to have been there before."""
    for passed in range(2):
        for spot in range(cost.shape[2]):
            if cost[now - 1, passed, spot] < cost[now, passed, spot]:
                cost[now, passed, spot] = cost[now - 1, passed, spot]
                if len(way):
                    way[now, passed, spot] = way[now - 1, passed, spot]


@kernel
def violated(
    network: TickNetwork, asked: Asked, price: FloatArray, transfer: float, rent: FloatArray
) -> tuple[float, Most, Most]:
    """Return the largest excess of a message's value over its cost, over L and the least α; and messages.

    These have the largest excess from a sender and a moment to a spot, and from a sender to a spot and a
    moment.
    """
    (senders, spots), ticks = network.node.shape, price.shape[1]
    begun = Most(np.zeros((senders, ticks, spots)), np.zeros((senders, ticks, spots, 3), dtype=np.int64))
    ended = Most(
        np.zeros((senders, spots, ticks + 1)), np.zeros((senders, spots, ticks + 1, 3), dtype=np.int64)
    )
    costs = np.empty((len(network.speed), ticks + 1, ticks + 1, 2, spots))
    way, most = np.empty((0, 2, spots, 3), dtype=np.int64), 0.0
    speeds = range(len(network.speed))
    kept = len(speeds) * rent.size * (ticks + 1) <= MOST_FARES
    lengths = range(ticks + 1 if kept else 0)
    # The costs of links do not depend on the sender and the moment, so they are kept if they fit.
    known = [[fares_of(network, rent, long, speed) for long in lengths] for speed in speeds]
    for sender in range(senders):
        for begin in range(ticks):
            least = np.full((ticks + 1, spots), FAR)
            for speed in speeds:
                for long in range(1, ticks - begin + 1):
                    message = Message(sender, begin, long, speed)
                    fares = known[speed][long] if kept else fares_of(network, rent, long, speed)
                    travelled(network, fares, message, costs[speed, long], way)
                    _lower(costs[speed, long], message, long * network.speed[speed], least)
            for spot in range(1, spots):
                number = sender * spots + spot
                bytes_ = asked.most[asked.sorts[number] : asked.sorts[number + 1]]
                if len(bytes_):
                    gains, place = _gains(asked, price, transfer, number, begin), (sender, begin, spot)
                    over = _compare(network, bytes_, place, gains, (least, costs), (begun, ended))
                    most = max(most, over)
    return most, begun, ended


@kernel
def _lower(cost: FloatArray, message: Message, bytes_: float, least: FloatArray) -> None:
    """Lower the least cost of a byte, by its end and spot, if a message of `bytes_` bytes costs less."""
    for now in range(message.begin, len(cost) - message.long):
        for spot in range(1, cost.shape[2]):
            each = cost[now, 1, spot] / bytes_
            if each < least[now + message.long, spot]:
                least[now + message.long, spot] = each


@kernel
def _compare(
    network: TickNetwork, bytes_: FloatArray, place: Any, gains: FloatArray, rents: Any, found: Any
) -> float:
    """Write messages with a larger excess than all before, and return the largest, over L and the least α.

    They go from a sender and a moment to a spot. `bytes_` has the most of each sort. The costs are the least
    of a byte, and those of messages.
    """
    (sender, begin, spot), (each, costs), (begun, ended) = place, rents, found
    ticks = len(gains) - 1
    most, least, worth = 0.0, network.alpha.min(), np.empty(ticks + 1)
    for end in range(begin + 1, ticks + 1):
        # If no sort of data gains more than the least cost of a byte, no message of this end exceeds its
        # cost.
        if gains[end].max() <= each[end, spot]:
            continue
        dearest = _dearest(gains[end])
        for speed in range(len(network.speed)):
            _worths(bytes_, dearest, gains[end], network.speed[speed], worth[: end - begin + 1])
            for long in range(1, end - begin + 1):
                excess = worth[long] - costs[speed, long, end - long, 1, spot]
                if excess > 0.0:
                    most = max(most, excess / (long + least))
                    if excess > begun.over[sender, begin, spot]:
                        begun.over[sender, begin, spot] = excess
                        begun.message[sender, begin, spot] = end, long, speed
                    if excess > ended.over[sender, spot, end]:
                        ended.over[sender, spot, end] = excess
                        ended.message[sender, spot, end] = begin, long, speed
    return most


@kernel
def coefficients(
    network: TickNetwork, asked: Asked, messages: Int64Array, point: Any
) -> tuple[list[Term], list[Term], FloatArray, Int64Array]:
    """Return the terms of messages' costs less their values: prices of links, and of pairs that gain.

    Also return the bytes that are sent at a sum's price, which is left out, and the least number of ticks for
    which a message is valid. Messages are rows of a sender's number, begin, spot, end, ticks long, and speed.
    `point` has the prices, the price of being sent, and the prices of links.
    """
    price, transfer, rent = point
    ticks, spots = price.shape[1], network.node.shape[1]
    rents, prices, last = [(0, 0, 0, 0.0)], [(0, 0, 0, 0.0)], messages[:, 3].copy()
    cost, way = np.empty((ticks + 1, 2, spots)), np.empty((ticks + 1, 2, spots, 3), dtype=np.int64)
    sent, load = np.zeros(len(messages)), np.empty(int(np.diff(asked.sorts).max()))
    for number in range(len(messages)):
        index, begin, spot, end, long, speed = messages[number]
        fares = fares_of(network, rent, long, speed)
        travelled(network, fares, Message(index, begin, long, speed), cost, way)
        passed, at, moment = 1, spot, end - long
        # From the last link back to the sender, along the cheapest way.
        while passed or at != 0 or cost[moment, 0, at] > 0.0:
            arc, passed, moment = way[moment, passed, at]
            at, one = network.arc[arc, 0], network.arc[arc, 2]
            since = fares.since[passed, one, moment]
            until = since + fares.held[one]
            rents.append((number, one, until, 1.0))
            rents.append((number, one, since, -1.0))
            last[number] = max(last[number], until)
        place = index * spots + spot
        dearest = _dearest(_gains(asked, price, transfer, place, begin)[end])
        before = asked.sorts[place]
        _loaded(asked.most[before : asked.sorts[place + 1]], dearest, long, network.speed[speed], load)
        for turn in range(len(dearest)):
            sort, bytes_ = before + dearest[turn], load[turn]
            if bytes_ == 0.0:
                break
            sent[number] += bytes_ * asked.sums[sort]
            for here, there, come, left, many in asked.entry[asked.first[sort] : asked.first[sort + 1]]:
                gains = price[there, end - 1] > price[here, begin]
                if come <= begin and left <= ticks - end and gains:
                    prices.append((number, int(there), end - 1, -bytes_ * many))
                    prices.append((number, int(here), begin, bytes_ * many))
                    last[number] = max(last[number], end + left)
    return rents[1:], prices[1:], sent, last
