"""``tutti export`` and ``tutti import``: to MSCCL XML and back."""

import json

import pytest

import tutti as tutti_in_python
from tests.schedules.programs.by_hand import pairs_allreduce, straight
from tutti.schedules.files.schedule_file import read_schedule, write_schedule
from tutti.schedules.programs.formats import FORMATS
from tutti.schedules.programs.msccl.files import read, to_xml
from tutti.topologies.errors import InputError


@pytest.fixture
def exported(tutti, schedule, tmp_path):
    """The schedule as MSCCL XML."""
    path = tmp_path / "ring.xml"
    assert tutti("export", schedule, "--format", "msccl", "-o", path)[0] == 0
    return path


def test_a_schedule_is_exported_and_comes_back(tutti, schedule, exported, tmp_path):
    program = read(exported)
    assert (program.num_ranks, str(program.collective)) == (4, "allgather")
    back = tmp_path / "back.json"
    code, out, _ = tutti(
        "import", exported, "--format", "msccl", "--topology", "ring:4", "-o", back, "--json"
    )
    assert code == 0
    assert {"topology": "ring:4", "clock": "flow", "transfers": 16}.items() <= json.loads(out).items()
    assert read_schedule(back).topology == read_schedule(schedule).topology
    assert tutti("verify", back)[0] == 0


def test_what_was_written_is_said(tutti, schedule, tmp_path):
    path = tmp_path / "ring.xml"
    options = ("--option", "flavour=rccl", "--option", "in_place=true", "--option", "max_bytes=1MB")
    code, out, _ = tutti("export", schedule, "--format", "msccl", *options, "-o", path, "--json")
    assert code == 0
    # Half of the opposite shard goes each way: eight halves.
    assert {"format": "msccl", "flavour": "rccl", "units": 8}.items() <= json.loads(out).items()
    assert 'inplace="1" outofplace="0" minBytes="0" maxBytes="1000000"' in path.read_text()
    assert "flavour" in tutti("export", schedule, "--format", "msccl", "-o", path)[1]


@pytest.mark.parametrize("form", [name for name in FORMATS if name != "nccl-graph"])
def test_every_format_is_written_and_said(tutti, schedule, tmp_path, form):
    code, out, _ = tutti("export", schedule, "--format", form, "-o", tmp_path / "out.x", "--json")
    assert code == 0
    assert {"format": form, "topology": "ring:4"}.items() <= json.loads(out).items()
    written = {path.name for path in tmp_path.iterdir()} - {schedule.name}
    assert "out.x" in written or {f"out.x.{rank}.et" for rank in range(4)} <= written


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        (("--format", "mscll"), "unknown format 'mscll'; did you mean 'msccl'?"),
        (
            ("--format", "msccl", "--option", "flavor=rccl"),
            "format msccl has no option 'flavor'",
        ),
        (("--format", "msccl", "--option", "flavour=nccl"), "msccl option flavour is 'nccl'"),
        (("--format", "msccl", "--option", "proto=3"), "msccl option proto is '3'; allowed: LL,"),
        (("--format", "msccl", "--option", "max_bytes=0B"), "size '0B'"),
        (("--format", "chakra", "--option", "size=5XB"), "size '5XB' has an unknown unit"),
        (("--format", "nccl-graph"), "does not fit: the schedule is not made of rings: rank "),
        (("--format", "nccl-graph", "--option", "dev=octal"), "nccl-graph option dev is 'octal'"),
        (("--format", "listing", "--option", "rank=4"), "no rank 4; ranks are 0..3"),
        (("--format", "graphml", "--option", "rank=4"), "format graphml has no option 'rank'; it has none"),
        (("--format", "msccl", "--option", "min_bytes=2TiB"), "it would never be chosen (both)"),
    ],
)
def test_bad_words_are_one_line_and_write_nothing(tutti, schedule, tmp_path, words, fault):
    path = tmp_path / "ring.xml"
    code, out, err = tutti("export", schedule, *words, "-o", path)
    assert (code, out, path.exists()) == (2, "", False)
    assert fault in err
    assert err.count("\n") == 1


def test_an_illegal_schedule_is_not_exported(tutti, schedule, tmp_path):
    legal = read_schedule(schedule)
    rows = slice(1, None)
    write_schedule(
        legal.replace(
            chunk=legal.chunk[rows],
            route=legal.route[rows],
            order=legal.order[rows],
            count=None if legal.count is None else legal.count[rows],
            claims={},
        ),
        schedule,
    )
    assert tutti("export", schedule, "--format", "msccl", "-o", tmp_path / "x.xml")[0] == 1
    assert not (tmp_path / "x.xml").exists()


def test_there_must_be_a_place_to_write_to(tutti, schedule, tmp_path):
    code, _, err = tutti("export", schedule, "--format", "msccl", "-o", tmp_path / "none" / "x.xml")
    assert (code, "no directory" in err) == (2, True)


def test_an_import_has_the_rates_that_are_given(tutti, exported, tmp_path):
    path = tmp_path / "back.json"
    rates = ("--bandwidth", "1GB/s", "--alpha", "3us")
    assert tutti("import", exported, "--format", "msccl", *rates, "-o", path)[0] == 0
    link = read_schedule(path).topology.link(0)
    assert (link.bandwidth, link.alpha * 10**6) == (10**9, 3)
    code, _, err = tutti("import", exported, "--format", "msccl", *rates, "--topology", "ring:4", "-o", path)
    assert (code, "not of a --topology" in err) == (2, True)


def test_a_wrong_program_is_no_schedule(tutti, exported, tmp_path):
    exported.write_text(exported.read_text().replace('type="cpy"', 'type="nop"'))
    code, out, err = tutti("import", exported, "--format", "msccl", "-o", tmp_path / "back.json")
    assert (code, out) == (1, "")
    assert err.count("\n") == 1


def test_a_program_is_verified_by_its_content(tutti, tmp_path):
    path = tmp_path / "a file without an ending"
    path.write_text(to_xml(pairs_allreduce(3)))
    # Each rank has two additions, and two messages to and from each of two others.
    assert tutti("verify", path)[:2] == (
        0,
        "right: 30 instructions, allreduce of 3 ranks, in place, with 2 messages a connection (Simple)\n",
    )
    document = json.loads(tutti("verify", path, "--json")[1])
    assert (document["verified"], document["warnings"], document["in_place"]) == (True, [], [True])


def test_a_wrong_program_is_exit_1_and_what_runtimes_refuse_a_warning(tutti, tmp_path):
    path = tmp_path / "pairs.xml"
    path.write_text('<?xml version="1.0"?>\n' + to_xml(pairs_allreduce(3)).replace('proto="Simple" ', ""))
    code, out, _ = tutti("verify", path)
    assert code == 0
    assert out.splitlines()[:2] == [
        "warning: line 1: an XML declaration, which the runtimes refuse (msccl, rccl)",
        "warning: line 2: <algo> has no proto, which the runtime asks for (msccl, rccl)",
    ]
    path.write_text(to_xml(pairs_allreduce(3)).replace('srcoff="1"', 'srcoff="0"', 1))
    code, out, err = tutti("verify", path)
    assert (code, out, err.count("\n")) == (1, "", 1)
    code, out, _ = tutti("verify", path, "--json")
    assert (code, json.loads(out)["verified"]) == (1, False)


def test_a_root_that_does_not_show_is_given(tutti, tmp_path):
    path = tmp_path / "reduce.xml"
    text = to_xml(straight("reduce", root=1)).replace('o_chunks="3"', 'o_chunks="0"')
    path.write_text(text)
    assert tutti("verify", path, "--root", 1)[0] == 0


def test_a_result_exports_itself(tmp_path):
    result = tutti_in_python.synthesize("ring:4", "allgather", method="ring")
    said = result.export(tmp_path / "ring.xml", flavour="rccl")
    assert said["flavour"] == "rccl"
    assert read(tmp_path / "ring.xml").num_ranks == 4
    with pytest.raises(InputError, match="no option 'flavor'"):
        result.export(tmp_path / "ring.xml", flavor="rccl")


def test_a_plan_of_mscclpp_is_written_known_and_judged(tutti, schedule, tmp_path):
    path = tmp_path / "plan.json"
    code, out, _ = tutti("export", schedule, "--format", "mscclpp", "-o", path, "--json")
    assert code == 0
    assert {"format": "mscclpp", "units": 8, "multiple_of": "128 B"}.items() <= json.loads(out).items()
    code, out, _ = tutti("verify", path, "--json")
    assert code == 0
    assert {"verified": True, "warnings": [], "ranks": 4}.items() <= json.loads(out).items()
    plan = json.loads(path.read_text())
    plan["gpus"][2]["threadblocks"][0]["ops"].pop()
    path.write_text(json.dumps(plan))
    assert tutti("verify", path)[0] == 1


def test_a_plan_of_mscclpp_is_not_imported(tutti, schedule, tmp_path):
    code, _, err = tutti("import", schedule, "--format", "mscclpp", "-o", tmp_path / "x.json")
    assert code != 0
    assert "programs of format 'mscclpp' aren't made schedules; imported are: msccl" in err


def test_threads_are_whole_warps(tutti, schedule, tmp_path):
    options = ("--option", "threads=100", "-o", tmp_path / "x.json")
    assert "must be a multiple of 32" in tutti("export", schedule, "--format", "mscclpp", *options)[2]


def test_a_size_without_a_unit_is_said_to_have_none(tutti, schedule, tmp_path):
    options = ("--format", "goal", "--option", "size=1000000")
    code, _, err = tutti("export", schedule, *options, "-o", tmp_path / "out.goal")
    assert (code, err) == (2, "tutti: size '1000000' has no unit; write it like 32KB, 1MiB or 1GB\n")


def test_a_program_where_a_schedule_is_expected_is_to_be_imported(tutti, exported):
    code, _, err = tutti("simulate", exported, "--size", "1MB")
    assert code == 2
    assert err.endswith("; tutti import makes one of a program\n")


def test_what_is_exported_is_not_written_over(tutti, schedule):
    before = schedule.read_bytes()
    code, out, err = tutti("export", schedule, "--format", "listing", "-o", schedule)
    assert (code, out) == (2, "")
    assert err == f"tutti: {schedule}: is the input file; write to another file\n"
    assert schedule.read_bytes() == before
