"""All-to-all-v: matrices as they are given, and their collectives' items, by hand."""

import json
from fractions import Fraction

import numpy as np
import pytest

from tests.delivered import delivered, problem
from tutti.experiments.registry import find_method
from tutti.models.bounds import lower_bounds
from tutti.schedules import collective
from tutti.schedules.byte_matrix import byte_matrix
from tutti.schedules.cost import step_cost
from tutti.schedules.files.document import collective_document, read_collective
from tutti.schedules.reversal import reverse
from tutti.schedules.schedule import Clock
from tutti.schedules.simulation.simulate import simulate
from tutti.schedules.verify import verify
from tutti.topologies import InputError
from tutti.topologies.families.grids import ring

BYTES = [[7, 5, 0], [0, 0, 0], [3, 4, 1]]


def test_items_are_the_entries_that_are_not_zero_over_the_largest_row():
    items = collective("all-to-all", 3, matrix=BYTES).items
    rows = list(zip(items.owner.tolist(), items.dest.tolist(), items.share, strict=True))
    twelfth = Fraction(1, 12)
    assert rows == [
        (0, 0, 7 * twelfth), (0, 1, 5 * twelfth), (2, 0, 3 * twelfth), (2, 1, 4 * twelfth), (2, 2, twelfth)
    ]  # fmt: skip


def test_each_group_has_the_matrix():
    items = collective("all-to-all", 4, matrix=[[0, 2], [1, 0]], groups=[[3, 0], [1, 2]]).items
    assert list(zip(items.owner.tolist(), items.dest.tolist(), map(float, items.share), strict=True)) == [
        (3, 0, 1.0), (0, 3, 0.5), (1, 2, 1.0), (2, 1, 0.5)
    ]  # fmt: skip


def test_equal_amounts_are_the_plain_all_to_all():
    even, plain = collective("all-to-all", 5, matrix="uniform").items, collective("all-to-all", 5).items
    assert even.share == plain.share
    assert np.array_equal(even.dest, plain.dest)


def test_bytes_of_a_file_say_m_and_generated_ones_do_not(tmp_path):
    path = tmp_path / "moe.csv"
    path.write_text("7, 5,0\n0,0,0\n\n3,4,1e0\n")
    np.save(tmp_path / "moe.npy", np.array(BYTES, float))
    for given in (path, str(tmp_path / "moe.npy"), np.array(BYTES, np.int32)):
        what = collective("all-to-all", 3, matrix=given)
        assert what.matrix == byte_matrix(BYTES, 3)
        assert what.own_size == 12
    assert collective("all-to-all", 3, matrix="random").own_size is None


def test_16_bit_floats_are_bytes_without_a_warning():
    assert byte_matrix(np.array(BYTES, np.float16), 3) == byte_matrix(BYTES, 3)


def test_generated_matrices_are_what_they_say():
    rows = byte_matrix("zipf:1", 4).amounts
    unit = rows.max()
    assert np.allclose(-np.sort(-rows, axis=1) / unit, [1, 1 / 2, 1 / 3, 1 / 4], atol=1e-5)
    hot = byte_matrix("hot:0.5?seed=2", 5).amounts
    assert np.allclose(np.sort(hot / hot.sum(axis=1, keepdims=True)), [*[1 / 8] * 4, 1 / 2], atol=1e-5)
    assert len(set(hot.argmax(axis=1).tolist())) == 1
    assert np.allclose(hot.max(1) / hot.sum(1), 0.5, atol=1e-5)
    block = byte_matrix("block:2:0.75", 6).amounts
    assert np.allclose(block[0] / block[0].sum(), [0.375, 0.375, *[0.0625] * 4], atol=1e-5)
    assert byte_matrix("random?seed=1", 4) == byte_matrix("random?seed=1", 4) != byte_matrix("random", 4)


@pytest.mark.parametrize(
    ("given", "ranks", "said"),
    [
        ([[0, 1], [1, 0]], 3, "is 2 x 2, for 3 ranks"),
        ([[0, 1, 2], [1, 0, 2]], 3, "2 x 3; it must be square"),
        ([[0, 1], [1]], 2, "rows differ in length"),
        ([[0, -1], [1, 0]], 2, "row 1, column 2 is -1; bytes are whole numbers"),
        ([[0, 1.0], [float("nan"), 0]], 2, "row 2, column 1 is nan"),
        ([[0, float("inf")], [1, 0]], 2, "row 1, column 2 is inf"),
        ([[0, 0.5], [1, 0]], 2, "row 1, column 2 is 0.5"),
        ([[0, 0], [0, 0]], 2, "only zeros"),
        ([[0, 2**62], [2**62, 0]], 2, "bytes are whole numbers"),
        ([["a", "b"], ["c", "d"]], 2, "square table of numbers"),
        ("zipf", 4, "write zipf:POWER"),
        ("zipf:-1", 4, "power -1; allowed"),
        ("hot:1.5", 4, "share 3/2; allowed: 0 to 1"),
        ("block:3:0.5", 8, "blocks of 3; of 8 ranks"),
        ("zpif:1", 4, "did you mean 'zipf'"),
        ("random?sed=1", 4, "?seed=3"),
        ("nowhere.csv", 4, "nowhere.csv"),
        ("nowhere.npy", 4, "nowhere.npy"),
    ],
)
def test_bad_matrices_are_refused_in_one_line(given, ranks, said):
    with pytest.raises(InputError) as refused:
        collective("all-to-all", ranks, matrix=given)
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "it is empty"),
        ("0,1\n1\n", "row 2 has 1 numbers"),
        ("0,1\n-4,0\n", "row 2, column 1 is -4"),
        ("0,nan\n1,0\n", "row 1, column 2 is nan"),
        ("0,1\n1,0\n3,4\n", "3 rows: row 1 has 2"),
    ],
)
def test_bad_files_are_refused_in_one_line(tmp_path, text, said):
    path = tmp_path / "bad.csv"
    path.write_text(text)
    with pytest.raises(InputError, match=r"^[^\n]*$") as refused:
        byte_matrix(str(path), 2)
    assert said in str(refused.value)


def test_a_matrix_is_for_all_to_all_alone():
    with pytest.raises(InputError, match="no all-to-all"):
        collective("allgather", 2, matrix=[[0, 1], [1, 0]])
    with pytest.raises(InputError, match="has shards"):
        collective("all-to-all", 2, matrix=[[0, 1], [1, 0]], shards=[1, 1])
    with pytest.raises(InputError, match="groups of"):
        collective("all-to-all", 5, matrix=[[0, 1], [1, 0]], groups=[[0, 1], [2, 3, 4]])


def test_documents_keep_the_matrix():
    what = collective("all-to-all", 3, matrix=BYTES)
    written = json.loads(json.dumps(collective_document(what)))
    assert read_collective(written, ring(3), "here") == what
    written["matrix"]["rows"][0] = [1]
    with pytest.raises(InputError, match="square"):
        read_collective(written, ring(3), "here")


@pytest.mark.parametrize("name", ["direct", "bruck", "shortest_path_all_to_all", "mcf", "min_latency"])
@pytest.mark.parametrize(
    "amounts",
    [BYTES, [[0, 0, 9], [0, 0, 0], [0, 0, 0]], np.diag([5, 0, 0])],
    ids=["some", "one pair", "none"],
)
def test_every_rank_ends_with_its_column(name, amounts):
    where = ring(3)
    method, asked = find_method(name), problem(where, amounts)
    made = method.synthesize(asked, method.options(), np.random.default_rng(0))
    verify(made)
    assert delivered(made, asked.size) == {pair: b for pair, b in np.ndenumerate(np.array(amounts)) if b}
    bound = max(bound.time(asked.size) for bound in lower_bounds(where, asked.collective, asked.size))
    assert bound <= Fraction(simulate(made, asked.size).time) * (1 + Fraction(1, 10**12))


@pytest.mark.parametrize("name", ["direct", "shortest_path_all_to_all", "mcf"])
def test_the_reverse_sends_the_columns_in_the_same_time(name):
    """BYTES' largest row is 12, its largest column 10: the bytes are equal, but M differs."""
    asked = problem(ring(3), BYTES)
    method = find_method(name)
    made = method.synthesize(asked, method.options(), np.random.default_rng(0))
    back = reverse(made)
    assert back.collective == made.collective.reverse
    assert (back.collective.own_size, back.collective.reverse) == (10, made.collective)
    verify(back)
    size = Fraction(asked.size * 10, 12)
    assert delivered(back, size) == {(j, i): b for (i, j), b in delivered(made, asked.size).items()}
    assert back.size == (None if made.size is None else size)
    assert delivered(reverse(back), asked.size) == delivered(made, asked.size)
    if made.clock is Clock.STEP:
        assert step_cost(back).tb * 10 == step_cost(made).tb * 12


def test_busbw_is_of_the_busiest_rank_without_what_it_keeps():
    """Rank 2 sends 7, rank 1 receives 9, and the largest row with its diagonal is 12."""
    assert collective("all-to-all", 3, matrix=BYTES).bus_factor == Fraction(9, 12)
    assert collective("all-to-all", 3, matrix="uniform").bus_factor == Fraction(2, 3)
    assert collective("all-to-all", 3, matrix=[[5, 0, 0], [0, 4, 0], [0, 0, 0]]).bus_factor == 0
