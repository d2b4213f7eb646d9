"""Programs in plain words, against lines written by hand."""

import pytest

from tests.schedules.programs.by_hand import ring_allgather, ring_allreduce
from tests.schedules.programs.replays import made
from tutti.schedules.collective import collective
from tutti.schedules.programs import listing
from tutti.schedules.programs.listing import to_listing
from tutti.schedules.programs.program import NOWHERE, Address, Buffer, Instruction, Op, Program
from tutti.topologies.errors import InputError

IN, OUT, SCRATCH = Buffer


def test_the_rank_of_a_ring():
    assert to_listing(ring_allgather(3), 1).splitlines() == [
        "ring: M is 3 units",
        "",
        "rank 1 (units: input 1, output 3, scratch 0)",
        "  block 0, step 0: copy input[0] to output[1]",
        "  block 0, step 1: send input[0] to rank 2",
        "  block 0, step 2: receive output[0] from rank 0 and send it on to rank 2",
        "  block 0, step 3: receive output[2] from rank 0",
    ]


def test_sums():
    lines = to_listing(ring_allreduce(3), 0)
    assert "step 1: receive 1 unit from rank 2, add input[2] and send the sum to rank 1\n" in lines
    assert (
        "step 2: receive 1 unit from rank 2, add input[1], keep the sum as output[1] and send it to rank 1\n"
        in lines
    )


def test_waits_channels_and_runs_of_units_are_said():
    receive = Instruction(Op.RECV, NOWHERE, Address(SCRATCH, 0), 2, origin=0, channel=3)
    add = Instruction(Op.REDUCE, Address(SCRATCH, 0), Address(IN, 0), 2, waits=((0, 0),))
    keep = Instruction(Op.COPY, Address(IN, 0), Address(OUT, 0), 2, waits=((0, 0), (1, 0)))
    program = Program.of(
        collective("reduce", 2, root=1),
        2,
        [[[Instruction(Op.SEND, Address(IN, 0), length=2, to=1, channel=3)]], [[receive], [add], [keep]]],
    )
    assert to_listing(program, 1).splitlines()[3:] == [
        "  block 0, step 0: receive scratch[0..1] from rank 0 (channel 3)",
        "  block 1, step 0: after block 0, step 0: add scratch[0..1] to input[0..1]",
        "  block 2, step 0: after block 0, step 0 and block 1, step 0: copy input[0..1] to output[0..1]",
    ]


def test_every_instruction_has_its_line(tmp_path):
    said = listing.write(made("mesh:2x3", "allreduce", "direct"), tmp_path / "x", listing.OPTIONS())
    lines = (tmp_path / "x").read_text().splitlines()
    assert sum(line.startswith("  block ") for line in lines) == said["instructions"]


def test_a_rank_that_is_not_there():
    with pytest.raises(InputError, match=r"no rank 3; ranks are 0\.\.2"):
        to_listing(ring_allgather(3), 3)
