"""Rules for tuners, read back by what each runtime's own reader does with a line."""

import itertools
import math
import shlex

import pytest

from tutti.experiments.cli import main

NCCL_COLLECTIVES = {"broadcast", "reduce", "allgather", "reducescatter", "allreduce"}
NCCL_ALGORITHMS = {"tree", "ring", "collnet_direct", "collnet_chain", "nvls", "nvls_tree", "pat"}
KB, MB, GB = 2**10, 2**20, 2**30


def nccl_rules(path):
    """Return (collective, least, most, algorithm, protocol, channels, hosts, ranks) of each line.

    The example plug-in reads lines of at most 255 characters, skips those whose first is ``#``, takes unknown
    names for others in silence, and the first line that fits; both ends of a range belong to it.
    """
    rules = []
    for line in path.read_text().splitlines():
        assert len(line) <= 255
        if line.startswith("#"):
            continue
        fields = line.split(",")
        assert 8 <= len(fields) <= 10
        kind, least, most, algorithm, protocol, channels, hosts, ranks = fields
        assert kind in NCCL_COLLECTIVES
        assert algorithm in NCCL_ALGORITHMS
        assert protocol in {"ll", "ll128", "simple"}
        rules.append((kind, int(least), int(most), algorithm, protocol, *map(int, (channels, hosts, ranks))))
    return rules


def taken(rules, kind, size):
    return next(rule[3:5] for rule in rules if rule[0] == kind and rule[1] <= size <= rule[2])


def tuned(tmp_path, *arguments):
    assert main(["tune", *arguments, "-o", str(tmp_path)]) == 0
    return tmp_path


def test_nccls_csv_has_its_choices(tmp_path):
    """Those reckoned by hand in tests/heuristics/nccl/test_model.py, for 1 KiB, 64 KiB, ..., 1 GiB."""
    out = tuned(tmp_path, "dgx_a100:2", "--format", "nccl-tuner", "--sizes", f"{KB}B..{GB}B")
    rules = nccl_rules(out / "nccl_tuner.conf")
    for size, chosen in (
        (KB, ("tree", "ll")),
        (256 * KB, ("ring", "ll")),
        (MB, ("tree", "ll128")),
        (16 * MB, ("ring", "ll128")),
        (GB, ("ring", "simple")),
    ):
        assert taken(rules, "allreduce", size) == chosen
    # The plug-in starts from one channel and leaves that with -1; 0 channels are for NCCL to count.
    assert {rule[5:] for rule in rules} == {(0, 2, 16)}
    warning = (
        "# the plug-in gives one channel to what has no line: add lines for broadcast, reduce, allgather,"
    )
    assert warning in (out / "nccl_tuner.conf").read_text()
    assert (rules[0][1], rules[-1][2]) == (0, 2**63 - 1)
    for before, after in itertools.pairwise(rules):
        assert after[1] == before[2] + 1
    assert f"NCCL_TUNER_CONFIG_FILE={out / 'nccl_tuner.conf'}" in (out / "load.env").read_text()


def test_nccls_ranges_end_where_its_choice_changes(tmp_path):
    """On two DGX A100, M in bytes and times in us; a tree's bandwidth jumps at powers of two.

    Ring LL takes 40 + M / 20,800. Tree LL takes 25.2 + M / 9,750 up to 2^18 - 1 bytes, then
    25.2 + M / 7,800: 52.1 before, 58.8 at 2^18, where the ring takes 52.6. Tree LL128 takes
    48.5 + M / 48,000, as much as the ring at M = 312,000.
    """
    rules = nccl_rules(tuned(tmp_path, "dgx_a100:2", "--format", "nccl-tuner") / "nccl_tuner.conf")
    assert [rule[3:5] for rule in rules[:3]] == [("tree", "ll"), ("ring", "ll"), ("tree", "ll128")]
    assert rules[1][1] == 2**18
    assert rules[2][1] in (312_000, 312_001)


def test_a_loader_is_of_a_shell(tmp_path):
    out = tuned(tmp_path / "a b", "dgx_a100:1", "--format", "nccl-tuner", "--sizes", "1KB")
    words = shlex.split((out / "load.env").read_text())
    assert words[-1] == f"NCCL_TUNER_CONFIG_FILE={out / 'nccl_tuner.conf'}"


def test_nccls_names_have_no_hyphens(tmp_path):
    out = tuned(tmp_path, "dgx_h100:1", "--collective", "reduce-scatter", "--format", "nccl-tuner")
    assert {rule[0] for rule in nccl_rules(out / "nccl_tuner.conf")} == {"reducescatter"}


def test_algorithms_may_be_those_that_the_simulator_finds_faster(tmp_path):
    """One GPU sends all of M to an NVSwitch that adds, 15 / 8 of it round a ring: it is never slower."""
    sizes = ("--sizes", "64MB,1GB")
    out = tuned(tmp_path, "dgx_h100:1", "--format", "nccl-tuner", "--option", "by=simulator", *sizes)
    assert [rule[3:5] for rule in nccl_rules(out / "nccl_tuner.conf")] == [("nvls", "simple")]


def ompi_rules(path):
    """Return the rules by collective and ranks: (from, algorithm, fan-out, segment) each.

    Open MPI reads integers one after the other, and nothing from ``#`` to the end of a line.
    """
    words = iter([word for line in path.read_text().splitlines() for word in line.split("#")[0].split()])

    def number():
        return int(next(words))

    rules = {}
    for _ in range(number()):
        kind = number()
        for _ in range(number()):
            ranks = number()
            rules[kind, ranks] = [tuple(number() for _ in range(4)) for _ in range(number())]
    assert next(words, None) is None
    return rules


def test_open_mpis_rules_change_where_two_times_are_equal(tmp_path):
    """On a hypercube of 8: 3 α + 3 M/B by recursive doubling (3), 6 α + 7/4 M/B by Rabenseifner's (6).

    They are equal at M = 12/5 α B: 60,000 bytes at 0.5 us and 50 GB/s. A ring (4) is slower than both.
    """
    arguments = ("hypercube:3", "--format", "ompi-rules", "--sizes", "32KB,128KB")
    rules = ompi_rules(tuned(tmp_path, *arguments) / "ompi_rules.conf")
    assert rules == {(2, 8): [(0, 3, 0, 0), (math.floor(12 / 5 * 25_000), 6, 0, 0)]}


def test_algorithms_that_are_left_out_are_named(tmp_path, capsys):
    out = tuned(tmp_path, "complete:6", "--format", "ompi-rules", "--sizes", "1KB")
    assert ompi_rules(out / "ompi_rules.conf") == {(2, 6): [(0, 4, 0, 0)]}
    left_out = "without 3: recursive_doubling needs a power of two ranks; complete:6 has 6"
    assert left_out in (out / "ompi_rules.conf").read_text()
    assert left_out in capsys.readouterr().err


@pytest.mark.parametrize(
    ("kind", "number", "algorithms"),
    [("allgather", 0, {2, 3, 4}), ("all-to-all", 3, {1, 2, 3}), ("reduce-scatter", 12, {2, 3})],
)
def test_open_mpis_collectives_have_their_numbers(tmp_path, kind, number, algorithms):
    arguments = ("dgx_a100:1", "--collective", kind, "--format", "ompi-rules")
    rules = ompi_rules(tuned(tmp_path, *arguments) / "ompi_rules.conf")
    assert list(rules) == [(number, 8)]
    assert {rule[1] for rule in rules[number, 8]} <= algorithms
    assert [rule[0] for rule in rules[number, 8]] == sorted({rule[0] for rule in rules[number, 8]})
    assert rules[number, 8][0][0] == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("torus:4x4", "--format", "nccl-tuner"), "nccl needs one host, or hosts of equally many ranks"),
        (("dgx_a100:1", "--format", "nccl-tuner", "--collective", "all-to-all"), "nccl does broadcast"),
        (
            ("dgx_a100:1", "--format", "ompi-rules", "--collective", "gather"),
            "format 'ompi-rules' has all",
        ),
        (
            ("dgx_a100:1", "--format", "nccl-tuner", "--methods", "ring"),
            "--methods ring: 'nccl-tuner' is of the",
        ),
        (("dgx_a100:1", "--format", "nccl-tuner", "--option", "by=hand"), "nccl-tuner option by is 'hand'"),
        (
            ("dgx_a100:1", "--format", "nccl-tuner", "--option", "generation=tpu"),
            "generation is 'tpu'",
        ),
        (("dgx_a100:1", "--format", "ompi-rules", "--option", "x=1"), "has no option 'x'; it has none"),
        (("dgx_a100:1", "--format", "nccl-tuner", "--sizes", "1GB..1KB"), "the first size must be less"),
        (("dgx_a100:1", "--format", "nccl_tuner"), "unknown format 'nccl_tuner'; did you mean 'nccl-tuner'"),
    ],
)
def test_bad_input_is_one_line_and_writes_nothing(tmp_path, capsys, arguments, message):
    out = tmp_path / "out"
    assert main(["tune", *arguments, "-o", str(out)]) != 0
    said = capsys.readouterr().err
    assert message in said
    assert said.count("\n") == 1
    assert not out.exists()
