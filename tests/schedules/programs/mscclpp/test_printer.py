"""Execution plans by the rules of the runtime (execution_plan.cc, execution_common.hpp)."""

import json

import numpy as np
import pytest

from tests.schedules.programs.by_hand import (
    OF_EVERY_KIND,
    doubling_allreduce,
    pairs_allreduce,
    ring_allgather,
    ring_allreduce,
    straight,
)
from tests.schedules.programs.replays import made
from tutti.schedules.collective import collective
from tutti.schedules.programs.mscclpp.files import Misfit, PlanOptions, plan_of, to_plan
from tutti.schedules.programs.mscclpp.reader import from_plan
from tutti.schedules.programs.one_sided import one_sided
from tutti.schedules.programs.program import NOWHERE, Address, Buffer, Instruction, Op, Program
from tutti.topologies.errors import InputError

IN, OUT, SCRATCH = Buffer
WAYS = {"memory": {}, "packets": {"packets": True}, "ports": {"proxied": True}}


def printed(program, way="memory"):
    """Return the one-sided program, and its plan."""
    options = dict(WAYS[way])
    if "proxied" in options:
        options["proxied"] = np.ones((program.num_ranks,) * 2, dtype=np.bool_)
    made = one_sided(program, **options)
    return made, to_plan(made, **options)


CASES = [
    pytest.param(program, way, id=f"{program.name}-{way}")
    for program in OF_EVERY_KIND
    for way in WAYS
    if way != "packets" or not program.collective.kind.rooted
]


def names(plan, rank=0, block=0):
    return [op["name"] for op in plan["gpus"][rank]["threadblocks"][block]["ops"]]


@pytest.mark.parametrize(("program", "way"), CASES)
def test_what_is_printed_is_read_as_it_was(program, way):
    one, text = printed(program, way)
    read, warnings = from_plan(text, "text")
    assert (read, warnings) == (one, [])


@pytest.mark.parametrize(("program", "way"), CASES)
def test_a_plan_keeps_the_rules_of_the_runtime(program, way):
    plan = json.loads(printed(program, way)[1])
    gpus = plan["gpus"]
    signals = {}
    for rank, gpu in enumerate(gpus):
        assert gpu["id"] == rank
        assert gpu["input_chunks"] >= 1
        assert gpu["output_chunks"] >= 1
        kinds = [channel["channel_type"] for channel in gpu["channels"]]
        assert len(set(kinds)) == len(kinds)
        peers = {channel["channel_type"]: channel["connected_to"] for channel in gpu["channels"]}
        for kind, of_kind in peers.items():
            for peer in of_kind:  # both ends have the same number of each type
                other = {c["channel_type"]: c["connected_to"] for c in gpus[peer]["channels"]}
                assert other[kind].count(rank) == of_kind.count(peer)
        for number, block in enumerate(gpu["threadblocks"]):
            assert block["id"] == number
            assert len(block["ops"]) <= 64
            for op in block["ops"]:
                check(op, gpu, block, peers)
                for name, sign in (("signal", 1), ("pws", 1), ("wait", -1)):
                    if op["name"] == name:
                        kind = op["channel_type"]
                        ids = next(c["channel_ids"] for c in block["channels"] if c["channel_type"] == kind)
                        at = ids[op["channel_ids"][0]]
                        peer = peers[kind][at]
                        turn = peers[kind][:at].count(peer)
                        ends = (rank, peer) if sign > 0 else (peer, rank)
                        signals[ends, kind, turn] = signals.get((ends, kind, turn), 0) + sign
    assert set(signals.values()) <= {0}


def check(op, gpu, block, peers):
    """Check an operation's indices and sizes."""
    sizes = {"i": gpu["input_chunks"], "o": gpu["output_chunks"], "s": gpu["scratch_chunks"]}
    refs = {ref["access_channel_type"]: ref["remote_buffer_ids"] for ref in block["remote_buffer_refs"]}
    assert all(len(ids) <= 16 for ids in refs.values())
    for buffer in (*op.get("src_buff", []), *op.get("dst_buff", [])):
        assert buffer["size"] >= 1
        if "type" in buffer:
            assert buffer["index"] + buffer["size"] <= sizes[buffer["type"]]
        else:
            remote = gpu["remote_buffers"][refs[op["channel_type"]][buffer["buffer_id"]]]
            assert op["channel_type"] in remote["access_channel_types"]
    for channel in block["channels"]:
        assert len(channel["channel_ids"]) <= 16
        assert max(channel["channel_ids"]) < len(peers[channel["channel_type"]])
    assert len(op.get("channel_ids", [])) <= 8
    assert len(op.get("semaphore_ids", [])) <= 16
    assert op["name"] not in ("get", "flush")


def test_a_ring_of_two_by_hand():
    """Each block signals ready, waits, copies and puts its shard, signals after all threads, and waits."""
    plan = json.loads(printed(ring_allgather(2))[1])
    assert plan["collective"] == "allgather"
    assert (plan["protocol"], plan["inplace"], plan["use_double_scratch_buffer"]) == ("Simple", False, False)
    assert plan["gpus"][1]["channels"] == [{"channel_type": "memory", "connected_to": [0, 0]}]
    assert names(plan) == ["signal", "wait", "nop", "copy", "put", "nop", "signal", "wait"]
    put = plan["gpus"][0]["threadblocks"][0]["ops"][4]
    assert put == {
        "name": "put",
        "src_buff": [{"type": "i", "index": 0, "size": 1}],
        "dst_buff": [{"buffer_id": 0, "index": 0, "size": 1}],
        "channel_type": "memory",
    }


def test_packets_need_no_signals():
    plan = json.loads(printed(ring_allgather(3), "packets")[1])
    assert names(plan) == ["copy", "ppkt", "upkt", "nop", "ppkt", "upkt"]
    assert (plan["protocol"], plan["use_double_scratch_buffer"]) == ("LL", True)


def test_names_tell_method_protocol_place_range_and_what_is_done():
    # The runtime takes plans with the same name for the same plan.
    name = "ring allgather"
    ring = made("ring:4", "allgather", "ring")
    options = [
        PlanOptions(name=name),
        PlanOptions(name=name, in_place=True),
        PlanOptions(name=name, protocol="LL"),
        PlanOptions(name=name, max_bytes="1MB"),
        PlanOptions(name=name, min_bytes="1MB"),
    ]
    found = [json.loads(plan_of(ring, one)[1])["name"] for one in options]
    found.append(json.loads(plan_of(made("ring:4", "allgather", "bruck"), options[0])[1])["name"])
    assert len(set(found)) == len(found)
    assert found[3].startswith("ring allgather, Simple, out of place, 0 to 1000000 bytes, ")


def packets(plan, call):
    """Return the packets (GPU, address) that are written, and that are awaited, in a call.

    By the runtime's rule, each second call uses the second half of scratch. It begins behind the *own*
    scratch size, even in the scratch of another GPU.
    """
    written, awaited = set(), set()
    for rank, gpu in enumerate(plan["gpus"]):
        half = call % 2 * gpu["scratch_chunks"]
        for block in gpu["threadblocks"]:
            ids = [id_ for refs in block["remote_buffer_refs"] for id_ in refs["remote_buffer_ids"]]
            for op in block["ops"]:
                for place in op.get("dst_buff", []) if op["name"] in ("ppkt", "respkt") else []:
                    if "buffer_id" in place:
                        peer = gpu["remote_buffers"][ids[place["buffer_id"]]]["rank"]
                        written |= {(peer, half + place["index"] + unit) for unit in range(place["size"])}
                for place in op["src_buff"][-1:] if op["name"] in ("upkt", "repkt", "respkt") else []:
                    awaited |= {(rank, half + place["index"] + unit) for unit in range(place["size"])}
    return written, awaited


@pytest.mark.parametrize(
    ("network", "kind", "method"), [("dgx_a100:1", "allreduce", "dbt"), ("dgx1", "allgather", "multitree")]
)
def test_packets_arrive_where_they_are_awaited_in_every_call(network, kind, method):
    text = plan_of(made(network, kind, method), PlanOptions(protocol="LL"))[1]
    for call in range(2):
        written, awaited = packets(json.loads(text), call)
        assert written == awaited
        assert len(written) > 8
    from_plan(text, "text")


def test_a_sum_that_goes_on_is_one_operation():
    assert "respkt" in names(json.loads(printed(ring_allreduce(3), "packets")[1]))
    assert "res" in names(json.loads(printed(ring_allreduce(3))[1]))


def test_a_port_puts_and_signals_at_once():
    assert names(json.loads(printed(ring_allgather(2), "ports")[1])) == [
        "signal", "wait", "nop", "copy", "nop", "pws", "wait", "signal", "wait",
    ]  # fmt: skip


@pytest.mark.parametrize("program", [ring_allgather(2), ring_allreduce(2), doubling_allreduce(2)])
def test_packets_go_through_memory_only(program):
    ways = {"packets": True, "proxied": np.ones((2, 2), np.bool_)}
    with pytest.raises(InputError, match="packets go through memory only"):
        to_plan(one_sided(program, **ways), **ways)


def test_packets_of_a_broadcast_could_be_two_runs_ahead():
    with pytest.raises(InputError, match="none is two runs ahead; not for broadcast"):
        to_plan(one_sided(straight("broadcast"), packets=True), packets=True)


def test_the_largest_message_keeps_offsets_in_32_bits():
    """Scratch has flags beside data, and two halves; the largest buffer is below 2^32 bytes."""
    for way, factor in (("memory", 1), ("packets", 4)):
        made, text = printed(pairs_allreduce(4), way)
        most = json.loads(text)["max_message_size"]
        chunk, rest = divmod(most, 4)
        scratch = int(made.scratch.max()) * factor
        assert (rest, chunk % 16) == (0, 0)
        assert chunk * max(4, scratch) < 2**32 <= (chunk + 16) * max(4, scratch)


def test_too_many_operations_do_not_fit():
    """The operations are a wait for *ready*, nop, then 40 times put, nop, signal."""
    block = [
        [Instruction(Op.SEND, Address(IN, 0), to=1)] * 40,
        [Instruction(Op.RECV, NOWHERE, Address(OUT, 0), origin=0)] * 40,
    ]
    program = Program.of(collective("broadcast", 2), 1, [[of] for of in block], name="many")
    with pytest.raises(Misfit, match="many does not fit: 122 ops in block 0 of rank 0, at most 64"):
        to_plan(one_sided(program))


def test_a_wait_for_another_block_is_a_semaphore():
    plan = json.loads(printed(pairs_allreduce(3))[1])
    gpu = plan["gpus"][0]
    ops = [op for block in gpu["threadblocks"] for op in block["ops"]]
    acquired = [i for op in ops if op["name"] == "sem_acquire" for i in op["semaphore_ids"]]
    released = [i for op in ops if op["name"] == "sem_release" for i in op["semaphore_ids"]]
    assert sorted(acquired) == sorted(released) == [0, 1, 2, 3]
    assert gpu["semaphores"] == [{"init_value": 0}] * 4


def test_an_uneven_collective_has_no_plan():
    program = ring_allgather(4).replace(collective=collective("allgather", 4, groups=((0, 1, 2, 3),)))
    with pytest.raises(InputError, match="no groups"):
        to_plan(one_sided(program))
