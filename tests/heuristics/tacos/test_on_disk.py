"""TACOS into a file: the rounds that it makes in memory, verified by streaming, resumed, refused."""

from fractions import Fraction

import numpy as np
import pytest

from tutti.heuristics.tacos import TacosOptions, on_disk
from tutti.heuristics.tacos.network import time_expanded
from tutti.heuristics.tacos.round_matching import Sampled, synthesize
from tutti.schedules import Problem, collective
from tutti.schedules.files.rounds import read_rounds, round_cost
from tutti.schedules.verify import verify
from tutti.topologies import InputError, Unsupported
from tutti.topologies.text import parse_topology


def made(path, text, kind="allgather", tell=None, **options):
    topology = parse_topology(text)
    problem = Problem(topology, collective(kind, topology.num_ranks))
    rng = np.random.default_rng(0)
    if tell is None:
        return on_disk.synthesize_to(path, problem, TacosOptions(**options), rng)
    return on_disk.synthesize_to(path, problem, TacosOptions(**options), rng, tell)


@pytest.mark.parametrize(
    ("text", "kind", "chunks"),
    [
        ("mesh:4x5", "allgather", 1),
        ("torus:4x4", "reduce-scatter", 3),
        ("mesh:5x5", "allreduce", 2),
        ("torus:2x3", "allreduce", 1),  # parallel links
        ("gen_kautz:3,20", "reduce-scatter", 1),  # one-way links
    ],
)
def test_what_is_in_the_file_is_legal(tmp_path, text, kind, chunks):
    table = made(tmp_path / "a.rounds", text, kind, chunks=chunks)
    verify(table)
    verify(table.load())
    ranks = table.topology.num_ranks
    assert table.transfers == chunks * ranks * (ranks - 1) * (2 if kind == "allreduce" else 1)
    assert round_cost(table).steps.tl_steps == table.steps


def test_the_rounds_are_those_made_in_memory(tmp_path):
    table = made(tmp_path / "a.rounds", "mesh:6x6")
    network, _ = time_expanded(table.topology, Fraction(1), 1)
    seed = np.random.default_rng(0).integers(2**64, dtype=np.uint64)
    chunk, link, start = synthesize(network, np.arange(36), Sampled(seed))
    rows = set(zip(chunk.tolist(), link.tolist(), (start // network.duration[0]).tolist(), strict=True))
    whole = table.load()
    assert (
        set(zip(whole.chunk.tolist(), whole.route.tolist(), whole.order.astype(int) - 1, strict=True)) == rows
    )


class Interrupted(Exception):
    """Stands for a user's Ctrl-C."""


def test_an_interrupted_synthesis_goes_on_to_the_same_end(tmp_path, monkeypatch):
    monkeypatch.setattr(on_disk, "TOLD", 1)
    whole = made(tmp_path / "whole.rounds", "torus:6x7", "allreduce")

    def stop(turn, share):
        assert 0 < share < 1
        if turn == 5:
            raise Interrupted

    with pytest.raises(Interrupted):
        made(tmp_path / "a.rounds", "torus:6x7", "allreduce", tell=stop)
    assert not (tmp_path / "a.rounds").exists()
    turns = []
    resumed = made(tmp_path / "a.rounds", "torus:6x7", "allreduce", tell=lambda turn, _: turns.append(turn))
    assert min(turns) == 6
    assert np.array_equal(resumed.cells, whole.cells)
    assert np.array_equal(read_rounds(tmp_path / "a.rounds").cells, whole.cells)


@pytest.mark.parametrize(
    ("text", "kind", "options", "what"),
    [
        (
            "ring:4",
            "broadcast",
            {},
            "a table of rounds is of allgather, reduce-scatter, allreduce; not of broad",
        ),
        ("switch2d:2x2", "allgather", {}, "needs links of one cost; those of switch2d:2x2 differ"),
        ("mesh:2x2?bandwidth=1GB/s,2GB/s", "allgather", {}, "needs links of one cost"),
        ("uniring:4", "allreduce", {}, "link 0->1 of uniring:4 has none in the opposite direction"),
        ("ring:4", "allgather", {"restarts": 2}, "makes one try, with chunk_rule 'sampled'"),
        ("ring:4", "allgather", {"chunk_rule": "paper"}, "makes one try, with chunk_rule 'sampled'"),
    ],
)
def test_what_it_does_not_do_is_refused_before(tmp_path, text, kind, options, what):
    with pytest.raises(Unsupported) as error:
        made(tmp_path / "a.rounds", text, kind, **options)
    assert what in str(error.value)
    assert not list(tmp_path.iterdir())


def test_a_state_that_the_budget_can_not_hold_is_refused(tmp_path, monkeypatch):
    """30 x 30 chunks: 101,250 bytes of bits, and 128 for each of 3,480 links."""
    with pytest.raises(InputError) as error:
        made(tmp_path / "a.rounds", "mesh:30x30", memory="500KB")
    assert str(error.value) == (
        "tacos: the sets of 900 chunks on mesh:30x30 need 0.000547 GB of memory; allowed are 0.0005 GB"
    )
    assert not list(tmp_path.iterdir())
    made(tmp_path / "a.rounds", "mesh:30x30", memory="600KB")
    monkeypatch.setattr("tutti.heuristics.tacos.options.memory", lambda: 1000)
    with pytest.raises(InputError, match="this machine has 1e-06 GB"):
        made(tmp_path / "b.rounds", "mesh:30x30")
