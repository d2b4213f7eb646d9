"""Field files with a random fault: each is read as before, read with a note, or refused in one line.

A matrix, AMD's tables and nccl-tests state most things twice, so a fault in them must be noticed. In other
files a changed number can be right, so they must only be read, or refused in one line.
"""

import random
from pathlib import Path

import networkx as nx
import pytest

from tests.topologies.importing.test_nccl import dgx_a100
from tests.topologies.measurements.test_field_logs import report, result
from tests.topologies.measurements.test_tables import OSU_ALLGATHER, OSU_BANDWIDTH, OSU_LATENCY
from tutti.experiments.cli.programs import read_program
from tutti.schedules.programs.interpreter import ProgramError, judge
from tutti.topologies import parse_topology
from tutti.topologies.errors import TuttiError
from tutti.topologies.measurements.regression import fit
from tutti.topologies.measurements.tables import read_measurements

CASES = Path(__file__).parents[2] / "data" / "cases"
COUNT = 12
"""Number of mutations of each file in the suite; a larger number takes longer and finds more."""
JUNK = (
    "",
    "node-a:1320:1320 [0] NCCL INFO Bootstrap: Using eth0",
    "\x1b[31m#",
    "GPU0",
    "1 2 3",
    "<x>",
    "{",
    "-1",
)
SIGNS = "\0\a\b\x1b\x7f\u202e\ufffd\t\"'<>&[]{}:,.-#=0x"


def _line(draw, text):
    lines = text.splitlines(keepends=True)
    return lines, draw.randrange(len(lines))


def delete_line(draw, text):
    lines, at = _line(draw, text)
    return "".join(lines[:at] + lines[at + 1 :])


def repeat_line(draw, text):
    lines, at = _line(draw, text)
    return "".join(lines[: at + 1] + lines[at:])


def swap_lines(draw, text):
    lines, at = _line(draw, text)
    other = draw.randrange(len(lines))
    lines[at], lines[other] = lines[other], lines[at]
    return "".join(lines)


def insert_line(draw, text):
    lines, at = _line(draw, text)
    return "".join([*lines[:at], draw.choice(JUNK) + "\n", *lines[at:]])


def cut(draw, text):
    return text[: draw.randrange(len(text))]


def change_digit(draw, text):
    at = draw.choice([place for place, sign in enumerate(text) if sign.isdigit()])
    return text[:at] + draw.choice("0123456789") + text[at + 1 :]


def insert_sign(draw, text):
    at = draw.randrange(len(text))
    return text[:at] + draw.choice(SIGNS) + text[at:]


def delete_word(draw, text):
    words = text.split(" ")
    del words[draw.randrange(len(words))]
    return " ".join(words)


FAULTS = (delete_line, repeat_line, swap_lines, insert_line, cut, change_digit, insert_sign, delete_word)


def network(kind, keys=""):
    """Return the reader of a network, which gives its links and its notes."""

    def read(path):
        found = parse_topology(f"{kind}{path}{keys}")
        out = sorted((str(found.egress[rank]), str(found.ingress[rank])) for rank in range(found.num_ranks))
        return (found.num_switches, out, sorted(found.bandwidth)), found.notes

    return read


def measurements(path):
    found = []
    for series in read_measurements(path):
        line = fit(series.size, series.seconds)
        found.append((series.link, f"{line.alpha:.1e}", f"{line.beta:.1e}"))
    return found, tuple(note for series in read_measurements(path) for note in series.notes)


def program(path):
    found, _ = read_program(path)
    judge(found)
    return len(found), ()


TWICE = [
    *(("nvidia-smi:", case) for case in ("01", "08", "09", "14", "18")),
    ("rocm-smi:", "11"),
    ("fit", "03"),
    ("fit", "04"),
    ("fit", "07"),
    ("fit", "15"),
]
"""Readers of files that state things twice."""
PLAIN = ("osu_tag.txt", "control_a100_bridge_pairs_ok.txt", "both.txt")
"""Files that do not: OSU's tables have one value for each size, NVLinks hide a pair's other path, and a log
may be cut between two tests."""
GRAPH = nx.Graph()
GRAPH.add_edges_from(nx.petersen_graph().edges, bandwidth="1GB/s", alpha="1us")
MADE = {
    "nccl:": {"topo.xml": dgx_a100()},
    "": {
        "net.gml": "\n".join(nx.generate_gml(GRAPH)),
        "net.edgelist": "\n".join(nx.generate_edgelist(GRAPH.to_directed())),
    },
    "fit": {
        "times.csv": "source,destination,bytes,seconds\n"
        + "".join(
            f"{pair},{size},{1e-5 + size / 1e9}\n" for pair in ("0,1", "1,0") for size in (8, 2**20, 2**28)
        ),
        "osu.txt": OSU_LATENCY + OSU_BANDWIDTH + OSU_ALLGATHER,
        "report.json": report("sendrecv", [result(4**n, 5 + 4**n / 25e3, 9) for n in range(5, 10)]),
    },
}
"""Files for readers without a case, by the kind of the reader."""
ONCE = [("nccl:", "02"), ("", "05"), ("", "12"), ("", "13"), ("program", "06"), ("program", "10")]
READERS = {"fit": measurements, "program": program}
SUFFIXES = {"nvidia-smi:": ".txt", "rocm-smi:": ".txt", "nccl:": ".xml"}


def files(kind, case):
    """Return the files of a case that its reader takes."""
    (folder,) = CASES.glob(f"{case}_*")
    return [path for path in sorted(folder.iterdir()) if path.suffix == SUFFIXES.get(kind, path.suffix)]


def outcomes(kind, path, folder, count, seed=0):
    """Yield each mutated text with what its reader returns, or the error."""
    read = READERS.get(kind) or network(kind)
    draw = random.Random(f"{path.name} {seed}")
    text = path.read_text()
    target = folder / path.name
    for number in range(count):
        mutated = FAULTS[number % len(FAULTS)](draw, text)
        target.write_text(mutated)
        try:
            yield mutated, read(target)
        except (TuttiError, ProgramError) as error:
            yield mutated, error


def check(kind, path, folder, count):
    """Check that a fault is ignored, noted or refused; return the number of each outcome."""
    plain = folder / path.name
    plain.write_text(path.read_text())
    try:
        expected = (READERS.get(kind) or network(kind))(plain)
    except TuttiError as error:
        expected = (error, ())
    found = {"same": 0, "noted": 0, "refused": 0, "other": 0}
    for mutated, outcome in outcomes(kind, path, folder, count):
        if isinstance(outcome, Exception):
            assert "\n" not in str(outcome)
            assert str(outcome).isprintable()
            found["refused"] += 1
        elif outcome[0] == expected[0]:
            found["same"] += 1
        elif set(outcome[1]) - set(expected[1]):
            found["noted"] += 1
        else:
            found["other"] += 1
            assert (kind, path.parent.name[:2]) not in TWICE or path.name in PLAIN, mutated
    return found


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, made in MADE.items() for name in made])
def test_a_fault_in_other_files_is_read_or_refused(kind, name, tmp_path):
    source = tmp_path / name
    source.write_text(MADE[kind][name])
    folder = tmp_path / "mutated"
    folder.mkdir()
    found = check(kind, source, folder, COUNT)
    assert sum(found.values()) == COUNT
    assert found["refused"] < COUNT


@pytest.mark.parametrize(("kind", "case"), [*TWICE, *ONCE])
def test_a_fault_is_passed_over_noted_or_refused(kind, case, tmp_path):
    for path in files(kind, case):
        assert sum(check(kind, path, tmp_path, COUNT).values()) == COUNT
