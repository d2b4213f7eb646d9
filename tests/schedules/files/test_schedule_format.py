"""The page on the format of schedule files; its examples are extracted and run."""

import re
import shlex
from pathlib import Path

import pytest

import tutti
from tutti.experiments.cli import main
from tutti.topologies import InputError

PAGE = (Path(__file__).parents[3] / "docs" / "schedule_format.md").read_text(encoding="utf-8")


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, flags=re.MULTILINE | re.DOTALL)


@pytest.fixture(autouse=True)
def examples(tmp_path, monkeypatch):
    """Write the files that the page tells readers to save."""
    monkeypatch.chdir(tmp_path)
    for fence, suffix in (("json", "json"), ("text", "csv")):
        text = blocks(fence)[0]
        (name,) = re.findall(rf"Save\s+it\s+as\s+`(\w+\.{suffix})`", PAGE)
        Path(name).write_text(text)


def test_the_json_has_ten_lines():
    assert len(blocks("json")[0].splitlines()) == 10


def test_the_example_with_copies_is_right():
    Path("copies.json").write_text(blocks("json")[1])
    assert tutti.verify("copies.json").chunks.copy_of.tolist() == [-1, 0, 0, -1, 3, 3]


def test_every_command_prints_what_the_page_says(capsys):
    transcript = [part for block in blocks("console") for part in block.split("$ ") if part]
    assert len(transcript) == 4
    for command, *expected in map(str.splitlines, transcript):
        assert main(shlex.split(command)[1:]) == 0
        assert [line.rstrip() for line in capsys.readouterr().out.splitlines()] == expected


def test_the_python_runs(capsys):
    (example,) = blocks("python")
    exec(compile(example, "schedule_format.md", "exec"), {})
    time, bound = capsys.readouterr().out.splitlines()
    assert float(time) == pytest.approx(2 * (0.5e-6 + 1e6 / 50e9))  # two hops of M
    assert bound == "11 us (combined)"  # to rank 2: over one hop, then into it over both links, 100 GB/s


def test_the_error_is_as_the_page_says():
    text = Path("broadcast.csv").read_text().replace("0,1,2,2", "0,1,7,2")
    Path("broadcast.csv").write_text(text)
    (message,) = re.findall(r"`(broadcast\.csv, line .*?)`", PAGE)
    with pytest.raises(InputError, match=re.escape(message)):
        tutti.verify("broadcast.csv")
