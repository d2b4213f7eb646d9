"""The table and page of ``tutti find --up-to``: baselines by brute force, resuming, numbers of the papers."""

import csv
import io
import json
import math
import re
import shutil
from fractions import Fraction
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
from rich.console import Console

from tutti.expansions.finder import Finder
from tutti.experiments.cli import main
from tutti.experiments.growth.networks import (
    CostParameters,
    cheap_interval,
    double_tree_all_to_all,
    double_tree_allreduce_us,
    double_tree_links,
    family_of,
    kautz_graphs,
    least_hops,
    read_frontiers,
    rings_all_to_all,
    rings_allreduce_us,
    torus_all_to_all,
    torus_allreduce_us,
    torus_sides,
    tree_height,
)
from tutti.experiments.growth.study import GrowthSearch, study_of
from tutti.experiments.runner.run import RunOptions, carry_out
from tutti.experiments.runner.store import Store
from tutti.experiments.runner.study import Workplace, perform
from tutti.models.all_to_all.demand import Demand
from tutti.models.all_to_all.orbits import solve_by_orbits
from tutti.models.bfb import workloads
from tutti.schedules.cost import step_cost
from tutti.topologies import InputError, parse_topology
from tutti.topologies.families.expressions import parse_notation

TABLE_3_4 = CostParameters.parse("10us", "1MiB", "100Gb/s")


@pytest.mark.parametrize("nodes", [5, 6, 12, 31, 32, 97])
def test_a_double_binary_tree_is_two_spanning_trees_with_four_links_a_rank_at_most(nodes):
    links = double_tree_links(nodes)
    for tree in (links[: nodes - 1], links[nodes - 1 :]):
        graph = nx.Graph(tree.tolist())
        assert nx.is_tree(graph)
        assert set(graph) == set(range(nodes))
    assert np.bincount(links.ravel()).max() <= 4
    first = nx.Graph(links[: nodes - 1].tolist())
    assert tree_height(nodes) == nx.eccentricity(first, 0) <= math.ceil(math.log2(nodes))


@pytest.mark.parametrize("nodes", [6, 9, 16, 17])
def test_the_cuts_of_a_double_binary_tree_are_a_lower_bound(nodes):
    """Compared with all sets of consecutive ranks, counted link by link."""
    links = double_tree_links(nodes).tolist()
    slowest = Fraction(0)
    for k in range(1, nodes):
        crossing = sum((a < k) != (b < k) for a, b in links)
        slowest = max(slowest, Fraction(4 * k * (nodes - k), nodes * crossing))
    assert double_tree_all_to_all(nodes) == slowest


def test_the_baselines_of_table_3_4_are_met():
    """Its caption: all-to-all 10738us (shifted rings) and 21475us (double binary tree), N = 1024."""
    assert TABLE_3_4.all_to_all_us(rings_all_to_all(1024)) == pytest.approx(10738, abs=1)
    assert TABLE_3_4.all_to_all_us(double_tree_all_to_all(1024)) == pytest.approx(21475, abs=1)
    assert rings_allreduce_us(1024, TABLE_3_4) == pytest.approx(20640, rel=1e-3), (
        "printed: N steps, 10^6 bytes"
    )
    assert TABLE_3_4.all_to_all_us(torus_all_to_all((32, 32))) == pytest.approx(1342.2, abs=0.05)
    traditional = TABLE_3_4.allreduce_us(62, Fraction(1023, 1024))
    assert traditional == pytest.approx(1407.6, abs=0.05), "the row `32x32 torus`"


def test_a_double_binary_tree_takes_the_best_number_of_slices():
    waits, move = 2 * tree_height(1024) - 1, 2 * 83.88608
    slow = min((waits + k) * (10 + move / k) for k in range(1, 200))
    assert double_tree_allreduce_us(1024, TABLE_3_4) == pytest.approx(slow)
    free = CostParameters.parse("0us", "1MiB", "100Gb/s")
    assert double_tree_allreduce_us(1024, free) == pytest.approx(move)


@pytest.mark.parametrize("sides", [(4, 3), (5, 5), (6, 4)])
def test_a_torus_takes_what_its_closed_forms_say(sides):
    topology = parse_topology(f"torus:{sides[0]}x{sides[1]}?bandwidth=25Gb/s")
    optimum = solve_by_orbits(Demand.uniform(topology), 0).interval
    assert optimum.lower <= torus_all_to_all(sides) / (4 * Fraction(25 * 10**9, 8)) <= optimum.upper
    work = parse_topology(f"torus:{sides[0]}x{sides[1]}")
    cost = step_cost(_bfb(work))
    assert torus_allreduce_us(sides, TABLE_3_4) == TABLE_3_4.allreduce_us(cost.tl_steps, cost.tb)


def _bfb(topology):
    from tutti.experiments.registry import METHODS
    from tutti.schedules.collective import Kind, collective
    from tutti.schedules.method import Problem

    method = METHODS["bfb"]
    problem = Problem(topology, collective(Kind.ALLGATHER, topology.num_ranks))
    return method.synthesize(problem, method.options(), np.random.default_rng(0))


@pytest.mark.parametrize(("nodes", "sides"), [(9, (3, 3)), (18, (6, 3)), (21, None), (8, None), (13, None)])
def test_tori_that_are_too_long_or_thin_are_left_out(nodes, sides):
    assert torus_sides(nodes) == sides


@pytest.mark.parametrize(("nodes", "mcf"), [(32, 5.80e-2), (64, 2.42e-2), (256, 4.39e-3), (1024, 8.57e-4)])
def test_the_all_to_all_bounds_of_table_a1_are_met(nodes, mcf):
    """f = degree / (least sum of distances), rows `bound`."""
    assert 4 / least_hops(nodes, 4) == pytest.approx(mcf, rel=2e-3)


@pytest.mark.parametrize("text", ["Pi_{4,9}", "L(K_{2,2})", "C(11,{2,3})", "mesh:2x3", "DistReg(4,32)"])
def test_the_cheap_interval_is_sums_of_distances_and_an_even_split(text):
    """The twin: networkx's distances; shares by counting backwards, as fractions."""
    topology = parse_topology(text)
    graph = nx.MultiDiGraph()
    graph.add_nodes_from(range(topology.num_nodes))
    for link, ends in enumerate(zip(topology.source.tolist(), topology.target.tolist(), strict=True)):
        graph.add_edge(*ends, link=link)
    loads = [Fraction(0)] * topology.num_links
    total = 0
    for source in graph:
        hops = nx.single_source_shortest_path_length(graph, source)
        total += sum(hops.values())
        need = dict.fromkeys(graph, Fraction(1))
        for node in sorted((n for n in graph if n != source), key=lambda n: -hops[n]):
            tight = [
                (u, data["link"]) for u, _, data in graph.in_edges(node, data=True) if hops[u] < hops[node]
            ]
            for tail, link in tight:
                loads[link] += need[node] / len(tight)
                need[tail] += need[node] / len(tight)
    degree = topology.degree or topology.num_links / topology.num_ranks
    low, high = cheap_interval(topology)
    assert low == pytest.approx(degree * total / topology.num_links / topology.num_ranks)
    assert high == pytest.approx(degree * float(max(loads)) / topology.num_ranks)


@pytest.mark.parametrize("text", ["Pi_{4,20}", "C(13,{2,3})", "L(K_{4,4})"])
def test_the_cheap_interval_holds_the_optimum(text):
    topology = parse_topology(f"{text}?bandwidth=1GB/s")
    degree = topology.degree
    optimum = solve_by_orbits(Demand.uniform(topology), 1e-6).interval
    low, high = cheap_interval(topology)
    assert low <= float(optimum.upper * degree * 10**9) * (1 + 1e-9)
    assert high >= float(optimum.lower * degree * 10**9) * (1 - 1e-9)


@pytest.mark.parametrize(
    ("text", "family"),
    [
        ("L^2(Diamond^2)", "LP"),
        ("L(UniRing(1,4)^3 x UniRing(1,2))", "LPC"),
        ("K_3 * 2", "D"),
        ("Bi(L(K_{2,2}))", "BL"),
        ("C(16,{3,4})", "Circulant"),
        ("UniRing(1,4)", "OtherBase"),
    ],
)
def test_a_network_is_called_by_how_it_is_built(text, family):
    assert family_of(parse_notation(text)) == family


def grow(up_to, directory, degree=4, **options):
    """Run the study without its page."""
    screen = Console(file=io.StringIO())
    return carry_out(study_of(GrowthSearch(degree, up_to)), RunOptions(out=directory, **options), screen)


@pytest.fixture(scope="module")
def grown(tmp_path_factory):
    """The frontiers up to 40 nodes of degree 4."""
    directory = tmp_path_factory.mktemp("grown") / "d4"
    grow(40, directory, workers=2)
    return directory


def table(directory):
    return (directory / "results.csv").read_text()


@pytest.mark.parametrize("search", ["any", "bidirectional"])
def test_the_table_has_the_finders_frontiers(search, grown):
    rows = [row for row in read_frontiers(grown).itertuples() if row.search == search]
    assert sorted({row.nodes for row in rows}) == list(range(2, 41))
    finder = Finder(bidirectional=search == "bidirectional")
    for nodes in (36, 7, 32):
        front = [(row.topology, row.tl_steps, row.tb_factor) for row in rows if row.nodes == nodes]
        found = finder.find(nodes, 4)
        assert front == [(str(c.expression), c.cost.tl, c.cost.tb) for c in found]


def up_to(nodes, directory):
    """Return a table's lines of so many nodes at most."""
    head, *lines = table(directory).splitlines(keepends=True)
    return "".join([head, *(line for line in lines if int(line.split(",")[2]) <= nodes)])


def test_a_study_that_was_stopped_continues_and_ends_the_same(grown, tmp_path, monkeypatch):
    saved, save = [], Store.save

    def stopped(store, task, *what):
        if len(saved) == 5:
            raise KeyboardInterrupt
        save(store, task, *what)
        saved.append(task.nodes)

    monkeypatch.setattr(Store, "save", stopped)
    assert grow(12, tmp_path, workers=1).interrupted
    before, saved[:] = list(saved), []
    monkeypatch.setattr(
        Store, "save", lambda store, task, *what: saved.append(task.nodes) or save(store, task, *what)
    )
    grow(12, tmp_path, workers=1)
    assert before + saved == list(range(2, 13))
    assert table(tmp_path) == up_to(12, grown)


def test_a_fault_is_the_row_of_its_size(monkeypatch):
    (task,) = study_of(GrowthSearch(4, 2)).tasks
    monkeypatch.setattr(GrowthSearch, "rows", lambda growth, nodes: 1 // 0)
    outcome = perform(task, Workplace())
    assert outcome.status == "failed"
    (row,) = outcome.rows
    assert (row["nodes"], row["degree"], row["status"]) == (2, 4, "failed")
    assert row["message"].startswith("ZeroDivisionError: ")


def test_a_folder_without_a_table_is_one_line(tmp_path):
    with pytest.raises(InputError):
        read_frontiers(tmp_path)


def test_a_table_of_earlier_versions_is_made_again_and_that_is_said(tmp_path, capsys):
    (tmp_path / "frontiers.csv").write_text("nodes,points\n")
    assert main(["find", "--up-to", "3", "--degree", "1", "--workers", "1", "-o", str(tmp_path)]) == 0
    assert "frontiers.csv: of an earlier version; made again, in results.csv" in capsys.readouterr().err


def test_the_command_writes_times_and_a_page(grown, tmp_path, capsys):
    shutil.copytree(grown, tmp_path / "d4")
    sizes = "1MiB,100MiB"
    assert main(["find", "--up-to", "40", "--degree", "4", "--size", sizes, "-o", str(tmp_path / "d4")]) == 0
    assert "growth.html" in capsys.readouterr().out.replace("\n", "")
    with (tmp_path / "d4/times.csv").open() as file:
        times = list(csv.DictReader(file))
    best = {(t["nodes"], t["size_bytes"]): float(t["allreduce_us"]) for t in times if t["network"] == "best"}
    assert best["32", "1048576.0"] == pytest.approx(2 * (3 * 10 + 83.88608))
    bounds = {(t["nodes"], t["size_bytes"]): t for t in times if t["network"] == "bound"}
    assert len(bounds) == 2 * 39
    for time in times:
        bound = bounds[time["nodes"], time["size_bytes"]]
        assert float(time["allreduce_us"]) >= float(bound["allreduce_us"]) - 1e-9
        if time["all_to_all_low_us"]:
            assert float(time["all_to_all_low_us"]) >= float(bound["all_to_all_low_us"]) * (1 - 1e-9)
            assert float(time["all_to_all_high_us"]) >= float(time["all_to_all_low_us"]) * (1 - 1e-9)
    both = {(t["nodes"], t["size_bytes"]): t for t in times if t["network"] == "best bidirectional"}
    assert both["12", "1048576.0"]["topology"] == "C(12,{2,3})", "Table 3.5"
    assert all(float(time["allreduce_us"]) >= best[key] - 1e-9 for key, time in both.items())
    rows = read_frontiers(tmp_path / "d4").itertuples()
    kautz = {(row.degree, row.nodes) for row in rows if row.search == "gen_kautz"}
    assert kautz == {(d, n) for d in (2, 4, 8, 16) for n in range(d + 2, 41)}
    page = (tmp_path / "d4/growth.html").read_text()
    outside = re.sub(r"<script>.*?</script>", "", page, flags=re.DOTALL)
    assert outside.count('class="view"') == 7
    assert "d = 16" in outside
    assert "best bidirectional" in outside
    assert not re.search(r"""(src|href)=["']?(https?:)?//""", outside)


def test_kautz_graphs_are_measured_as_counting_does():
    for nodes in (5, 20):
        (row,) = kautz_graphs(nodes, [3])
        work = workloads(parse_topology(f"gen_kautz:3,{nodes}"))
        found = [row[name] for name in ("degree", "nodes", "tl_steps", "tb_factor")]
        assert found == [3, nodes, work.steps, str(work.tb)]
    assert [row["degree"] for row in kautz_graphs(6, [16, 1, 4, 2])] == [2, 4]


def test_sizes_without_a_network_are_left_out_of_the_page(tmp_path):
    """Degree 1 has the directed ring alone; degree 3 with links both ways has no odd N."""
    for degree, extra in ((1, []), (3, ["--bidirectional"])):
        out = tmp_path / str(degree)
        assert main(["find", "--up-to", "12", "--degree", str(degree), *extra, "-o", str(out)]) == 0
        rows = list(read_frontiers(out).itertuples())
        assert {row.nodes for row in rows} == set(range(2, 13))
        main_search = "bidirectional" if extra else "any"
        empty = {row.nodes for row in rows if row.search == main_search and not row.points}
        assert empty >= ({5, 7, 9, 11} if degree == 3 else set())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--up-to", "10"], "needs --output"),
        (["--up-to", "1", "-o", "x"], "--up-to is 1"),
        (["--up-to", "9", "-o", "x", "--max-diameter", "0"], "--max-diameter is 0"),
        (["--up-to", "10", "-o", "x", "--build"], "--build goes with --nodes"),
        (["--up-to", "10", "-o", "x", "--mix", "0.3"], "--mix goes with --nodes"),
        (["--up-to", "10", "-o", "x", "--size", "1MiB,2"], "'2'"),
        (["--nodes", "10", "--workers", "2"], "--workers goes with --up-to"),
        (["--up-to", "9", "-o", "x", "--workers", "0"], "--workers is 0"),
        (
            ["--up-to", "9", "-o", "x", "--workers", "1", "--scheduler", "local:1"],
            "--scheduler and --workers",
        ),
        (["--nodes", "10", "-o", "x"], "--output goes with --up-to"),
        (["--nodes", "10", "--mix", "1.5"], "option --mix is 1.5; it must be a number from 0 to 1"),
        (["--nodes", "10", "--all-to-all", "--time-limit", "0s"], "must be positive"),
        (["--nodes", "10", "--size", "0B"], "must be positive"),
        (["--nodes", "10", "--up-to", "12"], "not allowed with"),
        ([], "is required"),
    ],
)
def test_options_that_do_not_go_together_are_one_line(arguments, message, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["find", "--degree", "4", *arguments]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_the_all_to_all_of_a_frontier_is_that_of_table_a1(capsys):
    """N = 32: 5.71e-2 and 5.26e-2; times of 1 MiB a rank over links of 25 Gb/s follow from f."""
    assert main(["find", "--nodes", "32", "--degree", "4", "--all-to-all", "--json"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["mcf"] for line in lines] == pytest.approx([5.71e-2, 5.26e-2], abs=5e-5)
    for line in lines:
        assert line["all_to_all_bound_us"] <= line["all_to_all_us"] <= line["all_to_all_bound_us"] * 1.0001
        assert line["all_to_all_us"] == pytest.approx(1048576 / 32 / 3.125e9 / line["mcf"] * 1e6)


def test_a_mix_marks_the_best_of_the_weighted_mean(capsys):
    best = {}
    for share in ("0", "0.3", "1"):
        assert main(["find", "--nodes", "64", "--degree", "4", "--mix", share, "--json"]) == 0
        lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        for line in lines:
            mean = (1 - float(share)) * line["allreduce_us"] + float(share) * line["all_to_all_us"]
            assert line["mix_us"] == pytest.approx(mean)
            assert line["best"] == (line["mix_us"] == min(other["mix_us"] for other in lines))
        best[share] = next(line["topology"] for line in lines if line["best"])
    assert best["0"] == "L(C(16,{3,4}))"
    assert best["1"] == "Pi_{4,64}", "Table A.1: the larger f"
    assert main(["find", "--nodes", "64", "--degree", "4", "--mix", "0.3"]) == 0
    assert "all-to-all 0.3 of the collectives" in capsys.readouterr().out


def test_the_python_example_of_the_page_on_direct_connect_networks_prints_what_it_says(capsys):
    page = Path(__file__).parents[3] / "docs/direct_connect.md"
    (example,) = re.findall(
        r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )
    names: dict[str, object] = {}
    exec(compile(example, page.name, "exec"), names)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "L^2(K_{4,4}) 4 33/32"
    assert lines[-1] == "1024 6 261/256 True"
    assert names["network"].num_ranks == 128
