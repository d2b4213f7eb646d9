"""``tutti verify``: a legal schedule, and an illegal one."""

import json

from tests.schedules.programs.by_hand import doubling_allreduce
from tutti.schedules.programs.msccl.files import MscclOptions, to_xml


def test_a_legal_schedule_is_verified(tutti, schedule):
    # Into each rank: two neighbours' shards, and half of the opposite one over each link.
    assert tutti("verify", schedule)[:2] == (0, "legal: 16 transfers, allgather on ring:4, step clock\n")
    assert json.loads(tutti("verify", schedule, "--json")[1])["verified"] is True


def test_an_illegal_schedule_is_exit_1_and_names_the_transfer(tutti, schedule):
    document = json.loads(schedule.read_text())
    for column in document["transfers"].values():
        del column[0]
    schedule.write_text(json.dumps(document))
    code, out, err = tutti("verify", schedule)
    assert (code, out) == (1, "")
    assert err.startswith("tutti: ")
    assert err.count("\n") == 1
    code, out, _ = tutti("verify", schedule, "--json")
    assert (code, json.loads(out)["verified"]) == (1, False)
    assert tutti("simulate", schedule, "--size", "1MB")[0] == 1


def test_a_program_is_judged_over_connections_as_deep_as_its_protocols(tutti, tmp_path):
    # Each rank sends four units before it receives; Simple has room for two, LL for eight.
    path, text = tmp_path / "it.xml", to_xml(doubling_allreduce(4), MscclOptions(proto="LL"))
    path.write_text(text)
    code, out, _ = tutti("verify", path)
    assert (code, out.endswith("out of place, with 8 messages a connection (LL)\n")) == (0, True)
    path.write_text(text.replace('proto="LL"', 'proto="Simple"'))
    code, out, err = tutti("verify", path)
    assert (code, out) == (1, "")
    assert err.endswith("a FIFO holds 2 messages of one unit; it needs 4 (protocol Simple)\n")
    document = json.loads(tutti("verify", path, "--json")[1])
    assert (document["verified"], document["protocol"], document["depth"]) == (False, "Simple", 2)
