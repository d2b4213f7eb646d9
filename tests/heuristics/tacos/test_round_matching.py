"""TACOS in rounds: against a twin on Python's sets, at its bounds, the same on any number of threads."""

from fractions import Fraction
from itertools import pairwise, product

import numpy as np
import pytest

from tests.heuristics.tacos.synthesis import MASK, below, mixed, tacos
from tests.sweep import for_each
from tutti.heuristics.tacos import event_loop, round_matching, round_state
from tutti.heuristics.tacos.network import time_expanded
from tutti.heuristics.tacos.round_matching import Sampled
from tutti.schedules.verify import verify
from tutti.topologies import Unsupported
from tutti.topologies.text import parse_topology


def network_of(text):
    return time_expanded(parse_topology(text), Fraction(2**20), 10**6)[0]


class Twin:
    """The same rounds on Python sets."""

    def __init__(self, network, owner, seed, careful):
        self.sources = [
            network.source[network.in_links[begin:end]].tolist()
            for begin, end in pairwise(network.in_first.tolist())
        ]
        self.links = [
            network.in_links[begin:end].tolist() for begin, end in pairwise(network.in_first.tolist())
        ]
        self.nodes = range(len(self.sources))
        self.blocks = -(-len(owner) // (64 * round_state.WIDTH))
        self.have = [{c for c, o in enumerate(owner) if o == node} for node in self.nodes]
        self.chunks, self.seed, self.careful = set(range(len(owner))), seed, careful

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
        if not missing:
            return {}
        care = round_matching.CAREFUL if len(missing) <= self.careful else round_matching.QUICK
        self.looked_at, self.searched = care
        seeded = self.seed ^ (turn * 0xD1342543DE82EF95 & MASK)
        random = mixed(seeded ^ (node * 0x9E3779B97F4A7C15 & MASK))
        first = below(mixed(seeded), self.blocks)
        blocks = [*range(first, self.blocks), *range(first)]
        self.picked, brings = (
            {},
            {c: [i for i, u in enumerate(sources) if c in self.have[u]] for c in missing},
        )
        noted = self.search(brings, len(sources), blocks, random & (round_state.WIDTH - 1))
        begin = below(mixed((random + 0x9E3779B97F4A7C15) & MASK), len(sources))
        for i in [*range(begin + 1, len(sources)), *range(begin + 1)]:
            able = [c for c in noted if i in brings[c] and c not in self.picked.values()]
            if i not in self.picked and able:
                self.picked[i] = min(able[: self.looked_at], key=self.spread.get)
        for i in range(len(sources)):
            able = [c for c in self.in_turn(brings, blocks, 0) if i in brings[c]]
            able = [c for c in able if c not in self.picked.values()]
            if i not in self.picked and able:
                self.picked[i] = able[0]
        return self.picked

    def in_turn(self, chunks, blocks, at):
        """Return the chunks by block, then by word from `at` on in each, then by number."""
        place = {block: i for i, block in enumerate(blocks)}

        def key(c):
            word = c // 64
            return place[word // round_state.WIDTH], (word - at) % round_state.WIDTH, c

        return sorted((c for c in chunks if c // 64 // round_state.WIDTH in place), key=key)

    def search(self, brings, links, blocks, at):
        """Pick what one link can bring; return what several can, as far as it is noted."""
        offered, words, noted = [[] for _ in range(links)], set(), []
        for searched, block in enumerate(blocks, 1):
            here = self.in_turn(brings, [block], at)
            for c in here:
                if len(brings[c]) == 1 and len(offered[brings[c][0]]) < self.looked_at:
                    offered[brings[c][0]].append(c)
            if all(len(chunks) == self.looked_at for chunks in offered):
                break
            for c in here:
                if len(brings[c]) > 1 and (c // 64 in words or len(words) < round_state.LISTED):
                    words.add(c // 64)
                    noted.append(c)
            if searched >= self.searched and len(words) >= links:
                break
        self.picked = {i: min(chunks, key=self.spread.get) for i, chunks in enumerate(offered) if chunks}
        return noted


def as_list(network, made):
    chunk, link, start = made
    turn, rest = np.divmod(start, network.duration[0])
    assert not rest.any()
    return list(zip(chunk.tolist(), link.tolist(), turn.tolist(), strict=True))


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
def test_the_rounds_are_those_of_the_twin(text, chunks):
    network = network_of(text)
    owner = np.repeat(np.arange(len(network.in_first) - 1), chunks)
    for seed, careful in product([0, 2**64 - 1], [0, 30, 1000]):
        made = round_matching.synthesize(network, owner, Sampled(np.uint64(seed), careful))
        assert as_list(network, made) == Twin(network, owner.tolist(), seed, careful).run(), (seed, careful)


@pytest.mark.parametrize("text", ["torus:2x3", "ring:6", "mesh:2x3"])
def test_sets_of_several_blocks_are_gone_through_as_by_the_twin(text):
    """The 6 x 600 chunks make 8 blocks; the first rounds are compared."""
    network = network_of(text)
    owner = np.repeat(np.arange(6), 600)
    made = as_list(network, round_matching.synthesize(network, owner, Sampled(np.uint64(3))))
    expected = Twin(network, owner.tolist(), 3, round_matching.CAREFUL_CHUNKS).run(6)
    assert made[: len(expected)] == expected


@pytest.mark.parametrize("threads", [2, 3, 7])
def test_threads_do_not_change_the_schedule(threads):
    network = network_of("torus:9x10")
    owner = np.arange(90)
    one = round_matching.synthesize(network, owner, Sampled(np.uint64(5)), 1)
    several = round_matching.synthesize(network, owner, Sampled(np.uint64(5)), threads)
    assert all(np.array_equal(a, b) for a, b in zip(one, several, strict=True))


class BrokenError(Exception):
    """Stands for any error in a thread."""


def test_an_error_in_a_thread_ends_the_synthesis(monkeypatch):
    play = event_loop._LOOPS[Sampled]

    def broken(rule, made, at, until):
        if made.thread == 1:
            raise BrokenError
        return play(rule, made, at, until)

    monkeypatch.setitem(event_loop._LOOPS, Sampled, broken)
    with pytest.raises(BrokenError):
        round_matching.synthesize(network_of("ring:8"), np.arange(8), Sampled(np.uint64(0)), 3)


@for_each(
    ("text", "in_links"),
    [
        ("torus:5x5", 4),
        ("torus:8x8", 4),
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
    schedule = tacos(text, restarts=20 if parse_topology(text).num_ranks < 300 else 1)
    assert int(schedule.order[-1]) + 1 == -(-(schedule.topology.num_ranks - 1) // in_links)


@pytest.mark.parametrize("text", ["torus:20x20", "mesh:19x20", "circulant:400,3,17"])
def test_what_is_sampled_is_legal(text):
    verify(tacos(text, chunk_rule="sampled"))


def test_samples_need_links_of_one_cost():
    with pytest.raises(
        Unsupported, match="tacos with chunk_rule 'sampled' needs links of one cost; those of mesh"
    ):
        tacos("mesh:2x3?bandwidth=50GB/s,25GB/s", chunk_rule="sampled")
