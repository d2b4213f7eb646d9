"""Sketches: what is read, and what is refused with one line."""

import json
import re
import tomllib
from fractions import Fraction

import pytest

from tests.models.taccl.cases import LISTING_1, changed, written
from tutti.models.taccl import read_sketch, shipped_sketches
from tutti.models.taccl.sketch import SHIPPED, Connection, Hyperedge, Policy
from tutti.topologies.errors import InputError


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
    ("internode_sketch.internode_conn", {"one": [0]}, "is 'one'; it must be the number of a rank of a host"),
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


@pytest.mark.parametrize("switches", [7, True, float("inf"), "all"])
def test_switches_that_are_no_list_are_refused(tmp_path, switches):
    path = tmp_path / "s.json"
    path.write_text(json.dumps({"intranode_sketch": {"strategy": "switch", "switches": switches}}))
    with pytest.raises(
        InputError, match=r"intranode_sketch.switches is .*; it must be a list with the ranks"
    ):
        read_sketch(str(path))


@pytest.mark.parametrize("text", ["", "symmetry_offsets = []", "[intranode_sketch]\n[hyperparameters]"])
def test_an_empty_sketch_is_refused(text, tmp_path):
    path = tmp_path / "x.toml"
    path.write_text(text)
    with pytest.raises(InputError, match=r"x\.toml: the sketch is empty; give at least one of intranode_sk"):
        read_sketch(str(path))
