"""A replay of Chakra traces by the rules of ASTRA-sim over its congestion-aware analytical network.

A node is issued once all its dependencies have ended; nodes that are ready together go in the order of their
numbers. A send ends when its message has arrived, and so does its receive; a sum ends after 1 ns. A link
takes one message at a time, first come first served, for its bytes over the bandwidth. The message is at the
link's end α later, and only then, as a whole, enters the next link.
"""

import heapq
from collections import deque
from fractions import Fraction
from itertools import count

NANO = Fraction(1, 10**9)


class Replay:
    """The nodes of each rank, {number: (action, peer, tag, bytes, after)}, over the links of a topology.

    `route` returns the links from one rank to another.
    """

    def __init__(self, ranks, topology, route):
        self.ranks, self.topology, self.route = ranks, topology, route
        self.now, self.events, self.turn = Fraction(0), [], count()
        self.waiting = [{number: set(task[4]) for number, task in tasks.items()} for tasks in ranks]
        self.busy, self.queue = set(), [deque() for _ in range(topology.num_links)]
        self.arrived, self.expected = set(), {}

    def time(self):
        """Return the time at which the last node ends."""
        for rank in range(len(self.ranks)):
            self.issue(rank)
        while self.events:
            self.now, _, act, arguments = heapq.heappop(self.events)
            act(*arguments)
        assert not any(self.waiting), "some nodes are never issued"
        assert not self.expected, "some messages never come"
        return self.now

    def at(self, later, act, *arguments):
        heapq.heappush(self.events, (self.now + later, next(self.turn), act, arguments))

    def issue(self, rank):
        for number in sorted(number for number, left in self.waiting[rank].items() if not left):
            del self.waiting[rank][number]
            action, peer, tag, size, _ = self.ranks[rank][number]
            if action == "sum":
                self.at(NANO, self.end, rank, number)
            elif action == "send":
                self.enter((rank, number), size, deque(self.route(rank, peer)))
            elif (peer, rank, tag) in self.arrived:
                self.at(Fraction(0), self.end, rank, number)
            else:
                self.expected[peer, rank, tag] = number

    def end(self, rank, number):
        for left in self.waiting[rank].values():
            left.discard(number)
        self.issue(rank)

    def enter(self, message, size, links):
        if not links:
            return self.arrive(*message)
        link = links.popleft()
        self.queue[link].append((message, size, links))
        return self.transmit(link)

    def transmit(self, link):
        if link in self.busy or not self.queue[link]:
            return
        message, size, links = self.queue[link].popleft()
        self.busy.add(link)
        spent = size / Fraction(self.topology.bandwidth[link])
        self.at(spent, self.free, link)
        self.at(spent + Fraction(self.topology.alpha[link]), self.enter, message, size, links)

    def free(self, link):
        self.busy.discard(link)
        self.transmit(link)

    def arrive(self, rank, number):
        _, peer, tag, _, _ = self.ranks[rank][number]
        self.arrived.add((rank, peer, tag))
        receive = self.expected.pop((rank, peer, tag), None)
        self.end(rank, number)
        if receive is not None:
            self.end(peer, receive)
