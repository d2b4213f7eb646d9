"""What the tests of TACOS share: making a schedule, the loop on Python's sets, and its random numbers."""

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
    """The same matching on Python sets; `flying` maps a link to (arrival, chunk)."""

    def __init__(self, network, owner, pick, wait, seed):
        self.links = list(zip(network.source.tolist(), network.target.tolist(), strict=True))
        self.cost, self.duration = network.cost.tolist(), network.duration.tolist()
        self.nodes = range(len(network.in_first) - 1)
        self.have = [{c for c, o in enumerate(owner) if o == node} for node in self.nodes]
        self.want = [set(range(len(owner))) - self.have[node] for node in self.nodes]
        self.pick, self.wait, self.random = pick, wait, SplitMix(seed)
        self.flying, self.starved, self.sent, self.now = {}, set(), [], 0
        self.unmet = [c * len(self.nodes) + v for c, o in enumerate(owner) for v in self.nodes if v != o]

    def run(self):
        todo = list(range(len(self.links)))
        while True:
            (self.match_postconditions if self.pick == "paper" else self.match_links)(todo)
            if not self.flying:
                return self.sent
            self.now = min(arrival for arrival, _ in self.flying.values())
            todo = self.land()

    def into(self, node):
        return [link for link, (_, target) in enumerate(self.links) if target == node]

    def send(self, link, chunk):
        self.want[self.links[link][1]].discard(chunk)
        self.flying[link] = (self.now + self.duration[self.cost[link]], chunk)
        self.sent.append((chunk, link, self.now))

    def land(self):
        landed = [link for link, (arrival, _) in self.flying.items() if arrival == self.now]
        todo = []
        for link in sorted(landed, key=lambda link: self.cost[link]):  # stable: by start within a cost
            node = self.links[link][1]
            self.have[node].add(self.flying.pop(link)[1])
            woken = [other for other in sorted(self.starved) if self.links[other][0] == node]
            self.starved.difference_update(woken)
            todo += [link, *woken]
        return todo

    def match_links(self, todo):
        self.random.shuffle(todo)
        for link in sorted(todo, key=lambda link: self.cost[link]):
            source, target = self.links[link]
            candidates = self.have[source] & self.want[target]
            if self.wait:
                candidates -= self.left_to_faster(link, target)
            if candidates:
                self.send(link, self.choose(link, target, candidates))
            else:
                self.starved.add(link)

    def left_to_faster(self, link, target):
        landing = self.now + self.duration[self.cost[link]]
        faster = [other for other in self.into(target) if self.cost[other] < self.cost[link]]
        free = {other: self.flying[other][0] if other in self.flying else self.now for other in faster}
        capacity = sum(max(0, landing - free[other]) // self.duration[self.cost[other]] for other in faster)
        if capacity < len(self.want[target]):
            return set()
        return {c for other in faster for c in self.want[target] if c not in self.want[self.links[other][0]]}

    def choose(self, link, target, candidates):
        others = [other for other in self.into(target) if other != link]

        def spread(chunk):
            return sum(chunk not in self.want[node] for node in self.nodes)

        def ways(chunk):
            able = [other for other in others if chunk in self.have[self.links[other][0]]]
            return min(2, sum(other not in self.flying for other in able)), min(2, len(able))

        rules = {"uniform": [], "rarest": [spread, ways], "scarcest": [ways, spread]}[self.pick]
        for rule in rules:
            least = min(map(rule, candidates))
            candidates = {chunk for chunk in candidates if rule(chunk) == least}
        return self.random.choice(candidates)

    def match_postconditions(self, _):
        self.random.shuffle(self.unmet)
        for pair in list(self.unmet):
            chunk, node = divmod(pair, len(self.nodes))
            able = [
                link
                for link in self.into(node)
                if link not in self.flying and chunk in self.have[self.links[link][0]]
            ]
            chosen, ties = None, 0
            for link in able:  # the kernel draws at each tie as it meets it, and starts anew at a lower cost
                best = min(self.cost[other] for other in able[: able.index(link) + 1])
                if self.cost[link] > best:
                    continue
                ties = ties + 1 if chosen is not None and self.cost[chosen] == best else 1
                if self.random.below(ties) == 0:
                    chosen = link
            if chosen is not None:
                self.send(chosen, chunk)
                self.unmet.remove(pair)
