"""Helpers of the tests of TACOS: making a schedule, the loop on Python's sets, and its random numbers."""

from fractions import Fraction

import numpy as np

from tutti.heuristics.tacos import METHOD, TacosOptions
from tutti.schedules import Problem, collective
from tutti.topologies.text import parse_topology

GB = Fraction(10**9)
MASK = 2**64 - 1


def tacos(topology, kind="allgather", *, size=GB, seed=0, root=None, groups=None, **options):
    """Return a schedule, given a network or its text, and a collective or its kind."""
    if isinstance(topology, str):
        topology = parse_topology(topology)
    if isinstance(kind, str):
        kind = collective(kind, topology.num_ranks, root=root, groups=groups)
    problem = Problem(topology, kind, None if size is None else Fraction(size))
    METHOD.supports(problem, TacosOptions(**options))
    return METHOD.synthesize(problem, TacosOptions(**options), np.random.default_rng(seed))


def mixed(word):
    """The output function of SplitMix64 (doi 10.1145/2660193.2660195) with Python's integers."""
    word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & MASK
    return word ^ (word >> 31)


def below(word, bound):
    """Return a number below a bound from the high half of a random word."""
    return (word >> 32) * bound >> 32


class SplitMix:
    """The whole generator."""

    def __init__(self, seed):
        self.state = seed

    def below(self, bound):
        self.state = (self.state + 0x9E3779B97F4A7C15) & MASK
        return below(mixed(self.state), bound)

    def shuffle(self, values):
        for last in range(len(values) - 1, 0, -1):
            other = self.below(last + 1)
            values[last], values[other] = values[other], values[last]

    def choice(self, elements):
        ordered = sorted(elements)
        return ordered[self.below(len(ordered)) if len(ordered) > 1 else 0]


class Twin:
    """The same matching on Python sets.

    `flying` maps a link to (arrival, chunk), `held` to what its source had when that began. `replaced` lists
    what replacement did: (time, idle link, other link, its chunk, the chunk it got or None).
    """

    def __init__(self, network, owner, pick, wait, seed, replace=False):
        self.links = list(zip(network.source.tolist(), network.target.tolist(), strict=True))
        self.cost, self.duration = network.cost.tolist(), network.duration.tolist()
        self.nodes = range(len(network.in_first) - 1)
        self.have = [{c for c, o in enumerate(owner) if o == node} for node in self.nodes]
        self.want = [set(range(len(owner))) - self.have[node] for node in self.nodes]
        self.pick, self.wait, self.replace, self.random = pick, wait, replace, SplitMix(seed)
        self.flying, self.held, self.starved, self.sent, self.now = {}, {}, set(), [], 0
        self.unmet = [c * len(self.nodes) + v for c, o in enumerate(owner) for v in self.nodes if v != o]
        self.replaced = []

    def run(self):
        todo = list(range(len(self.links)))
        while True:
            (self.match_postconditions if self.pick == "paper" else self.match_links)(todo)
            if not self.flying:
                return sorted(self.sent, key=lambda row: row[2])
            self.now = min(arrival for arrival, _ in self.flying.values())
            todo = self.land()

    def into(self, node):
        return [link for link, (_, target) in enumerate(self.links) if target == node]

    def lasts(self, link):
        return self.duration[self.cost[link]]

    def send(self, link, chunk):
        self.want[self.links[link][1]].discard(chunk)
        self.occupy(link, chunk)

    def occupy(self, link, chunk):
        self.flying[link] = (self.now + self.lasts(link), chunk)
        self.held[link] = set(self.have[self.links[link][0]])

    def land(self):
        landed = [link for link, (arrival, _) in self.flying.items() if arrival == self.now]
        todo = []
        for link in sorted(landed, key=lambda link: self.cost[link]):  # stable: by start within a cost
            node, (_, chunk) = self.links[link][1], self.flying.pop(link)
            self.have[node].add(chunk)
            self.sent.append((chunk, link, self.now - self.lasts(link)))
            woken = [other for other in sorted(self.starved) if self.links[other][0] == node]
            self.starved.difference_update(woken)
            todo += [link, *woken]
        return todo

    def match_links(self, todo):
        while todo:
            self.random.shuffle(todo)
            by_cost = sorted(todo, key=lambda link: self.cost[link])
            todo = [freed for link in by_cost for freed in self.match(link)]

    def match(self, link):
        """Match a link; return the links that this frees."""
        source, target = self.links[link]
        candidates = self.have[source] & self.want[target]
        if self.replace:
            candidates = self.own(link, candidates)
        elif self.wait and self.room_of_faster(link, self.now + self.lasts(link)) >= len(self.want[target]):
            candidates -= self.left_to_faster(link)
        if candidates:
            self.send(link, self.choose(link, target, candidates))
            return []
        freed = self.take_over(link) if self.replace else link
        if freed == link:
            self.starved.add(link)
        return [freed] if freed not in (link, None) else []

    def faster(self, link):
        return [other for other in self.into(self.links[link][1]) if self.cost[other] < self.cost[link]]

    def room_of_faster(self, link, until):
        free = {other: self.flying.get(other, (self.now,))[0] for other in self.faster(link)}
        return sum(max(0, until - free[other]) // self.lasts(other) for other in free)

    def left_to_faster(self, link):
        wanted = self.want[self.links[link][1]]
        return {c for other in self.faster(link) for c in wanted if c not in self.want[self.links[other][0]]}

    def own(self, link, candidates):
        lacked = [self.want[self.links[other][0]] for other in self.faster(link)]
        return {c for c in candidates if all(c in wanted for wanted in lacked)} or candidates

    def take_over(self, link):
        """Let an idle link take over a chunk; return the link that is free then, None for none."""
        source, target = self.links[link]
        mine, wanted, found = self.now + self.lasts(link), self.want[target], []
        for other in self.into(target):
            if other in self.flying and self.flying[other][0] >= mine:
                arrival, chunk = self.flying[other]
                more = bool(self.held[other] & wanted)
                begins = arrival == self.now + self.lasts(other)
                spare = begins or self.room_of_faster(other, arrival) > len(wanted)
                if chunk in self.have[source] and (more or (arrival > mine and spare)):
                    found.append((more, arrival, other))
        if not found:
            return link
        more, arrival, other = max(found, key=lambda each: each[:2])
        chunk = self.flying[other][1]
        self.occupy(link, chunk)
        if more:
            new = self.choose(other, target, self.own(other, self.held[other] & wanted))
            self.flying[other] = (arrival, new)
            wanted.discard(new)
        else:
            del self.flying[other]
        self.replaced.append((self.now, link, other, chunk, new if more else None))
        return None if more else other

    def choose(self, link, target, candidates):
        others = [other for other in self.into(target) if other != link]

        def spread(chunk):
            return sum(chunk not in self.want[node] for node in self.nodes)

        def ways(chunk):
            able = [other for other in others if chunk in self.have[self.links[other][0]]]
            return min(2, sum(other not in self.flying for other in able)), min(2, len(able))

        rules = {"rarest": [spread, ways], "scarcest": [ways, spread]}.get(self.pick, [])
        for rule in rules:
            least = min(map(rule, candidates))
            candidates = {chunk for chunk in candidates if rule(chunk) == least}
        return self.random.choice(candidates)

    def match_postconditions(self, _):
        freed = [None]
        while freed:
            self.pass_postconditions()
            links = range(len(self.links) if self.replace else 0)
            taken = [(link, self.take_over(link)) for link in links if link not in self.flying]
            freed = [other for link, other in taken if other not in (link, None)]

    def pass_postconditions(self):
        self.random.shuffle(self.unmet)
        for pair in list(self.unmet):
            chunk, node = divmod(pair, len(self.nodes))
            if chunk not in self.want[node]:
                self.unmet.remove(pair)
                continue
            able = [
                link
                for link in self.into(node)
                if link not in self.flying and chunk in self.have[self.links[link][0]]
            ]
            chosen, ties = None, 0
            for link in able:  # the kernel draws at each tie as it meets it, and restarts at a lower cost
                best = min(self.cost[other] for other in able[: able.index(link) + 1])
                if self.cost[link] > best:
                    continue
                ties = ties + 1 if chosen is not None and self.cost[chosen] == best else 1
                if self.random.below(ties) == 0:
                    chosen = link
            if chosen is not None:
                self.send(chosen, chunk)
                self.unmet.remove(pair)
