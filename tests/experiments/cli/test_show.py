"""``tutti show``: whatever can be drawn or played, from a text or a file."""

import json
from pathlib import Path

import pytest

from tutti.experiments.show import page
from tutti.topologies.files import to_node_link
from tutti.topologies.text import parse_topology


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def exported(tutti, schedule):
    """A function from a format to a file of it with the schedule."""

    def export(form, name):
        assert tutti("export", schedule, "--format", form, "-o", name)[0] == 0
        return name

    return export


def shown(tutti, what, *more):
    code, out, err = tutti("show", what, "--no-open", *more)
    assert (code, err) == (0, "")
    return out.strip(), Path(out.strip()).read_text(encoding="utf-8")


def test_a_schedule_is_played(tutti, schedule):
    path, html = shown(tutti, schedule, "--size", "64MB")
    assert path == "ring.show.html"
    assert "<h1>allgather on ring:4</h1>" in html
    assert "M = 64MB" in html
    assert 'id="data"' in html


def test_a_program_is_played_on_the_network_that_it_implies(tutti, exported):
    assert 'id="data"' in shown(tutti, exported("msccl", "p.xml"))[1]


def test_a_csv_is_played(tutti, exported):
    assert 'id="data"' in shown(tutti, exported("csv", "p.csv"))[1]


def test_a_text_is_drawn(tutti):
    path, html = shown(tutti, "L(K_{2,2})")
    assert path == "L_K_2_2.show.html"
    assert "<svg" in html
    assert 'id="data"' not in html


def test_a_network_in_a_file_is_drawn(tutti, here):
    (here / "net.json").write_text(json.dumps(to_node_link(parse_topology("ring:5"))))
    assert "5 ranks, 10 links" in shown(tutti, "net.json", "-o", "x.html")[1]


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("nonsense:3", "unknown family 'nonsense'"),
        ("gone.json", "gone.json: can't be read: No such file"),
        ("a.json", "a.json"),
        ("ring:4?drop_nodes=9", "9"),
        ("r.rounds", "a table of rounds"),
    ],
)
def test_what_is_nothing_is_one_line(tutti, here, what, said):
    (here / "a.json").write_text("[3]")
    code, out, err = tutti("show", what)
    assert (code, out) == (2, "")
    assert said in err
    assert err.count("\n") == 1


def test_a_plan_is_refused_in_one_line(tutti, here):
    assert tutti("synth", "dgx_a100:1", "--method", "ring", "--size", "1MB", "-o", "r.json")[0] == 0
    assert tutti("export", "r.json", "--format", "mscclpp", "-o", "plan.json")[0] == 0
    code, _, err = tutti("show", "plan.json")
    assert code == 2
    assert "plan of MSCCL++" in err


def test_a_wrong_schedule_is_not_played(tutti, schedule):
    document = json.loads(schedule.read_text())
    document["transfers"]["step" if "step" in document["transfers"] else "order"] = [1] * len(
        document["transfers"]["chunk"]
    )
    schedule.write_text(json.dumps(document))
    assert tutti("show", schedule)[0] == 1


def test_the_browser_opens_unless_told_not_to(tutti, monkeypatch):
    opened = []
    monkeypatch.setattr(page.webbrowser, "open", opened.append)
    monkeypatch.setenv("DISPLAY", ":0")
    assert tutti("show", "ring:4", "--no-open")[0] == 0
    assert opened == []
    assert tutti("show", "ring:4")[0] == 0
    assert len(opened) == 1


def test_where_nothing_can_be_written_nothing_is_read(tutti, here):
    assert tutti("show", "ring:4", "-o", here)[0] == 2


def test_what_is_shown_is_not_written_over(tutti, here, schedule):
    before = schedule.read_bytes()
    code, out, err = tutti("show", schedule, "--no-open", "-o", "../" + here.name + "/ring.json")
    assert (code, out) == (2, "")
    assert "ring.json: is the input file; write to another file" in err
    assert err.count("\n") == 1
    assert schedule.read_bytes() == before


def test_a_page_without_a_place_is_refused_before_it_is_drawn(tutti, here, schedule, monkeypatch):
    monkeypatch.setattr("tutti.experiments.cli.programs.page_of", None)
    code, _, err = tutti("show", schedule, "-o", "gone/ring.html")
    assert (code, err) == (2, "tutti: gone/ring.html: can't be written: no directory gone\n")
    assert not (here / "gone").exists()
