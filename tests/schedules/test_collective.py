"""Collectives: their items against pre- and postconditions written out by hand."""

from fractions import Fraction

import pytest

from tutti.schedules import Chunks, Collective, Kind, collective
from tutti.schedules.collective import EVERYONE, KINDS, concurrent
from tutti.topologies import InputError

ALL = {0, 1, 2}
# kind: for each item, (who starts with it, who must end with it, share of M); three ranks, root 1
BY_HAND = {
    "allgather": [({0}, ALL, "1/3"), ({1}, ALL, "1/3"), ({2}, ALL, "1/3")],
    "reduce-scatter": [(ALL, {0}, "1/3"), (ALL, {1}, "1/3"), (ALL, {2}, "1/3")],
    "allreduce": [(ALL, ALL, "1/3")] * 3,
    "broadcast": [({1}, ALL, "1")],
    "reduce": [(ALL, {1}, "1")],
    "gather": [({0}, {1}, "1/3"), ({1}, {1}, "1/3"), ({2}, {1}, "1/3")],
    "scatter": [({1}, {0}, "1/3"), ({1}, {1}, "1/3"), ({1}, {2}, "1/3")],
    "all-to-all": [({i}, {j}, "1/3") for i in range(3) for j in range(3)],
}


def conditions(what):
    items = what.items
    spread = lambda node, group: set(what.members[group]) if node == EVERYONE else {node}  # noqa: E731
    rows = zip(items.start.tolist(), items.end.tolist(), items.group.tolist(), items.share, strict=True)
    return [(spread(s, g), spread(e, g), share) for s, e, g, share in rows]


def of_kind(kind, **options):
    root = 1 if Kind(kind).rooted else None
    return collective(kind, 3, root=root, **options)


@pytest.mark.parametrize("kind", BY_HAND)
def test_items_are_the_collectives_conditions(kind):
    expected = [(start, end, Fraction(share)) for start, end, share in BY_HAND[kind]]
    assert conditions(of_kind(kind)) == expected


@pytest.mark.parametrize(
    "what",
    [
        *map(of_kind, BY_HAND),
        collective("allgather", 5, groups=[[4, 0], [1, 2]]),
        collective("all-to-all", 5, groups=[[4, 0], [1, 2, 3]]),
        collective("broadcast", 4, root=0, groups=[[0, 1], [2, 3]]),
        collective("all-to-all", 3, matrix=[[0, 1, 2], [0, 0, 3], [4, 0, 0]]),
        concurrent([of_kind("all-to-all"), of_kind("allreduce")]),
    ],
    ids=str,
)
def test_items_are_counted_without_making_them(what):
    assert "items" not in vars(what)
    assert what.num_items == len(what.items)


@pytest.mark.parametrize("kind", BY_HAND)
def test_the_reverse_swaps_starts_and_ends(kind):
    what = of_kind(kind)
    turned = [(end, start, share) for start, end, share in conditions(what)]
    key = lambda row: (sorted(row[0]), sorted(row[1]), row[2])  # noqa: E731
    assert sorted(conditions(what.reverse), key=key) == sorted(turned, key=key)
    assert what.reverse.reverse == what


@pytest.mark.parametrize("kind", BY_HAND)
def test_a_collective_combines_when_all_ranks_start_with_an_item(kind):
    assert of_kind(kind).is_combining == (conditions(of_kind(kind))[0][0] == ALL)


def test_uneven_shards_share_m_in_proportion():
    what = of_kind("allgather", shards=[1, 2, 5])
    assert list(what.items.share) == [Fraction(1, 8), Fraction(1, 4), Fraction(5, 8)]
    sent = of_kind("all-to-all", shards=[1, 0, 1]).items.share
    assert list(sent) == [Fraction(1, 2), 0, Fraction(1, 2)] * 3


def test_each_group_does_the_collective_on_its_own_m():
    what = collective("allgather", 5, groups=[[4, 0], [1, 2]])
    share = Fraction(1, 2)
    assert conditions(what) == [
        ({4}, {0, 4}, share),
        ({0}, {0, 4}, share),
        ({1}, {1, 2}, share),
        ({2}, {1, 2}, share),
    ]


def test_a_rooted_collective_over_groups_takes_the_root_by_position():
    what = collective("broadcast", 4, root=1, groups=[[0, 2], [3, 1]])
    assert conditions(what) == [({2}, {0, 2}, 1), ({1}, {1, 3}, 1)]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"kind": "allgahter"}, "unknown collective 'allgahter'; did you mean 'allgather'"),
        ({"kind": "allgather", "root": 0}, "allgather takes no root"),
        ({"kind": "broadcast", "root": 3}, r"broadcast: root 3; allowed: 0\.\.2"),
        ({"kind": "broadcast", "shards": [1, 1, 1]}, "broadcast takes no shards"),
        ({"kind": "allgather", "shards": [1, 1]}, "2 shards for"),
        ({"kind": "allgather", "shards": [1, -1, 1]}, "must not be negative"),
        ({"kind": "allgather", "shards": [0, 0, 0]}, "nor all zero"),
        ({"kind": "allgather", "groups": [[0, 1], [1, 2]]}, "rank 1 occurs twice"),
        ({"kind": "allgather", "groups": [[0, 3]]}, r"rank 3 in group 0; ranks are 0\.\.2"),
        ({"kind": "allgather", "groups": [[0]]}, r"group 0 has 1 rank\(s\)"),
    ],
)
def test_parameters_that_do_not_fit_are_refused_in_one_line(arguments, message):
    with pytest.raises(InputError, match=message):
        collective(arguments.pop("kind"), 3, **arguments)


def test_a_rooted_collective_needs_a_root():
    with pytest.raises(InputError, match="gather needs a root"):
        Collective(Kind.GATHER, 3)


def test_even_chunks_tile_every_item():
    chunks = Chunks.even(of_kind("allgather", shards=[1, 2, 5]), per_item=3)
    assert chunks.item.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    sizes = [Fraction(int(size), chunks.denominator) for size in chunks.size]
    assert sizes == [Fraction(1, 24)] * 3 + [Fraction(1, 12)] * 3 + [Fraction(5, 24)] * 3
    assert chunks.first.tolist() == [0, 3, 6, 9]
    with pytest.raises(InputError, match="0 chunks a shard"):
        Chunks.even(of_kind("allgather"), per_item=0)


def test_bus_factors():
    """PERFORMANCE.md of nccl-tests: 2(n-1)/n, (n-1)/n or 1."""
    rooted = ("gather", "scatter", "broadcast", "reduce")
    found = {kind: collective(kind, 4, root=0 if kind in rooted else None).bus_factor for kind in KINDS}
    part = Fraction(3, 4)
    assert found == {
        "allgather": part, "reduce-scatter": part, "allreduce": 2 * part, "broadcast": 1, "reduce": 1,
        "all-to-all": part, "gather": part, "scatter": part,
    }  # fmt: skip
    assert collective("allreduce", 6, groups=[[0, 1, 2], [3, 4, 5]]).bus_factor == Fraction(4, 3)


def test_a_part_with_a_matrix_keeps_its_bytes_in_the_reverse():
    """3 bytes in a row, 4 in a column; the other part has 1: a third of M, then a quarter."""
    matrix = collective("all-to-all", 4, groups=[[0, 1]], matrix=[[0, 3], [0, 1]])
    other = collective("allgather", 4, groups=[[2, 3]])
    both = concurrent([matrix, other], [3, 1])
    assert sorted(both.items.share) == [Fraction(1, 6), Fraction(1, 6), Fraction(1, 3), 1]
    assert sorted(both.reverse.items.share) == [
        Fraction(1, 8),
        Fraction(1, 8),
        Fraction(1, 4),
        Fraction(3, 4),
    ]
    assert sorted(both.reverse.reverse.items.share) == sorted(both.items.share)
