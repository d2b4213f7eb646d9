"""GOAL files, by the rules of txt2bin's grammar."""

import re
from collections import defaultdict

import pytest

from tests.schedules.programs.replays import CASES, between_ranks, loads, made, play
from tutti.schedules.programs import goal
from tutti.topologies.errors import InputError
from tutti.topologies.topology import Link, Topology

SIZE = 9 * 2**20 * 10**3
TASK = re.compile(
    r"(?P<label>[a-zA-Z]\w*): (?:(?P<action>send|recv) (?P<bytes>\d+)b (?:to|from) (?P<peer>\d+)"
    r" tag (?P<tag>\d+) cpu (?P<cpu>\d+) nic (?P<nic>\d+)|calc \d+ cpu \d+)"
)
NEEDS = re.compile(r"([a-zA-Z]\w*) requires ([a-zA-Z]\w*)")


def parsed(text):
    """Return the tasks of each rank by label, and the bytes that leave through each (rank, nic)."""
    lines = [line for line in text.splitlines() if line and not line.startswith("//")]
    number = int(re.fullmatch(r"num_ranks (\d+)", lines.pop(0))[1])
    ranks, leaving, labels = [], defaultdict(int), {}
    for line in lines:
        if line == "}":
            labels = None
        elif begin := re.fullmatch(r"rank (\d+) \{", line):
            assert int(begin[1]) == len(ranks)
            labels = {}
            ranks.append(labels)
        elif needs := NEEDS.fullmatch(line):
            assert needs[2] in labels, "labels are defined before they are used"
            labels[needs[1]][4].append(needs[2])
        else:
            task = TASK.fullmatch(line)
            assert task, line
            action, size = task["action"] or "calc", int(task["bytes"] or 0)
            labels[task["label"]] = (action, int(task["peer"] or -1), int(task["tag"] or -1), size, [])
            if action != "calc":
                assert size >= 1
                assert int(task["nic"]) < 256
            if action == "send":
                leaving[len(ranks) - 1, int(task["nic"])] += size
    assert len(ranks) == number
    return ranks, leaving


def written(schedule, path, size=SIZE):
    goal.write(schedule, path, goal.OPTIONS(f"{size}B"))
    return path.read_text()


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_replay_ends_and_moves_what_the_schedule_moves(case, tmp_path):
    schedule = made(*case)
    ranks, leaving = parsed(written(schedule, tmp_path / "x.goal"))
    assert play(ranks) == between_ranks(schedule) * SIZE
    source, nics = schedule.topology.source.tolist(), defaultdict(int)
    for link, rank in enumerate(source):  # the links out of a rank, in order, are its first interfaces
        if rank < schedule.topology.num_ranks:
            load = loads(schedule)[link] * SIZE
            assert leaving.pop((rank, nics[rank]), 0) == load
        nics[rank] += 1
    assert not leaving


def test_a_ring_of_two_by_hand(tmp_path):
    """Each rank sends its half of M to the other: the link out is interface 0, the link in interface 1."""
    text = written(made("ring:2", "allgather", "ring"), tmp_path / "x.goal", 1000)
    bodies = re.findall(r"rank \d \{\n(.*?)\}", text, re.DOTALL)
    plain = [sorted(re.sub(r"t\d+: | tag \d+", "", line) for line in body.splitlines()) for body in bodies]
    assert plain == [
        ["recv 500b from 1 cpu 0 nic 1", "send 500b to 1 cpu 0 nic 0"],
        ["recv 500b from 0 cpu 0 nic 1", "send 500b to 0 cpu 0 nic 0"],
    ]
    # 0.5 us, and 1 ns for 50 bytes: LogGOPSim takes whole numbers only.
    assert "-L 500000 -o 0 -g 0 -O 0 -G 20 -S 2147483647 (times in ps)" in text


@pytest.mark.parametrize(
    ("rates", "parameters"),
    [
        ("bandwidth=1GB/s&alpha=2us", "-L 2000 -o 0 -g 0 -O 0 -G 1 -S 2147483647 (times in ns)"),
        # 3.333 ps per byte would become 3 ps, a tenth too little.
        ("bandwidth=300GB/s&alpha=0.5us", "-L 500000000 -o 0 -g 0 -O 0 -G 3333 -S 2147483647 (times in fs)"),
        # In fs, 10 us would be over 2^31.
        ("bandwidth=300GB/s&alpha=10us", "-L 10000000 -o 0 -g 0 -O 0 -G 3 -S 2147483647 (times in ps)"),
    ],
)
def test_parameters_are_whole_numbers(rates, parameters, tmp_path):
    text = written(made(f"ring:2?{rates}", "allgather", "ring"), tmp_path / "x.goal", 1000)
    assert text.splitlines()[1] == f"// {parameters}"


def test_a_size_that_does_not_divide_is_rounded_up(tmp_path):
    said = goal.write(made("ring:4", "allgather", "ring"), tmp_path / "x.goal", goal.OPTIONS("1001B"))
    assert (said["bytes"], said["rounded"]) == (1008, "1001B does not divide into 8 units; written for 1008B")
    assert play(parsed((tmp_path / "x.goal").read_text())[0]) == 4 * 3 * 1008 // 4


def test_no_rank_has_over_256_interfaces(tmp_path):
    links = [Link(a, b) for a, b in [(0, 1), (1, 0)] for _ in range(129)]
    schedule = made("ring:2", "allgather", "ring")
    wide = schedule.replace(topology=Topology.from_links("wide", 2, links))
    wide = wide.replace(route=(wide.chunk != 0) * 129)
    with pytest.raises(InputError, match=r"does not fit: rank 0 has 258 ends of links.*at most 256"):
        goal.write(wide, tmp_path / "x", goal.OPTIONS("1KB"))
    assert not (tmp_path / "x").exists()
