"""TACOS in rounds: against plain Python on sets, at its bounds, the same on any number of threads."""

from fractions import Fraction
from heapq import nsmallest
from itertools import pairwise

import numpy as np
import pytest

from heuristics.tacos import METHOD, TacosOptions, bitsets, copying, rounds
from heuristics.tacos.network import time_expanded
from schedules import Problem, collective
from schedules.verify import verify
from topologies import InputError, Unsupported
from topologies.text import parse_topology

MASK = 2**64 - 1


def network_of(text):
    return time_expanded(parse_topology(text), Fraction(2**20), 10**6)[0]


def mixed(word):
    """The output function of SplitMix64 (doi 10.1145/2660193.2660195)."""
    word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & MASK
    return word ^ (word >> 31)


def below(word, bound):
    return (word >> 32) * bound >> 32


class Twin:
    """The same rounds on Python sets."""

    def __init__(self, network, owner, seed, looked_at):
        self.sources = [
            network.source[network.in_links[begin:end]].tolist()
            for begin, end in pairwise(network.in_first.tolist())
        ]
        self.links = [
            network.in_links[begin:end].tolist() for begin, end in pairwise(network.in_first.tolist())
        ]
        self.nodes = range(len(self.sources))
        self.words = -(-len(owner) // 64)
        self.have = [{c for c, o in enumerate(owner) if o == node} for node in self.nodes]
        self.chunks, self.seed, self.looked_at = set(range(len(owner))), seed, looked_at

    def run(self, most=10**6):
        sent, turn = [], 0
        while turn < most and any(have != self.chunks for have in self.have):
            turn += 1
            self.spread = {c: sum(c in have for have in self.have) for c in self.chunks}
            picks = [self.match(node, turn) for node in self.nodes]
            for node, picked in zip(self.nodes, picks, strict=True):
                for i, chunk in sorted(picked.items()):
                    self.have[node].add(chunk)
                    sent.append((chunk, self.links[node][i], turn - 1))
        return sent

    def match(self, node, turn):
        missing, sources = self.chunks - self.have[node], self.sources[node]
        blocks = -(-self.words // rounds.BLOCK)
        block = below(mixed(self.seed ^ (turn * 0xD1342543DE82EF95 & MASK)), blocks)
        if not missing:
            return {}
        random = mixed(self.seed ^ (turn * 0xD1342543DE82EF95 & MASK) ^ (node * 0x9E3779B97F4A7C15 & MASK))
        picked = self.pick_scarce(missing, sources, random, [*range(block, blocks), *range(block)])
        missing -= set(picked.values())
        i = below(mixed((random + 0x9E3779B97F4A7C15) & MASK), len(sources))
        for _ in sources:
            i = (i + 1) % len(sources)
            if i not in picked and missing:
                random = mixed((random + 0x9E3779B97F4A7C15) & MASK)
                width = min(rounds.BLOCK, self.words - block * rounds.BLOCK)
                begin = block * rounds.BLOCK + below(random, width)
                able = missing & self.have[sources[i]]
                met = nsmallest(self.looked_at, able, key=lambda c: ((c // 64 - begin) % self.words, c))
                if met:
                    picked[i] = min(met, key=self.spread.get)
                    missing.discard(picked[i])
        return picked

    def pick_scarce(self, missing, sources, random, blocks):
        brings = {c: [i for i, u in enumerate(sources) if c in self.have[u]] for c in missing}
        scarce = {c: links[0] for c, links in brings.items() if len(links) == 1}
        picked, left = {}, self.looked_at * len(sources)
        for block in blocks:
            listed = sorted({c // 64 for c in scarce if c // 64 // rounds.BLOCK == block})
            if not listed:
                continue
            random = mixed((random + 0xD1342543DE82EF95) & MASK)
            at = below(random, len(listed))
            for word in listed[at:] + listed[:at]:
                here = sorted(c for c in scarce if c // 64 == word)
                for c in here:
                    best = picked.get(scarce[c])
                    if best is None or self.spread[c] < self.spread[best]:
                        picked[scarce[c]] = c
                left -= len(here)
                if left <= 0:
                    return picked
        return picked


def as_list(made):
    chunk, link, first = made
    turn = np.repeat(np.arange(len(first) - 1), np.diff(first))
    return list(zip(chunk.tolist(), link.tolist(), turn.tolist(), strict=True))


@pytest.mark.parametrize("looked_at", [1, 4])
@pytest.mark.parametrize("seed", [0, 2**64 - 1])
@pytest.mark.parametrize(
    ("text", "chunks"),
    [
        ("torus:3x4", 12),  # three words, four in-links
        ("mesh:4x4", 5),  # two, three and four in-links
        ("gen_kautz:2,7", 20),  # one-way links
        ("complete:7", 10),  # six in-links
        ("torus:2x3", 1),  # parallel links
    ],
)
def test_the_rounds_are_those_of_the_twin(text, chunks, seed, looked_at):
    network = network_of(text)
    owner = np.repeat(np.arange(len(network.in_first) - 1), chunks)
    made = rounds.synthesize(network, owner, np.uint64(seed), 1, looked_at)
    assert as_list(made) == Twin(network, owner.tolist(), seed, looked_at).run()


@pytest.mark.parametrize("text", ["torus:2x3", "ring:6", "mesh:2x3"])
def test_sets_of_several_blocks_are_gone_through_as_by_the_twin(text):
    """Of 6 x 1,400 chunks, 132 words; the first rounds."""
    network = network_of(text)
    owner = np.repeat(np.arange(6), 1400)
    made = as_list(rounds.synthesize(network, owner, np.uint64(3)))
    expected = Twin(network, owner.tolist(), 3, rounds.LOOKED_AT).run(6)
    assert made[: len(expected)] == expected


@pytest.mark.parametrize("threads", [2, 3, 7])
def test_threads_do_not_change_the_schedule(threads):
    network = network_of("torus:9x10")
    owner = np.arange(90)
    one = rounds.synthesize(network, owner, np.uint64(5), 1)
    several = rounds.synthesize(network, owner, np.uint64(5), threads)
    assert all(np.array_equal(a, b) for a, b in zip(one, several, strict=True))


def test_the_lowest_set_bit_is_found():
    for word in (1, 2**63, 0b1011000, MASK, 2**63 + 2**40):
        assert bitsets.first_element(np.uint64(word)) == (word & -word).bit_length() - 1


def synthesized(text, seed=0, **options):
    topology = parse_topology(text)
    problem = Problem(topology, collective("allgather", topology.num_ranks))
    METHOD.supports(problem, TacosOptions(**options))
    return METHOD.synthesize(problem, TacosOptions(**options), np.random.default_rng(seed))


@pytest.mark.parametrize(
    ("text", "in_links"),
    [
        ("torus:10x10", 4),
        ("torus:16x16", 4),
        ("torus:20x20", 4),  # from here on by samples
        ("torus:32x32", 4),
        ("torus:8x8x8", 6),
        ("mesh:10x10", 2),
        ("mesh:5x5x5", 3),
        ("mesh:32x32", 2),
        ("hypercube:9", 9),
        ("gen_kautz:4,500", 4),
    ],
)
def test_the_chunks_that_a_corner_must_receive_bound_the_rounds_and_are_met(text, in_links):
    schedule = synthesized(text, tries=4 if parse_topology(text).num_ranks < 300 else 1)
    assert int(schedule.order[-1]) + 1 == -(-(schedule.topology.num_ranks - 1) // in_links)


@pytest.mark.parametrize("text", ["torus:20x20", "mesh:19x20", "circulant:400,3,17"])
def test_what_is_sampled_is_legal(text):
    verify(synthesized(text, pick="sampled"))


def test_more_tries_end_no_later_and_the_best_is_kept():
    ends = [int(synthesized("torus:4x4", pick="uniform", tries=tries).order[-1]) for tries in (1, 2, 8, 32)]
    assert ends == sorted(ends, reverse=True)
    assert ends[-1] < ends[0]


def test_each_half_of_an_allreduce_is_the_best_of_its_tries():
    """Halves that both meet the bound of 6 rounds are rare together where each is chosen with the other."""
    topology = parse_topology("torus:5x5")
    problem = Problem(topology, collective("allreduce", 25))
    schedule = METHOD.synthesize(problem, TacosOptions(tries=20), np.random.default_rng(1))
    verify(schedule)
    assert int(schedule.order[-1]) + 1 == 12


def test_samples_need_links_of_one_cost():
    problem = Problem(parse_topology("mesh:2x3?bandwidth=50GB/s,25GB/s"), collective("allgather", 6), 1)
    with pytest.raises(Unsupported, match="tacos with pick 'sampled' needs links of one cost; those of mesh"):
        METHOD.supports(problem, TacosOptions(pick="sampled"))


def test_what_the_memory_can_not_hold_is_refused(monkeypatch):
    """90 transfers of 16 bytes each, and two bits for each of 100 pairs."""
    monkeypatch.setattr(copying, "memory", lambda: 1464)
    with pytest.raises(InputError) as error:
        synthesized("ring:10")
    expected = "tacos: 90 transfers on ring:10 need 1.46e-06 GB of memory; this machine has 1.46e-06 GB"
    assert str(error.value) == expected
    monkeypatch.setattr(copying, "memory", lambda: 1465)
    verify(synthesized("ring:10"))
