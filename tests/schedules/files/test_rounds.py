"""Tables of rounds: reading, replaying and verifying block by block gives the same as in memory."""

import json
from fractions import Fraction

import numpy as np
import pytest

from tutti.schedules import Chunks, Schedule, collective, step_cost
from tutti.schedules.cost import congestion
from tutti.schedules.files import rounds as module
from tutti.schedules.files.rounds import (
    RoundTable,
    RoundWriter,
    nothing,
    opposite_links,
    read_head,
    read_rounds,
    round_cost,
    width_of,
    write_head,
)
from tutti.schedules.reversal import reverse
from tutti.schedules.verify import VerificationError, verify
from tutti.schedules.verify import replay as replaying
from tutti.topologies import InputError, Unsupported
from tutti.topologies.text import parse_topology
from tutti.topologies.transforms import transpose

NOTHING = 2**16 - 1


def ring_cells(n):
    """Return the allgather of a ring by hand: in round r a link carries the shard from r ranks behind."""
    topology = parse_topology(f"ring:{n}")
    cells = np.full((n - 1, topology.num_links), NOTHING, np.uint16)
    for link, (u, v) in enumerate(zip(topology.source.tolist(), topology.target.tolist(), strict=True)):
        if (u + 1) % n == v:
            cells[:, link] = [(u - r) % n for r in range(n - 1)]
    return topology, cells


def ring(n, kind):
    topology, cells = ring_cells(n)
    what = collective(kind, n)
    if kind == "reduce-scatter":  # the reverse of an allgather on the transposed network
        cells = opposite_cells(topology, cells)
    return RoundTable(topology, what, Chunks.even(what), cells)


@pytest.fixture(params=[1, 20, 2**22])
def cells_of_a_block(request, monkeypatch):
    monkeypatch.setattr(module, "CELLS", request.param)


def rows_of(schedule):
    reduces = np.zeros(len(schedule), bool) if schedule.reduce is None else schedule.reduce
    columns = (schedule.order, schedule.chunk, schedule.route, reduces)
    return sorted(zip(*(column.tolist() for column in columns), strict=True))


@pytest.mark.parametrize("kind", ["allgather", "reduce-scatter", "allreduce"])
def test_blocks_are_the_whole(kind, cells_of_a_block):
    table = ring(5, kind)
    whole = table.load()
    verify(whole)
    verify(table)
    assert len(whole) == table.transfers == {"allreduce": 40}.get(kind, 20)
    joined = [row for block in table.blocks() for row in rows_of(block.rows)]
    assert sorted(joined) == rows_of(whole)
    starts = [block.first_row for block in table.blocks()]
    assert starts == np.cumsum([0, *(len(block.rows) for block in table.blocks())])[:-1].tolist()


def test_the_reverse_is_that_of_the_schedule_in_memory():
    topology, cells = ring_cells(5)
    gather = collective("allgather", 5)
    turned = RoundTable(transpose(topology), gather, Chunks.even(gather), opposite_cells(topology, cells))
    expected = reverse(turned.load(), topology)
    what = collective("reduce-scatter", 5)
    table = RoundTable(topology, what, Chunks.even(what), turned.cells)
    verify(table)
    assert rows_of(table.load()) == rows_of(expected)


def opposite_cells(topology, cells):
    """Return an allgather on the transposed network, where the opposite of a link carries its chunks."""
    turned = np.empty_like(cells)
    turned[:, opposite_links(topology)] = cells
    return turned


def test_opposite_links_of_parallel_ones_are_a_bijection():
    topology = parse_topology("torus:2x3")
    opposite = opposite_links(topology)
    assert sorted(opposite.tolist()) == list(range(topology.num_links))
    assert np.array_equal(opposite[opposite], np.arange(topology.num_links))
    assert np.array_equal(topology.source[opposite], topology.target)


def test_one_way_links_have_no_opposite():
    topology = parse_topology("uniring:4")
    what = collective("allreduce", 4)
    with pytest.raises(Unsupported, match="link 0->1 of uniring:4 has none in the opposite direction"):
        RoundTable(topology, what, Chunks.even(what), np.zeros((0, 4), np.uint16))


def test_other_collectives_are_refused():
    what = collective("broadcast", 4)
    table = RoundTable.__new__(RoundTable)
    with pytest.raises(
        Unsupported, match="a table of rounds is of allgather, reduce-scatter, allreduce; not"
    ):
        RoundTable.__init__(
            table, parse_topology("ring:4"), what, Chunks.even(what), np.zeros((0, 8), np.uint16)
        )


def verdict(what):
    try:
        verify(what)
    except VerificationError as error:
        return str(error), error.row
    return None


def spoilt(table, rng):
    """Change a random link's chunk in a random round to another, to none, or to one past the last."""
    cells = np.array(table.cells)
    turn, link = int(rng.integers(cells.shape[0])), int(rng.integers(cells.shape[1]))
    cells[turn, link] = rng.choice([*range(len(table.chunks) + 1), NOTHING])
    return RoundTable(table.topology, table.collective, table.chunks, cells)


@pytest.mark.parametrize("kind", ["allgather", "reduce-scatter", "allreduce"])
def test_streamed_and_in_memory_say_the_same(kind, cells_of_a_block, monkeypatch):
    """The state is also cut into several ranges of chunks."""
    rng, said = np.random.default_rng(3), set()
    for trial in range(60):
        table = spoilt(spoilt(ring(5, kind), rng), rng)
        monkeypatch.setattr(replaying, "STATE_BYTES", (2**30, 5 * 8 * 2)[trial % 2])
        expected = verdict(table.load())
        assert verdict(table) == expected
        said.add(expected and expected[0].rpartition(": ")[2])
    assert len(said) > 3


@pytest.mark.parametrize("kind", ["allgather", "reduce-scatter", "allreduce"])
def test_the_cost_is_that_of_the_schedule_in_memory(kind, cells_of_a_block):
    table = ring(6, kind)
    assert round_cost(table).steps == step_cost(table.load())
    assert round_cost(table).congestion == congestion(table.load())


def write(path, table, rounds=None, whole=True, made=None):
    empty = RoundTable(table.topology, table.collective, table.chunks, table.cells[:0])
    writer = RoundWriter(path, empty, made or {"seed": 1})
    for row in table.cells[writer.rounds : rounds]:
        writer.append(row)
    writer.close(whole=whole)
    return writer


@pytest.mark.parametrize("kind", ["allgather", "reduce-scatter", "allreduce"])
def test_what_is_written_is_read(kind, tmp_path):
    table = ring(5, kind)
    write(tmp_path / "a.rounds", table)
    found = read_rounds(tmp_path / "a.rounds")
    assert isinstance(found.cells, np.memmap)
    assert np.array_equal(found.cells, table.cells)
    assert (found.topology, found.collective) == (table.topology, table.collective)
    assert np.array_equal(found.chunks.size, table.chunks.size)
    verify(found)
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.rounds"]


def test_a_writer_continues_what_was_interrupted(tmp_path):
    table, path = ring(5, "allgather"), tmp_path / "a.rounds"
    draft = write(path, table, rounds=2, whole=False).draft
    with draft.open("ab") as file:
        file.write(b"half")  # a half of the next round
    empty = RoundTable(table.topology, table.collective, table.chunks, table.cells[:0])
    writer = RoundWriter(path, empty, {"seed": 1})
    assert writer.rounds == 2
    assert np.array_equal(writer.done(), table.cells[:2])
    writer.close(whole=False)
    write(path, table)
    assert np.array_equal(read_rounds(path).cells, table.cells)


def test_a_draft_of_another_seed_is_begun_anew(tmp_path):
    table, path = ring(5, "allgather"), tmp_path / "a.rounds"
    write(path, table, rounds=2, whole=False)
    empty = RoundTable(table.topology, table.collective, table.chunks, table.cells[:0])
    writer = RoundWriter(path, empty, {"seed": 2})
    assert writer.rounds == len(writer.done()) == 0
    writer.close(whole=False)


def test_damaged_files_are_refused(tmp_path):
    path = tmp_path / "a.rounds"
    write(path, ring(5, "allgather"))
    data = path.read_bytes()
    for spoil, what in [
        (data[:-1], "damaged: its last round is cut off"),
        (b"{}" + data[2:], "not a table of rounds"),
        (data[:40], "not a table of rounds"),
        (data.replace(b"chunks_per_item", b"chunks_per_itsm"), "no key 'chunks_per_item' in its header"),
        (data.replace(b'"clock": "step"', b'"clock": "stop"'), "clock"),
    ]:
        path.write_bytes(spoil)
        with pytest.raises(InputError, match=what):
            read_rounds(path)
    with pytest.raises(InputError, match="No such file"):
        read_rounds(tmp_path / "b.rounds")
    with pytest.raises(InputError, match="can't be written: No such file"):
        write(tmp_path / "no" / "a.rounds", ring(5, "allgather"))


def test_chunks_that_a_number_states_are_refused_before_there_are_arrays(tmp_path):
    path = tmp_path / "a.rounds"
    write(path, ring(5, "allgather"))
    (header, begin), data = read_head(path), path.read_bytes()
    with path.open("wb") as file:
        write_head(file, header | {"chunks_per_item": 2**31 - 1})
        file.write(data[begin:])
    with pytest.raises(InputError, match="2147483647 chunks for each of 5 data of allgather are too many"):
        read_rounds(path)


def test_the_header_says_what_a_schedule_file_says(tmp_path):
    path = tmp_path / "a.rounds"
    write(path, ring(5, "allgather"), made={"seed": 7})
    header, _ = read_head(path)
    assert header["made"] == {"seed": 7}
    assert header["schedule"]["collective"] == {"kind": "allgather", "num_ranks": 5}
    assert json.loads(json.dumps(header)) == header


def test_wide_tables_hold_more_chunks():
    assert width_of(2**16 - 1) == np.uint16
    assert width_of(2**16) == np.uint32
    assert nothing(np.dtype(np.uint32)) == 2**32 - 1
    topology, cells = ring_cells(5)
    what = collective("allgather", 5)
    wide = np.where(cells == NOTHING, nothing(np.dtype(np.uint32)), cells).astype(np.uint32)
    table = RoundTable(topology, what, Chunks.even(what), wide)
    assert isinstance(table.load(), Schedule)
    verify(table)
    assert round_cost(table).steps.tb == Fraction(4, 5) * topology.num_links / 5


@pytest.mark.parametrize("kind", ["allgather", "reduce-scatter", "allreduce"])
def test_a_table_without_rounds_lacks_what_it_should_bring(kind, tmp_path):
    path = tmp_path / "x.rounds"
    write(path, ring(4, kind), rounds=0)
    table = read_rounds(path)
    assert (table.rounds, table.transfers, len(table.load())) == (0, 0, 0)
    with pytest.raises(VerificationError, match="is missing at"):
        verify(table)
