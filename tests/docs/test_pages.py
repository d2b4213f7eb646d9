"""Pages as they lie in a clone: links lead to files that are there, and numbers are what they count."""

import re
from pathlib import Path

import pytest

from tutti.experiments.cli.parser import make_parser
from tutti.experiments.registry import METHODS
from tutti.models.bounds.check import PROOFS

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    path.relative_to(ROOT).as_posix()
    for path in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"))
    if "generated" not in path.parts
)
WORDS = ("twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen")


def text_of(page):
    return (ROOT / page).read_text(encoding="utf-8")


def prose(page):
    """Return a page without its code."""
    return re.sub(r"^ *```.*?^ *```$", "", text_of(page), flags=re.MULTILINE | re.DOTALL)


def anchor(title):
    """Return the anchor of a heading, as GitHub and the site make it."""
    plain = re.sub(r"\]\([^)]*\)", "", title.lower())
    return re.sub(r"[^\w\- ]", "", plain).strip().replace(" ", "-")


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_to_files_and_headings(page):
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        path, _, heading = target.partition("#")
        if "://" in target or (not path and heading.startswith("tutti.")):  # elsewhere, or a name of the API
            continue
        there = (ROOT / page).parent / path if path else ROOT / page
        assert there.exists(), target
        if heading and there.suffix == ".md" and "methods/" not in target:
            titles = re.findall(r"^#+ (.*)$", there.read_text(encoding="utf-8"), re.MULTILINE)
            assert heading in map(anchor, titles) or heading.startswith("tutti."), target


def test_pages_show_all_charts():
    """Pictures of docs/concepts.md have tests of their own."""
    import charts

    pages = [page for page in PAGES if page != "docs/concepts.md"]
    shown = [re.findall(r"^:file: generated/(.*)\.html$", text_of(page), re.MULTILINE) for page in pages]
    assert sorted(name for names in shown for name in names) == sorted(name for name, _ in charts.write())


def test_the_changelog_counts_methods_and_bounds():
    text = text_of("CHANGELOG.md")
    assert int(re.search(r"There are (\d+) methods", text)[1]) == len(METHODS)
    assert re.search(r"There are (\w+) kinds of", text)[1] == WORDS[len(PROOFS) - 12]


def test_the_list_of_methods_has_all():
    assert set(re.findall(r"\[(\w+)\]\(methods/\1\.md\)", text_of("docs/methods.md"))) == set(METHODS)


def test_the_guide_has_every_kind_of_bound():
    section = text_of("docs/guide.md").partition("## Bounds")[2].partition("\n## ")[0]
    assert set(re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)) == set(PROOFS)


@pytest.mark.parametrize("page", ["README.md", "docs/start.md", "docs/which_method.md", "docs/tutorial.md"])
def test_pages_say_how_long_a_command_without_a_method_takes(page):
    assert METHODS["best"].quick == {"time_limit": "10s"}
    assert re.search(r"ten seconds", text_of(page), re.IGNORECASE)


def test_commands_on_pages_exist():
    known = set(make_parser().commands)
    for page in PAGES:
        for line in re.findall(r"^\$ tutti (\S+)", text_of(page), re.MULTILINE):
            assert line in known, (page, line)


@pytest.mark.parametrize("page", ["docs/solvers.md", "docs/milp_models.md"])
def test_python_examples_run(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    examples = re.findall(r"^```python\n(.*?)^```", text_of(page), re.MULTILINE | re.DOTALL)
    for example in examples:
        exec(compile(example, page, "exec"), {})
    assert examples
    assert capsys.readouterr().out
