"""Every method has its page: the template's sections, an example that it handles, files that are there."""

import csv
import re
from fractions import Fraction
from pathlib import Path

import pytest

import tutti
from tutti.experiments.registry import METHODS
from tutti.experiments.show.drawing import LEVELS

DOCS = Path(__file__).parents[2] / "docs"
NAMES = sorted(METHODS)


def test_every_method_has_a_page_and_no_page_is_left_over():
    assert sorted(path.stem for path in (DOCS / "methods").glob("*.md")) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_a_page_keeps_the_template(name):
    from written import SECTIONS, read

    page = read(name)
    assert tuple(page.sections) == SECTIONS
    assert page.lead.count("\n") == 0
    assert 3 <= len(re.findall(r"[.)](?= [A-Z]|$)", page.lead)) <= 4  # three sentences
    assert "Source" in page.sections["Algorithm"], "an algorithm says where it is from"
    assert "```text" in page.sections["Algorithm"]


@pytest.mark.parametrize("name", NAMES)
def test_a_page_links_to_pages_that_are_there(name):
    text = (DOCS / "methods" / f"{name}.md").read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#]+)\)", text):
        assert (DOCS / "methods" / target).exists(), target


@pytest.mark.parametrize("name", NAMES)
def test_an_example_is_one_that_the_method_handles(name):
    from written import read

    wanted = read(name).example
    if "network" in wanted:
        network = tutti.topology(wanted["network"])
        what = tutti.collective(wanted["collective"], network)
        assert METHODS[name].capabilities.refusal(network, what) is None


def test_costs_were_measured_of_every_method():
    with (DOCS / "methods/costs.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {row["method"] for row in rows} == set(NAMES)
    assert all(float(row["seconds"]) >= 0 and int(row["transfers"]) > 0 for row in rows)


def test_a_section_that_lacks_is_refused(tmp_path, monkeypatch):
    import written

    monkeypatch.setattr(written, "FOLDER", tmp_path)
    (tmp_path / "mine.md").write_text("It does this.\n\n## Algorithm\n\nx\n\n## Cost\n\ny\n")
    with pytest.raises(ValueError, match="Algorithm, Cost; they must be"):
        written.read("mine")


def test_the_picture_of_a_ring_shows_when_a_shard_comes_by():
    """On `ring:3`, both ways: rank 0's shard leaves over its two links, then goes over 1 -> 2 and 2 -> 1."""
    from pictures import method_picture

    made = tutti.synthesize("ring:3", "allgather", size="1MB", method="ring")
    first, _ = method_picture(made.schedule, Fraction(10**6)).split("</figure>", 1)
    shades = re.findall(r'<title>(\d)-&gt;(\d):[^<]*</title><path class="link q(\d)', first)
    late = str(LEVELS)
    expected = {("0", "1"): "1", ("0", "2"): "1", ("1", "2"): late, ("2", "1"): late}
    assert {(a, b): shade for a, b, shade in shades if shade != "0"} == expected
    assert len(shades) == 6


def test_an_inherited_option_is_told_in_the_words_of_the_class_that_has_it():
    pytest.importorskip("numpydoc")  # which the site needs
    from generate import _options

    text = "\n".join(_options(METHODS["recursive_hybrid"]))
    told = text.split("infer_hosts, by default `true`\n: ")[1]
    assert told.startswith("Whether hosts that the network does not name are inferred")
