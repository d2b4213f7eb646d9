"""What TACOS needs more memory for than there is, or is allowed, is refused before any of it is used."""

import tracemalloc
from fractions import Fraction

import numpy as np
import pytest

from heuristics.tacos import METHOD, TacosOptions, following, memory, overlapped
from heuristics.tacos.retiming import ends
from schedules import Problem, collective
from schedules.verify import verify
from topologies import InputError
from topologies.text import parse_topology


def synthesized(text, kind="allgather", *, groups=None, **options):
    topology = parse_topology(text)
    problem = Problem(topology, collective(kind, topology.num_ranks, groups=groups), Fraction(10**9))
    return METHOD.synthesize(problem, TacosOptions(**options), np.random.default_rng(0))


@pytest.mark.parametrize(
    ("text", "kind", "options", "count"),
    [
        ("mesh:3x3", "allgather", {}, 7 * 9 * 8),
        ("mesh:3x3", "all-to-all", {}, 7 * 9 * 8),
        ("mesh:3x3", "gather", {}, 7 * 8),
        ("mesh:3x3", "allgather", {"groups": [(0, 1, 2), (3, 7, 8)]}, 7 * 6 * 2),
        ("mesh:3x3", "scatter", {"groups": [(0, 1, 2), (3, 7, 8)]}, 7 * 2 * 2),
        ("dgx_a100:1", "reduce-scatter", {"guide": "nothing"}, 7 * 8 * 7),
    ],
)
def test_there_are_at_least_so_many_transfers(text, kind, options, count):
    with pytest.raises(InputError, match=f"^tacos: {count} transfers on .* allowed are 1e-07 GB"):
        synthesized(text, kind, chunks=7, memory="100B", **options)
    assert len(synthesized(text, kind, chunks=7, **options)) >= count


@pytest.mark.parametrize(
    ("text", "options"),
    [("dgx_a100:1", {"guide": "trees"}), ("mesh:2x4", {"kind": "allreduce", "allreduce": "overlapped"})],
)
def test_trees_are_counted_too(text, options):
    """400 bytes for each of 8 ranks in each of 3 * 8 trees."""
    with pytest.raises(InputError, match=r"^tacos: 24 trees on .* need 7\.68e-05 GB of memory; allowed"):
        synthesized(text, chunks=3, memory="76799B", **options)
    verify(synthesized(text, chunks=3, memory="76800B", **options))


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("mesh:3x3", {}),
        ("mesh:3x3?bandwidth=50GB/s,20GB/s", {"guide": "trees"}),
        ("mesh:3x3", {"kind": "allreduce", "allreduce": "overlapped"}),
        ("mesh:3x3", {"kind": "all-to-all"}),
    ],
)
def test_nothing_is_built_before_it_is_refused(text, options):
    """Nine or 81 million chunks: their table alone would be over 100 MB."""
    tracemalloc.start()
    with pytest.raises(InputError, match=r"of memory; allowed are 0\.1 GB"):
        synthesized(text, chunks=10**6, memory="100MB", **options)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 10**7


def test_trees_that_nobody_asked_for_do_not_refuse_what_fits():
    schedule = synthesized("mesh:3x3?bandwidth=50GB/s,20GB/s", memory="2KB")
    verify(schedule)
    assert memory.TREE_BYTES * 9 * 9 > 2000


def test_overlapping_unasked_ends_where_it_takes_long(monkeypatch):
    """Four chunks a shard on a 2x4 mesh: 4 * 8 * 8 transfers a half."""
    auto, halves = ({"kind": "allreduce", "chunks": 4, "allreduce": how} for how in ("auto", "halves"))
    monkeypatch.setattr(overlapped, "MANY", 256)
    assert ends(synthesized("mesh:2x4", **auto)) < ends(synthesized("mesh:2x4", **halves))
    monkeypatch.setattr(overlapped, "MANY", 255)
    assert ends(synthesized("mesh:2x4", **auto)) == ends(synthesized("mesh:2x4", **halves))


@pytest.mark.parametrize("text", ["switch2d:8x2", "switch2d:4x3"])
def test_of_many_unwindings_two_are_looked_at_closely(monkeypatch, text):
    """One placement each is enough to leave out the others: the end is the same."""
    close = ends(synthesized(text, guide="trees"))
    efforts = []
    original = following.placed
    monkeypatch.setattr(following, "FEW", 0)
    monkeypatch.setattr(
        following,
        "placed",
        lambda blank, made, effort: efforts.append(effort) or original(blank, made, effort),
    )
    assert ends(synthesized(text, guide="trees")) == close
    assert efforts.count(following.ROUGH) <= 2 < efforts.count(following.ONCE)
