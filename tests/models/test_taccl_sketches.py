"""Sketches: what is read, and what is refused with one line."""

import json
import re
import tomllib
from fractions import Fraction

import numpy as np
import pytest

from models.taccl import METHOD, read_sketch, shipped_sketches
from models.taccl.demand import Paths, demand_of, with_symmetry
from models.taccl.logical import sketched_links
from models.taccl.sketch import SHIPPED, Connection, Hyperedge, Policy
from models.taccl.symmetry import sketched_symmetry
from schedules import Problem, collective
from schedules.schedule import Chunks
from topologies.errors import InputError, NoSchedule
from topologies.text import parse_topology

LISTING_1 = {
    "intranode_sketch": {
        "strategy": "switch",
        "switches": [list(range(16))],
        "switch_hyperedge_strategy": ["uc-min"],
    },
    "internode_sketch": {
        "strategy": "relay",
        "internode_conn": {str(i): [i - 1] for i in range(1, 16, 2)},
        "beta_split": {str(i): 1 for i in range(1, 16, 2)},
        "chunk_to_relay_map": [2, 1],
    },
    "symmetry_offsets": [[2, 16], [16, 32]],
    "hyperparameters": {"input_chunkup": 2, "input_size": "1M"},
}
"""TACCL, Appendix A."""


def written(tmp_path, document) -> str:
    path = tmp_path / "sketch.json"
    path.write_text(json.dumps(document))
    return str(path)


def test_listing_1_is_read(tmp_path):
    sketch = read_sketch(written(tmp_path, LISTING_1))
    assert sketch.hyperedges == (Hyperedge(tuple(range(16)), Policy.MIN),)
    assert sketch.connections[15] == (14,)
    assert sketch.relay_map == (2, 1)
    assert sketch.symmetry == ((2, 16), (16, 32))
    assert (sketch.chunks, sketch.size) == (2, Fraction(10**6))


def test_the_shipped_dgx2_sk_1_is_listing_1_but_for_its_size(tmp_path):
    shipped = tomllib.loads((SHIPPED / "dgx2-sk-1.toml").read_text())
    listing = json.loads(json.dumps(LISTING_1))
    del listing["hyperparameters"]["input_size"]
    assert shipped == listing


def test_all_sketches_of_section_7_1_are_shipped():
    assert shipped_sketches() == ["dgx2-sk-1", "dgx2-sk-2", "dgx2-sk-3", "ndv2-sk-1", "ndv2-sk-2"]
    assert read_sketch("dgx2-sk-2").connections is Connection.DIRECT
    assert read_sketch("ndv2-sk-2").connections is Connection.FULL


@pytest.mark.parametrize(("name", "links"), [("dgx2-sk-1", 496), ("dgx2-sk-2", 512), ("dgx2-sk-3", 992)])
def test_dgx2_sketches_have_their_links(name, links):
    """2 boxes of 16 · 15 switched pairs; 8 relays, 16 pairs or 16 · 16 pairs each way between them."""
    logical = sketched_links(parse_topology("dgx2:2"), read_sketch(name))
    assert len(logical.links) == links
    shared = {len(users) for port, users in logical.ports.items() if logical.topology.source[port] >= 32}
    assert max(shared) == {496: 15, 512: 15, 992: 32}[links], (
        "GPU ports have 15 users, adapters those of 2 GPUs"
    )


@pytest.mark.parametrize("name", shipped_sketches())
def test_the_symmetry_of_every_shipped_sketch_is_one(name):
    machine = "dgx2:2" if name.startswith("dgx2") else "ndv2:2"
    sketch, topology = read_sketch(name), parse_topology(machine)
    logical = sketched_links(topology, sketch)
    what = collective("allgather", topology.num_ranks)
    demand = demand_of(logical, what, Chunks.even(what), Fraction(10**6), (sketch, Paths.SKETCH))
    whole = with_symmetry(demand, what, sketched_symmetry(logical, sketch))
    assert len(whole.symmetry) == len(sketch.symmetry)


def changed(path, value):
    document = json.loads(json.dumps(LISTING_1))
    *tables, key = path.split(".")
    place = document
    for table in tables:
        place = place[table]
    place[key] = value
    return document


WRONG = [
    ("chunkup", 2, "unknown key 'chunkup'"),
    (
        "hyperparameters.input_chunks",
        2,
        "unknown key 'input_chunks' in hyperparameters; did you mean 'input_chunkup'?",
    ),
    (
        "hyperparameters.input_chunkup",
        0,
        "hyperparameters.input_chunkup is 0; it must be a whole number, at least 1",
    ),
    ("hyperparameters.input_size", "1 potato", "hyperparameters.input_size: "),
    (
        "intranode_sketch.strategy",
        "ring",
        "intranode_sketch.strategy is 'ring'; it must be one of switch, none",
    ),
    ("intranode_sketch.switch_hyperedge_strategy", ["uc-mid"], "must be one of uc-max, uc-min, free"),
    ("intranode_sketch.switch_hyperedge_strategy", [], "must be a list with one policy a switch"),
    ("intranode_sketch.switches", [[0, "1"]], "is '1'; it must be a whole number, at least 0"),
    ("internode_sketch.strategy", "none", "internode_sketch.strategy is 'none'; it must be one of relay"),
    (
        "internode_sketch.internode_conn",
        "all",
        "it must be a table of lists, or one of direct-map, fully-connected",
    ),
    ("internode_sketch.internode_conn", {"one": [0]}, "is 'one'; it must be the number of a rank of a node"),
    (
        "internode_sketch.beta_split",
        {"1": 0},
        "internode_sketch.beta_split.1 is 0; it must be a whole number",
    ),
    (
        "internode_sketch.chunk_to_relay_map",
        [2],
        "internode_sketch.chunk_to_relay_map is [2]; it must be [r1, r2]",
    ),
    ("symmetry_offsets", [[2]], "symmetry_offsets is [[2]]; it must be a list of [offset, group size]"),
    ("internode_sketch", 3, "internode_sketch is 3; it must be a table"),
]


@pytest.mark.parametrize(("path", "value", "message"), WRONG)
def test_a_wrong_key_or_value_is_named(tmp_path, path, value, message):
    name = written(tmp_path, changed(path, value))
    with pytest.raises(InputError, match=f"^{re.escape(name)}: .*{re.escape(message)}"):
        read_sketch(name)


def test_a_file_that_is_missing_or_no_json_is_named(tmp_path):
    with pytest.raises(InputError, match=r"nowhere.json: can't be read: No such file"):
        read_sketch(str(tmp_path / "nowhere.json"))
    (tmp_path / "broken.json").write_text("{")
    with pytest.raises(InputError, match=r"broken.json: "):
        read_sketch(str(tmp_path / "broken.json"))


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (
            "symmetry_offsets",
            [[1, 16]],
            "symmetry_offsets [1, 16] is no automorphism: the image of link 1->16, 2->17, is no link",
        ),
        (
            "symmetry_offsets",
            [[2, 24]],
            "symmetry_offsets [2, 24]: the 32 ranks of dgx2:2 are not groups of 24",
        ),
        ("internode_sketch.internode_conn", {"16": [0]}, "names rank 16; a node has ranks 0 to 15"),
    ],
)
def test_a_sketch_that_does_not_fit_the_network_is_refused(tmp_path, path, value, message):
    sketch = read_sketch(written(tmp_path, changed(path, value)))
    topology = parse_topology("dgx2:2")
    with pytest.raises(InputError, match=re.escape(message)):
        sketched_symmetry(sketched_links(topology, sketch), sketch)


def test_two_switches_that_join_the_same_ranks_are_refused(tmp_path):
    document = changed("intranode_sketch.switches", [[0, 1], [1, 0]])
    document["intranode_sketch"]["switch_hyperedge_strategy"] = ["free", "free"]
    sketch = read_sketch(written(tmp_path, document))
    with pytest.raises(InputError, match=r"json: ranks 1 and 0 are on two of its switches$"):
        sketched_links(parse_topology("dgx2:2"), sketch)


def test_an_infeasible_sketch_names_the_chunk_and_the_pair(tmp_path):
    """Rank 3 of a box is on no switch of its sketch, so no chunk gets there."""
    document = changed("intranode_sketch.switches", [[r for r in range(16) if r != 3]])
    document["symmetry_offsets"] = []
    sketch, topology = read_sketch(written(tmp_path, document)), parse_topology("dgx2:2")
    what = collective("allgather", 32)
    with pytest.raises(NoSchedule, match=r"leaves chunk 0 no way from rank 0 to rank 3 "):
        demand_of(
            sketched_links(topology, sketch), what, Chunks.even(what), Fraction(10**6), (sketch, Paths.SKETCH)
        )


def test_a_symmetry_that_the_relay_map_lacks_names_both_links(tmp_path):
    """Relay 1 for all: a chunk of rank 2 may leave by 1 only, its image of rank 4 by 3 only under [2, 16]."""
    sketch = read_sketch(written(tmp_path, changed("internode_sketch.chunk_to_relay_map", [16, 1])))
    topology, what = parse_topology("dgx2:2"), collective("allgather", 32)
    logical = sketched_links(topology, sketch)
    demand = demand_of(logical, what, Chunks.even(what), Fraction(10**6), (sketch, Paths.SKETCH))
    message = (
        r"its symmetry takes chunk \d+ on link \S+ to chunk \d+ on \S+, and chunk_to_relay_map allows only"
    )
    with pytest.raises(NoSchedule, match=message):
        with_symmetry(demand, what, sketched_symmetry(logical, sketch))


def test_a_rooted_collective_drops_the_symmetry_that_moves_its_root():
    sketch, topology = read_sketch("ndv2-sk-1"), parse_topology("ndv2:2")
    logical = sketched_links(topology, sketch)
    what = collective("broadcast", 16)
    demand = demand_of(logical, what, Chunks.even(what), Fraction(10**6), (sketch, Paths.SKETCH))
    assert with_symmetry(demand, what, sketched_symmetry(logical, sketch)).symmetry == ()
    assert np.array_equal(demand.start, [0])


def test_a_fixed_input_size_makes_one_schedule_for_all_sizes():
    """Whatever size is asked for; it is the one that is made for that size without the option."""
    network, what = parse_topology("ring:4"), collective("allgather", 4)

    def made(size, **options):
        chosen = METHOD.options(contiguity="all", **options)
        problem = Problem(network, what, size)
        assert METHOD.size_dependent(problem, chosen) == ("input_size" not in options)
        return METHOD.synthesize(problem, chosen, np.random.default_rng(0))

    fixed = [made(Fraction(size), input_size="4MB") for size in (10**3, 10**9)]
    asked = made(Fraction(4 * 10**6))
    for schedule in fixed:
        assert schedule.size == 4 * 10**6
        assert np.array_equal(schedule.chunk, asked.chunk)
        assert np.array_equal(schedule.order, asked.order)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("16", r"taccl option input_size: size '16' has no unit"),
        ("0B", r"taccl option input_size: size '0B' is zero"),
    ],
)
def test_a_wrong_input_size_is_refused(value, message):
    with pytest.raises(InputError, match=message):
        METHOD.options(input_size=value)


@pytest.mark.parametrize("switches", [7, True, float("inf"), "all"])
def test_switches_that_are_no_list_are_refused(tmp_path, switches):
    path = tmp_path / "s.json"
    path.write_text(json.dumps({"intranode_sketch": {"strategy": "switch", "switches": switches}}))
    with pytest.raises(
        InputError, match=r"intranode_sketch.switches is .*; it must be a list with the ranks"
    ):
        read_sketch(str(path))
