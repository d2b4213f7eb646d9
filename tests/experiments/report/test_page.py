"""The report says what the run's files say, whatever they say, and needs nothing but itself."""

import json
import math
import re
from fractions import Fraction
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest

from tutti.experiments.report.page import LIMITS, contents, write_page
from tutti.experiments.report.results import read_results
from tutti.experiments.runner.config import KINDS
from tutti.schedules import Chunks, Clock, Schedule, collective
from tutti.schedules.files.schedule_file import content_hash, write_schedule
from tutti.topologies import InputError, Link, Topology

VOID = {"meta", "br", "link", "img", "input", "hr"}
HOSTILE = "<script>alert('x')</script>\"&'>"


class Page(HTMLParser):
    """The tree of a page, flattened: each element with its attributes, its text and the path to it."""

    def __init__(self, text):
        super().__init__()
        self.source, self.elements, self.open = text, [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        element = {"tag": tag, "text": "", "path": [e["id"] for e in self.open], "id": len(self.elements)}
        element |= {"attrs": dict(attrs), "classes": (dict(attrs).get("class") or "").split()}
        self.elements.append(element)
        if tag not in VOID:
            self.open.append(element)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop()["tag"] == tag

    def handle_data(self, data):
        for element in self.open:
            element["text"] += data

    def all(self, tag=None, class_=None, inside=None):
        return [
            e
            for e in self.elements
            if (tag is None or e["tag"] == tag)
            and (class_ is None or class_ in e["classes"])
            and (inside is None or inside["id"] in e["path"])
        ]

    def section(self, number):
        return next(e for e in self.all("section") if e["attrs"].get("id") == f"t{number}")

    def cells(self, number=0):
        """Return the gap table of a topology: its rows as lists of texts, the collective's name left out."""
        return [line[1:] for line in self.lines(self.all("table", "gaps", self.section(number))[0])]

    def lines(self, table):
        """Return the rows of a table under its head as lists of texts."""
        body = self.all("tbody", None, table)[0]
        return [
            [" ".join(cell["text"].split()) for cell in self.elements if row["id"] in cell["path"][-1:]]
            for row in self.all("tr", None, body)
        ]

    def table(self, heading):
        """Return the lines of the first table under a heading, its head included; None without such."""
        found = next((e for e in self.all("h3") if e["text"].startswith(heading)), None)
        if found is None:
            return None
        table = next(e for e in self.all("table") if e["id"] > found["id"])
        return [
            [e["text"] for e in self.all("th", None, self.all("thead", None, table)[0])],
            *self.lines(table),
        ]

    def charts(self):
        """Return the specs and the rows that the page's charts are drawn from."""
        return json.loads(next(e["text"] for e in self.all("script") if e["attrs"].get("id") == "charts"))

    def drawn(self, label, inside=None):
        """Return the spec and the rows of the first chart whose description begins so."""
        views = (e["attrs"] for e in self.all("div", "view", inside))
        view = next(attrs for attrs in views if attrs["data-label"].startswith(label))
        charts = self.charts()
        own = json.loads(view["data-rows"]) if "data-rows" in view else charts["rows"]
        where = json.loads(view["data-where"])
        rows = [row for row in unpacked(own) if all(row[name] == value for name, value in where.items())]
        return charts["specs"][view["data-chart"]], rows

    def tips(self, class_):
        return [e["attrs"].get("data-tip", "") for e in self.all(None, class_)]


def unpacked(columns):
    """Return rows of columns, of which those of texts are levels and codes."""
    values = [
        [column["levels"][code] if code >= 0 else None for code in column["codes"]]
        if isinstance(column, dict)
        else column
        for column in columns.values()
    ]
    return [dict(zip(columns, row, strict=True)) for row in zip(*values, strict=True)]


def fields(spec):
    """Return the columns that each channel of a chart draws."""
    found = {}
    for layer in spec.get("layer") or spec["spec"]["layer"]:
        for channel, value in layer["encoding"].items():
            if isinstance(value, dict) and "field" in value:
                found.setdefault(channel, set()).add(value["field"])
    return found


def chart_of(page, label):
    return next(e for e in page.all("svg", "chart") if e["attrs"]["aria-label"].startswith(label))


def row(**columns):
    """Return a row that is fine: 10 us for 1 MB where 8 us is the least."""
    base = {
        "topology": "ring:3", "nodes": 3, "switches": 0, "links": 6, "collective": "allgather",
        "size_bytes": 10**6, "method": "ring", "kind": "heuristic", "options": "", "seed": None,
        "status": "ok", "message": "", "synth_s": 0.01, "time_us": 10.0, "algbw_gbps": 100.0,
        "tl_steps": 2, "tb_factor": 2 / 3, "tb_exact": "2/3", "bound_us": 8.0, "bound_kind": "cut",
        "gap": 0.25, "verified": True, "schedule": None,
    }  # fmt: skip
    return base | columns


def failed(status="failed", message="out of luck", **columns):
    empty = ("synth_s", "time_us", "algbw_gbps", "tl_steps", "tb_factor", "tb_exact", "gap", "verified")
    return row(**(dict.fromkeys(empty) | {"status": status, "message": message} | columns))


def write_run(directory, rows, manifest=None):
    directory.mkdir(exist_ok=True)
    pd.DataFrame(rows).to_parquet(directory / "results.parquet")
    if manifest is not None:
        (directory / "manifest.json").write_text(json.dumps(manifest))
    return directory


def report(directory, rows, manifest=None):
    return Page(KINDS["schedules"].draw(write_run(directory, rows, manifest)).read_text())


def ring(number, name="ring:3"):
    links = [Link(v, (v + step) % number) for v in range(number) for step in (1, -1)]
    return Topology.from_links(name, number, links)


def one_way(topology):
    """Return an allgather that uses only the links v -> v + 1, so that half of all links stay idle."""
    ranks = topology.num_ranks
    what = collective("allgather", ranks)
    steps = [(s, (v - s + 1) % ranks, 2 * v) for s in range(1, ranks) for v in range(ranks)]
    order, chunk, route = (np.array(column) for column in zip(*steps, strict=True))
    return Schedule(topology, what, Clock.STEP, Chunks.even(what), chunk, route, order.astype(np.uint16))


def keep(directory, schedule):
    folder = directory / "schedules"
    folder.mkdir(parents=True, exist_ok=True)
    digest = content_hash(schedule)
    write_schedule(schedule, folder / f"{digest}.json.gz")
    return digest


SCRIPTS = 5
"""The data of the charts, the page's script, the library, what draws, and that of networks."""
BOUNDS = ("cut", "degree", "partition", "distance", "combined")
SECTIONS = (
    "algbw against size",
    "T_L against T_B",
    "Synthesis time against gap",
    "Gap to the lower bound, %",
    "Bottlenecks",
    "Link utilisation",
)


def two_by_two():
    return [
        row(topology=t, collective=c, method=m, size_bytes=s, gap=g, time_us=8 * (1 + g))
        for t in ("ring:3", "ring:4")
        for c in ("allgather", "allreduce")
        for m, g in (("ring", 0.25), ("bfb", 0.0))
        for s in (1000, 10**6, 10**9)
    ]


@pytest.fixture(scope="module")
def several(tmp_path_factory):
    """The page of two methods on two networks."""
    return report(tmp_path_factory.mktemp("several"), two_by_two())


def test_every_topology_has_every_section(several):
    for number in range(2):
        headings = [e["text"] for e in several.all("h3", None, several.section(number))]
        assert headings == list(SECTIONS)


def test_topologies_beyond_the_first_rows_are_in_the_tables_and_said_to_be_left_out(tmp_path, monkeypatch):
    monkeypatch.setattr(LIMITS, "rows", 3)
    rows = [row(topology=f"ring:{n}", method=method) for n in (3, 4, 5) for method in ("bfb", "ring")]
    page = report(tmp_path, rows)
    assert [e["text"] for e in page.all("h2")][1:4] == ["ring:3", "ring:4", "ring:5"]
    assert len(page.all("section", "topology")) == 1
    assert "Of 2 topologies, those after the first 3 rows, only" in page.all("p", "lead")[0]["text"]
    assert {"ring:3", "ring:4", "ring:5"} <= {e["text"] for e in page.all("a")}


def test_every_chart_has_a_panel_a_collective(several):
    names = [e["text"] for e in several.all("figcaption", None, several.section(0))]
    panels = [*["allgather", "allreduce"] * 4, "allreduce past reduce-scatter + allgather"]
    assert names == [*panels, "allgather", "allreduce"]  # of the links, why there is no picture


def test_the_page_loads_nothing_from_outside(several):
    loads = [e["attrs"].get(name) for e in several.elements for name in ("src", "href", "srcset", "data")]
    assert all(target.startswith("#") for target in loads if target)
    outside = re.sub(r"<script>.*?</script>", "", several.source, flags=re.DOTALL)
    assert not re.search(r"(src|href)=.https?:|url\(|@import", outside)
    policy = next(e for e in several.all("meta") if "http-equiv" in e["attrs"])
    assert policy["attrs"]["content"].startswith("default-src 'none'")


def test_the_page_opens_offline_fast(several):
    """The library of charts is 0.8 MB of it."""
    assert len(several.source.encode()) < 1_000_000


def test_text_from_the_user_stays_text(tmp_path):
    columns = ("topology", "collective", "method", "options", "message", "bound_kind")
    hostile = {column: f"{HOSTILE}{column}" for column in columns}
    page = report(tmp_path, [row(**hostile), row(size_bytes=10, **hostile)])
    assert len(page.all("script")) == SCRIPTS
    assert not any("alert('x')" in e["text"] for e in page.all("script")[1:])
    said = [e["attrs"].get("data-tip", "") + e["text"] for e in page.elements]
    assert all(any(text in one for one in said) for text in hostile.values())


def test_text_of_the_manifest_stays_text(tmp_path):
    page = report(tmp_path, [row()], {HOSTILE: HOSTILE, "config": {"text": f"{HOSTILE}\n"}})
    assert len(page.all("script")) == SCRIPTS
    assert page.all("pre")[0]["text"].strip() == HOSTILE


def test_a_hostile_label_in_a_kept_schedule_stays_text(tmp_path):
    links = [Link(v, (v + step) % 3) for v in range(3) for step in (1, -1)]
    topology = Topology.from_links("x", 3, links, labels=[HOSTILE, "1", "2"])
    page = report(tmp_path, [row(schedule=keep(tmp_path, one_way(topology)))])
    assert len(page.all("script")) == SCRIPTS
    _, drawn = page.drawn("link utilisation, source by destination")
    assert {row["from"] for row in drawn} == {HOSTILE, "1", "2"}


def test_the_table_holds_the_gaps_of_the_frame_in_percent(tmp_path):
    gaps = {("ring", 1000): 0.25, ("ring", 10**6): 0.0321, ("bfb", 1000): 12.5, ("bfb", 10**6): 0.4567}
    page = report(
        tmp_path,
        [row(method=m, size_bytes=s, gap=g, time_us=8 * (1 + g)) for (m, s), g in gaps.items()],
    )
    assert page.cells() == [
        ["1KB", "8 us cut", "25.0 10 us", "1,250 108 us"],
        ["1MB", "8 us cut", "3.21 8.2568 us", "45.7 11.654 us"],
    ]


def test_a_tooltip_has_the_exact_numbers(tmp_path):
    page = report(tmp_path, [row(seed=17, gap=0.0321, time_us=8.2568, tb_exact="2/3")])
    cell = page.all("td", "s0", page.section(0))[0]
    assert cell["attrs"]["data-tip"].splitlines() == [
        "ring: allgather, 1MB",
        "time 8.26 us",
        "algbw 100 GB/s",
        "gap 3.21% over the cut bound 8 us",
        "T_L 2 α, T_B 2/3 M/B",
        "synthesis 10 ms",
        "seed 17",
    ]


def test_the_best_of_a_row_is_marked_and_ties_all_are(tmp_path):
    times = {"ring": 10.0, "direct": 12.0, "bfb": 10.0}
    page = report(tmp_path, [row(method=m, time_us=t, gap=t / 8 - 1) for m, t in times.items()])
    cells = page.all("td", None, page.section(0))
    marks = [e["classes"] for e in cells if "data-tip" in e["attrs"]]
    assert ["best" in classes for classes in marks] == [True, False, True]


def test_a_gap_of_zero_is_marked_as_proven_optimal_and_no_other(tmp_path):
    page = report(tmp_path, [row(gap=0.0, time_us=8.0), row(method="bfb", gap=1e-6, time_us=8.000008)])
    first, second = [e for e in page.all("td", None, page.section(0)) if "data-tip" in e["attrs"]]
    assert (first["text"].split()[0], "optimal" in first["classes"]) == ("0", True)
    assert (second["text"].split()[0], "optimal" in second["classes"]) == ("<0.01", False)


def test_why_there_is_no_number_stands_in_a_footnote(tmp_path):
    reason = "rhd needs a power of two of ranks; ring:3 has 3"
    rows = [row(), failed("unsupported", reason, method="rhd"), failed("timeout", "", method="bfb")]
    page = report(tmp_path, rows)
    assert page.cells() == [["1MB", "8 us cut", "25.0 10 us", "n/a1", "timeout2"]]
    notes = [e["text"] for e in page.all("li", None, page.section(0))]
    assert notes == [f"unsupported: {reason}", "timeout"]


def test_equal_reasons_share_a_footnote(tmp_path):
    page = report(tmp_path, [failed(size_bytes=s, method=m) for s in (1, 2) for m in ("a", "b")])
    assert len(page.all("li", None, page.section(0))) == 1


def test_a_time_below_its_bound_raises_an_alarm(tmp_path):
    page = report(tmp_path, [row(gap=-0.1, time_us=7.2)])
    assert "1 row claims a time below the proven bound" in page.all("p", "alarm")[0]["text"]
    assert page.all("td", "wrong", page.section(0))[0]["text"] == "-10.0 7.2 us"
    assert not report(tmp_path, [row()]).all("p", "alarm")


def test_of_several_seeds_the_best_is_shown(tmp_path):
    times = {1: 12.0, 2: 9.0, 3: 10.0}
    page = report(tmp_path, [row(seed=s, time_us=t, gap=t / 8 - 1) for s, t in times.items()])
    assert page.cells()[0][-1] == "12.5 9 us"


def test_a_method_with_two_sets_of_options_is_two_series_named_by_what_differs_first(tmp_path):
    page = report(
        tmp_path, [row(method="tacos", options=f"chunk_rule={p} chunks=4") for p in ("paper", "rarest")]
    )
    names = [e["text"].strip() for e in page.all("button", "chip")]
    assert names == ["tacos chunk_rule=paper chunks=4", "tacos chunk_rule=rarest chunks=4"]


def test_the_charts_have_a_row_a_case_and_method_under_its_label(tmp_path):
    versions = ("version=bandwidth", "version=latency")
    rows = [
        row(
            method="swing", options=options, size_bytes=size, algbw_gbps=100.0 + i, gap=i, time_us=8 * (1 + i)
        )
        for i, options in enumerate(versions)
        for size in (10**6, 10**9)
    ]
    page = report(tmp_path, rows)
    for name in ("algbw", "gap against"):
        spec, rows = page.drawn(name)
        assert [(r["method"], r["size_bytes"]) for r in rows] == [
            *(("swing version=bandwidth", 10**6), ("swing version=latency", 10**6)),
            *(("swing version=bandwidth", 10**9), ("swing version=latency", 10**9)),
        ]
        assert fields(spec)["color"] == {"method"}


def test_the_answer_stands_first_and_then_the_picture(several):
    head = several.all("header")[0]
    assert several.all("p", "answer", head)[0]["text"] == (
        "On ring:3 and ring:4, bfb is the fastest in 12 of 12 cases. At 1GB its times are the proven bound: "
        "no schedule can be faster. Proven optimal: the best time of 12 of 12 cases. "
        "ring comes next: it is never the fastest, and over its 12 cases it takes "
        "1.25 times the best time (geometric mean)."
    )
    spec, rows = several.drawn("algbw as a part of its limit", head)
    assert fields(spec)["y"] == {"share_percent"}
    assert spec["facet"]["field"] == "panel"
    assert spec["facet"]["sort"] == [
        f"{t}\n{c}" for t in ("ring:3", "ring:4") for c in ("allgather", "allreduce")
    ]
    assert {row["method"]: row["share_percent"] for row in rows} == {"ring": 80.0, "bfb": 100.0}


def test_of_many_networks_the_picture_is_the_gaps_at_the_largest_size(tmp_path):
    rows = [
        row(topology=f"ring:{n}", method=m, size_bytes=s) for n in range(3, 8) for m in "ab" for s in (10, 20)
    ]
    spec, drawn = report(tmp_path, rows).drawn("gap to the proven bound of each method")
    assert (fields(spec)["x"], fields(spec)["y"]) == ({"network"}, {"method"})
    assert {row["size_bytes"] for row in drawn} == {20}
    assert {(row["gap"], row["near"]) for row in drawn} == {("25.0", "up to 100")}


def test_the_summary_counts_who_is_best_and_names_the_worst_gap(tmp_path):
    rows = [*two_by_two(), row(gap=3.0, time_us=32.0, size_bytes=32_000)]
    page = report(tmp_path, rows)
    bfb_line, ring_line = page.lines(page.all("table")[0])
    assert ring_line[4:11] == ["13 of 13", "1", "0", "–", "25.0", "300", "ring:3, allgather, 32KB"]
    assert bfb_line[4:9] == ["12 of 12", "12", "12", "–", "0"]


UNEQUAL = {"ring": (0.1, 0.2, 3.0), "bfb": (0.3, 0.4, 0.5)}


def unequal():
    """Return a run where one method is best twice and yet worst at the largest size."""
    return [
        row(method=m, size_bytes=10 ** (3 * k), gap=g, time_us=8 * (1 + g))
        for m, gaps in UNEQUAL.items()
        for k, g in enumerate(gaps, 1)
    ]


def test_methods_stand_by_networks_with_the_least_in_bold(tmp_path):
    """(1.1 · 1.2 · 4) with a shift of 1 %: the cube root of 0.11 · 0.21 · 3.01, less 0.01, is 40.1 %."""
    page = report(tmp_path, [*unequal(), failed("unsupported", method="rhd")])
    head, *lines = page.table("Methods by networks")
    means = {m: 100 * (math.prod(g + 0.01 for g in gaps) ** (1 / 3) - 0.01) for m, gaps in UNEQUAL.items()}
    assert lines == [[m, f"{mean:.1f}"] for m, mean in means.items()]
    assert head == ["method", "ring:3, 3 cases"]
    last = [t for t in page.all("table") if "ring:3, 1 case" in t["text"]]
    assert [e["text"] for e in page.all("td", "best", last[0])] == ["50.0"]


def test_a_synthesis_that_serves_many_sizes_counts_once(tmp_path):
    page = report(tmp_path, [row(size_bytes=s, synth_s=2.0, schedule="ab") for s in (1, 2, 3)])
    assert page.lines(page.all("table")[0])[0][-1] == "2 s"


def test_the_limit_is_size_over_bound(tmp_path):
    """1 MB in 8 us are 125 GB/s; an algbw of 100 GB/s, with a gap of a quarter, is four fifths of it."""
    page = report(tmp_path, [row(size_bytes=10**6, bound_us=8.0), row(size_bytes=10**9, bound_us=None)])
    spec, rows = page.drawn("algbw against")
    assert {"limit", "algbw_gbps"} == fields(spec)["y"]
    assert [row["limit_gbps"] for row in rows] == [125.0, None]
    assert rows[0]["share_percent"] == 80.0


def test_what_no_algbw_exceeds_is_called_a_limit_and_not_a_lower_bound(several):
    assert several.all("span", "key")[0]["text"].startswith("limit: M over the lower bound on time")


def test_twenty_methods_can_be_told_apart(tmp_path):
    """By colour, marker and line: what the charts have, and the swatches of the tables."""
    rows = [row(method=f"m{i}", topology=t, time_us=9.0 + i) for t in ("a", "b") for i in range(20)]
    page = report(tmp_path, rows)
    _, drawn = page.drawn("algbw, a, allgather")
    points = page.charts()["specs"]["algbw"]["layer"][-1]["encoding"]
    for channel in ("color", "shape"):
        assert points[channel]["scale"]["domain"] == [row["method"] for row in drawn]
    colours = len(page.charts()["theme"]["range"]["category"])
    shapes = points["shape"]["scale"]["range"]
    looks = {(row["series"] % colours, shapes[row["series"]], row["dash"]) for row in drawn}
    assert len(looks) == 20


def test_step_schedules_alone_are_in_the_pareto_chart(tmp_path):
    rows = [row(), row(method="tacos", tl_steps=None, tb_factor=None, tb_exact=None)]
    spec, drawn = report(tmp_path, rows).drawn("T_B against")
    assert [row["method"] for row in drawn] == ["ring"]
    assert (fields(spec)["x"], fields(spec)["y"]) == ({"tl_steps"}, {"tb_factor", "least_tb"})


def test_methods_at_one_point_of_the_pareto_chart_stand_side_by_side(tmp_path):
    rows = [row(method=m, tl_steps=t) for m, t in (("a", 2), ("b", 2), ("c", 2), ("d", 3))]
    _, drawn = report(tmp_path, rows).drawn("T_B against")
    assert [row["beside"] for row in drawn] == [-1, 0, 1, 0]


def test_who_is_left_out_of_the_pareto_chart_is_said_and_why(tmp_path):
    rows = [
        row(),
        row(method="tacos", clock="time", tl_steps=None, tb_factor=None, tb_exact=None),
        row(method="rhd", clock="step", tb_factor=None, tb_exact=None),
    ]
    page = report(tmp_path, rows)
    assert page.all("p", "none", page.section(0))[0]["text"] == (
        "Left out: tacos (time clock: no steps); rhd (no T_B: links differ)."
    )


@pytest.mark.parametrize(("points", "drawn"), [([(2, 1.0), (3, 2.0)], False), ([(2, 2.0), (3, 1.0)], True)])
def test_the_frontier_is_spoken_of_only_where_it_is_drawn(tmp_path, points, drawn):
    rows = [
        row(method=f"m{i}", tl_steps=tl, tb_factor=tb, tb_exact=str(tb)) for i, (tl, tb) in enumerate(points)
    ]
    page = report(tmp_path, rows)
    assert (sum(row["frontier"] for row in page.drawn("T_B against")[1]) > 1) == drawn
    assert any("The line joins" in e["text"] for e in page.all("p", "fine")) == drawn


def test_a_t_b_equal_to_the_bandwidth_bound_is_said_to_be_the_least_and_no_other(tmp_path):
    """On a ring of 3 each rank must receive 2/3 of M over both its links: T_B is at least 2/3 M/B."""
    digest = keep(tmp_path, one_way(ring(3)))
    rows = [
        row(method="bfb", schedule=digest, tl_steps=1, tb_exact="2/3"),
        row(method="ring", schedule=digest, tl_steps=2, tb_exact="4/3", tb_factor=4 / 3),
        row(method="near", schedule=digest, tl_steps=3, tb_exact="200000000001/300000000000"),
    ]
    page = report(tmp_path, rows)
    _, drawn = page.drawn("T_B against")
    assert [row["tb_optimal"] for row in drawn] == ["yes", "no", "no"]
    assert [row["least_tb"] for row in drawn] == pytest.approx([2 / 3] * 3, rel=1e-6)
    head = [e["text"] for e in page.all("th", None, page.all("thead")[0])]
    lines = page.lines(page.all("table")[0])
    assert [line[head.index("T_B optimal")] for line in lines] == ["1", "0", "0"]


def test_the_frontier_joins_what_nothing_betters(tmp_path):
    points = {"a": (2, 3.0), "b": (4, 1.0), "c": (5, 2.0), "d": (4, 2.0)}
    rows = [
        row(method=m, tl_steps=tl, tb_factor=tb, tb_exact=str(Fraction(tb))) for m, (tl, tb) in points.items()
    ]
    _, drawn = report(tmp_path, rows).drawn("T_B against")
    assert [row["method"] for row in drawn if row["frontier"]] == ["a", "b"]


def test_a_gap_of_zero_has_a_place_in_the_chart_of_synthesis_times(tmp_path):
    rows = [row(method=m, gap=g, time_us=8 * (1 + g)) for m, g in (("a", 0.0), ("b", 90.0))]
    spec, drawn = report(tmp_path, rows).drawn("gap against")
    assert [row["gap_percent"] for row in drawn] == [0, 9000]
    scales = [layer["encoding"]["y"].get("scale", {}) for layer in spec["layer"]]
    assert any(scale.get("type") == "symlog" for scale in scales)


@pytest.mark.parametrize("rows", [[], [{}]])
def test_an_empty_run_gets_a_page(tmp_path, rows):
    assert "This run has no rows." in report(tmp_path, rows).all("main")[0]["text"]


def test_a_run_without_rows_but_with_columns_gets_a_page(tmp_path):
    pd.DataFrame(columns=list(row())).to_csv(tmp_path / "results.csv", index=False)
    assert "This run has no rows." in KINDS["schedules"].draw(tmp_path).read_text()


def test_a_run_in_which_all_failed_says_so_in_each_section(tmp_path):
    page = report(tmp_path, [failed(bound_us=None, bound_kind=None)])
    notes = [e["text"] for e in page.all("p", "none", page.section(0))]
    assert [note for note in notes if note.startswith("No ")] == [
        "No method has a time.",
        "No step schedule with a T_B.",
        "No method has both a synthesis time and a gap.",
        "No method has a time.",
    ]


def test_one_size_is_enough(tmp_path):
    page = report(tmp_path, [row(), row(method="bfb", time_us=8.0, gap=0.0)])
    labels = [e["attrs"]["data-label"].split(",")[0] for e in page.all("div", "view", page.section(0))]
    assert labels == ["algbw", "T_B against T_L", "gap against synthesis time"]
    assert "NaN" not in str([e["attrs"] for e in page.elements])


def test_the_only_size_gets_a_bar_a_method_as_long_as_its_algbw(tmp_path):
    page = report(tmp_path, [row(bound_us=8.0), row(method="bfb", time_us=20.0, algbw_gbps=50.0)])
    spec, drawn = page.drawn("algbw,")
    assert [(row["method"], row["algbw_gbps"], row["limit_gbps"]) for row in drawn] == [
        ("ring", 100, 125),
        ("bfb", 50, 125),
    ]
    assert spec["layer"][0]["mark"]["type"] == "bar"
    assert fields(spec)["x"] == {"algbw_gbps", "limit"}


def test_the_page_says_what_each_method_and_each_bound_is(several):
    terms = [e["text"] for e in several.all("dt")]
    assert {"ring", "bfb", "bounds", "chunk", "clock", "α, β", "T_B optimal"} <= set(terms)
    text = several.all("dl", "read")[0]["text"]
    assert all(f"{kind}:" in text or f"{kind} (" in text for kind in BOUNDS)


def test_t_l_is_told_as_how_often_alpha_is_paid_and_never_as_a_number_of_steps(tmp_path):
    """Two steps over routes of four links have T_L 8, as `schedules.cost` counts."""
    page = report(tmp_path, [row(tl_steps=8)])
    terms = [e["text"] for e in page.elements if e["tag"] in ("dt", "dd")]
    assert "the longest route" in terms[terms.index("T_L") + 1]
    tips = [e["attrs"]["data-tip"] for e in page.elements if "T_L" in (e["attrs"].get("data-tip") or "")]
    assert tips
    assert all("T_L 8 α" in tip for tip in tips)
    assert page.drawn("T_B against")[0]["layer"][2]["encoding"]["x"]["title"] == "T_L (α)"


def test_a_run_of_required_columns_only_gets_a_page(tmp_path):
    few = ("topology", "collective", "size_bytes", "method", "status", "time_us", "algbw_gbps")
    full = row()
    page = report(tmp_path, [{name: full[name] for name in few}])
    assert page.cells() == [["1MB", "", "10 us"]]


def test_the_csv_is_read_where_there_is_no_parquet_and_a_name_like_na_stays_a_name(tmp_path):
    pd.DataFrame([row(topology="NA", method="null", seed=3)]).to_csv(tmp_path / "results.csv", index=False)
    page = Page(KINDS["schedules"].draw(tmp_path).read_text())
    assert page.all("h2", None, page.section(0))[0]["text"] == "NA"
    assert page.cells() == [["1MB", "8 us cut", "25.0 10 us"]]


def test_a_directory_without_results_is_refused(tmp_path):
    with pytest.raises(
        InputError, match=r"no results.parquet or results.csv; give the directory of a finished run"
    ):
        KINDS["schedules"].draw(tmp_path)


def test_an_unreadable_results_file_is_refused_in_one_line(tmp_path):
    (tmp_path / "results.parquet").write_bytes(b"not parquet")
    with pytest.raises(InputError, match="can't read the results") as caught:
        KINDS["schedules"].draw(tmp_path)
    assert "\n" not in str(caught.value)


def test_a_page_that_cannot_be_written_is_refused(tmp_path):
    (write_run(tmp_path, [row()]) / "report.html").mkdir()
    with pytest.raises(InputError, match=r"report\.html: can't write the report: Is a directory"):
        KINDS["schedules"].draw(tmp_path)


def test_the_manifest_is_shown(tmp_path):
    manifest = {"versions": {"numpy": "2.4.6"}, "seeds": [0, 1], "config": {"text": 'name = "x"\n[run]\n'}}
    page = report(tmp_path, [row()], manifest)
    entries = [e["text"] for e in page.all("dd", None, page.all("dl", "manifest")[0])]
    assert entries == ["2.4.6", "0, 1"]
    assert page.all("pre")[0]["text"] == 'name = "x"\n[run]\n'


@pytest.mark.parametrize(("manifest", "name"), [({"name": "tori"}, "tori"), (None, "a_run")])
def test_the_page_is_called_after_the_run_or_else_its_directory(tmp_path, manifest, name):
    page = report(tmp_path / "a_run", [row()], manifest)
    assert page.all("h1")[0]["text"] == name
    assert page.all("title")[0]["text"] == f"{name}: tutti report"


def test_a_broken_manifest_does_not_stop_the_report(tmp_path):
    (write_run(tmp_path, [row()]) / "manifest.json").write_text("{")
    assert "not readable" in KINDS["schedules"].draw(tmp_path).read_text()


def test_the_line_of_a_topology_says_what_it_is(tmp_path):
    digest = keep(tmp_path, one_way(ring(3)))
    page = report(tmp_path, [row(schedule=digest, topology="a file that is gone.json")])
    text = "".join(e["text"] for e in page.all("p", "lead", page.section(0)))
    assert text == (
        "3 ranks, no switches, 6 links, degree 2, 50GB/s and 0.5us a link."
        "allgather of 1MB: at most 125 GB/s (cut bound)."
    )


def test_without_the_network_the_line_has_the_counts_of_the_rows(tmp_path):
    page = report(tmp_path, [row(topology="a file that is gone.json", nodes=4, switches=1, links=6)])
    assert page.all("p", "lead", page.section(0))[0]["text"].startswith("4 nodes, 1 switch, 6 links.")


def test_the_heat_map_has_the_share_of_time_that_each_link_is_busy(tmp_path):
    """Two steps on each link v -> v + 1 and none on the others: always busy, and never."""
    page = report(tmp_path, [row(schedule=keep(tmp_path, one_way(ring(3))))])
    spec, drawn = page.drawn("link utilisation, source by destination")
    assert (fields(spec)["y"], fields(spec)["x"], fields(spec)["color"]) == (
        {"source"},
        {"destination"},
        {"level"},
    )
    assert {(r["source"], r["destination"], r["busy"], r["level"]) for r in drawn} == {
        *((0, 1, 100, 10), (1, 2, 100, 10), (2, 0, 100, 10)),
        *((0, 2, 0, 0), (1, 0, 0, 0), (2, 1, 0, 0)),
    }
    assert "mean 50%, max 100%" in page.all("p", "none", page.section(0))[-1]["text"]


def test_parallel_links_share_a_cell_as_their_mean(tmp_path):
    links = [Link(0, 1), Link(0, 1), Link(1, 0)]
    topology = Topology.from_links("pair", 2, links)
    what = collective("allgather", 2)
    order = np.array([1, 1], dtype=np.uint16)
    schedule = Schedule(topology, what, Clock.STEP, Chunks.even(what), [0, 1], [0, 2], order)
    page = report(tmp_path, [row(schedule=keep(tmp_path, schedule))])
    _, drawn = page.drawn("link utilisation, source by destination")
    assert [row["busy"] for row in drawn] == [50, 100]


def test_a_network_too_large_for_a_matrix_gets_a_histogram(tmp_path):
    topology = ring(130, "ring:130")
    page = report(tmp_path, [row(topology="ring:130", schedule=keep(tmp_path, one_way(topology)))])
    assert "too large for a matrix" in page.section(0)["text"]
    spec, drawn = page.drawn("histogram of link utilisation")
    assert (fields(spec)["x"], fields(spec)["y"]) == ({"level"}, {"percent"})
    told = [(r["level"], r["links"], r["percent"]) for r in drawn if r["links"]]
    assert told == [("idle", 130, 50), ("90–100%", 130, 50)]


def test_the_largest_size_with_a_time_is_replayed_and_named(tmp_path):
    digest = keep(tmp_path, one_way(ring(3)))
    rows = [row(schedule=digest, size_bytes=s) for s in (1000, 32_000)]
    page = report(tmp_path, [*rows, failed(size_bytes=10**6)])
    assert page.all("p", "none", page.section(0))[-1]["text"].endswith("at 32KB")


def test_a_schedule_that_was_not_kept_is_said(tmp_path):
    page = report(tmp_path, [row(schedule="0" * 64), row(method="bfb")])
    assert page.all("p", "none", page.section(0))[-1]["text"] == "No schedule was kept: ring, bfb."


def test_a_schedule_that_cannot_be_read_is_said(tmp_path):
    folder = tmp_path / "schedules"
    folder.mkdir()
    (folder / f"{'0' * 64}.json.gz").write_bytes(b"rubbish")
    page = report(tmp_path, [row(schedule="0" * 64)])
    assert page.all("p", "none", page.section(0))[-1]["text"].startswith(
        "The kept schedule can't be replayed"
    )


def test_the_programs_that_were_solved_have_a_table(tmp_path):
    """A row a topology, collective and method: of several sizes the longest solve."""
    model = {"method": "mcf", "program": "linear program (A.1)", "solver": "highs 1.14", "build_s": 0.5}
    size = {"variables": 16385, "constraints": 4288}
    rows = [
        row(**model, **size, solve_s=1.5, solver_gap=1e-3),
        row(**model, **size, solve_s=0.25, solver_gap=0.0, size_bytes=10**9),
        row(method="forestcoll", program="maximum flows of Algorithm 1", solver="ortools", solve_s=2e-3),
        row(method="bfb", solver="counting", build_s=0.1, solve_s=0.1),
    ]
    page = report(tmp_path, rows)
    lines = page.table("Programs solved")
    said = [["linear program (A.1)", "highs 1.14", "16,385", "4,288", "500 ms", "1.5 s", "0.10"]]
    said += [["maximum flows of Algorithm 1", "ortools", "", "", "", "2 ms", ""]]
    assert [line[3:] for line in lines[1:]] == said
    assert not any(e["text"] == "Programs solved" for e in report(tmp_path, [row()]).all("h3"))


def test_programs_that_had_no_incumbent_have_no_chart_over_time(tmp_path):
    """As a solver that was stopped at the first moment writes its courses."""
    page = report(tmp_path, [row(program_course=" |  |  | ")])
    assert "gap of programs over time" not in str(page.drawn(""))


def test_the_speed_up_over_a_baseline_has_a_column_and_a_chart(tmp_path):
    """20, 10 and 40 us: b is twice as fast as a, and c half; the mean of 2 and 8 is 4."""
    times = {("a", 10): 20.0, ("b", 10): 10.0, ("c", 10): 40.0, ("a", 1000): 80.0, ("b", 1000): 10.0}
    rows = [row(method=m, size_bytes=s, time_us=t, gap=t / 8 - 1) for (m, s), t in times.items()]
    shown = contents(read_results(write_run(tmp_path, rows), baseline="a"))
    page = Page(write_page(shown, tmp_path / "report.html").read_text())
    _, drawn = page.drawn("algbw against size, ring:3, allgather")
    options = [e["text"] for e in page.all("option") if e["attrs"]["value"] == "speedup"]
    assert options == ["speed-up over a"]
    assert fields(page.charts()["specs"]["speedup"])["y"] == {"speedup", "limit"}
    assert [(r["method"], r["speedup"]) for r in drawn] == [
        ("a", 1),
        ("b", 2),
        ("c", 0.5),
        ("a", 1),
        ("b", 8),
    ]
    means = [line[-2] for line in page.lines(page.all("table")[0])]
    assert sorted(means) == ["0.50×", "1.00×", "4.00×"]


def test_without_a_baseline_there_is_no_speed_up_and_an_unknown_one_is_refused(tmp_path):
    options = [e["attrs"]["value"] for e in report(tmp_path, [row()]).all("option")]
    assert "algbw" in options
    assert "speedup" not in options
    with pytest.raises(InputError, match="no rows of method 'rign'; did you mean 'ring'"):
        read_results(tmp_path, baseline="rign")


def test_the_band_of_a_method_goes_down_to_its_slowest_seed(tmp_path):
    """10 and 12.5 us for 1 MB are 100 and 80 GB/s; one seed has no band."""
    rows = [row(seed=0), row(seed=1, time_us=12.5, algbw_gbps=80.0), row(method="bfb"), row(size_bytes=10)]
    page = report(tmp_path, rows)
    spec, drawn = page.drawn("algbw against size")
    (band,) = [layer for layer in spec["layer"] if layer["mark"]["type"] == "area"]
    assert [(r["method"], r["size_bytes"], r["slowest_us"]) for r in drawn] == [
        ("ring", 10**6, 12.5),
        ("bfb", 10**6, None),
        ("ring", 10, None),
    ]
    best = drawn[0]
    assert band["encoding"]["y2"]["field"] == "low"
    assert {"calculate": "datum.algbw_gbps * datum.time_us / datum.slowest_us", "as": "low"} in band[
        "transform"
    ]
    assert best["algbw_gbps"] * best["time_us"] / best["slowest_us"] == 80
    assert any("shaded" in e["text"] for e in page.all("span", "key"))
