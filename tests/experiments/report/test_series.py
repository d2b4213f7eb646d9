"""Short names of topologies say what tells them apart, and nothing that changes the network is left out.

So do the names of methods, and nothing that changes the algorithm is left out.
"""

import csv
from pathlib import Path

import pytest

from experiments.report.series import LONGEST, brief_labels, make_series, short_names

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
            ["tacos|chunks=4 pick=paper", "tacos|chunks=4 pick=rarest"],
            ["tacos pick=paper chunks=4", "tacos pick=rarest chunks=4"],
        ),
        (["listed|time_limit=5s", "sccl|time_limit=5s"], ["listed", "sccl"]),
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


@pytest.mark.parametrize(
    ("labels", "brief"),
    [
        (["swing version=bandwidth", "swing version=latency"], ["swing bandwidth", "swing latency"]),
        (["forestcoll trees=4", "forestcoll trees=1"], ["forestc… trees=4", "forestc… trees=1"]),
        (["taccl", "taccl sketch=ndv2-sk-1"], ["taccl", "taccl ndv2-sk-1"]),
        (["recursive_doubling", "ring"], ["recursive_doubl…", "ring"]),
        # what both say is left out where it leaves no room for what they do not
        (
            ["tacos pick=paper chunks=1024 tries=500", "tacos pick=paper chunks=1024 tries=600"],
            ["tacos tries=500", "tacos tries=600"],
        ),
        # two options of ten letters that differ in their last, and two names that do
        (["m a=aaaaaaaaaaaaaaaaaaaab", "m a=aaaaaaaaaaaaaaaaaaaac"], ["m a=aaa…b", "m a=aaa…c"]),
        (["a_rather_long_method_1", "a_rather_long_method_2"], ["a_rathe…1", "a_rathe…2"]),
    ],
)
def test_in_a_chart_what_tells_series_apart_is_left_of_their_labels(labels, brief):
    assert brief_labels(labels) == brief


def test_no_two_labels_of_a_chart_are_alike_or_too_long():
    """Of names and options of all lengths, some of which share a beginning, an end or both."""
    ends = ["", "x", "x" * 30, "x" * 30 + "y", "z" * 30]
    labels = [f"{name}{options}" for name in ("n", *(f"name{end}" for end in ends)) for options in (
        "", *(f" option={end}" for end in ends[1:]), *(f" one=1 two={end} six=6" for end in ends[1:])
    )]  # fmt: skip
    assert len(set(labels)) == len(labels)
    brief = brief_labels(labels)
    assert len(set(brief)) == len(brief)
    assert max(map(len, brief)) <= LONGEST


def test_the_same_label_twice_is_one():
    assert brief_labels(["ring", "ring"]) == ["ring", "ring"]
