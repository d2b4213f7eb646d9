"""Schedules as MSCCL XML files; those that would hang at the depth of the protocol are refused."""

import pytest

import tutti
from tests.schedules.programs.by_hand import doubling_allreduce
from tests.schedules.programs.replays import made
from tests.schedules.programs.runs import outcome
from tutti.schedules.collective import collective
from tutti.schedules.programs.formats import FORMATS
from tutti.schedules.programs.interpreter import ProgramError, judge
from tutti.schedules.programs.lowering import FormatLimits, lower
from tutti.schedules.programs.msccl import files
from tutti.schedules.programs.msccl.files import MscclOptions, lowered, to_xml
from tutti.schedules.programs.msccl.reader import parse_algo
from tutti.schedules.programs.mscclpp.files import PlanOptions, plan_of
from tutti.schedules.programs.program import NOWHERE, Address, Buffer, Instruction, Op, Program
from tutti.topologies.errors import InputError

HUNG = [
    ("torus:3x3", "allgather", "torus_rings"),
    ("ring:8", "allgather", "swing"),
    ("ring:8", "allgather", "bfb"),
    ("ring:8", "allreduce", "pat"),
    ("ring:8", "all-to-all", "bruck"),
    ("dgx1", "allreduce", "bine"),
    ("dgx_a100:2", "allgather", "nccl"),
    ("switch2d:2x4", "allgather", "ring"),
    ("mesh:3x3", "allreduce", "min_latency"),
    ("complete:8", "allreduce", "blink"),
]
"""Schedules that hang with two messages per connection unless the depth is respected."""


@pytest.mark.parametrize(("network", "kind", "method"), HUNG)
def test_programs_end_over_two_messages_a_connection(network, kind, method):
    schedule = made(network, kind, method)
    plain = lower(schedule, limits=FormatLimits(64, 64, 71), units=64)
    assert outcome(plain, depth=2, by_unit=True) == "deadlock"
    program = lowered(schedule, MscclOptions())
    assert outcome(program, depth=2, by_unit=True) == "right"
    assert outcome(program, depth=2) == "right"
    assert to_xml(program)


def test_a_schedule_that_would_hang_is_refused_with_both_depths(monkeypatch):
    # Its ranks exchange messages of seven units; no shorter ones are tried here.
    monkeypatch.setattr(files, "LENGTHS", (71,))
    with pytest.raises(
        InputError, match=r"does not fit: deadlock: .* holds 2 messages .*; it needs \d+ \(pro"
    ):
        lowered(made("complete:8", "allreduce", "blink"), MscclOptions())


def test_a_file_is_judged_over_the_connections_of_its_protocol(tmp_path):
    # Each rank sends four units before it receives.
    path, text = tmp_path / "it.xml", to_xml(doubling_allreduce(4), MscclOptions(proto="LL"))
    path.write_text(text)
    FORMATS["msccl"].judge(path, None, 1)
    path.write_text(text.replace('proto="LL"', 'proto="Simple"'))
    with pytest.raises(ProgramError, match="holds 2 messages of one unit; it needs 4"):
        FORMATS["msccl"].judge(path, None, 1)


def test_blocks_that_are_waited_for_have_numbers_of_eight_bits():
    # Rank 0 has 202 blocks, and 100 wait for others, whose numbers the runtime keeps in an int8.
    first, second = ([Address(Buffer.SCRATCH, begin + number) for number in range(100)] for begin in (0, 100))
    blocks = [
        [Instruction(Op.COPY, first[number], second[number], waits=((100 + number, 0),))]
        for number in range(100)
    ]
    blocks += [[Instruction(Op.COPY, Address(Buffer.INPUT, 0), place)] for place in first]
    blocks.append([Instruction(Op.COPY, Address(Buffer.INPUT, 0), Address(Buffer.OUTPUT, 0))])
    blocks.append([Instruction(Op.SEND, Address(Buffer.INPUT, 0), NOWHERE, to=1)])
    takes = [[Instruction(Op.RECV, NOWHERE, Address(Buffer.OUTPUT, 0), origin=0)]]
    late = Program.of(collective("broadcast", 2, root=0), 1, [blocks, takes], scratch=[200, 0])
    options = MscclOptions(flavour="msccl")
    with pytest.raises(
        InputError, match=r"does not fit: 1\d\d is the number of a block that is waited for, at m"
    ):
        to_xml(late, options)
    program = late.with_awaited_first()
    assert to_xml(program, options)
    assert judge(program, interleavings=2).races_checked
    for one in range(len(program)):  # each waits for the block that writes its source
        copy = program.instruction(one)
        for block, step in copy.waits:
            number = program.begin[block] + step
            assert program.instruction(number).target == copy.source
            assert block < 100


def test_what_all_blocks_wait_for_does_not_fit():
    # In place another block waits for each of 145 blocks.
    options = MscclOptions(flavour="msccl", in_place=True, instances=5)
    program = lowered(made("complete:16", "allreduce", "direct"), options)
    with pytest.raises(InputError, match="does not fit: 128 is the number of a block that is waited for"):
        to_xml(program, options)


def test_a_rank_of_many_peers_has_several_channels():
    # There are 33 ranks to send to, and at most 32 blocks that send on a channel.
    program = lowered(made("complete:34", "all-to-all", "direct"), MscclOptions(flavour="msccl"))
    text = to_xml(program, MscclOptions(flavour="msccl"))
    assert parse_algo(text, "it").attributes["nchannels"] == "2"


def test_what_the_format_does_not_have_is_refused_before_it_is_lowered(monkeypatch):
    # One shard of more than a million units took minutes to lower.
    made = tutti.synthesize("ring:4", "allgather", "64MB", method="ring", shards=[1, 1000003, 2, 5]).schedule
    monkeypatch.setattr(MscclOptions, "lower", lambda *_: pytest.fail("lowered"))
    monkeypatch.setattr(PlanOptions, "lower", lambda *_: pytest.fail("lowered"))
    for refused in (lambda: lowered(made, MscclOptions()), lambda: plan_of(made, PlanOptions())):
        with pytest.raises(InputError, match=r"no groups and no uneven shards; this is .*1000003"):
            refused()
