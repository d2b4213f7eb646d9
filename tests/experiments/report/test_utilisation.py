"""What the report says of flow schedules: traffic with and without multicast, links busy in slices."""

from fractions import Fraction

import numpy as np
import pytest

from tests.experiments.report.test_page import fields, keep, report, row
from tutti.schedules import Chunks, Clock, Routes, Schedule, collective
from tutti.schedules.simulation.simulate import SimulationOptions, simulate
from tutti.topologies import Link, Topology

HALVED = {
    "rank_egress": 0.5, "rank_egress_unicast": 1.0, "rank_ingress": 0.75, "rank_ingress_unicast": 0.75,
    "link_traffic": 6.0, "link_traffic_unicast": 8.0,
}  # fmt: skip


def flow(topology):
    """A broadcast from rank 0 along the row 0 -> 1 -> 2."""
    what = collective("broadcast", 3, root=0)
    return Schedule(topology, what, Clock.FLOW, Chunks.even(what), np.zeros(2, dtype=int), np.arange(2))


def row_of_three():
    links = [Link(0, 1), Link(1, 2), Link(2, 1), Link(1, 0)]
    return Topology.from_links("row", 3, links)


def test_bars_show_what_multicast_leaves_of_each_measure(tmp_path):
    page = report(tmp_path / "run", [row(method="forestcoll", clock="flow", **HALVED)])
    spec, drawn = page.drawn("traffic with in-network multicast, ring:3, allgather")
    assert fields(spec)["x"] == {"percent"}
    assert [(r["what"], r["percent"], r["told"]) for r in drawn] == [
        ("busiest rank sends", 50, "0.5 of 1 M"),
        ("busiest rank receives", 100, "0.75 of 0.75 M"),
        ("all links carry", 75, "6 of 8 M"),
    ]
    assert "In-network multicast" in page.section(0)["text"]


def test_there_are_no_such_bars_where_nothing_multicasts(tmp_path):
    rows = [row(method="forestcoll", rank_egress=1.0, rank_ingress=1.0, link_traffic=8.0), row(method="ring")]
    page = report(tmp_path / "run", rows)
    assert "In-network multicast" not in page.section(0)["text"]


def test_bars_of_several_methods_have_their_names(tmp_path):
    rows = [row(method="forestcoll", options=text, **HALVED) for text in ("trees=1", "trees=2")]
    page = report(tmp_path / "run", [*rows, row(method="ring")])
    _, drawn = page.drawn("traffic with in-network multicast")
    assert [r["what"].partition(": ")[0] for r in drawn] == ["forestcoll trees=1"] * 3 + [
        "forestcoll trees=2"
    ] * 3


@pytest.mark.parametrize("slices", [1, 8])
def test_links_are_as_busy_as_in_the_slices_of_the_row(tmp_path, slices):
    """Unsliced, the two links work one after the other, each half of the time; in slices nearly always."""
    schedule = flow(row_of_three())
    digest = keep(tmp_path / "run", schedule)
    columns = {
        "topology": "row",
        "method": "forestcoll",
        "clock": "flow",
        "tl_steps": None,
        "tb_factor": None,
    }
    page = report(
        tmp_path / "run",
        [row(**columns, tb_exact=None, collective="broadcast", schedule=digest, slices=slices)],
    )
    simulation = simulate(schedule, Fraction(10**6), SimulationOptions(slices=slices))
    share = np.asarray(simulation.busy) / simulation.time
    assert share[0] == pytest.approx(0.5) if slices == 1 else share[0] > 0.85
    _, drawn = page.drawn("link utilisation, source by destination")
    # pairs by source: 0->1, 1->0, 1->2, 2->1
    assert [r["busy"] for r in drawn] == pytest.approx([100 * share[0], 0, 100 * share[1], 0], rel=1e-3)


def test_a_matrix_names_switches_by_their_labels(tmp_path):
    links = [link for r in range(3) for link in (Link(r, 3), Link(3, r))]
    labels = ["0", "1", "2", "nvswitch0"]
    star = Topology.from_links("star", 3, links, labels=labels, num_switches=1)
    what = collective("broadcast", 3, root=0)
    routes = [[0, 3], [0, 5]]
    schedule = Schedule(
        star,
        what,
        Clock.FLOW,
        Chunks.even(what),
        np.zeros(2, dtype=int),
        np.arange(2),
        routes=Routes.of(routes),
    )
    digest = keep(tmp_path / "run", schedule)
    page = report(tmp_path / "run", [row(topology="star", collective="broadcast", schedule=digest)])
    _, drawn = page.drawn("link utilisation, source by destination")
    assert {(r["destination"], r["to"]) for r in drawn} == {(0, "0"), (1, "1"), (2, "2"), (3, "nvswitch0")}
