"""The method `taccl`: known optima and bounds, every collective verified, and what is refused."""

import csv
from fractions import Fraction

import numpy as np
import pytest

from tests.models.taccl.cases import MEGABYTE, QUICK, REFERENCE, SLOW, made, microseconds, written
from tests.sweep import for_each
from tutti.models.taccl import METHOD
from tutti.models.taccl.options import TacclOptions
from tutti.schedules import Problem, collective, concurrent
from tutti.schedules.simulation.simulate import SimulationOptions, simulate
from tutti.schedules.verify import verify
from tutti.topologies.errors import InputError, Unsupported
from tutti.topologies.options import build_options
from tutti.topologies.text import parse_topology
from tutti.topologies.topology import Link, Topology


def test_allgathers_lose_nothing_to_sccl():
    """peers_measured.csv, last rows: SCCL has 30 on the hypercube and 40 on the mesh, TACCL 40 and 60."""
    with (REFERENCE / "peers_measured.csv").open() as file:
        row = next(r for r in csv.DictReader(file) if r["peer"].startswith("TACCL") and "ring:4" in r["case"])
    assert row["value"] == "20 / 30 / 40 / 40 / 60"
    best = {"ring:4": 20, "ring:6": 30, "ring:8": 40, "hypercube:3": 30, "mesh:3x3": 40}
    for text, time in best.items():
        assert microseconds(made(text + SLOW, "allgather")) == pytest.approx(time, rel=1e-12), text


@pytest.mark.parametrize("text", ["hypercube:3", "mesh:3x3"])
def test_nothing_is_lost_without_symmetry_either(text):
    time = microseconds(made(text + SLOW, "allgather", symmetry=False))
    assert time == pytest.approx({"hypercube:3": 30, "mesh:3x3": 40}[text], rel=1e-12)


KINDS = ["allgather", "all-to-all", "broadcast", "gather", "scatter", "reduce-scatter", "reduce", "allreduce"]


@pytest.mark.parametrize("kind", KINDS)
@for_each("text", ["mesh:2x3", "gen_kautz:2,5", "ring:4?bandwidth=2GB/s&alpha=1us"])
def test_every_collective_is_verified_on_directed_and_undirected_networks(text, kind):
    made(text, kind, chunks=2, **QUICK)


@pytest.mark.parametrize("kind", ["allgather", "all-to-all", "reduce-scatter", "broadcast"])
def test_a_sketch_with_lanes_and_adapters_gives_verified_schedules(kind):
    made("ndv2:2", kind, 16 * 1024, sketch="ndv2-sk-1", time_limit=2, **QUICK)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"chunks": 0}, r"^taccl option chunks is 0; it must be a whole number, at least 1$"),
        ({"sketch": 5}, r"^taccl option sketch is 5; it must be a name or a file$"),
        ({"sketch": ["ndv2-sk-1"]}, r"^taccl option sketch is \['ndv2-sk-1'\]; it must be a name or a file$"),
        ({"symmetry": "no"}, r"^taccl option symmetry is 'no'; it must be true or false$"),
        ({"concurrent_receives": 1}, r"^taccl option concurrent_receives is 1; it must be true or false$"),
        ({"reroutes": -1}, r"^taccl option reroutes is -1; it must be a whole number, at least 0$"),
        ({"paths": "short"}, r"^taccl option paths is 'short'; allowed: sketch, logical, all$"),
        ({"contiguity": "some"}, r"^taccl option contiguity is 'some'; allowed: between, all, none$"),
        ({"time_limit": 0}, r"^taccl option time_limit is 0; it must be a positive number$"),
        ({"sketch": "dgx2-sk-9"}, r"^unknown sketch 'dgx2-sk-9'; did you mean 'dgx2-sk-"),
        ({"solver": "higs"}, r"^unknown solver 'higs'; did you mean 'highs'\?$"),
    ],
)
def test_wrong_options_get_one_line(options, message):
    with pytest.raises(InputError, match=message):
        METHOD.options(**options)


def test_a_solver_of_linear_programs_only_is_refused():
    with pytest.raises(Unsupported, match=r"^solver glop does not do MILP; use "):
        METHOD.options(solver="glop")


def test_few_connections_pay_for_much_data_where_they_cost(tmp_path):
    """As in Fig. 9(d): eight GPUs on a switch, 1 MB a rank. Ports have 7 connections with uc-max."""
    size, time = Fraction(8 * MEGABYTE), {}
    for policy in ("uc-max", "uc-min"):
        switch = {"strategy": "switch", "switches": [list(range(8))], "switch_hyperedge_strategy": [policy]}
        sketch = written(tmp_path, {"intranode_sketch": switch, "symmetry_offsets": [[1, 8]]})
        schedule = made("dgx_a100:1", "allgather", size, sketch=sketch, **QUICK)
        for share in (Fraction(0), Fraction(1, 10)):
            options = SimulationOptions(congestion=share)
            time[policy, share] = simulate(schedule, size, options).time
        assert time[policy, share] >= time[policy, 0] >= 7 / 8 * float(size) / 300e9  # what a rank receives
    assert time["uc-max", 0] < time["uc-min", 0]
    assert time["uc-min", share] < time["uc-max", share]
    # Straight to each rank: 7 messages of 1 MB over a port of 300 GB/s, each 6 connections beyond the first.
    assert time["uc-max", share] - time["uc-max", 0] == pytest.approx(7 * 0.6 * 1e6 / 300e9)


def test_switches_need_a_sketch():
    with pytest.raises(
        Unsupported, match=r"^taccl needs a sketch where there are switches, and ndv2:2 has 3"
    ):
        made("ndv2:2", "allgather")


def test_uneven_shards_are_refused():
    what = collective("allgather", 3, shards=[1, 1, 2])
    with pytest.raises(Unsupported, match=r"^taccl needs shards of one size"):
        METHOD.supports(Problem(parse_topology("ring:3"), what, Fraction(100)), METHOD.options())


def test_several_kinds_at_once_are_refused():
    """Chunks that are copied and sums would be routed as one."""
    what = concurrent(
        [
            collective("broadcast", 6, root=0, groups=[[0, 1, 2]]),
            collective("reduce", 6, root=0, groups=[[3, 4, 5]]),
        ]
    )
    problem = Problem(parse_topology("ring:6"), what, MEGABYTE)
    with pytest.raises(Unsupported, match=r"^taccl does allgather, .*; not mixed$"):
        METHOD.synthesize(problem, METHOD.options(), np.random.default_rng(0))


def test_options_are_read_from_text():
    given = {
        "sketch": "ndv2-sk-1",
        "paths": "logical",
        "contiguity": "all",
        "time_limit": 5,
        "symmetry": False,
    }
    assert build_options(METHOD, given) == TacclOptions(**given)


def test_the_allgather_on_two_ndv2_boxes_meets_its_bound():
    """Chunks of 1 MB. All 8 of a box pass one adapter, which holds each for 1.7/2 + 106 us (Table 1).

    The last is 1.7/2 us later at GPU 1, which sends it to GPUs 6 and 7, over one NVLink and a pair of them:
    0.7 + 46 and 0.7 + 23 us (Figure 5(a)).
    """
    schedule = made("ndv2:2", "allgather", 16 * 10**6, sketch="ndv2-sk-1", contiguity="none", time_limit=10)
    expected = 8 * (0.85 + 106) + 0.85 + (0.7 + 46) + (0.7 + 23)
    assert schedule.stats["routing_bound_us"] == pytest.approx(expected, rel=1e-4)
    assert schedule.stats["scheduled_us"] == pytest.approx(expected, rel=1e-6)


CASES = [
    ("hypercube", 4, "hypercube:2", 2),
    ("hypercube", 8, "hypercube:3", 3),
    ("hypercube", 16, "hypercube:4", 4),
    ("torus2d", 4, "torus:2x2", 2),
    ("torus2d", 9, "torus:3x3", 4),
    ("torus2d", 16, "torus:4x4", 4),
]


@for_each("chunks", [1, 2, 3, 4])
@for_each(("family", "ranks", "text", "degree"), CASES)
def test_every_case_of_table_3_6_meets_the_bound_of_its_chunks(family, ranks, text, degree, chunks):
    """A rank receives (N - 1) chunks over d links: at least (N - 1)/d sends one after the other."""
    with (REFERENCE / "table_3_6_generation_seconds.csv").open() as file:
        assert any(row["family"] == family and row["n"] == str(ranks) for row in csv.DictReader(file))
    schedule = made(text, "allgather", MEGABYTE, chunks=chunks, time_limit=30)
    sends = -(-(ranks - 1) * chunks // degree)
    topology = schedule.topology
    send = topology.alpha[0] + MEGABYTE / ranks / chunks / topology.bandwidth[0]
    assert float(simulate(schedule, MEGABYTE).time) == pytest.approx(float(sends * send), rel=1e-12)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("16", r"taccl option input_size: size '16' has no unit"),
        ("0B", r"taccl option input_size: size '0B' is zero"),
    ],
)
def test_a_wrong_input_size_is_refused(value, message):
    with pytest.raises(InputError, match=message):
        METHOD.options(input_size=value)


def test_hosts_that_are_plain_are_inferred_and_not_stored():
    """Two triangles at 64 GB/s with two slow links between."""
    near = [(0, 1), (1, 2), (0, 2), (3, 4), (4, 5), (3, 5)]
    links = [
        Link(*ends, bandwidth=Fraction(rate * 10**9))
        for rate, pairs in ((64, near), (25, [(0, 3), (1, 5)]))
        for a, b in pairs
        for ends in ((a, b), (b, a))
    ]
    topology = Topology.from_links("triangles", 6, links)
    problem = Problem(topology, collective("allgather", 6), Fraction(10**6))
    for infer in (True, False):
        options = METHOD.options(infer_hosts=infer, time_limit=5.0)
        schedule = METHOD.synthesize(problem, options, np.random.default_rng(0))
        verify(schedule)
        assert schedule.topology.hosts is None
        assert ("2 hosts of 3 ranks each (0-2; 3-5)" in schedule.stats.get("note", "")) is infer


@pytest.mark.parametrize("kind", ["gather", "all-to-all"])
def test_with_all_paths_no_chunk_passes_ranks_beyond_its_only_end(kind):
    """Chunks with one end on a one-way ring never pass it: no rank behind it can send them on."""
    made("uniring:5", kind, paths="all")
