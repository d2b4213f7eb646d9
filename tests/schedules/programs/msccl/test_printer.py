"""Programs as MSCCL XML, against the format's rules."""

from collections import defaultdict
from pathlib import Path

import pytest

from tests.schedules.programs.by_hand import (
    doubling_allreduce,
    pairs_allreduce,
    ring_allgather,
    ring_allreduce,
    straight,
)
from tutti.schedules.collective import KINDS, collective
from tutti.schedules.programs.msccl.files import MscclOptions, to_xml
from tutti.schedules.programs.msccl.flavours import BOTH, MSCCL, RCCL
from tutti.schedules.programs.msccl.lint import lint
from tutti.schedules.programs.msccl.reader import from_xml, parse_algo
from tutti.schedules.programs.program import NOWHERE, Address, Buffer, Instruction, Op, Program
from tutti.topologies.errors import InputError

IN, OUT, SCRATCH = Buffer

TWO = Path(__file__).parents[3] / "data" / "msccl" / "ring_of_two.xml"
"""A file written by hand in the style of msccl-tools."""


def steps_of(text, rank=0, block=0):
    """Return (type, depid, deps, hasdep) of each step of a block."""
    gpu = list(parse_algo(text, "text").each("gpu"))[rank]
    steps = next(tb for tb in gpu.each("tb") if tb.attributes["id"] == str(block)).children
    return [tuple(step.attributes[name] for name in ("type", "depid", "deps", "hasdep")) for step in steps]


def one_block(instructions, *more, kind="broadcast", units=1, scratch=100):
    """Return a program of two ranks in which rank 0 has these blocks, and rank 1 receives what they send."""
    sends = [i for block in (instructions, *more) for i in block if i.op is Op.SEND]
    receives = [
        [
            Instruction(Op.RECV, NOWHERE, Address(SCRATCH, 0), i.length, origin=0, channel=channel)
            for i in sends
            if i.channel == channel
        ]
        for channel in sorted({i.channel for i in sends})
    ]
    return Program.of(
        collective(kind, 2), units, [[instructions, *more], receives], scratch=[scratch] * 2, name="hand"
    )


def test_a_program_is_printed_as_msccl_tools_does():
    assert to_xml(ring_allgather(2)) == TWO.read_text()


@pytest.mark.parametrize("flavour", ["msccl", "rccl", "both"])
@pytest.mark.parametrize(
    "program",
    [
        ring_allgather(4),
        ring_allgather(4, in_place=True),
        pairs_allreduce(4),
        ring_allreduce(4),
        doubling_allreduce(4),
    ],
    ids=["allgather", "in place", "pairs", "ring", "doubling"],
)
def test_what_is_printed_is_read_as_it_was(program, flavour):
    # LL holds the four units that each rank of the doubling sends before it receives.
    assert from_xml(to_xml(program, MscclOptions(flavour=flavour, proto="LL")), "text") == program


@pytest.mark.parametrize(
    ("units", "fits"), [(2, {"Simple", "LL", "LL128"}), (4, {"LL", "LL128"}), (10, set())]
)
def test_what_hangs_over_the_connections_of_a_protocol_is_refused(units, fits):
    # Both ranks send everything before they receive. Simple holds 2 messages of a unit, LL and LL128 hold 8.
    swap = [
        [
            [Instruction(Op.SEND, Address(IN, 0), NOWHERE, units, to=1 - rank)],
            [Instruction(Op.RECV_REDUCE_COPY, Address(IN, 0), Address(OUT, 0), units, origin=1 - rank,
                         waits=((0, 0),))],
        ]
        for rank in range(2)
    ]  # fmt: skip
    program = Program.of(collective("allreduce", 2), units, swap, name="swap")
    for proto in ("Simple", "LL", "LL128"):
        if proto in fits:
            assert to_xml(program, MscclOptions(proto=proto))
        else:
            with pytest.raises(InputError, match=rf"does not fit.* it needs {units} \(protocol {proto}\)"):
                to_xml(program, MscclOptions(proto=proto))


def messages_of(text):
    """Yield (sending step, receiving step) of each message, as attributes."""
    ends = {"send": defaultdict(list), "recv": defaultdict(list)}
    for gpu in parse_algo(text, "text").each("gpu"):
        for block in gpu.each("tb"):
            mine, chan = gpu.attributes["id"], block.attributes["chan"]
            for step in block.each("step"):
                kind, of = step.attributes["type"], step.attributes
                if kind in ("s", "rcs", "rrs", "rrcs"):
                    ends["send"][mine, block.attributes["send"], chan].append(of)
                if kind in ("r", "rcs", "rrs", "rrc", "rrcs"):
                    ends["recv"][block.attributes["recv"], mine, chan].append(of)
    for fifo, sent in ends["send"].items():
        yield from zip(sent, ends["recv"][fifo], strict=True)


@pytest.mark.parametrize("program", [ring_allreduce(3), pairs_allreduce(3), ring_allgather(4, in_place=True)])
def test_both_ends_of_a_message_name_both_places(program):
    for out, into in messages_of(to_xml(program)):
        if out["type"] in (
            "s",
            "rrs",
        ):  # it has no target: take the receiver's target or addend
            end = "src" if into["type"] == "rrs" else "dst"
            assert (out["dstbuf"], out["dstoff"]) == (into[f"{end}buf"], into[f"{end}off"])
        if into["type"] in ("r", "rcs"):  # it has no source
            end = "src" if out["type"] in ("s", "rrs") else "dst"
            assert (into["srcbuf"], into["srcoff"]) == (out[f"{end}buf"], out[f"{end}off"])
        assert "-1" not in {of[f"{end}off"] for of in (out, into) for end in ("src", "dst")}


@pytest.mark.parametrize("kind", [str(kind) for kind in KINDS])
def test_every_collective_is_read_as_it_was_where_the_runtime_has_it(kind):
    program = ring_allreduce(3) if kind == "allreduce" else straight(kind)
    taken = {
        "msccl": {"allreduce", "allgather", "reduce", "broadcast", "all-to-all", "reduce-scatter"},
        "rccl": {str(kind) for kind in KINDS},
        "both": {"allreduce", "allgather", "reduce", "broadcast", "all-to-all"},
    }
    for flavour, kinds in taken.items():
        options = MscclOptions(flavour=flavour)
        if kind in kinds:
            assert from_xml(to_xml(program, options), "text") == program
        else:
            with pytest.raises(InputError, match=f"no {kind}; choose the flavour"):
                to_xml(program, options)


def test_all_types_of_steps_are_printed():
    text = to_xml(ring_allreduce(4)) + to_xml(pairs_allreduce(4)) + to_xml(doubling_allreduce(2))
    for name in ("nop", "cpy", "re", "s", "r", "rcs", "rrs", "rrc", "rrcs"):
        assert f'type="{name}"' in text


def test_several_waits_become_nops_and_the_last_stays_on_the_step():
    # In rank 0 the additions wait for steps 1 of blocks 1, 2, 3. The first send of the sum waits for the last
    # addition, which is step 4, after two nops and two additions.
    text = to_xml(pairs_allreduce(4))
    assert steps_of(text) == [
        ("nop", "1", "1", "0"),
        ("nop", "2", "1", "0"),
        ("re", "3", "1", "0"),
        ("re", "-1", "-1", "0"),
        ("re", "-1", "-1", "1"),
    ]
    assert steps_of(text, block=1) == [
        ("s", "-1", "-1", "0"),
        ("r", "-1", "-1", "1"),
        ("s", "0", "4", "0"),
        ("r", "-1", "-1", "0"),
    ]


def test_a_wait_for_the_past_of_the_own_block_is_no_wait():
    copy = Instruction(Op.COPY, Address(IN, 0), Address(OUT, 0))
    assert (
        steps_of(to_xml(one_block([copy, copy._replace(waits=((0, 0),))]))) == [("cpy", "-1", "-1", "0")] * 2
    )


def test_a_nop_becomes_part_of_what_comes_after_it():
    # The send waits for the nop before it, which waits for block 0. Block 2 waits for the nop, hence for the
    # same and for all steps before it. A nop at the end of a block does nothing.
    copy = Instruction(Op.COPY, Address(IN, 0), Address(OUT, 0))
    nop = Instruction(Op.NOP, waits=((0, 0),))
    program = one_block(
        [copy],
        [copy._replace(target=Address(SCRATCH, 1)), nop, Instruction(Op.SEND, Address(IN, 0), to=1), nop],
        [copy._replace(target=Address(SCRATCH, 2), waits=((1, 1),))],
    )
    text = to_xml(program)
    assert steps_of(text, block=0) == [("cpy", "-1", "-1", "1")]
    assert steps_of(text, block=1) == [("cpy", "-1", "-1", "1"), ("s", "0", "0", "0")]
    assert sorted(steps_of(text, block=2)) == [("cpy", "1", "0", "0"), ("nop", "0", "0", "0")]


def test_the_runtime_makes_no_reductions_one_of_unlike_length_or_more_than_sixteen():
    def add(source, length=1):
        return Instruction(Op.REDUCE, Address(SCRATCH, source), Address(IN, 0), length)

    unlike = one_block([add(0, 2), add(2), add(3)], kind="allreduce", units=2)
    assert [step[3] for step in steps_of(to_xml(unlike))] == ["1", "0", "0"]
    many = one_block([add(number) for number in range(34)], kind="allreduce", units=2)
    flags = [step[3] for step in steps_of(to_xml(many))]
    assert [number for number, flag in enumerate(flags) if flag == "1"] == [15, 31]


def test_in_place_a_buffer_that_is_not_used_has_no_chunks():
    text = to_xml(ring_allgather(4, in_place=True))
    assert '<gpu id="2" i_chunks="0" o_chunks="4" s_chunks="0">' in text
    assert 'inplace="1" outofplace="0"' in text


def test_the_root_shows_by_its_buffers():
    text = to_xml(straight("broadcast", root=2))
    sizes = [
        (gpu.attributes["i_chunks"], gpu.attributes["o_chunks"]) for gpu in parse_algo(text, "").children
    ]
    assert sizes == [("0", "3"), ("0", "3"), ("3", "3")]
    assert from_xml(text, "text").collective.root == 2


def test_options_are_attributes():
    options = MscclOptions(proto="LL128", min_bytes="1KiB", max_bytes="2MB", threads=256)
    head = to_xml(ring_allgather(2), options).splitlines()[0]
    assert 'proto="LL128"' in head
    assert head.endswith('minBytes="1024" maxBytes="2000000" nthreads="256">')


def test_a_name_is_cut_to_what_the_runtime_reads():
    program = ring_allgather(2).replace(name='a "ring" <on> ' + "x" * 100)
    name = parse_algo(to_xml(program, MscclOptions(flavour="msccl")), "text").attributes["name"]
    assert name == "a__ring___on__" + "x" * 49
    assert len(name) == 63


SEND = Instruction(Op.SEND, Address(IN, 0), to=1)


@pytest.mark.parametrize(
    ("program", "flavour", "fault"),
    [
        (
            one_block([SEND] * 65),
            "rccl",
            r"^hand does not fit: 65 steps in block 0 of rank 0, at most 64 \(rccl\)$",
        ),
        (one_block([SEND] * 65), "both", r"65 steps in block 0 of rank 0, at most 64 \(both\)"),
        (one_block([SEND] * 257), "msccl", "257 steps in block 0 of rank 0, at most 256"),
        (one_block(*[[SEND._replace(channel=c)] for c in range(33)]), "msccl", "nchannels='33'"),
        (one_block([SEND._replace(length=72)], units=72), "both", "cnt='72'; a whole number from 1 to 71"),
        (
            one_block([], *[[Instruction(Op.COPY, Address(IN, 0), Address(SCRATCH, n))] for n in range(64)]),
            "rccl",
            "65 blocks in rank 0, at most 64",
        ),
        (
            one_block(*[[Instruction(Op.COPY, Address(IN, 0), Address(OUT, 0))] * 63] * 64),
            "rccl",
            "4099 elements for the parser of rank 0, at most 4095",
        ),
        (
            one_block([SEND, SEND._replace(channel=1)]),
            "both",
            "^hand: rank 0, block 0 is on channels 0 and 1; a block of MSCCL XML has one$",
        ),
        (
            Program.of(collective("allgather", 4, groups=[[0, 1], [2, 3]]), 2, [[]] * 4),
            "both",
            "no groups and no uneven shards",
        ),
        (Program.of(collective("allgather", 2, shards=[1, 2]), 3, [[]] * 2), "both", "no uneven shards"),
        (
            Program.of(
                collective("allgather", 2),
                2,
                [[[Instruction(Op.COPY, Address(IN, 0), Address(OUT, 0), to=1)]], []],
            ),
            "both",
            "rank 0, block 0, step 0 reads or writes another rank's memory",
        ),
        (
            Program.of(collective("allgather", 2), 2, [[[Instruction(Op.SIGNAL, to=1)]], []]),
            "both",
            "another rank's memory",
        ),
    ],
)
def test_what_does_not_fit_is_one_line(program, flavour, fault):
    with pytest.raises(InputError, match=fault) as raised:
        to_xml(program, MscclOptions(flavour=flavour))
    assert "\n" not in str(raised.value)


def test_one_block_has_one_peer_a_side():
    send = [SEND, SEND._replace(to=2)]
    receive = [[Instruction(Op.RECV, NOWHERE, Address(OUT, 0), origin=0)]]
    program = Program.of(collective("broadcast", 3), 1, [[send], receive, receive], name="hand")
    with pytest.raises(
        InputError, match=r"^hand: rank 0, block 0 sends to ranks 1 and 2; a block .* has one$"
    ):
        to_xml(program)


def test_threads_are_whole_warps():
    with pytest.raises(InputError, match="nthreads='48' is no multiple of 32"):
        to_xml(ring_allgather(2), MscclOptions(threads=48))
    with pytest.raises(InputError, match="whole number from 0 to 256"):
        to_xml(ring_allgather(2), MscclOptions(threads=512))
    to_xml(ring_allgather(2), MscclOptions(threads=512, flavour="msccl"))


def test_what_is_printed_has_no_findings():
    for program in (ring_allgather(4), pairs_allreduce(4), ring_allreduce(4), straight("all-to-all")):
        text = to_xml(program)
        assert [lint(text, flavour) for flavour in (MSCCL, RCCL, BOTH)] == [[], [], []]
