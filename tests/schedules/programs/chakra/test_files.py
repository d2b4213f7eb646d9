"""Chakra traces, decoded by protobuf's rules and replayed."""

import json
from fractions import Fraction

import pytest

from tests.schedules.programs.chakra.astra import Replay
from tests.schedules.programs.replays import CASES, between_ranks, made, play
from tutti.schedules.programs import chakra as files
from tutti.schedules.programs.chakra import Int32, NodeType, node
from tutti.schedules.programs.moves import links_of_paths
from tutti.schedules.simulation.simulate import SimulationOptions, simulate
from tutti.topologies.errors import InputError

SIZE = 9 * 2**20 * 10**3
ACTIONS = {4: "sum", 5: "send", 6: "recv"}


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def fields(data):
    """Return (number, value) of each field of a message: varints and strings of bytes."""
    at, found = 0, []
    while at < len(data):
        key, at = varint(data, at)
        value, at = varint(data, at)
        assert key & 7 in (0, 2), "only varints and lengths"
        if key & 7 == 2:
            value, at = data[at : at + value], at + value
            assert at <= len(data)
        found.append((key >> 3, value))
    return found


def decoded(data):
    """Return the version of a trace and its nodes: (id, type, after, attributes)."""
    messages, at = [], 0
    while at < len(data):
        length, at = varint(data, at)
        messages.append(fields(data[at : at + length]))
        at += length
    nodes = []
    for message in messages[1:]:
        one, after = dict(message), []
        packed = one.get(5, b"")
        at = 0
        while at < len(packed):
            number, at = varint(packed, at)
            after.append(number)
        attributes = [dict(fields(value)) for number, value in message if number == 10]
        values = {a[1].decode(): next((f, v) for f, v in a.items() if f != 1) for a in attributes}
        nodes.append((one[1], one[3], after, values))
    return dict(messages[0])[1].decode(), nodes


def written(schedule, path, size=SIZE):
    files.write(schedule, path, files.OPTIONS(f"{size}B"))
    return [
        decoded(path.with_name(f"{path.name}.{rank}.et").read_bytes())
        for rank in range(schedule.topology.num_ranks)
    ]


def by_number(nodes):
    """Return the nodes as {number: (action, peer, tag, bytes, after)}."""
    tasks = {}
    for number, kind, after, values in nodes:
        peer = values.get("comm_dst" if kind == 5 else "comm_src", (7, -1))
        tag, size = values.get("comm_tag", (7, -1)), values.get("comm_size", (9, 0))
        assert (peer[0], tag[0], size[0], values["is_cpu_op"]) == (7, 7, 9, (27, 0))
        assert kind == 4 or values["comm_type"] == (9, kind)
        tasks[number] = (ACTIONS[kind], peer[1], tag[1], size[1], after)
    return tasks


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_replay_ends_and_moves_what_the_schedule_moves(case, tmp_path):
    schedule, ranks = made(*case), []
    for version, nodes in written(schedule, tmp_path / "x"):
        assert version == "0.0.4"
        assert nodes
        assert len({number for number, *_ in nodes}) == len(nodes)
        ranks.append(by_number(nodes))
    assert play(ranks) == between_ranks(schedule) * SIZE


TIMES = [
    ("complete:3", "allreduce", "direct", Fraction(1, 100)),
    ("complete:8", "allreduce", "recursive_doubling", Fraction(1, 100)),
    ("ring:8", "allgather", "bfb", Fraction(1, 100)),
    ("ring:8", "allreduce", "forestcoll", Fraction(1, 100)),
    ("torus:3x3", "allreduce", "bfb", Fraction(1, 100)),
    ("hypercube:3", "allgather", "tacos", Fraction(1, 100)),
    ("dgx_a100:1", "all-to-all", "direct", Fraction(1, 20)),
    ("dgx_a100:1", "allreduce", "rhd", Fraction(1, 20)),
    ("dgx_a100:1", "allreduce", "dbt", Fraction(1, 20)),
]
"""Direct networks whose routes are single links, and one switch, with the largest difference of times."""


@pytest.mark.parametrize(("network", "kind", "method", "apart"), TIMES)
def test_astra_sims_time_is_ours(network, kind, method, apart, tmp_path):
    schedule = made(network, kind, method)
    ranks = [by_number(nodes) for _, nodes in written(schedule, tmp_path / "x")]
    routes = {ends[:2]: links for ends, links in links_of_paths(schedule).items()}
    time = Replay(ranks, schedule.topology, lambda *ends: routes[ends]).time()
    rules = SimulationOptions(store_and_forward=True, overlap_alpha=True)
    assert time == pytest.approx(simulate(schedule, Fraction(SIZE), rules).time, rel=float(apart))


def test_a_size_that_does_not_divide_is_rounded_up(tmp_path):
    said = files.write(made("complete:3", "allgather", "direct"), tmp_path / "x", files.OPTIONS("1MB"))
    assert (said["bytes"], said["rounded"]) == (
        1000002,
        "1MB does not divide into 3 units; written for 1000002B",
    )
    _, nodes = decoded((tmp_path / "x.workload.0.et").read_bytes())
    assert nodes[0][3]["comm_size"] == (9, 1000002)


def test_a_node_by_hand():
    """Fields: id 1 (08), name 2 (12), type 3 (18), data_deps 5, packed (2a), attr 10 (52)."""
    attribute = b"\x52\x0e\x0a\x09comm_size\x48\xac\x02"  # int64_val = 9, 300 = 0b10_0101100
    body = b"\x08\x01\x12\x01a\x18\x05\x2a\x02\x00\x03" + attribute
    assert node(1, "a", NodeType.SEND, {"comm_size": 300}, (0, 3)) == bytes([len(body)]) + body
    assert node(1, "a", NodeType.COMP, {"x": Int32(5)}).endswith(b"\x0a\x01x\x38\x05")  # int32_val = 7


def test_a_rank_that_does_nothing_computes():
    """A rank without a node would never end."""
    assert decoded(files._trace([], 1))[1] == [(0, 4, [], {"is_cpu_op": (27, 0)})]


def test_the_files_that_run_it(tmp_path):
    written(made("ring:4", "allreduce", "ring"), tmp_path / "x")
    system = json.loads((tmp_path / "x.system.json").read_text())
    assert system["all-reduce-implementation-custom"] == [str(tmp_path / "x")]
    assert json.loads((tmp_path / "x.logical.json").read_text()) == {"logical-dims": ["4"]}
    # 50 GB/s are 46.566 of 2^30 bytes, 0.5 us are 500 ns.
    network = (tmp_path / "x.network.yml").read_text()
    assert network.startswith("topology: [ Ring ]\nnpus_count: [ 4 ]\nbandwidth: [ 46.566")
    assert network.endswith("latency: [ 500.0 ]\n")
    assert (tmp_path / "x.topology.txt").read_text().startswith("4 0 4\n")
    _, nodes = decoded((tmp_path / "x.workload.3.et").read_bytes())
    values = {"is_cpu_op": (27, 0), "comm_type": (9, 0), "comm_size": (9, SIZE)}
    assert nodes == [(0, 7, [], values)]


@pytest.mark.parametrize(
    ("network", "form"), [("complete:4", "FullyConnected"), ("torus:3x3", None), ("dgx_a100:1", "Switch")]
)
def test_the_analytical_back_end_has_three_kinds_of_networks(network, form, tmp_path):
    written(made(network, "allgather", "direct"), tmp_path / "x")
    path = tmp_path / "x.network.yml"
    assert path.exists() == (form is not None)
    assert form is None or f"topology: [ {form} ]\n" in path.read_text()


def test_a_network_of_one_way_links_has_no_network_file(tmp_path):
    said = files.write(made("gen_kautz:2,5", "allgather", "bfb"), tmp_path / "x", files.OPTIONS(f"{SIZE}B"))
    assert "both directions" in said["ns3"]
    assert not (tmp_path / "x.topology.txt").exists()


@pytest.mark.parametrize("kind", ["broadcast", "gather"])
def test_what_astra_sim_has_no_key_for_is_refused(kind, tmp_path):
    with pytest.raises(InputError, match=r"does not fit: .*custom collectives are allreduce, allgather"):
        files.write(made("complete:4", kind, "direct"), tmp_path / "x", files.OPTIONS())
    assert not list(tmp_path.iterdir())
