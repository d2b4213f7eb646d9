"""``tutti exec`` and ``tutti profile``: schedules on real processes, and what is refused."""

import json

import pytest

from tutti.schedules.execution.session import RepeatTimes
from tutti.schedules.execution.transport import Failure
from tutti.topologies.files import read_topology

QUICK = ("--warmup", 0, "--repeats", 2)


def test_a_schedule_is_played_at_every_size(tutti, schedule):
    code, out, err = tutti("exec", schedule, "--size", "1KiB,64KiB", *QUICK)
    assert (code, err) == (0, "")
    assert out.startswith("allgather of ring.json on 4 processes over shm: all bytes right\n")
    assert [line.split()[0] for line in out.splitlines()[4:] if line.strip()] == ["1KiB", "64KiB"]


def test_bandwidths_are_those_of_nccl_tests(tutti, schedule):
    """Of an allgather algbw is M over the time, busbw 3/4 of that on four ranks."""
    _, out, _ = tutti("exec", schedule, "--size", "64KiB", "--json", *QUICK)
    row = json.loads(out)
    assert row["algbw_gbps"] == pytest.approx(65536 / row["time_us"] / 1e3)
    assert row["busbw_gbps"] == pytest.approx(0.75 * row["algbw_gbps"])
    assert row["least_us"] <= row["time_us"] <= row["most_us"]


def test_a_profile_is_a_network(tutti, tmp_path, monkeypatch):
    """Of times that follow the model with 5 us and 1 GB/s: those of a busy machine may tell no bandwidth."""

    def run(job, tasks, settings):
        answers = [8, 8, 1, 1] * 2
        seconds = [2 * n * 5e-6 + 8 * task.size / 1e9 for n, task in zip(answers, tasks, strict=True)]
        return [[RepeatTimes([one], []) for one in seconds]] * 2

    monkeypatch.setattr("tutti.experiments.cli.execution.run", run)
    path = tmp_path / "machine.json"
    code, out, err = tutti("profile", "--ranks", 2, "--sizes", "4KB,64KB", "-o", path)
    assert (code, err) == (0, "")
    assert "2, from each of 2 ranks to each other" in out
    network = read_topology(path)
    assert (network.source.tolist(), network.target.tolist()) == ([0, 1], [1, 0])
    assert [float(one) for one in network.alpha] == pytest.approx([5e-6] * 2)
    assert [float(one) for one in network.bandwidth] == pytest.approx([1e9] * 2, rel=1e-6)


def test_a_run_is_set_against_the_simulation_on_a_network(tutti, schedule):
    """BFB on ring:4 takes two steps: 2 us, as the bandwidth counts for nothing."""
    model = "complete:4?bandwidth=1PB/s&alpha=1us"
    code, out, _ = tutti("exec", schedule, "--size", "1KiB", "--against-model", model, "--json", *QUICK)
    row = json.loads(out)
    assert (code, row["model_us"]) == (0, pytest.approx(2, rel=1e-3))
    assert row["model_over_time"] == pytest.approx(row["model_us"] / row["time_us"])
    out = tutti("exec", schedule, "--size", "1KiB", "--against-model", model, *QUICK)[1]
    assert "model / time" in out


def test_a_size_that_does_not_divide_is_rounded_up(tutti, schedule):
    # Eight units of elements of four bytes.
    code, out, err = tutti("exec", schedule, "--size", "64004B", "--json", *QUICK)
    assert (code, json.loads(out)["size_bytes"]) == (0, 64032)
    assert "64004B does not divide into 8 units of whole elements (float32); played at 64032B" in err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--ranks", 8], "is for 4 ranks, not 8"),
        (["--size", "1KiB,1PiB"], "of memory are needed here, and "),
        (["--size", "1.5B"], "1.5 bytes are no whole number of them"),
        (["--repeats", 0], "option --repeats is 0; it must be a whole number, at least 1"),
        (["--timeout", "0s"], "option --timeout is '0s'; it must be positive"),
        (["--transport", "carrier"], "invalid choice: 'carrier'"),
    ],
)
def test_bad_input_is_one_line(tutti, schedule, arguments, says):
    code, out, err = tutti("exec", schedule, *arguments)
    assert (code, out) == (2, "")
    assert says in err
    assert err.count("\n") == 1


def test_profiles_are_of_two_ranks_or_more(tutti):
    assert tutti("profile")[2] == "tutti: --ranks N says how many there are\n"
    assert "2 to 64" in tutti("profile", "--ranks", 1)[2]


def test_a_rank_that_fails_is_exit_1(tutti, schedule, monkeypatch):
    def run(job, tasks, settings):
        raise Failure("rank 1 died: SIGKILL")

    monkeypatch.setattr("tutti.experiments.cli.execution.run", run)
    assert tutti("exec", schedule) == (1, "", "tutti: rank 1 died: SIGKILL\n")


def test_a_plan_of_mscclpp_is_played(tutti, schedule, tmp_path):
    plan = tmp_path / "plan.json"
    assert tutti("export", schedule, "--format", "mscclpp", "-o", plan)[0] == 0
    code, out, err = tutti("exec", plan, "--size", "64KiB", *QUICK)
    assert (code, err) == (0, "")
    assert out.startswith("allgather of plan.json on 4 processes over shm: all bytes right\n")
