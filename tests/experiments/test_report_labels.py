"""Short names of topologies say what tells them apart, and nothing that changes the network is left out."""

import csv
from pathlib import Path

from experiments.report.labels import short_names

INSTANCES = Path(__file__).parents[1] / "data" / "reference" / "instances.csv"


def test_bandwidth_and_alpha_are_left_out_where_the_shape_is_enough():
    names = ["ring:8", "mesh:7x10?bandwidth=25GB/s,100GB/s&alpha=1us"]
    assert short_names(names) == dict(zip(names, ["ring:8", "mesh:7x10"], strict=True))


def test_only_what_differs_among_networks_of_one_shape_is_kept():
    """Both have 1 us, so only the bandwidths tell them apart."""
    names = ["ring:8?bandwidth=25GB/s&alpha=1us", "ring:8?alpha=1us&bandwidth=50GB/s"]
    assert list(short_names(names).values()) == ["ring:8?bandwidth=25GB/s", "ring:8?bandwidth=50GB/s"]


def test_a_network_without_values_keeps_its_bare_name_beside_one_with():
    names = ["ring:8", "ring:8?alpha=1us"]
    assert list(short_names(names).values()) == names


def test_what_changes_the_network_stays():
    names = ["mesh:4x4?drop_nodes=7,9&bandwidth=25GB/s", "mesh:4x4", "mi250:2?ranks=8+8&alpha=1us"]
    assert list(short_names(names).values()) == ["mesh:4x4?drop_nodes=7,9", "mesh:4x4", "mi250:2?ranks=8+8"]


def test_kept_values_follow_what_changes_the_network():
    names = ["ring:8?drop_nodes=1&alpha=1us", "ring:8?drop_nodes=1&alpha=2us"]
    assert list(short_names(names).values()) == names


def test_texts_that_say_the_same_in_another_order_stay_apart():
    names = ["ring:8?bandwidth=25GB/s&alpha=1us", "ring:8?alpha=1us&bandwidth=25GB/s"]
    assert list(short_names(names).values()) == names


def test_no_two_of_all_instances_get_one_name():
    names = {row["topology"] for row in csv.DictReader(INSTANCES.read_text().splitlines())}
    short = short_names(names)
    assert set(short) == names
    assert len(set(short.values())) == len(names)
    assert all(name.startswith(short[name].partition("?")[0]) for name in names)
