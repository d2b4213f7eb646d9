"""The config of the table of everything asks for every method on every instance of its set."""

import csv
from collections import Counter
from pathlib import Path

import pytest

from tutti.experiments.registry import METHODS
from tutti.experiments.runner.config import MethodTable, read_config
from tutti.experiments.runner.plan import make_plan, time_limit

ROOT = Path(__file__).parents[2]
INSTANCES = ROOT / "tests" / "data" / "reference" / "instances.csv"
COLLECTIVES = ["allgather", "reduce-scatter", "allreduce", "all-to-all"]
SIZES = [1000, 32_000, 10**6, 32 * 10**6, 10**9]


@pytest.fixture(scope="module")
def config():
    return read_config(ROOT / "configs" / "all.toml")


@pytest.fixture(scope="module")
def tasks(config):
    return make_plan(config, METHODS)


def instances():
    rows = csv.DictReader(INSTANCES.read_text().splitlines())
    return [row["topology"] for row in rows if row["set"] == "all"]


def test_it_has_the_instances_of_its_set(tasks):
    assert len(instances()) == 20
    assert list(dict.fromkeys(task.topology for task in tasks)) == instances()


def test_it_has_every_method_but_the_portfolio(tasks):
    assert {task.method for task in tasks} == set(METHODS) - {"best"}


def test_every_case_has_a_row_of_every_method_for_all_networks(tasks, config):
    """20 networks, 4 collectives, 5 sizes: 400 cases, in each of which a method's options occur once."""
    general = [
        placed.table for placed in config.tables(MethodTable, "method") if placed.table.topologies is None
    ]
    rows = Counter((task.topology, str(task.collective), size) for task in tasks for size in task.sizes)
    assert set(rows) == {(t, c, s) for t in instances() for c in COLLECTIVES for s in SIZES}
    assert min(rows.values()) == len(general)


def test_schedules_for_all_sizes_are_one_task(tasks):
    """A ring's does not depend on the size, a pipelined tree's number of slices does."""
    mine = [task for task in tasks if (task.topology, str(task.collective)) == ("mesh:4x4", "allreduce")]
    assert [task.sizes for task in mine if task.method == "ring"] == [tuple(SIZES)]
    assert [task.sizes for task in mine if task.method == "dbt"] == [(size,) for size in SIZES]


def test_every_synthesis_is_limited(config):
    assert time_limit(config) == 40.0
