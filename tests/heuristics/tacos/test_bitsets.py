"""Sets of chunks as words, counts as bit planes and random numbers, against Python's own."""

import numpy as np

from tests.heuristics.tacos.synthesis import MASK, SplitMix
from tutti.heuristics.tacos import bitsets


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


def test_the_lowest_set_bit_is_found():
    for word in (1, 2**63, 0b1011000, MASK, 2**63 + 2**40):
        assert bitsets.first_element(np.uint64(word)) == (word & -word).bit_length() - 1
