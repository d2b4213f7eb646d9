"""NCCL's graph file, parsed as XML."""

from dataclasses import replace
from xml.etree import ElementTree as ET

import numpy as np
import pytest

from tests.schedules.programs.replays import made
from tutti.schedules.collective import collective
from tutti.schedules.programs import nccl_graph
from tutti.schedules.programs.nccl_graph import rings_of
from tutti.schedules.schedule import Chunks, Clock, Schedule
from tutti.schedules.verify import verify
from tutti.topologies import Link, Topology
from tutti.topologies.errors import InputError

PATH = [(2, 1), (1, 0), (0, 1), (1, 2)]


def channels(schedule, path, **options):
    """Return the attributes of each graph, and its channels as lists of (tag, dev)."""
    nccl_graph.write(schedule, path, nccl_graph.OPTIONS(**options))
    text = path.read_text()
    assert text.startswith("<!-- Assumed: ")
    root = ET.fromstring(text)
    assert (root.tag, root.attrib) == ("graphs", {"version": "1"})
    return [
        (graph.attrib, [[(one.tag, one.attrib["dev"]) for one in channel] for channel in graph])
        for graph in root
    ]


@pytest.mark.parametrize("kind", ["allgather", "reduce-scatter", "allreduce"])
def test_a_ring_both_ways(kind, tmp_path):
    """Half of each shard goes in each direction: two channels, each with its own links of 50 GB/s."""
    ((head, found),) = channels(made("ring:4", kind, "ring"), tmp_path / "x")
    orders = {tuple(int(dev) for _, dev in channel) for channel in found}
    assert orders == {(0, 1, 2, 3), (0, 3, 2, 1)}
    named = {name: head[name] for name in ("id", "pattern", "crossnic", "nchannels", "speedintra")}
    assert named == {"id": "0", "pattern": "4", "crossnic": "0", "nchannels": "2", "speedintra": "50"}


def test_what_goes_to_one_root_closes_no_ring(tmp_path):
    """Rank 0 of a path of three forwards to no rank; each half of the path is 25 GB/s in the file."""
    network = Topology.from_links("path", 3, [Link(a, b, 25 * 10**9) for a, b in PATH])
    what = collective("reduce", 3, root=0)
    row = np.zeros(2, dtype=np.int32)
    schedule = Schedule(
        network,
        what,
        Clock.FLOW,
        Chunks(row[:1], np.ones(1, np.int64), 1),
        row,
        np.array([0, 1], dtype=np.int32),
        reduce=np.ones(2, np.bool_),
    )
    verify(schedule)
    ((head, found),) = channels(schedule, tmp_path / "x")
    assert ([dev for _, dev in found[0]], head["speedintra"]) == (["0", "2", "1"], "25")


def test_shifted_rings_go_by_their_offsets(tmp_path):
    rings = rings_of(made("circulant:8,1,3", "allgather", "shifted_ring"))
    hops = {frozenset(np.diff([*ring, ring[0]]) % 8) for ring in rings}
    assert hops == {frozenset({1}), frozenset({7}), frozenset({3}), frozenset({5})}
    assert set(rings.values()) == {1}


@pytest.mark.parametrize(("dev", "last"), [("hex", "0xe"), ("decimal", "14")])
def test_a_ring_of_several_hosts_goes_between_their_interfaces(dev, last, tmp_path):
    """GPU g is nearest to interface 2g of 16."""
    schedule = made("dgx_a100:2", "allgather", "nccl_like")
    ((head, found),) = channels(schedule, tmp_path / "x", dev=dev, nics=16, host=1)
    assert head["crossnic"] == "1"
    for channel in found:
        tags, devs = zip(*channel, strict=True)
        assert tags == ("net", *["gpu"] * 8, "net")
        base = 16 if dev == "hex" else 10
        assert [int(devs[0], base), int(devs[-1], base)] == [2 * int(devs[1]), 2 * int(devs[-2])]
    assert len({channel[0] for channel in found}) == 8
    assert ("net", last) in {channel[0] for channel in found}


def test_trees_are_the_rings_chains(tmp_path):
    (_, rings), (head, trees) = channels(made("ring:4", "allgather", "ring"), tmp_path / "x", trees=True)
    assert (head["id"], trees) == ("1", rings)


@pytest.mark.parametrize(
    ("case", "text"),
    [
        (("ring:4", "allgather", "bfb"), "rank 1 sends chunk 2 to two others"),
        (("complete:4", "allgather", "direct"), "rank 0 sends chunk 0 to two others"),
        (("complete:4", "all-to-all", "direct"), "chunk 1 goes through 2 of 4 ranks in a row"),
        (("complete:4", "allreduce", "dbt"), "rank . sends chunk . to two others"),
    ],
    ids=str,
)
def test_what_is_not_made_of_rings_is_refused(case, text, tmp_path):
    with pytest.raises(InputError, match=f"does not fit: the schedule is not made of rings: {text}"):
        nccl_graph.write(made(*case), tmp_path / "x", nccl_graph.OPTIONS())
    assert not (tmp_path / "x").exists()


def test_a_host_that_is_not_there(tmp_path):
    with pytest.raises(InputError, match=r"no host 2; hosts are 0\.\.1"):
        channels(made("dgx_a100:2", "allgather", "nccl_like"), tmp_path / "x", host=2)


def test_a_ring_that_enters_a_host_twice(tmp_path):
    schedule = made("ring:4", "allgather", "ring")
    apart = schedule.replace(topology=replace(schedule.topology, hosts=np.array([0, 1, 0, 1], np.int32)))
    with pytest.raises(
        InputError, match=r"does not fit: ring 0-.*-. enters host 0 2 times; a channel does once"
    ):
        channels(apart, tmp_path / "x")
