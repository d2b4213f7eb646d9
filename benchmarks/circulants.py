"""BW-optimality of circulants and twisted tori: ``python -m benchmarks.circulants``.

Conjecture 1 (dissertation, A.6.4) says that every circulant has a BW-optimal BFB schedule; for two offsets it
is proven, Theorem 22 gives those of least diameter, and the paper checked up to 10^4 nodes. Here every
network is checked on its own, exactly, that its steps commute included:

* Theorem 22's circulants, all sizes up to a limit and samples up to another: BW-optimal, and of diameter m.
* Circulants of more offsets, all small ones and samples: here the conjecture fails. The smallest exception
  is C(12, {1,3,4,5}), and C(15, {1,4,5}) among those of three offsets. In the latter 2, 3, 7 and their
  negatives are six of the eight nodes at distance 2. Only four of the six links can bring their shards, so
  that U_2 is 6/4 and not 8/6.
* Twisted tori: all a x b up to a small size with every twist, and samples of larger ones. Those of TPU v4,
  of n x 2n, n x n x 2n and n x 2n x 2n, up to a limit.

This is no study of the runner: tens of thousands of networks, as many as a kind's seconds allow, give one
line for each kind.

One search from node 0 tells (`balance`). Let step i lead from node x to moves[i, x]. If every step is a
permutation of the nodes and any two of them commute, each is an automorphism, which takes links of step i to
links of step i, as moves[j, moves[i, x]] = moves[i, moves[j, x]]. From node 0 the steps reach all nodes of a
connected network, so it is vertex-transitive: the steps themselves are the generators that prove it.
Circulants, tori, twisted tori and hypercubes are such networks.

The nodes x at distance t from 0 have the last steps {i : d(0, x less step i) = t - 1}. As steps commute, a
source at distance t of any node has such a set for its eligible in-links. So the subproblem of step t is the
same at all nodes: it has a source for each node at distance t from 0, with these links. By Theorem 19 it is
balanced if and only if, for every set S of steps,

    d · (nodes at distance t whose last steps all lie in S) <= |S| · (nodes at distance t).

The BFB schedule is BW-optimal if and only if this holds at every t (dissertation, A.5.1 and A.6.4).
"""

from __future__ import annotations

import argparse
import itertools
import math
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from tutti.topologies.errors import InputError
from tutti.topologies.exact import Int32Array, Int64Array
from tutti.topologies.families.circulants import least_offsets
from tutti.topologies.kernels import kernel

_SHOWN = 3
"""Exceptions that a line names."""


class Balance(NamedTuple):
    """The result of a search from node 0.

    Parameters
    ----------
    reached
        The number of nodes reached: N if the network is connected.
    steps
        The diameter, T_L.
    optimal
        Whether every step is balanced, so T_B = (N - 1)/N.
    """

    reached: int
    steps: int
    optimal: bool


def balance(moves: Int32Array) -> Balance:
    """Search from node 0, having checked that the steps are commuting permutations.

    Parameters
    ----------
    moves
        int32, shape (degree, nodes).

    Raises
    ------
    InputError
        If they are not, or are too many.

    Examples
    --------
    >>> balance(torus_moves([4, 4]))
    Balance(reached=16, steps=4, optimal=True)
    """
    if len(moves) > (most := 16):  # a table of all sets of them is kept
        raise InputError(f"{len(moves)} steps a node; at most {most}")
    if not commute(moves):
        raise InputError("the steps are no commuting permutations, so the nodes need not be equivalent")
    reached, steps, optimal = _search(moves)
    return Balance(int(reached), int(steps), bool(optimal))


@kernel
def commute(moves: Int32Array) -> bool:
    """Whether all rows are permutations, and any two of them commute."""
    degree, nodes = moves.shape
    hit = np.full(nodes, -1, np.int32)
    for i in range(degree):
        for x in range(nodes):
            hit[moves[i, x]] = i
        if (hit != i).any():
            return False
        for j in range(i):
            for x in range(nodes):
                if moves[i, moves[j, x]] != moves[j, moves[i, x]]:
                    return False
    return True


@kernel
def circulant_moves(nodes: int, offsets: Int64Array) -> Int32Array:
    """Return the steps +a and -a of a circulant network, for each of its offsets."""
    moves = np.empty((2 * len(offsets), nodes), np.int32)
    for i in range(len(offsets)):
        for x in range(nodes):
            up, down = x + offsets[i], x - offsets[i]
            moves[2 * i, x] = up if up < nodes else up - nodes
            moves[2 * i + 1, x] = down if down >= 0 else down + nodes
    return moves


def torus_moves(lengths: Sequence[int], twist: int | None = None) -> Int32Array:
    """Return the steps up and down each dimension of `topologies.families.direct.twisted_torus`.

    Parameters
    ----------
    lengths
        At least 3 each.
    twist
        Twist of two dimensions; None: that of lengths n and 2n.
    """
    sizes = np.array(lengths)
    shifts = np.zeros((len(sizes), len(sizes)), dtype=np.int64)
    if twist is None:
        short = sizes == sizes.min()
        shifts[np.ix_(short, ~short)] = sizes.min()
    else:
        shifts[0, 1] = twist
    strides = np.concatenate([np.cumprod(sizes[:0:-1])[::-1], [1]])
    place = np.indices(lengths).reshape(len(sizes), -1)
    moves = []
    for dimension, sign in itertools.product(range(len(sizes)), (1, -1)):
        moved = place.copy()
        moved[dimension] += sign
        wraps = (moved[dimension] < 0) | (moved[dimension] >= sizes[dimension])
        moved += sign * shifts[dimension][:, None] * wraps
        moves.append(strides @ (moved % sizes[:, None]))
    return np.array(moves, dtype=np.int32)


@kernel
def _search(moves: Int32Array) -> tuple[int, int, bool]:
    """Return nodes reached, levels, and whether all of these are balanced.

    Invariant: queue[first:last] is the level before; for each node found since, `mask` has the last steps.
    """
    degree, nodes = moves.shape
    level = np.full(nodes, -1, np.int32)
    mask = np.zeros(nodes, np.int32)
    queue = np.empty(nodes, np.int32)
    inside = np.empty(1 << degree, np.int64)
    level[0], queue[0] = 0, 0
    first, last, steps, optimal = 0, 1, 0, True
    while first < last:
        found = last
        for position in range(first, last):
            for i in range(degree):
                x = moves[i, queue[position]]
                if level[x] < 0:
                    level[x], queue[found] = steps + 1, x
                    found += 1
                # A node of the new level notes every move that leads to it from the level before.
                if level[x] == steps + 1:
                    mask[x] |= 1 << i
        first, last = last, found
        if first < last:
            steps += 1
            optimal &= _balanced(mask, queue[first:last], inside, degree)
    return last, steps, optimal


@kernel
def _balanced(mask: Int32Array, nodes: Int32Array, inside: Int64Array, degree: int) -> bool:
    """Whether no set S of steps is the only one by which more than |S| / d of the nodes can be reached."""
    inside[:] = 0
    for x in nodes:
        inside[mask[x]] += 1
    top, bottom = _densest(inside, degree)
    return top * degree <= bottom * len(nodes)


@kernel
def _densest(inside: Int64Array, num_links: int) -> tuple[int, int]:
    """Return the best (count, size) over subsets, given how many sources have exactly each mask.

    After the subset-sum transform, inside[S] counts the sources whose mask lies in S.
    """
    for i in range(num_links):
        bit = 1 << i
        for mask in range(len(inside)):
            if mask & bit:
                inside[mask] += inside[mask ^ bit]
    top, bottom = 0, 1
    for mask in range(1, len(inside)):
        if inside[mask] * bottom > top:  # else not even |S| = 1 would win
            size = _popcount(mask)
            if inside[mask] * bottom > top * size:
                top, bottom = inside[mask], size
    return top, bottom


@kernel
def _popcount(mask: int) -> int:
    bits = 0
    while mask:
        mask &= mask - 1
        bits += 1
    return bits


class CirculantCase(NamedTuple):
    """A network to check.

    Parameters
    ----------
    name
        As topology text.
    nodes
        N.
    moves
        The steps of its nodes.
    steps
        The diameter that it must have; None: any.
    """

    name: str
    nodes: int
    moves: Int32Array
    steps: int | None = None


def circulant(nodes: int, offsets: Sequence[int], steps: int | None = None) -> CirculantCase:
    """Return the circulant of these offsets."""
    name = f"circulant:{nodes},{','.join(map(str, offsets))}"
    return CirculantCase(name, nodes, circulant_moves(nodes, np.array(offsets, dtype=np.int64)), steps)


def twisted_torus(shape: tuple[int, ...], twist: int | None = None) -> CirculantCase:
    """Return the twisted torus of these lengths; None: that of TPU v4."""
    name = f"twisted_torus:{'x'.join(map(str, shape))}{'' if twist is None else f'?twist={twist}'}"
    return CirculantCase(name, math.prod(shape), torus_moves(shape, twist))


@dataclass
class CheckedFamily:
    """The networks of one kind that were checked.

    Parameters
    ----------
    what
        Which they are.
    sizes
        The sizes of the networks.
    exceptions
        The names of those that are not BW-optimal, or not of the diameter that a theorem says.
    """

    what: str
    sizes: list[int] = field(default_factory=list)
    exceptions: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        """Return one line."""
        names = "; ".join(self.exceptions[:_SHOWN]) + "; ..." * (len(self.exceptions) > _SHOWN)
        wrong = f"all but {len(self.exceptions)} BW-optimal: {names}" if self.exceptions else "all BW-optimal"
        least, largest = min(self.sizes, default=0), max(self.sizes, default=0)
        return f"{self.what}: {len(self.sizes)} networks of {least} to {largest} nodes, {wrong}"


def check(what: str, cases: Iterable[CirculantCase], until: float = math.inf) -> CheckedFamily:
    """Check one network after the other, until a moment of `time.monotonic`."""
    found = CheckedFamily(what)
    for case in cases:
        result = balance(case.moves)
        if not result.optimal or result.reached != case.nodes or case.steps not in (None, result.steps):
            found.exceptions.append(case.name)
        found.sizes.append(case.nodes)
        if time.monotonic() > until:
            break
    return found


def theorem_22(sizes: Iterable[int]) -> Iterator[CirculantCase]:
    """Yield the circulants of two offsets of least diameter."""
    for n in sizes:
        one, other = least_offsets(n, 2)
        yield circulant(n, (one, other), steps=one)


def random_circulants(largest: int, number: int) -> Iterator[CirculantCase]:
    """Yield connected circulants of two to four offsets, sizes spread evenly over their logarithms."""
    rng = np.random.default_rng(0)
    while number:
        n = int(math.exp(rng.uniform(math.log(20), math.log(largest))))
        offsets = 1 + rng.choice((n - 1) // 2, size=int(rng.integers(2, 5)), replace=False)
        if math.gcd(n, *offsets.tolist()) == 1:
            yield circulant(n, sorted(offsets.tolist()))
            number -= 1


def all_circulants(largest: int, count: int) -> Iterator[CirculantCase]:
    """Yield every connected circulant of `count` offsets below n/2."""
    for n in range(2 * count + 1, largest + 1):
        for offsets in itertools.combinations(range(1, (n + 1) // 2), count):
            if math.gcd(n, *offsets) == 1:
                yield circulant(n, offsets)


def all_twisted_tori(largest: int) -> Iterator[CirculantCase]:
    """Yield a x b for a, b >= 3 with every twist below b."""
    for a in range(3, largest // 3 + 1):
        for b in range(3, largest // a + 1):
            yield from (twisted_torus((a, b), twist) for twist in range(b))


def tpu_tori(largest: int) -> Iterator[CirculantCase]:
    """Yield n x 2n, n x n x 2n and n x 2n x 2n, n >= 3."""
    for shape in ((1, 2), (1, 1, 2), (1, 2, 2)):
        for n in itertools.count(3):
            lengths = tuple(n * length for length in shape)
            if math.prod(lengths) > largest:
                break
            yield twisted_torus(lengths)


def random_twisted_tori(largest: int, number: int) -> Iterator[CirculantCase]:
    """Yield a x b with a twist, lengths spread evenly over their logarithms."""
    rng = np.random.default_rng(0)
    for _ in range(number):
        a = int(math.exp(rng.uniform(math.log(3), math.log(largest / 3))))
        b = int(math.exp(rng.uniform(math.log(3), math.log(largest / a))))
        yield twisted_torus((a, b), int(rng.integers(b)))


def main(arguments: Sequence[str] | None = None) -> None:
    """Check all of them and print, one line a kind, what was checked."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.circulants", allow_abbrev=False)
    parser.add_argument("--until", type=int, default=20_000, help="all sizes of Theorem 22 up to this one")
    parser.add_argument("--largest", type=int, default=10**6, help="the largest network sampled")
    parser.add_argument("--samples", type=int, default=1000, help="how many, of each kind")
    parser.add_argument("--small", type=int, default=120, help="all twisted tori up to this size")
    parser.add_argument("--offsets", type=int, default=30, help="all circulants of 3 and 4 up to this size")
    parser.add_argument("--seconds", type=float, default=600.0, help="for each kind, at most")
    given = parser.parse_args(arguments)
    sizes = np.random.default_rng(0).integers(7, given.largest, given.samples, endpoint=True).tolist()
    kinds = {
        "circulants of Theorem 22, all sizes": theorem_22(range(7, given.until + 1)),
        "circulants of Theorem 22, samples": theorem_22(sizes),
        "circulants of 3 offsets, all": all_circulants(given.offsets, 3),
        "circulants of 4 offsets, all": all_circulants(given.offsets, 4),
        "circulants of 2 to 4 offsets, samples": random_circulants(given.largest, given.samples),
        "twisted tori, all": all_twisted_tori(given.small),
        "twisted tori as in TPU v4": tpu_tori(given.largest),
        "twisted tori, samples": random_twisted_tori(given.largest, given.samples),
    }
    for what, cases in kinds.items():
        begin = time.monotonic()
        found = check(what, cases, begin + given.seconds)
        sys.stdout.write(f"{found} ({time.monotonic() - begin:.0f} s)\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
