"""Random matrices on hosts of eight: how far `birkhoff` is from the bound, and how long its stages take.

``python -m experiments.bench.all_to_all_v`` prints the tables of docs/all_to_all_v.md: as many matrices as
asked, on 2 to 40 hosts in turn, at 1 GB a rank; every schedule is verified.
"""

from __future__ import annotations

import argparse
import time
from collections import defaultdict
from fractions import Fraction

import numpy as np

from tutti.experiments.printable import say
from tutti.experiments.registry import find_method
from tutti.heuristics.birkhoff.decomposition import stages
from tutti.models.bounds.bandwidth import cut_bound, degree_bound
from tutti.models.bounds.traffic import Traffic
from tutti.schedules.byte_matrix import byte_matrix
from tutti.schedules.collective import collective
from tutti.schedules.method import Problem
from tutti.schedules.simulation.simulate import simulate
from tutti.schedules.verify import verify
from tutti.topologies.families.machines import dgx_h100

FORMS = ("random", "zipf:0.5", "zipf:1", "zipf:1.5", "hot:0.1", "block:8:0.3")
LEAST_HOSTS, MOST_HOSTS, PLACES = 2, 40, 8
SIZE = Fraction(10**9)
REPEATS = 5


def gap(hosts: int, form: str, method: str = "birkhoff") -> float:
    """Return by how much a verified schedule's time exceeds the larger of the cut and degree bounds."""
    where = dgx_h100(hosts)
    what = collective("all-to-all", where.num_ranks, matrix=form)
    how = find_method(method)
    made = how.synthesize(Problem(where, what, SIZE), how.options(), np.random.default_rng(0))
    verify(made)
    traffic = Traffic.of(what)
    least = max(bound.time(SIZE) for bound in (cut_bound(where, traffic), degree_bound(where, traffic)))
    return simulate(made, SIZE).time / float(least) - 1


def seconds(form: str) -> float:
    """Return how long the exact decomposition for `MOST_HOSTS` hosts takes, the least of some."""
    amounts = byte_matrix(form, MOST_HOSTS * PLACES).amounts
    between = amounts.reshape(MOST_HOSTS, PLACES, MOST_HOSTS, PLACES).sum(axis=(1, 3))
    np.fill_diagonal(between, 0)
    taken = []
    for _ in range(REPEATS + 1):
        begin = time.perf_counter()
        stages(between)
        taken.append(time.perf_counter() - begin)
    return min(taken[1:])


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--matrices", type=int, default=1000)
    count = parser.parse_args().matrices
    gaps: dict[str, list[float]] = defaultdict(list)
    for seed in range(count):
        form = FORMS[seed % len(FORMS)]
        hosts = LEAST_HOSTS + seed // len(FORMS) % (MOST_HOSTS - LEAST_HOSTS + 1)
        gaps[form].append(gap(hosts, f"{form}?seed={seed}"))
    say("| form | matrices | least gap | median | largest |")
    say("| --- | --- | --- | --- | --- |")
    for form, found in gaps.items():
        least, middle, most = np.quantile(found, [0, 0.5, 1])
        say(f"| `{form}` | {len(found)} | {least:.2%} | {middle:.2%} | {most:.2%} |")
    say("")
    say("| form | decomposition of 40 x 40, ms |")
    say("| --- | --- |")
    for form in FORMS:
        say(f"| `{form}` | {1000 * seconds(form):.1f} |")


if __name__ == "__main__":
    main()
