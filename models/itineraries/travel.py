"""Messages on their way: what they are worth at given prices, and the least rent for it.

A message of L ticks takes so long on the slowest link of its route, besides α. It holds faster ones, too, for
α and a part of L; these it may enter later after that one than it must, as far as it arrives no later.
Nodes that look alike from its sender are one *spot*, and links between spots one *arc*. A place is a spot and
a moment by which the message can be there, before or after its slowest link.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from topologies.exact import BoolArray, FloatArray, Int32Array, Int64Array
from topologies.kernels import kernel

FAR = 1e300
SLACK = 2
"""Ticks by which a message may be shorter or longer if all its moments stay in the same ticks."""
ROUNDING = 1e-12
"""Of a part of a length, relatively, so that it is not rounded up to a whole number."""


Term = tuple[int, int, int, float]
"""The number of a message, a row of prices or rents, a moment, and a factor."""


class Message(NamedTuple):
    """A sender's number, when it begins, how many ticks it has, and which speed its slowest link has."""

    sender: int
    begin: int
    long: int
    speed: int


class Most(NamedTuple):
    """By how much messages are worth more than rent at most; and the other moment, ticks and speed."""

    over: FloatArray
    message: Int64Array


class Network(NamedTuple):
    """A network in ticks, as kernels take it.

    Parameters
    ----------
    node
        int64, shape (senders, spots): one of each spot, first the sender itself; -1: there are fewer.
    arc
        int64, shape (arcs, 3): from which spot to which, and one of the links, sender by sender.
    first
        int64, shape (senders + 1,): where the arcs of each sender begin.
    kind
        int64, shape (links,): classes, which have rows of rents.
    alpha
        int64, shape (links,): ticks.
    speed
        float64, shape (speeds,): all bandwidths, in parts of the largest.
    part
        float64, shape (speeds, links): what part of L a message holds a link whose slowest has a speed; more
        than 1 where that is not the slowest.
    holds
        bool, shape (nodes,): whether messages begin and end there.
    """

    node: Int64Array
    arc: Int64Array
    first: Int64Array
    kind: Int64Array
    alpha: Int64Array
    speed: FloatArray
    part: FloatArray
    holds: BoolArray


class Asked(NamedTuple):
    """What pairs ask for, as kernels take it.

    Parameters
    ----------
    row
        int32, shape (pairs, nodes): rows of prices.
    first
        int64, shape (data + 1,): where the pairs of each datum begin.
    sums
        bool, shape (data,): whether each byte has a price for being sent.
    most
        float64, shape (data,): bytes of each, of which the fastest link moves one in a tick.
    come, left
        int64, shapes (pairs, nodes): ticks from the start to each node, and from each to the end; -1: never.
    """

    row: Int32Array
    first: Int64Array
    sums: BoolArray
    most: FloatArray
    come: Int64Array
    left: Int64Array


@kernel
def _gains(
    asked: Asked, price: FloatArray, transfer: float, sender: int, begin: int, node: int
) -> FloatArray:
    """Return what a byte of each datum is worth from a sender and a moment to a node, by moment.

    Shape (ticks + 1, data).
    """
    ticks, data = price.shape[1], len(asked.sums)
    total = np.zeros((ticks + 1, data))
    for datum in range(data):
        if asked.sums[datum]:
            total[begin + 1 :, datum] = transfer
        for pair in range(asked.first[datum], asked.first[datum + 1]):
            come, left = asked.come[pair, sender], asked.left[pair, node]
            if come < 0 or come > begin or left < 0:
                continue
            there, here = asked.row[pair, node], price[asked.row[pair, sender], begin]
            for end in range(begin + 1, ticks + 1 - left):
                gain = price[there, end - 1] - here
                if gain <= 0.0:  # prices do not rise
                    break
                total[end, datum] += gain
    return total


@kernel
def _dearest(gains: FloatArray) -> Int64Array:
    """Return the data that are worth anything, the dearest first."""
    worth = np.flatnonzero(gains > 0.0)
    return worth[np.argsort(-gains[worth], kind="mergesort")]


@kernel
def _loaded(most: FloatArray, dearest: Int64Array, long: int, each: float, load: FloatArray) -> None:
    """Write how many bytes of the dearest data a message has that takes so many ticks of `each` bytes.

    The last tick's are all of the datum with which it begins.
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
    """Write what messages of 1, 2, ... ticks are worth that are loaded so, by how many ticks."""
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
def travelled(
    network: Network, rent: FloatArray, message: Message, cost: FloatArray, way: Int64Array
) -> None:
    """Write the least rent of each place (ticks + 1, 2, spots), and the last arc on the way to it.

    `way` has shape (ticks + 1, 2, spots, 5), or no rows, and then it is not written: the arc, from and until
    when it is held, and the place before it, as whether its slowest link was passed, and a moment.
    """
    last = len(cost) - 1 - message.long
    cost[message.begin :] = FAR
    cost[message.begin, 0, 0] = 0.0
    arcs = range(network.first[message.sender], network.first[message.sender + 1])
    for now in range(message.begin, last + 1):
        if now > message.begin:
            _wait(cost, way, now)
        again = True
        while again:  # more than once where links have no α
            again = False
            for arc in arcs:
                link = network.arc[arc, 2]
                if network.part[message.speed, link] <= 1.0 and now + network.alpha[link] <= last:
                    again |= _goes_on(network, rent, message, arc, now, cost, way)


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
def _goes_on(
    network: Network,
    rent: FloatArray,
    message: Message,
    arc: int,
    now: int,
    cost: FloatArray,
    way: Int64Array,
) -> bool:
    """Write the places at an arc's end, and return whether one of them is now."""
    tail, head, link = network.arc[arc]
    there = now + network.alpha[link]
    changed = False
    for passed in range(2):
        if cost[now, passed, tail] >= FAR:
            continue
        later, held, first, last = _held(network, message, link, passed, now)
        paid, entry = _cheapest(rent[network.kind[link]], held, first, last)
        if cost[now, passed, tail] + paid < cost[there, later, head]:
            cost[there, later, head] = cost[now, passed, tail] + paid
            changed = changed or there == now
            if len(way):
                step = way[there, later, head]
                step[0], step[1], step[2], step[3], step[4] = arc, entry, entry + held, passed, now
    return changed


@kernel
def _held(network: Network, message: Message, link: int, passed: int, now: int) -> tuple[int, int, int, int]:
    """Return whether the slowest link is passed then, how long a link is held, and between which entries."""
    part, alpha = network.part[message.speed, link], network.alpha[link]
    if part == 1.0:
        return 1, alpha + message.long, now, now
    held = alpha + int(part * max(0, message.long - SLACK) * (1.0 - ROUNDING))
    if not passed:
        return 0, held, now, now
    return 1, held, max(0, now - 1), now + 2 + int((1.0 - part) * (message.long + SLACK))


@kernel
def _cheapest(rents: FloatArray, held: int, first: int, last: int) -> tuple[float, int]:
    """Return the least rent of a link that is entered between two moments, and when it is."""
    paid, at = FAR, first
    for entry in range(first, min(last, len(rents) - 1 - held) + 1):
        if rents[entry + held] - rents[entry] < paid:
            paid, at = rents[entry + held] - rents[entry], entry
    return paid, at


@kernel
def broken(
    network: Network, asked: Asked, price: FloatArray, transfer: float, rent: FloatArray
) -> tuple[float, Most, Most]:
    """Return by how much messages are worth more than rent, over L and the least α, at most; and which.

    Those of which this is the most from a sender and a moment to a spot, and from a sender to a spot and a
    moment.
    """
    (senders, spots), ticks = network.node.shape, price.shape[1]
    begun = Most(np.zeros((senders, ticks, spots)), np.zeros((senders, ticks, spots, 3), dtype=np.int64))
    ended = Most(
        np.zeros((senders, spots, ticks + 1)), np.zeros((senders, spots, ticks + 1, 3), dtype=np.int64)
    )
    costs = np.empty((len(network.speed), ticks + 1, ticks + 1, 2, spots))
    way, most = np.empty((0, 2, spots, 5), dtype=np.int64), 0.0
    for sender in range(senders):
        for begin in range(ticks):
            for speed in range(len(network.speed)):
                for long in range(1, ticks - begin + 1):
                    message = Message(sender, begin, long, speed)
                    travelled(network, rent, message, costs[speed, long], way)
            for spot in range(1, spots):
                node = network.node[sender, spot]
                if node >= 0 and network.holds[node]:
                    gains = _gains(asked, price, transfer, network.node[sender, 0], begin, node)
                    place = sender, begin, spot
                    most = max(most, _compare(network, asked.most, place, gains, costs, begun, ended))
    return most, begun, ended


@kernel
def _may_be_worth_it(
    network: Network, place: tuple[int, int, int], end: int, gain: float, costs: FloatArray
) -> bool:
    """Return whether a message would be worth more than its rent if all bytes were worth as much."""
    if gain > 0.0:
        for speed in range(len(network.speed)):
            for long in range(1, end - place[1] + 1):
                if long * network.speed[speed] * gain > costs[speed, long, end - long, 1, place[2]]:
                    return True
    return False


@kernel
def _compare(
    network: Network,
    bytes_: FloatArray,
    place: tuple[int, int, int],
    gains: FloatArray,
    costs: FloatArray,
    begun: Most,
    ended: Most,
) -> float:
    """Write where messages are worth more than all before, and return by how much at most.

    They go from a sender and a moment to a spot; `bytes_` are the most of each datum.
    """
    (sender, begin, spot), ticks = place, len(gains) - 1
    most, least, worth = 0.0, network.alpha.min(), np.empty(ticks + 1)
    for end in range(begin + 1, ticks + 1):
        if not _may_be_worth_it(network, place, end, gains[end].max(), costs):
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
def terms(
    network: Network,
    asked: Asked,
    messages: Int64Array,
    rent: FloatArray,
    price: FloatArray,
    transfer: float,
) -> tuple[list[Term], list[Term], FloatArray, Int64Array]:
    """Return what rents less worth of messages is made of: of rents, and of prices of pairs that gain.

    And how many bytes are sent at a sum's price for that, which is left out; and of how many ticks at least
    it holds. Messages are rows of a sender's number, begin, spot, end, ticks long, and speed.
    """
    ticks, spots = price.shape[1], network.node.shape[1]
    rents, prices, last = [(0, 0, 0, 0.0)], [(0, 0, 0, 0.0)], messages[:, 3].copy()
    cost, way = np.empty((ticks + 1, 2, spots)), np.empty((ticks + 1, 2, spots, 5), dtype=np.int64)
    sent, load = np.zeros(len(messages)), np.empty(len(asked.sums))
    for number in range(len(messages)):
        index, begin, spot, end, long, speed = messages[number]
        sender, node = network.node[index, 0], network.node[index, spot]
        travelled(network, rent, Message(index, begin, long, speed), cost, way)
        passed, at, moment = 1, spot, end - long
        while passed or at != 0 or cost[moment, 0, at] > 0.0:
            arc, since, until, passed, moment = way[moment, passed, at]
            at, link = network.arc[arc, 0], network.arc[arc, 2]
            rents.append((number, network.kind[link], until, 1.0))
            rents.append((number, network.kind[link], since, -1.0))
            last[number] = max(last[number], until)
        dearest = _dearest(_gains(asked, price, transfer, sender, begin, node)[end])
        _loaded(asked.most, dearest, long, network.speed[speed], load)
        for place in range(len(dearest)):
            datum, bytes_ = dearest[place], load[place]
            if bytes_ == 0.0:
                break
            sent[number] += bytes_ * asked.sums[datum]
            for pair in range(asked.first[datum], asked.first[datum + 1]):
                if 0 <= asked.come[pair, sender] <= begin and 0 <= asked.left[pair, node] <= ticks - end:
                    here, there = asked.row[pair, sender], asked.row[pair, node]
                    if price[there, end - 1] > price[here, begin]:
                        prices.append((number, int(there), end - 1, -bytes_))
                        prices.append((number, int(here), begin, bytes_))
                        last[number] = max(last[number], end + asked.left[pair, node])
    return rents[1:], prices[1:], sent, last
