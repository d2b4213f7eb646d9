"""MSCCL XML from other tools, and files that are not MSCCL XML."""

import re
from pathlib import Path

import pytest

from tests.schedules.programs.by_hand import pairs_allreduce, ring_allgather, straight
from tutti import schedules
from tutti.schedules.programs.msccl.files import read, to_xml
from tutti.schedules.programs.msccl.reader import from_xml, parse_algo, places
from tutti.schedules.programs.program import Address, Buffer, Instruction, Op
from tutti.topologies.errors import InputError

IN, OUT, SCRATCH = Buffer
SAMPLES = Path(schedules.__file__).parents[2] / "shared" / "samples" / "msccl_xml"
TWO = Path(__file__).parents[3] / "data" / "msccl" / "ring_of_two.xml"


def sample(name):
    """Return a file that this project did not write."""
    path = SAMPLES / name
    if not path.is_file():
        pytest.skip(f"{path} is not here: it is no part of the project")
    return path


def algo(*lines, **attributes):
    """Return a broadcast of two ranks in one chunk, whose rank 0 has these lines in its block."""
    head = {"nchunksperloop": 1, "ngpus": 2, "coll": "broadcast", "inplace": 0, **attributes}
    listed = " ".join(f'{name}="{value}"' for name, value in head.items())
    return "\n".join(
        [
            f"<algo {listed}>",
            '<gpu id="0" i_chunks="1" o_chunks="1" s_chunks="3"><tb id="0" send="1" recv="-1" chan="0">',
            *lines,
            '</tb></gpu><gpu id="1" i_chunks="0" o_chunks="1" s_chunks="0"></gpu></algo>',
        ]
    )


COPY = '<step s="0" type="cpy" srcbuf="i" srcoff="0" dstbuf="s" dstoff="0" cnt="1"/>'


def test_the_attributes_may_stand_in_any_order_and_the_usual_ones_may_be_missing():
    text = TWO.read_text()
    plain = re.sub(
        r' (depid|deps|hasdep|name|proto|nchannels|minBytes|maxBytes|outofplace)="[^"]*"', "", text
    )
    turned = re.sub(
        r"<(\w+) (.*?)(/?)>",
        lambda tag: f"<{tag[1]} {' '.join(reversed(tag[2].split()))}{tag[3]}>",
        plain,
    )
    assert turned.startswith('<algo inplace="0" coll="allgather"')
    assert from_xml(turned, "text") == from_xml(text, "text") == ring_allgather(2)


def test_blocks_stand_by_their_ids():
    text = to_xml(pairs_allreduce(3))
    blocks = re.findall(r"    <tb .*?</tb>\n", text, re.DOTALL)[:3]
    assert from_xml(text.replace("".join(blocks), "".join(reversed(blocks))), "text") == pairs_allreduce(3)


def test_others_sizes_of_buffers_are_read():
    # ForestColl gives an allgather's input all chunks; RCCL's in-place files give it none.
    text = TWO.read_text()
    assert from_xml(text.replace('i_chunks="1"', 'i_chunks="2"'), "text") == ring_allgather(2)
    inside = to_xml(ring_allgather(3, in_place=True))
    assert from_xml(inside.replace('i_chunks="0"', 'i_chunks="1"'), "text") == ring_allgather(
        3, in_place=True
    )


def test_a_nop_that_somebody_waits_for_stays():
    text = algo(
        COPY,
        '<step s="1" type="nop" srcbuf="i" srcoff="-1" dstbuf="o" dstoff="-1" cnt="0" depid="1" deps="0"/>',
        '<step s="2" type="cpy" srcbuf="i" srcoff="0" dstbuf="s" dstoff="1" cnt="1"/>',
        '</tb><tb id="1" send="-1" recv="-1" chan="0">',
        COPY,
        '<step s="1" type="nop" cnt="0" depid="0" deps="0"/>',
        '<step s="2" type="cpy" srcbuf="i" srcoff="0" dstbuf="s" dstoff="2" cnt="1" depid="0" deps="1"/>',
        '<step s="3" type="nop" cnt="0" depid="0" deps="0"/>',
    )
    program = from_xml(text, "text")
    assert [program.instruction(number).op for number in range(6)] == [
        Op.COPY, Op.NOP, Op.COPY, Op.COPY, Op.COPY, Op.NOP,
    ]  # fmt: skip
    assert program.instruction(4).waits == ((0, 0), (0, 1))
    assert program.instruction(1) == Instruction(Op.NOP, waits=((1, 0),))
    assert program.instruction(2).target == Address(SCRATCH, 1)


def test_the_root_is_who_receives_nothing_where_the_buffers_do_not_say():
    for kind, flags in (("broadcast", "i_chunks"), ("reduce", "o_chunks")):
        text = to_xml(straight(kind, root=2))
        text = re.sub(rf'{flags}="\d"', f'{flags}="0"', text)
        assert from_xml(text, "text").collective.root == 2
        assert from_xml(text, "text", root=2) == straight(kind, root=2)


def test_a_root_that_does_not_show_must_be_given():
    text = algo().replace('i_chunks="1"', 'i_chunks="0"')
    with pytest.raises(InputError, match=r"^text, line 1: <algo> doesn't show which rank is the root"):
        from_xml(text, "text")


def test_a_file_may_be_for_both_places():
    text = TWO.read_text()
    assert places(parse_algo(text, "text")) == (False,)
    both = text.replace('inplace="0"', 'inplace="1"')
    assert places(parse_algo(both, "text")) == (False, True)
    assert not from_xml(both, "text").in_place
    assert from_xml(both, "text", in_place=True).in_place


STEP = '<step s="{s}" type="{type}" srcbuf="i" srcoff="{off}" dstbuf="s" dstoff="0" cnt="{cnt}" {more}/>'


def step(s=0, type="s", off=0, cnt=1, more=""):  # noqa: A002 (the format's name)
    return STEP.format(s=s, type=type, off=off, cnt=cnt, more=more)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ('<!DOCTYPE a [<!ENTITY b "&b;">]><algo/>', "line 1: a document type"),
        ('<!DOCTYPE a SYSTEM "file:///etc/passwd"><algo/>', "line 1: a document type"),
        ("<system/>", "line 1: <system> is no MSCCL program, which is an <algo>"),
        ("<algo><gpu>", "line 1: not XML"),
        ("no xml", "line 1: not XML"),
        ("", "line 1: not XML"),
        ("<algo><a><b><c><d/></c></b></a></algo>", "line 1: nested too deeply"),
        (algo(nchunksperloop=10**9), "line 1: <algo> has nchunksperloop='1000000000'; a whole number from 1"),
        (algo(nchunksperloop=10**40), "nchunksperloop='10000"),
        (algo(ngpus=10**9), "line 1: <algo> has ngpus='1000000000'; a whole number from 2 to 1024"),
        (algo(ngpus=3), "<algo> has ngpus='3' and 2 <gpu>"),
        (algo(coll="allreducee"), "<algo> has coll='allreducee', which isn't read; did you mean 'allreduce'"),
        (algo(coll="custom"), "<algo> has coll='custom', which isn't read"),
        (algo().replace('gpu id="1"', 'gpu id="0"'), "line 3: <gpu> has id='0', the same as line 2"),
        (algo().replace('gpu id="1"', 'gpu id="7"'), "line 3: <gpu> has id='7'; a whole number from 0 to 1"),
        (algo('</tb><tb id="0">'), "line 3: <tb> has id='0', the same as line 2"),
        (algo('</tb><tb id="-1">'), "line 3: <tb> has id='-1'"),
        (
            algo().replace('s_chunks="3"', 's_chunks="99999999999"'),
            "line 2: <gpu> has s_chunks='99999999999'",
        ),
        (algo(step(off=-1)), "line 3: <step> has srcoff='-1'; a whole number from 0"),
        (algo(step(off=10**9)), "<step> has srcoff='1000000000'"),
        (algo(step(off=1)), "^text: broadcast: rank 0, block 0, step 0 reads outside its buffer of 1 units"),
        (algo(step(cnt=0)), "<step> has cnt='0'; a whole number from 1"),
        (algo(step(s=1)), "<step> has s='1' and is step 0 of its block"),
        (algo(step(type="sned")), "<step> has type='sned', which isn't read"),
        (algo(step(type="ra")), "<step> has type='ra', which isn't read"),
        (algo(step(type="r")), "<step> is of type r in a <tb> without recv"),
        (algo(step().replace('srcbuf="i"', 'srcbuf="q"')), "<step> has srcbuf='q'; it is i, o or s"),
        (algo(step().replace('srcbuf="i"', "")), "<step> has no attribute 'srcbuf'"),
        (algo(step(more='depid="0" deps="5"')), "<step> waits for step 5 of block 0, which isn't there"),
        (algo(step(more='depid="5" deps="0"')), "<step> waits for step 0 of block 5, which isn't there"),
        (algo(step(more='depid="0"')), "<step> waits for step -1 of block 0, which isn't there"),
        (algo().replace('send="1"', 'send="2"').replace("</tb>", step() + "</tb>"), "<tb> has send='2'"),
        (
            algo(*(step(s, "cpy", cnt=2**20) for s in range(65)), nchunksperloop=2**20),
            "line 1: <algo> moves 68157440 chunks in all; at most 67108864",
        ),
        (algo(nchunksperloop=3, coll="allgather"), "no whole number"),
    ],
)
def test_a_bad_file_is_one_line(text, fault):
    with pytest.raises(InputError, match=fault) as raised:
        from_xml(text, "text")
    assert "\n" not in str(raised.value)
    assert str(raised.value).startswith("text")
    assert len(str(raised.value)) < 300


def test_what_is_no_text_is_one_line(tmp_path):
    path = tmp_path / "latin.xml"
    path.write_bytes(b'<algo name="\xe4"/>')
    with pytest.raises(InputError, match="UTF-8"):
        read(path)


@pytest.mark.parametrize(
    ("name", "instructions", "in_place"),
    [
        # The counts are those of grep -c "<step"; in the all-pairs files nops are left out.
        ("rccl_all-reduce-ring-simple.xml", 11904, False),
        ("rccl_allreduce-allpairs-8n-ll-32tb.xml", 5344 - 2656, True),
        ("rccl_allreduce-allpairs-8n-simple.xml", 10688 - 5312, True),
        ("rccl_alltoall-8n-512kb-7mb.xml", 480, False),
    ],
)
def test_files_of_others_are_read(name, instructions, in_place):
    program = read(sample(name))
    assert (len(program), program.in_place) == (instructions, in_place)
