"""``tutti verify``: a legal schedule, and an illegal one."""

import json


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
