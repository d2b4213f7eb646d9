"""The plan of planes that is done first, of those tried.

Where rails are slower than what planes do with what they bring, their time is what counts: no allgather is
faster than a rail at (P - 1)/N M bytes a rank. Messages of a rail wait for nothing, so they follow each other
without a gap, an α each; what is left to choose is how small they get towards the end, as a plane must be
through with all before when the last comes. More messages take more α, fewer leave more to do at the end.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

import numpy as np

from heuristics.rails.feed import Feed, Rail, Sizes, feed
from heuristics.rails.plane_table import Plan
from heuristics.rails.planes import Planes, planes_of
from heuristics.rails.spreading import Edges, amounts, edges_of, spread
from heuristics.rails.trees import Net, Trees, net_of, trees_of
from topologies.topology import Topology

MOST_CELLS = 2**17
"""Planes times places times places: what a plane's messages carry, if each shard goes along one tree."""
MOST_RANKS, MOST_LINKS = 1024, 2**17
MOST_LINKED = 128
"""Ranks, links, and ranks where rails are links: by these more pieces come."""
SHARES, LEAST = (0.1, 0.2, 0.3, 0.5, 1.0), (1.0, 4.0, 16.0)
ROUNDS = 3
FACTORS = (1.25, 1.1, 1.04)
"""What is tried: these first, then so often what differs by each of these factors from the best."""
FORESTS = ((0, 4), (0, 6), (0, 9), (1, 8), (2, 16))
"""How many hops too far places are, and how many trees a place has at most: (slack, rounds)."""
PATIENCE = (0.0, 0.1, 0.5, 1.5, 5.0)
"""For how many α a link waits for what comes next; an α and a bit if that makes one message of two."""


@dataclass(frozen=True)
class Choice:
    """What decides a plan: of rails' messages the share and the α of the least; trees; patience in α."""

    share: float
    least: float
    forest: tuple[int, int] = FORESTS[0]
    patience: float = 0.0


class Workshop:
    """What plans of one division into planes have in common, and when each is done."""

    def __init__(self, topology: Topology, planes: Planes, shard: Fraction, units: int) -> None:
        self.planes = planes
        unit = float(shard / units)
        link = int(planes.rail[0, 0, 0, 0])
        alpha, seconds = topology.alpha.floats, unit / topology.bandwidth.floats
        number, self.places = planes.rank.shape
        self.rail = Rail(number, units, float(seconds[link]), float(alpha[link]), planes.switched)
        self.net: Net = net_of(planes.local, self.places, alpha, seconds)
        self._forests: dict[tuple[int, int], tuple[Trees, Edges]] = {}
        self._ends: dict[Choice, float] = {}

    @cached_property
    def least(self) -> float:
        """Seconds at least: rails bring what they must, and each place takes in what comes to the others."""
        sent = self.rail.planes - 1 if self.rail.switched else 1
        last = np.where(self.net.second < 0, self.net.first, self.net.second)
        place, link = np.unique(np.stack([self.net.target, last]), axis=1)
        slowest = np.bincount(place, 1 / self.net.seconds[link], minlength=self.places).min()
        inside = self.rail.planes * (self.places - 1) / slowest
        return self.rail.shard * max(sent * self.rail.seconds, float(inside))

    def forest(self, choice: tuple[int, int]) -> tuple[Trees, Edges]:
        """Return the trees, and their edges."""
        if choice not in self._forests:
            slack, rounds = choice
            most = max(1, MOST_CELLS // (self.rail.planes * self.places**2))
            trees = trees_of(self.net, slack, min(rounds, most))
            self._forests[choice] = trees, edges_of(self.net, trees)
        return self._forests[choice]

    def feed(self, choice: Choice) -> Feed:
        """Return what rails bring."""
        alphas = self.rail.alpha / self.rail.seconds
        return feed(self.rail, Sizes(choice.share, int(choice.least * alphas)))

    def played(self, choice: Choice) -> tuple[Plan, float]:
        """Return the plan, and when all is done."""
        trees, edges = self.forest(choice.forest)
        brought = self.feed(choice)
        total = amounts(trees, brought.size)
        done, end = spread(self.net, edges, brought.arrive, total, choice.patience * self.rail.alpha)
        return Plan(self.rail.shard, brought, trees, edges, total, done), end

    def end(self, choice: Choice) -> float:
        """Return when all is done."""
        if choice not in self._ends:
            self._ends[choice] = self.played(choice)[1]
        return self._ends[choice]

    def plan(self, choice: Choice) -> Plan:
        """Return the plan."""
        return self.played(choice)[0]

    def best(self) -> Choice:
        """Return the best choice found: neighbours of the best so far, as long as one is better."""
        best = min((Choice(share, least) for share in SHARES for least in LEAST), key=self.end)
        for factor in FACTORS:
            for _ in range(ROUNDS):
                before = best
                best = min((before, *_neighbours(before, factor)), key=self.end)
                if best == before:
                    break
        return best


def _neighbours(choice: Choice, factor: float) -> Iterator[Choice]:
    for times in (factor, 1 / factor):
        yield replace(choice, share=min(1.0, choice.share * times))
        yield replace(choice, least=choice.least * times)
    yield from (replace(choice, forest=forest) for forest in FORESTS)
    yield from (replace(choice, patience=patience) for patience in PATIENCE)


def planes_in_reach(topology: Topology) -> list[Planes]:
    """Return the ways in which a network is planes and rails that are not too many to be planned."""
    if topology.num_ranks > MOST_RANKS or topology.num_links > MOST_LINKS:
        return []
    return [
        planes
        for planes in planes_of(topology)
        if planes.rank.size * planes.rank.shape[1] <= MOST_CELLS
        and (planes.switched or planes.rank.size <= MOST_LINKED)
    ]


def fastest_plan(topology: Topology, ways: list[Planes], shard: Fraction, units: int) -> tuple[Planes, Plan]:
    """Return the plan that is done first, and the planes it is for.

    Parameters
    ----------
    topology, ways
        The network, and as what planes it can be seen.
    shard, units
        Bytes of a shard, and how many units it is cut into.
    """
    shops = sorted((Workshop(topology, planes, shard, units) for planes in ways), key=lambda shop: shop.least)
    best, choice = shops[0], shops[0].best()
    for shop in shops[1:]:
        if shop.least < best.end(choice):
            other = shop.best()
            if shop.end(other) < best.end(choice):
                best, choice = shop, other
    return best.planes, best.plan(choice)
