"""The cells on which no method was developed: drawn as said, and named nowhere else."""

import re
from collections import Counter
from itertools import chain

import pytest

from lint.house import FOLDERS, ROOT
from tests.held_out import CELLS, KINDS, SIZES, cells, config, published
from tutti.experiments.registry import METHODS
from tutti.experiments.runner.config import read_config
from tutti.experiments.runner.plan import make_plan
from tutti.experiments.runner.tasks import topology_digest
from tutti.topologies import parse_topology
from tutti.topologies.text import FAMILIES

CONFIG = ROOT / "configs" / "held_out.toml"


@pytest.fixture(scope="module")
def networks():
    return {text: parse_topology(text) for text in chain.from_iterable(cells().values())}


def test_the_config_is_what_the_generator_draws():
    assert CONFIG.read_text() == config()


def test_its_tasks_are_the_cells():
    tasks = make_plan(read_config(CONFIG), METHODS)
    found = Counter((str(task.collective), task.sizes) for task in tasks)
    assert len(tasks) == len({task.topology for task in tasks}) == 60
    assert len(found) == len(KINDS) * len(SIZES)
    assert set(found.values()) == {CELLS}


def test_no_network_is_one_of_the_twenty(networks):
    twenty = {topology_digest(parse_topology(text)) for text in published()}
    assert len(twenty) == 20
    assert twenty.isdisjoint(map(topology_digest, networks.values()))


def test_all_have_5_to_64_ranks(networks):
    assert all(5 <= network.num_ranks <= 64 for network in networks.values())


def test_there_are_networks_of_all_sorts(networks):
    """All families but two, odd and prime sides, unlike bandwidths, failures, unequal hosts."""
    families = {text.partition(":")[0].partition("?")[0] for text in networks}
    assert len(families) >= len(FAMILIES) - 2
    assert families >= {"fat_tree", "rail_spine"}
    assert sum("fail_" in text for text in networks) >= 10
    assert sum("ranks=" in text for text in networks) >= 5
    assert sum(len(set(network.bandwidth)) > 1 for network in networks.values()) >= 15
    assert sum(network.num_ranks % 2 for network in networks.values()) >= 10
    assert any(re.match(r"(torus|mesh)\S*[x:](7|11|13)\b", text) for text in networks)


def test_no_code_names_one_of_them(networks):
    files = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")]
    code = "".join(path.read_text() for path in files)
    assert [text for text in networks if text in code] == []
