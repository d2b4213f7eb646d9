"""The TACOS kernel and its bitsets, against plain Python on sets and lists."""

from fractions import Fraction

import numpy as np
import pytest

from heuristics.tacos import bitsets, kernel
from heuristics.tacos.network import time_expanded
from topologies.text import parse_topology

MASK = 2**64 - 1


class SplitMix:
    """The generator of doi 10.1145/2660193.2660195 with Python's integers."""

    def __init__(self, seed):
        self.state = seed

    def below(self, bound):
        self.state = (self.state + 0x9E3779B97F4A7C15) & MASK
        z = self.state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        return ((z ^ (z >> 31)) >> 32) * bound >> 32

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
            (self.match_postconditions if self.pick == kernel.PAPER else self.match_links)(todo)
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

        rules = {kernel.UNIFORM: [], kernel.RAREST: [spread, ways], kernel.SCARCEST: [ways, spread]}[
            self.pick
        ]
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


def case(text, chunks):
    topology = parse_topology(text)
    network, _ = time_expanded(topology, Fraction(2**20), 10**6)
    return network, np.repeat(np.arange(topology.num_ranks), chunks)


@pytest.mark.parametrize("seed", [0, 1, 2**64 - 1])
@pytest.mark.parametrize("wait", [False, True])
@pytest.mark.parametrize("pick", [kernel.UNIFORM, kernel.RAREST, kernel.SCARCEST, kernel.PAPER])
@pytest.mark.parametrize(
    ("text", "chunks"),
    [
        ("torus:3x4", 6),  # 72 chunks: two words
        ("gen_kautz:2,7", 2),
        ("complete:5", 3),
        ("mesh:3x3?bandwidth=100GB/s,25GB/s&alpha=1us", 2),
        ("torus:2x3?bandwidth=50GB/s,33GB/s&alpha=1us", 4),
    ],
)
def test_the_kernel_makes_the_choices_of_its_twin(text, chunks, pick, wait, seed):
    network, owner = case(text, chunks)
    made = kernel.synthesize(network, owner, pick, wait, np.uint64(seed))
    expected = Twin(network, owner.tolist(), pick, wait, seed).run()
    assert list(zip(*(column.tolist() for column in made), strict=True)) == expected


def words(elements, count=2):
    made = np.zeros(count, np.uint64)
    for element in elements:
        made[element // 64] |= np.uint64(1 << (element % 64))
    return made


def elements(words_):
    return {64 * w + b for w, word in enumerate(words_.tolist()) for b in range(64) if word >> b & 1}


def test_a_set_knows_its_size():
    for word in (0, 1, 2**63, MASK, 0x8000_0000_0000_0001):
        assert bitsets.popcount(np.uint64(word)) == word.bit_count()
    assert bitsets.size(words({0, 5, 63, 64, 127})) == 5


def test_an_intersection_is_written_and_counted():
    common = np.empty(2, np.uint64)
    assert bitsets.intersection(words({1, 63, 64, 100}), words({0, 63, 100}), common) == 2
    assert elements(common) == {63, 100}


def test_counters_keep_the_elements_with_the_least_count():
    rng = np.random.default_rng(5)
    counts = rng.integers(0, 8, 128)
    planes = np.zeros((3, 2), np.uint64)
    for element, count in enumerate(counts):
        for _ in range(count):
            bitsets.increment(planes, element)
    for _ in range(50):
        some = set(rng.choice(128, rng.integers(1, 20), replace=False).tolist())
        kept = words(some)
        number = bitsets.keep_smallest(kept, planes, np.empty(2, np.uint64))
        least = min(counts[list(some)])
        assert elements(kept) == {element for element in some if counts[element] == least}
        assert number == len(elements(kept))


def test_every_element_is_drawn_equally_often():
    """Each count is within five standard deviations; a random start bit would favour those after a gap."""
    members, draws = {0, 1, 2, 40, 63, 64, 127}, 14_000
    state = np.array([3], np.uint64)
    drawn = [int(bitsets.random_element(words(members), len(members), state)) for _ in range(draws)]
    each = draws / len(members)
    assert set(drawn) == members
    assert all(abs(drawn.count(member) - each) < 5 * each**0.5 for member in members)


def test_the_generator_is_splitmix():
    state, twin = np.array([2**64 - 5], np.uint64), SplitMix(2**64 - 5)
    assert [bitsets.random_below(state, 1000) for _ in range(20)] == [twin.below(1000) for _ in range(20)]
