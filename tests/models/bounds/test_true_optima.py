"""Bounds are below true optima where α and bytes cost about the same.

``true_optima.csv`` has the times that the constraint program of `optimum` proves without any given bound,
with messages that may cut through ranks (`configs/optima_middle.toml`), in microseconds, with the chunks a
shard.
"""

import csv
from collections import defaultdict
from fractions import Fraction
from pathlib import Path

from tests.sweep import for_each
from tutti.experiments.registry import METHODS
from tutti.experiments.runner.config import read_config
from tutti.experiments.runner.plan import make_plan
from tutti.models.bounds import lower_bounds
from tutti.schedules import collective
from tutti.topologies.text import parse_topology

ROOT = Path(__file__).parents[3]
ROOTED = {"broadcast", "reduce", "scatter", "gather"}
LAST_DIGIT = Fraction(1, 10**6)
"""Tolerance of a time, in us."""


def optima():
    """Return the least proven time of each case, us."""
    least = defaultdict(list)
    for row in csv.DictReader((ROOT / "tests/data/true_optima.csv").read_text().splitlines()):
        least[row["topology"], row["collective"], int(row["size_bytes"])].append(Fraction(row["optimum_us"]))
    return {case: min(times) for case, times in least.items()}


OPTIMA = optima()


@for_each("case", list(OPTIMA))
def test_every_bound_holds_for_the_true_optimum(case):
    text, kind, size = case
    topology = parse_topology(text)
    what = collective(kind, topology.num_ranks, **({"root": 0} if kind in ROOTED else {}))
    for bound in lower_bounds(topology, what, size):
        assert Fraction(bound.time(size)) * 10**6 <= OPTIMA[case] + LAST_DIGIT, bound.kind


def test_the_config_asks_for_these_cases():
    tasks = make_plan(read_config(ROOT / "configs" / "optima_middle.toml"), METHODS)
    asked = {(task.topology, str(task.collective).split()[0], size) for task in tasks for size in task.sizes}
    assert set(OPTIMA) == asked
    assert len(OPTIMA) >= 30
    exact = [task.options for task in tasks if task.method == "optimum"]
    assert all((options["cuts"], options["cut_through"]) == (False, True) for options in exact)
