"""Networks in the report: a broadcast step by step, and the frontier of networks of one size and degree."""

from fractions import Fraction

import numpy as np
import pytest

from tests.experiments.report.test_page import chart_of, failed, keep, report, row
from tutti.expansions import METHOD
from tutti.experiments.report.utilisation import broadcast_steps
from tutti.schedules import collective
from tutti.schedules.method import Problem
from tutti.topologies import parse_topology

CHARACTER = 6.1
"""Pixels of a label's character, at most."""


def allgather(text):
    topology = parse_topology(text)
    problem = Problem(topology, collective("allgather", topology.num_ranks))
    return METHOD.synthesize(problem, METHOD.options(), np.random.default_rng(0))


def step_row(directory, text, **columns):
    """Return a row of the network's own schedule, which is kept."""
    schedule = allgather(text)
    facts = {
        "topology": text, "nodes": schedule.topology.num_ranks, "links": schedule.topology.num_links,
        "method": "expansion", "kind": "expansion", "clock": "step",
        "tl_steps": int(schedule.order.max()), "schedule": keep(directory, schedule),
    }  # fmt: skip
    return row(**(facts | columns))


def test_the_broadcast_of_fig_3_1():
    """K_{2,2}: a sends all of its shard to c and d, then these a half each to b."""
    first, second = broadcast_steps(allgather("K_{2,2}"))
    topology = parse_topology("K_{2,2}")
    ends = {link: (topology.source[link], topology.target[link]) for link in range(topology.num_links)}
    assert {ends[link]: part for link, part in first.sent.items()} == {(0, 2): 1, (0, 3): 1}
    assert {ends[link]: part for link, part in second.sent.items()} == {
        (2, 1): Fraction(1, 2),
        (3, 1): Fraction(1, 2),
    }
    assert first.before == (1, 0, 0, 0)
    assert first.after == second.before == (1, 0, 1, 1)
    assert second.after == (1, 1, 1, 1)


@pytest.mark.parametrize("text", ["L(K_{2,2})", "C(11,{2,3})", "Diamond", "UniRing(2,5)", "Pi_{3,11}"])
def test_in_a_broadcast_everyone_ends_with_all_and_sends_only_what_it_held(text):
    schedule = allgather(text)
    topology = schedule.topology
    steps = broadcast_steps(schedule, root=1)
    assert len(steps) == schedule.order.max()
    for step in steps:
        for link, part in step.sent.items():
            assert 0 < part <= step.before[topology.source[link]]
        arrived = [Fraction(0)] * topology.num_ranks
        for link, part in step.sent.items():
            arrived[topology.target[link]] += part
        assert [a + b for a, b in zip(step.before, arrived, strict=True)] == list(step.after)
    assert set(steps[-1].after) == {1}


def test_a_small_network_is_drawn_with_each_step(tmp_path):
    directory = tmp_path / "run"
    page = report(directory, [step_row(directory, "K_{2,2}")])
    first = chart_of(page, "broadcast of rank 0, expansion, step 1 of 2")
    second = chart_of(page, "broadcast of rank 0, expansion, step 2 of 2")
    links = page.all("path", "link", first)
    assert len(links) == 8
    assert sum("felt" in link["classes"] for link in links) == 2
    colours = [[c for c in node["classes"] if c != "node"] for node in page.all("g", "node", first)]
    assert colours == [["c0"], [], ["c2"], ["c2"]]
    tips = [link["attrs"]["data-tip"] for link in page.all("path", "felt", second)]
    assert all(tip.endswith("1/2 of the shard") for tip in tips)
    assert "2 links carry 1/2 of the shard; 4 of 4 ranks then have it all." in page.section(0)["text"]


@pytest.mark.parametrize("columns", [{"schedule": None}, {"nodes": 64}, {"collective": "allreduce"}])
def test_what_is_large_or_not_kept_is_not_drawn(tmp_path, columns):
    directory = tmp_path / "run"
    page = report(directory, [step_row(directory, "K_{2,2}", **columns)])
    assert not [e for e in page.all("svg", "chart") if e["attrs"]["aria-label"].startswith("broadcast")]


def test_a_torn_schedule_file_leaves_the_page_whole(tmp_path):
    directory = tmp_path / "run"
    rows = [step_row(directory, "K_{2,2}")]
    next((directory / "schedules").iterdir()).write_bytes(b"torn")
    page = report(directory, rows)
    assert not [e for e in page.all("svg", "chart") if e["attrs"]["aria-label"].startswith("broadcast")]


def pareto(**columns):
    return row(**({"nodes": 32, "method": "expansion"} | columns))


def test_networks_of_one_size_and_degree_share_a_chart_with_their_bounds(tmp_path):
    """Table A.1, N = 32: both rows are on the frontier; Pi_{4,32} (T_L 3) is not."""
    rows = [
        pareto(topology="L(K_{4,4})", tl_steps=3, tb_factor=1.0, tb_exact="1"),
        pareto(topology="DistReg(4,32)", tl_steps=4, tb_factor=0.96875, tb_exact="31/32"),
        pareto(topology="Pi_{4,32}", tl_steps=3, tb_factor=1.3125, tb_exact="21/16"),
        pareto(topology="hypercube:5", tl_steps=5, tb_factor=0.96875, tb_exact="31/32"),
        row(topology="ring:3"),
    ]
    page = report(tmp_path / "run", rows)
    _, drawn = page.drawn("T_B against T_L, allgather, 32 nodes of degree 4")
    assert [(row["network"], row["frontier"]) for row in drawn] == [
        ("L(K_{4,4})", True),
        ("DistReg(4,32)", True),
        ("Pi_{4,32}", False),
    ]
    assert {(row["moore"], row["least_tb"]) for row in drawn} == {(3, 31 / 32)}
    assert len([e for e in page.all("div", "view") if "nodes of degree" in e["attrs"]["data-label"]]) == 1


def test_networks_at_one_point_share_a_label(tmp_path):
    rows = [
        pareto(topology=t, nodes=8, tl_steps=2, tb_factor=0.875, tb_exact="7/8")
        for t in ("K_{4,4}", "C(8,{1,3})")
    ]
    page = report(tmp_path / "run", rows)
    _, drawn = page.drawn("T_B against T_L, allgather, 8 nodes of degree 4")
    assert {row["name"] for row in drawn} == {"K_{4,4} + 1 more"}
    assert [row["frontier"] for row in drawn] == [True, False]


def test_a_network_that_is_no_text_any_more_is_in_no_frontier(tmp_path):
    rows = [
        pareto(topology="gone.json"),
        pareto(topology="L(K_{4,4})"),
        failed(topology="DistReg(4,32)", nodes=32),
    ]
    page = report(tmp_path / "run", rows)
    assert not [e for e in page.all("div", "view") if "nodes of degree" in e["attrs"]["data-label"]]
