"""What messages of chains between the farthest ranks must take: what the check of `chains` needs.

It shares no code with `models.bounds.chains`, which finds the prices.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from topologies.topology import Topology

UNIT = 2**24
"""Rents and what a pair pays for a byte are in this part of what they are."""

State = tuple[int, int]
"""A moment, in units of α, and a node."""


@dataclass(frozen=True, eq=False)
class Chaining:
    """Prices of slots between pairs of ranks; see `models.bounds.check`.

    Parameters
    ----------
    topology
        The network.
    distance
        α from the start of each pair to its end, over the denominator of α.
    weights
        Of pairs of ranks.
    after, before
        Distances from each start to all nodes, and to each end from all; -1: none.
    rents
        Of slots: a link and a moment.
    holds
        Of slots: the prices of all twos that they are in.
    twos
        Their sum.
    """

    topology: Topology
    distance: int
    weights: Mapping[tuple[int, int], int]
    after: Mapping[int, Sequence[int]]
    before: Mapping[int, Sequence[int]]
    rents: Mapping[tuple[int, int], int]
    holds: Mapping[tuple[int, int], int]
    twos: int

    def limit(self) -> int:
        """Return up to which x, in units of α and D at most, chains and slots are what the proof says."""
        moments = defaultdict(set)
        for ways in self._slots.values():
            for link, (moment, _), _ in ways:
                moments[link].add(moment)
        found = [int(self.topology.alpha.numerators[link]) for link in moments]
        found += [b - a for each in moments.values() for a in each for b in each if a < b]
        gone, left = (
            {node: np.array(row) for node, row in rows.items()} for rows in (self.after, self.before)
        )
        for start, end in self.weights:
            before, behind = gone[start][self.topology.source], left[end][self.topology.target]
            lengths = (before + self.topology.alpha.numerators + behind)[(before >= 0) & (behind >= 0)]
            longer = lengths[lengths > self.distance]
            found.append(int(longer.min(initial=2 * self.distance)) - self.distance)
        return min(found)

    def time_a_byte(self) -> Fraction:
        """Return the least x over a byte's time at the largest bandwidth."""
        paid = 0
        for start in self._of_start:
            costs = self._costs(start)
            paid += sum(weight * costs[self.distance, end] for end, weight in self._of_start[start].items())
        rented = sum((rent * self._speed(link) for (link, _), rent in self.rents.items()), Fraction(0))
        return (paid - rented) / (UNIT * (sum(self.weights.values()) + self.twos))

    def _speed(self, link: int) -> Fraction:
        return self.topology.bandwidth[link] / self._fastest

    @cached_property
    def _fastest(self) -> Fraction:
        return max(self.topology.bandwidth)

    @cached_property
    def _of_start(self) -> dict[int, dict[int, int]]:
        """The weights of each start, by ends."""
        table: dict[int, dict[int, int]] = {}
        for (start, end), weight in self.weights.items():
            table.setdefault(start, {})[end] = weight
        return table

    @cached_property
    def _states(self) -> dict[State, tuple[set[int], set[int]]]:
        """Where data of pairs may be on time, in order: which starts, and which ends."""
        states = defaultdict[State, tuple[set[int], set[int]]](lambda: (set(), set()))
        for start, end in self.weights:
            for node, (gone, left) in enumerate(zip(self.after[start], self.before[end], strict=True)):
                if min(gone, left) >= 0 and gone + left == self.distance:
                    states[gone, node][0].add(start)
                    states[gone, node][1].add(end)
        return dict(sorted(states.items()))

    @cached_property
    def _slots(self) -> dict[State, list[tuple[int, State, State]]]:
        """Of each state: the links out of it, with both their states."""
        ways: dict[State, list[tuple[int, State, State]]] = {state: [] for state in self._states}
        offsets, links = self.topology.out_links
        for moment, node in ways:
            for link in links[offsets[node] : offsets[node + 1]].tolist():
                later = moment + int(self.topology.alpha.numerators[link]), int(self.topology.target[link])
                if later in ways and self._served((moment, node), later):
                    ways[moment, node].append((link, (moment, node), later))
        return ways

    def _served(self, begin: State, end: State) -> int:
        """Return the weight of the pairs that a byte may serve between two states."""
        row, ends = self._rows[begin], self._states[end][1]
        return sum(row[each] for each in ends if each in row)

    @cached_property
    def _rows(self) -> dict[State, dict[int, int]]:
        """Of each state: the weight of pairs that may come through it, by their ends."""
        rows: dict[State, dict[int, int]] = {}
        for state, (starts, _) in self._states.items():
            row = defaultdict[int, int](int)
            for start in starts:
                for end, weight in self._of_start[start].items():
                    row[end] += weight
            rows[state] = dict(row)
        return rows

    @cached_property
    def _messages(self) -> dict[State, list[tuple[State, int]]]:
        """Of each state where a message may begin: where it may end, and what a pair pays for a byte."""
        hubs = self.topology.multicast | self.topology.aggregate | set(range(self.topology.num_ranks))
        return {state: list(self._from(state, hubs)) for state in self._states if state[1] in hubs}

    def _from(self, begin: State, hubs: frozenset[int]) -> Iterator[tuple[State, int]]:
        """Yield them in order: the cheapest sums of rents, and of holds, that lead there."""
        rent, hold = {begin: 0}, {begin: 0}
        for state in self._states:
            if state not in rent:
                continue
            if state != begin and state[1] in hubs and (served := self._served(begin, state)):
                yield state, 2 * math.isqrt(rent[state] * UNIT // served) + hold[state] // served
            for link, (moment, _), later in self._slots[state]:
                asked = int(UNIT * self.holds.get((link, moment), 0) / self._speed(link))
                for sums, more in ((rent, self.rents.get((link, moment), 0)), (hold, asked)):
                    sums[later] = min(sums[state] + more, sums.get(later, sums[state] + more))

    def _costs(self, start: int) -> dict[State, int]:
        """Return what a byte from there costs at least, by where it is when."""
        costs = {(0, start): 0}
        for state in self._states:
            if state in costs:
                for later, price in self._messages.get(state, ()):
                    costs[later] = min(costs[state] + price, costs.get(later, costs[state] + price))
        return costs
