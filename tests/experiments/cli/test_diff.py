"""``tutti diff``: its tables and exit codes."""

import json

import pytest

from tests.experiments.test_difference import folder


@pytest.fixture
def folders(tmp_path):
    was = folder(tmp_path / "a", {}, {"method": "ring"})
    return was, folder(tmp_path / "b", {"time_us": 10.5, "gap": 0.3125}, {"method": "ring"})


@pytest.mark.parametrize(("most", "code"), [("1%", 1), ("0.01", 1), ("5%", 0), ("6%", 0)])
def test_a_slower_row_fails_above_a_share(tutti, folders, most, code):
    found, out, _ = tutti("diff", *folders, "--fail-above", most)
    assert found == code
    assert f"{code} rows are worse by more than {most}, lost or no longer ok" in out
    assert "2 rows in both: 1 other time, 1 other gap; 0 lost, 0 gained" in out
    assert "+5.00%" in out


def test_what_is_the_same_is_said_so(tutti, folders):
    _, out, _ = tutti("diff", folders[0], folders[0])
    assert out.splitlines()[-1] == "2 rows in both: none differs; 0 lost, 0 gained"


def test_without_a_share_nothing_fails(tutti, folders):
    assert tutti("diff", *folders, "--top", 0)[0] == 0


def test_json_has_all_of_it(tutti, folders):
    code, out, _ = tutti("diff", *folders, "--json", "--fail-above", "1%")
    document = json.loads(out)
    assert code == 1
    assert document["common"] == 2
    assert document["rows"][0]["worse"]
    assert document["rows"][0]["rises"] == pytest.approx({"time": 0.05, "gap": 0.05})


@pytest.mark.parametrize("wrong", [["--fail-above", "-1%"], ["--fail-above", "much"], ["--top", "-1"]])
def test_bad_arguments_are_one_line(tutti, folders, wrong):
    code, _, err = tutti("diff", *folders, *wrong)
    assert code == 2
    assert len(err.splitlines()) == 1
