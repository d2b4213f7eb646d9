"""Programs as people posted them (`tests/data/cases`), and variants with other numbers of chunks.

A chunk of an allreduce is a part of the buffer. The runtimes only require a size that is a multiple of the
chunks, so a program stays right if it cuts the buffer into more or fewer of them.
"""

import json
import re
from pathlib import Path

import pytest

from tutti.schedules.programs.interpreter import ProgramError, judge
from tutti.schedules.programs.msccl.flavours import MSCCL, RCCL
from tutti.schedules.programs.msccl.lint import lint
from tutti.schedules.programs.msccl.reader import from_xml
from tutti.schedules.programs.mscclpp.reader import from_plan
from tutti.topologies import InputError

CASES = Path(__file__).parents[2] / "data" / "cases"
CHUNKS = CASES / "06_msccl_allreduce_chunks"


def times(text, factor):
    """Return a program with all numbers of chunks multiplied by a factor."""
    return re.sub(
        r'(nchunksperloop|[ios]_chunks|srcoff|dstoff|cnt)="([0-9]+)"',
        lambda match: f'{match[1]}="{factor * int(match[2])}"',
        text,
    )


ONE, THREE = (CHUNKS / f"{name}.xml" for name in ("chain3_1chunk", "chain3_3chunks_same_program"))


@pytest.mark.parametrize("chunks", [1, 2, 3, 4, 6, 7, 16])
@pytest.mark.parametrize("name", ["chain3_1chunk", "pair_1chunk"])
def test_an_allreduce_is_right_in_any_number_of_chunks(name, chunks):
    text = times((CHUNKS / f"{name}.xml").read_text(), chunks)
    program = from_xml(text, "text")
    judge(program)
    for flavour in (MSCCL, RCCL):
        assert not [finding for finding in lint(text, flavour) if "units" in finding.text]


def test_four_ranks_with_six_chunks_and_those_that_are_multiples():
    four = (CHUNKS / "chain4_4chunks_ok.xml").read_text()
    six = four.replace('"4"', '"6"').replace('ngpus="6"', 'ngpus="4"')
    assert six.count('cnt="6"') == 7
    for text in (six, THREE.read_text(), four):
        judge(from_xml(text, "text"))


def test_a_program_that_leaves_a_chunk_out_stays_wrong():
    """Three ranks have two chunks, of which only the first is sent: M/3 is no whole number of chunks."""
    text = times(ONE.read_text(), 2).replace('cnt="2"', 'cnt="1"')
    with pytest.raises(ProgramError):
        judge(from_xml(text, "text"))


def test_the_same_program_moves_the_same_bytes():
    one, three = (from_xml(path.read_text(), "text") for path in (ONE, THREE))
    assert one.units == 3
    assert one == three


def test_a_broadcast_may_have_any_number_of_chunks():
    step = 'srcbuf="i" srcoff="0" dstbuf="o" dstoff="0" cnt="5" depid="-1" deps="-1" hasdep="0"'
    lines = ['<algo name="b" proto="Simple" nchunksperloop="5" ngpus="3" coll="broadcast" inplace="1">']
    for rank, (send, receive, kind) in enumerate([(1, -1, "s"), (2, 0, "rcs"), (-1, 1, "r")]):
        lines += [
            f'<gpu id="{rank}" i_chunks="5" o_chunks="5" s_chunks="0">',
            f'<tb id="0" send="{send}" recv="{receive}" chan="0">',
            f'<step s="0" type="{kind}" {step}/></tb></gpu>',
        ]
    judge(from_xml("\n".join([*lines, "</algo>"]), "text", root=0))


def test_chunks_of_an_allgather_belong_to_ranks():
    text = ONE.read_text().replace("allreduce", "allgather")
    with pytest.raises(InputError, match="is no whole number of them"):
        from_xml(text, "text")


PLAN = CASES / "10_mscclpp_output_chunks_0" / "pair_output_chunks_0.json"


@pytest.mark.parametrize("chunks", [1, 2, 3])
@pytest.mark.parametrize("path", [PLAN, CHUNKS / "mscclpp_pair_2chunks_ok.json"])
def test_a_plan_in_place_may_count_the_memory_once(path, chunks):
    text = re.sub(r'("(?:input_chunks|scratch_chunks|size)"): 2', rf"\1: {chunks}", path.read_text())
    text = re.sub(r'"output_chunks": 2', f'"output_chunks": {chunks}', text)
    judge(from_plan(text, "text").program)


def test_a_plan_out_of_place_needs_its_output():
    plan = json.loads(PLAN.read_text()) | {"inplace": False}
    with pytest.raises(InputError, match="'output_chunks' is 0"):
        from_plan(json.dumps(plan), "text")


def test_ranks_must_have_equal_chunks_even_if_the_output_is_untold():
    plan = json.loads(PLAN.read_text())
    plan["gpus"][1]["input_chunks"] = 4
    with pytest.raises(InputError, match="rank 1: 4 chunks of input and 0 of output"):
        from_plan(json.dumps(plan), "text")
