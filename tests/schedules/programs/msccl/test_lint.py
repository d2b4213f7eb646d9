"""The rules of the runtimes; each file breaks one of them."""

import re
from pathlib import Path

import pytest

from tests.schedules.programs.by_hand import pairs_allreduce, straight
from tests.schedules.programs.msccl.test_reader import TWO, sample
from tutti.schedules.programs.msccl.files import MscclOptions, to_xml
from tutti.schedules.programs.msccl.flavours import BOTH, MSCCL, RCCL
from tutti.schedules.programs.msccl.lint import Finding, lint

RING = TWO.read_text()
PAIRS = to_xml(pairs_allreduce(3))


def changed(old, new, text=RING, count=1):
    assert old in text
    return text.replace(old, new, count)


@pytest.mark.parametrize(
    ("text", "line", "fault"),
    [
        ('<?xml version="1.0"?>\n' + RING, 1, "an XML declaration, which the runtimes refuse"),
        (changed('  <gpu id="0"', '\t<gpu id="0"'), 2, "a tab between elements, which the runtimes refuse"),
        (changed('  <gpu id="0"', 'x <gpu id="0"'), 2, "text between elements, which the runtimes refuse"),
        (changed('id="0" send', 'id="0"  send'), 3, 'one space and name="value"'),
        (changed('id="0" send', 'id="0"\nsend'), 3, 'one space and name="value"'),
        (changed('id="0" send', 'id="0"\tsend'), 3, 'one space and name="value"'),
        (changed('send="1"', "send='1'"), 3, 'one space and name="value"'),
        (changed('send="1"', 'send = "1"'), 3, 'one space and name="value"'),
        (changed("</tb>", "</tb >"), 7, 'one space and name="value"'),
        (changed('send="1"', f'send="1" note="{"x" * 256}"'), 3, "256 bytes in the value of note, at most"),
        (changed('send="1"', 'send="1" ' + " ".join(f'a{n}="0"' for n in range(13))), 3, "17 attributes"),
        (changed(' proto="Simple"', ""), 1, "<algo> has no proto, which the runtime asks for"),
        (changed(' maxBytes="1099511627776"', ""), 1, "<algo> has no maxBytes"),
        (changed('"Simple"', '"simple"'), 1, "proto='simple'; it is one of Simple, LL, LL128"),
        (changed('"allgather"', '"all-gather"'), 1, "coll='all-gather'; it is one of"),
        (changed('minBytes="0"', 'minBytes="2199023255552"'), 1, "it would never be chosen"),
        (changed('maxBytes="1099511627776"', 'maxBytes="0"'), 1, "it would never be chosen"),
        (changed('name="ring"', f'name="{"x" * 64}"'), 1, "64 bytes of name, at most 63"),
        (changed('nchannels="1"', 'nchannels="33"'), 1, "nchannels='33'"),
        (changed('chan="0"', 'chan="1"'), 3, "<tb> has chan='1'; a whole number from 0 to 0"),
        (changed('ngpus="2"', 'ngpus="3"'), 1, "the ids of <gpu> must be 0 to 2, each once"),
        (changed('i_chunks="1"', 'i_chunks="2"'), 2, "i_chunks='2'; allgather has 1, or 0 if it isn't used"),
        (changed('<tb id="0"', '<tb id="1"'), 2, "the ids of <tb> in rank 0 must be 0 to 0, each once"),
        (changed('send="1"', 'send="0"'), 3, "block 0 of rank 0 is connected to its own rank"),
        (changed(' s="1"', ' s="2"'), 5, "s='2' is step 1 of its block"),
        (changed('type="cpy"', 'type="ra"'), 4, "type='ra' is not interpreted"),
        (changed('dstbuf="o"', 'dstbuf="q"'), 4, "dstbuf='q'; it is i, o or s"),
        (changed('dstoff="1"', 'dstoff="2"'), 6, "dstoff='2', cnt='1': outside o_chunks='2'"),
        (changed('cnt="1"', 'cnt="72"'), 4, "cnt='72'; a whole number from 1 to 71"),
        (changed('type="s"', 'type="cpy"'), 13, "0 messages from"),
        (changed('hasdep="0"', 'hasdep="2"'), 4, "hasdep='2'"),
        (changed('depid="-1" deps="-1"', 'depid="0" deps="7"'), 4, "waits for step 7 of block 0, which"),
        (changed('hasdep="1"', 'hasdep="0"', PAIRS), 11, "which raises no flag"),
        (changed('depid="1" deps="1"', 'depid="-1" deps="-1"', PAIRS), 4, "a nop that waits for nothing"),
        (changed('depid="2" deps="1"', 'depid="-1" deps="-1"', PAIRS), 5, "follows a nop and waits"),
    ],
)
def test_each_rule_has_its_line(text, line, fault):
    findings = lint(text, BOTH)
    assert any(finding.line == line and fault in finding.text for finding in findings), findings
    assert str(Finding(3, "text")) == "line 3: text"


def test_both_ends_of_a_connection_have_the_same_messages():
    text = to_xml(straight("all-to-all"))
    assert lint(text, BOTH) == []
    longer = re.sub(r'(type="s" srcbuf="i" srcoff="1" .*? cnt=)"1"', r'\1"2"', text, count=1)
    assert [f.text for f in lint(longer, BOTH)] == [
        "message 0 from rank 0 to 1 on channel 0 is sent as 2 chunks, received as 1"
    ]


def test_two_blocks_do_not_share_a_connection():
    block = re.search(r"    <tb id=\"1\".*?</tb>\n", PAIRS, re.DOTALL)[0]
    text = changed(block, block + block.replace('id="1"', 'id="3"'), PAIRS)
    assert any(
        "block 3 of rank 0 shares its connection with another block" in f.text for f in lint(text, BOTH)
    )


def test_whoever_waits_for_each_other_is_found():
    # Block 1 of rank 0 sends only after the sum, and the sum waits for a later receive of block 1.
    text = changed('type="s" srcbuf="i" srcoff="1"', 'type="s" srcbuf="i" srcoff="1"', PAIRS)
    first = text.splitlines()[8]
    assert 'type="s"' in first
    stuck = text.replace(first, first.replace('depid="-1" deps="-1"', 'depid="0" deps="2"'), 1)
    assert [f.text for f in lint(stuck, BOTH)] == ["pairs: rank 0, block 0, step 0 waits forever"]


def test_each_runtime_has_its_own_names():
    text = to_xml(straight("reduce-scatter"), MscclOptions(flavour="msccl"))
    assert lint(text, MSCCL) == []
    assert [finding.line for finding in lint(text, RCCL)] == [1]
    assert "coll='reduce_scatter'" in lint(text, RCCL)[0].text


def test_many_findings_are_counted():
    broken = RING.replace('hasdep="0"', 'hasdep="2"')
    findings = lint(broken, BOTH, most=4)
    assert [finding.text for finding in findings[4:]] == ["and 2 more"]


@pytest.mark.parametrize(
    "text", ["", "<algo", "<" * 10**5, "<a " + 'b="' * 10**5, "<!-- " * 10**5, "x" * 10**6]
)
def test_what_is_no_xml_is_found_soon(text):
    assert lint(text, BOTH)


@pytest.mark.parametrize(
    ("name", "faults"),
    [
        ("rccl_all-reduce-ring-simple.xml", []),
        ("rccl_allreduce-allpairs-8n-ll-32tb.xml", []),
        ("rccl_allreduce-allpairs-8n-simple.xml", []),
        ("rccl_alltoall-8n-512kb-7mb.xml", []),
    ],
)
def test_what_rccl_ships_is_right_for_rccl(name, faults):
    assert lint(Path(sample(name)).read_text(), RCCL) == faults
