"""What the README shows runs as written."""

import re
import shlex
from pathlib import Path

import pytest

from tutti.experiments.cli import main

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```", README, flags=re.MULTILINE | re.DOTALL)


def commands():
    lines = "".join(blocks("console")).splitlines()
    return [line.removeprefix("$ ") for line in lines]


def test_every_command_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("webbrowser.open", lambda url: True)
    words = [shlex.split(line) for line in commands() if line.startswith("tutti ")]
    assert len(words) >= 5
    for _, *arguments in words:
        assert main(arguments) == 0, arguments
        assert capsys.readouterr().out


def marks_of_chart(path):
    """Return the texts of a chart and its bars; the layout depends on the fonts of a machine."""
    text = path.read_text(encoding="utf-8")
    return re.findall(r"<text[^>]*>([^<]+)<", text), re.findall(r'aria-label="(percent[^"]*)"', text)


def test_the_picture_is_the_one_that_the_first_lines_make(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    first, _ = blocks("python")
    assert '.save("first.html")' in first  # a page needs no vl-convert, which only tests install
    for suffix in ("html", "svg"):
        exec(compile(first.replace("first.html", f"first.{suffix}"), "README.md", "exec"), {})
    assert "vegaEmbed" in (tmp_path / "first.html").read_text(encoding="utf-8")
    made, shown = marks_of_chart(tmp_path / "first.svg"), marks_of_chart(ROOT / "docs" / "first.svg")
    assert len(shown[1]) == 6
    assert made == shown


def test_the_python_example_does_what_its_comments_say(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    _, example = blocks("python")
    exec(compile(example, "README.md", "exec"), {})
    out = capsys.readouterr().out
    (numbers,) = [line.split() for line in out.splitlines() if re.fullmatch(r"[-.\de]+( [-.\de]+){2}", line)]
    time, bound, gap = map(float, numbers)
    assert gap == pytest.approx(time / bound - 1)
    assert "all legal" in out
    assert (tmp_path / "ag.json").exists()


@pytest.mark.parametrize("target", [line.split()[1] for line in commands() if line.startswith("make ")])
def test_every_make_target_exists(target):
    assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)


@pytest.mark.parametrize("path", sorted(set(re.findall(r"`((?:\w+/)+[\w.]*)`|\]\((\w+/[\w.]+)\)", README))))
def test_every_path_exists(path):
    named = "".join(path)
    made = named.startswith(("results/", "build/"))
    assert made or (ROOT / named).exists()
