"""BW-optimality of circulants and twisted tori: ``python -m benchmarks.circulants``.

Conjecture 1 (dissertation, A.6.4) says that every circulant has a BW-optimal BFB schedule; for two offsets it
is proven, Theorem 22 gives those of least diameter, and the paper checked up to 10^4 nodes. Here every
network is checked on its own, exactly (`models.bfb.translations`), that its steps commute included:

* Theorem 22's circulants, all sizes up to a limit and samples up to another: BW-optimal, and of diameter m.
* Circulants of more offsets, all small ones and samples: here the conjecture fails. The smallest exception
  is C(12, {1,3,4,5}), and C(15, {1,4,5}) among those of three offsets. In the latter 2, 3, 7 and their
  negatives are six of the eight nodes at distance 2. Only four of the six links can bring their shards, so
  that U_2 is 6/4 and not 8/6.
* Twisted tori: all a x b up to a small size with every twist, and samples of larger ones. Those of TPU v4,
  of n x 2n, n x n x 2n and n x 2n x 2n, up to a limit.

This is no study of the runner: tens of thousands of networks, as many as a kind's seconds allow, give one
line for each kind.
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

from tutti.models.bfb.translations import balance, circulant_moves, torus_moves
from tutti.topologies.exact import Int32Array
from tutti.topologies.families.circulants import least_offsets

_SHOWN = 3
"""Exceptions that a line names."""


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
