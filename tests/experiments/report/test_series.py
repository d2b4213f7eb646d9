"""Short names of topologies say what tells them apart, and nothing that changes the network is left out.

So do the names of methods, and nothing that changes the algorithm is left out.
"""

import csv
from pathlib import Path

import pytest

from tutti.experiments.report.results import make_series, short_names

INSTANCES = Path(__file__).parents[2] / "data" / "reference" / "instances.csv"


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


@pytest.mark.parametrize(
    ("given", "labels"),
    [
        (["swing|version=latency"], ["swing version=latency"]),
        (["swing|", "swing|version=latency"], ["swing", "swing version=latency"]),
        (["forestcoll|", "forestcoll|trees=1"], ["forestcoll", "forestcoll trees=1"]),
        # what tells them apart comes first: charts have room for few characters
        (
            ["tacos|chunk_rule=paper chunks=4", "tacos|chunk_rule=rarest chunks=4"],
            ["tacos chunk_rule=paper chunks=4", "tacos chunk_rule=rarest chunks=4"],
        ),
        (["list_scheduling|time_limit=5s", "sccl|time_limit=5s"], ["list_scheduling", "sccl"]),
        (["tacos|chunks=4 memory=16GB time_limit=9"], ["tacos chunks=4"]),
        (
            ["taccl|time_limit=5.0", "taccl|sketch=ndv2-sk-1 time_limit=5.0"],
            ["taccl", "taccl sketch=ndv2-sk-1"],
        ),
        (["sccl|time_limit=5s", "sccl|time_limit=60s"], ["sccl time_limit=5s", "sccl time_limit=60s"]),
    ],
)
def test_a_method_is_named_with_its_options_but_for_limits_that_all_have(given, labels):
    kinds = {tuple(text.split("|")): "heuristic" for text in given}
    assert [series.label for series in make_series(kinds)] == labels
