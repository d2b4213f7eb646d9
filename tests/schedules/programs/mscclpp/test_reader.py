"""Execution plans from other tools: their meaning, their faults, and files that are not plans."""

import copy
import json
from pathlib import Path

import numpy as np
import pytest

from tests.schedules.programs.by_hand import ring_allgather
from tutti.schedules.programs.interpreter import ProgramError, judge
from tutti.schedules.programs.mscclpp.files import to_plan
from tutti.schedules.programs.mscclpp.reader import from_plan, read_plan
from tutti.schedules.programs.one_sided import one_sided
from tutti.schedules.programs.program import Op
from tutti.topologies.errors import InputError

SAMPLES = Path(__file__).parents[5] / "shared" / "samples" / "mscclpp_json"


def ring():
    return json.loads(to_plan(one_sided(ring_allgather(2))))


def read(plan):
    return from_plan(json.dumps(plan), "it")


def local(letter, index=0, size=1):
    return {"type": letter, "index": index, "size": size}


def alone(ops, *more, protocol="LL", **gpu):
    """Return a plan of two ranks with these blocks each, which have a channel and the peer's scratch."""
    blocks = [
        {
            "id": number,
            "ops": block,
            "channels": [{"channel_type": "memory", "channel_ids": [0]}],
            "remote_buffer_refs": [{"access_channel_type": "memory", "remote_buffer_ids": [0, 1]}],
        }
        for number, block in enumerate((ops, *more))
    ]
    gpus = [
        {
            "id": rank,
            "input_chunks": 2,
            "output_chunks": 2,
            "scratch_chunks": 4,
            "threadblocks": blocks,
            "channels": [{"channel_type": "memory", "connected_to": [1 - rank]}],
            "remote_buffers": [
                {"rank": 1 - rank, "type": letter, "access_channel_types": ["memory"]} for letter in "si"
            ],
            **gpu,
        }
        for rank in range(2)
    ]
    return {"name": "it", "collective": "allreduce", "protocol": protocol, "inplace": True, "gpus": gpus}


def put(name, source, index, size, **more):
    remote = {"buffer_id": 0, "index": index, "size": size}
    return {"name": name, "src_buff": [source], "dst_buff": [remote], "channel_type": "memory", **more}


@pytest.mark.skipif(not SAMPLES.is_dir(), reason="no shared samples beside the checkout")
@pytest.mark.parametrize("name", ["allreduce", "allreduce_packet", "transfer_pack"])
def test_plans_of_the_runtime_are_right(name):
    program, warnings = read_plan(SAMPLES / f"{name}.json")
    assert judge(program).races_checked
    assert (program.num_ranks, program.in_place, warnings) == (2, True, [])


@pytest.mark.parametrize("slices", [1, 2])
def test_packets_become_signals(slices):
    """Both ranks send all their data and add what they receive; two blocks may share a chunk."""
    group = [{"tbg_info": {"tb_id": number, "tbg_size": slices}} for number in range(slices)]
    blocks = [
        [
            put("ppkt", local("i", 0, 2), 0, 2, **of),
            {
                "name": "repkt",
                "src_buff": [local("i", 0, 2), local("s", 0, 2)],
                "dst_buff": [local("i", 0, 2)],
            }
            | of,
        ]
        for of in group
    ]
    program, warnings = read(alone(*blocks))
    assert warnings == []
    judge(program)
    assert program.units == 2 * slices
    assert program.code.op.tolist() == [Op.COPY, Op.SIGNAL, Op.WAIT, Op.REDUCE] * 2 * slices


def test_unequal_scratch_of_packets_hangs_in_every_second_call():
    # The second half begins at the fourth chunk of one rank and at the fifth of the other.
    plan = alone([put("ppkt", local("i", 0, 2), 0, 2)], [{"name": "repkt", "src_buff": [local("i", 0, 2),
                  local("s", 0, 2)], "dst_buff": [local("i", 0, 2)]}])  # fmt: skip
    plan["use_double_scratch_buffer"] = True
    read(plan)
    plan["gpus"][1]["scratch_chunks"] += 1
    with pytest.raises(
        ProgramError, match="thread block 0 writes packets into rank 1: every second call hangs"
    ):
        read(plan)
    plan["use_double_scratch_buffer"] = False
    read(plan)


def test_a_chunk_of_fewer_than_all_ranks_is_cut():
    """An allreduce of two ranks in one chunk becomes one of two units."""
    reduce = {
        "name": "rre",
        "src_buff": [local("i"), {"buffer_id": 1, "index": 0, "size": 1}],
        "dst_buff": [local("s")],
        "channel_type": "memory",
    }
    program, _ = read(alone([reduce], protocol="Simple", input_chunks=1, output_chunks=1, scratch_chunks=1))
    assert (program.units, program.code.length.tolist()) == (2, [2] * 4)


def test_a_read_of_the_other_gpu_is_a_copy_from_it():
    reduce = {
        "name": "rre",
        "src_buff": [local("i", 0, 2), {"buffer_id": 1, "index": 0, "size": 2}],
        "dst_buff": [local("s", 0, 2)],
        "channel_type": "memory",
    }
    program, _ = read(alone([reduce], protocol="Simple"))
    assert [program.instruction(number).op for number in range(2)] == [Op.COPY, Op.REDUCE]
    assert program.instruction(1).origin == 1


def test_a_barrier_makes_all_blocks_wait():
    barrier = {"name": "barrier", "barrier_id": 0, "num_threadblocks": 2}
    copies = [{"name": "copy", "src_buff": [local("i")], "dst_buff": [local("s", n)]} for n in range(2)]
    program, _ = read(alone([copies[0], barrier, copies[1]], [barrier], protocol="Simple"))
    assert program.instruction(2).waits == ((1, 0),)
    assert program.instruction(4).waits == ((0, 1),)


def test_a_missing_nop_is_said():
    plan = ring()
    ops = plan["gpus"][0]["threadblocks"][0]["ops"]
    del ops[5]
    assert read(plan).warnings == [
        "rank 0, thread block 0, op 5: no 'nop' before this 'signal', which needs what came before"
    ]


def test_more_than_the_runtime_takes_is_said():
    plan = alone([{"name": "nop"}] * 65)
    assert "rank 0, thread block 0: 65 ops, at most 64" in read(plan).warnings


PACKET = put("ppkt", local("i"), 0, 1)
UNPACK = {"name": "upkt", "src_buff": [local("s")], "dst_buff": [local("i")]}


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        (alone([{"name": "glres"}]), "rank 0, thread block 0, op 0: 'glres' has no meaning here"),
        (alone([{"name": ["put"]}]), "a list has no meaning here"),
        (alone([{}]), "rank 0, thread block 0, op 0 has no 'name'"),
        (alone([UNPACK]), "rank 0, thread block 0 awaits packet 0, which no operation writes"),
        (alone([PACKET, PACKET]), "rank 0, thread block 0 writes packet 0 of rank 1 again"),
        (alone([PACKET, UNPACK | {"name": "copy"}]), "scratch 0 holds both packets and other data"),
        (alone([put("pws", local("i"), 0, 1)]), "'pws' goes through ports only"),
        (alone([put("put", local("i"), 0, 2)]), "sources and targets of unequal number or sizes"),
        (alone([put("put", local("i", 7), 0, 1)]), "reads outside its buffer of 2 units"),
        (
            alone([put("put", local("i", 10**30), 0, 1)]),
            "'index' is 1000000000000000000000000000000; it must be",
        ),
        (alone([put("put", local("i", True), 0, 1)]), "'index' is true; it must be"),
        (alone([put("put", local("x"), 0, 1)]), "'type' is 'x'; it is one of i, o, s"),
        (alone([put("put", {"type": "i"}, 0, 1)]), "src_buff[0] has no 'index'"),
        (
            alone([{"name": "signal", "channel_type": "memory", "channel_ids": [1]}]),
            "a channel id is 1; it must be",
        ),
        (alone([{"name": "sem_acquire", "semaphore_ids": [0]}]), "a semaphore id is 0"),
        (
            alone([{"name": "sem_acquire", "semaphore_ids": [0]}], semaphores=[{"init_value": 0}]),
            "rank 0: semaphore 0 is acquired 1 times and released 0 times",
        ),
        (
            alone([{"name": "barrier", "barrier_id": 0, "num_threadblocks": 2}]),
            "1 thread blocks come to barrier 0",
        ),
        (alone([PACKET | {"src_buff": [local("i")] * 11}]), "the number of entries in 'src_buff' is 11"),
        (alone([{"name": "sem_acquire", "semaphore_ids": [0] * 17}]), "the number of semaphores is 17"),
        (alone([], input_chunks=3), "rank 0: 3 chunks of input and 2 of output"),
        (alone([], input_chunks=0), "'input_chunks' is 0; it must be an integer in 1.."),
        (alone([], id=5), "rank 0: 'id' is 5"),
        (alone([], threadblocks=3), "'threadblocks' is 3; it must be a list"),
        (
            alone([], channels=[{"channel_type": "memory", "connected_to": [7]}]),
            "a peer of a memory channel is 7",
        ),
        (alone([]) | {"collective": "sendrecv"}, "'collective' is 'sendrecv'; it is one of"),
        (alone([]) | {"collective": "custom"}, "a collective 'custom' without the key 'tutti'"),
        (alone([]) | {"inplace": 1}, "'inplace' is 1; it must be true or false"),
        (alone([]) | {"gpus": []}, "the number of gpus is 0"),
        ([], "it must be an object, not a list"),
    ],
)
def test_a_bad_plan_is_one_line(plan, message):
    with pytest.raises(InputError) as raised:
        read(plan)
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)
    assert str(raised.value).startswith("it")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"gpus": [], "gpus": []}', "it: the key 'gpus' occurs twice in one object"),
        ('{"gpus": NaN}', "it: NaN is no number"),
        ("[" * 10**5, "it: not a plan: nested too deeply"),
        ('{"gpus": ' + "9" * 10**4 + "}", "it: a number has too many digits"),
        ('{"gpus": ', "it, line 1: not JSON"),
    ],
    ids=["twice", "nan", "deep", "long", "cut"],
)
def test_text_that_is_no_plan_is_one_line(text, message):
    with pytest.raises(InputError) as raised:
        from_plan(text, "it")
    assert str(raised.value).startswith(message)


def test_plans_that_move_too_much_are_refused():
    many = 2**20
    copies = [{"name": "copy", "src_buff": [local("i", 0, many)], "dst_buff": [local("s", 0, many)]}] * 33
    plan = alone(copies, protocol="Simple", input_chunks=many, output_chunks=many, scratch_chunks=many)
    with pytest.raises(
        InputError, match="it: the plan moves 69206016 chunks in all; at most 67108864 are read"
    ):
        read(plan)


def test_a_semaphore_of_two_releasing_blocks_is_in_no_certain_order():
    acquire, release = ({"name": f"sem_{what}", "semaphore_ids": [0]} for what in ("acquire", "release"))
    plan = alone([acquire, acquire], [release], [release], semaphores=[{"init_value": 0}])
    with pytest.raises(InputError, match="semaphore 0 is released by several thread blocks"):
        read(plan)


@pytest.mark.parametrize("name", ["put", "pws"])
def test_a_port_needs_a_channel_for_each_buffer(name):
    proxied = np.ones((2, 2), np.bool_)
    plan = json.loads(to_plan(one_sided(ring_allgather(2), proxied=proxied), proxied=proxied))
    op = next(op for op in plan["gpus"][0]["threadblocks"][0]["ops"] if op["name"] == "pws")
    op |= {"name": name, "channel_ids": []}
    with pytest.raises(InputError, match="its channels and its buffers belong to different ranks"):
        read(plan)


def test_a_get_of_unequal_indices_is_refused():
    get = {
        "name": "get",
        "src_buff": [{"buffer_id": 0, "index": 0, "size": 1}],
        "dst_buff": [local("i", 1)],
        "channel_type": "memory",
    }
    with pytest.raises(InputError, match="a 'get' of unequal indices, which the runtime swaps"):
        read(alone([get]))


def test_missing_counterparts_of_channels_are_made():
    """Memory channels come first: the port after a missing memory channel is the second of both."""
    plan = alone([])
    plan = copy.deepcopy(plan)
    both = [{"channel_type": kind, "connected_to": [1]} for kind in ("memory", "port")]
    signal = {"name": "signal", "channel_type": "port", "channel_ids": [0]}
    ends = [(both, signal), ([{"channel_type": "port", "connected_to": [0]}], signal | {"name": "wait"})]
    for gpu, (channels, op) in zip(plan["gpus"], ends, strict=True):
        gpu["channels"] = channels
        block = gpu["threadblocks"][0]
        gpu["threadblocks"] = [
            block | {"ops": [op], "channels": [{"channel_type": "port", "channel_ids": [0]}]}
        ]
    program, _ = read(plan)
    assert program.code.channel.tolist() == [1, 1]
