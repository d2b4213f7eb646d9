"""Schedule files: a written schedule is read back, and other contents are refused in one line."""

import gzip
import json
import os
import tracemalloc
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from tests.schedules.builders import in_clock, plans, ring_allgather, ring_network
from tutti.schedules import Chunks, Clock, Schedule, collective
from tutti.schedules.files.schedule_file import (
    content_hash,
    from_document,
    read_schedule,
    to_document,
    write_schedule,
    write_whole,
)
from tutti.schedules.verify import verify
from tutti.topologies import InputError, Link, Topology

SUFFIXES = [".json", ".json.gz", ".npz"]


@pytest.fixture
def schedule():
    """Return the allgather on a ring of three: 2 steps of 3 transfers."""
    return in_clock(ring_allgather(ring_network(3), collective("allgather", 3)), Clock.STEP)


@pytest.fixture
def document(schedule):
    return json.loads(json.dumps(to_document(schedule)))


def written(document, tmp_path: Path) -> Path:
    path = tmp_path / "schedule.json"
    path.write_text(json.dumps(document))
    return path


def columns(schedule: Schedule) -> dict:
    names = ("chunk", "route", "order", "count", "reduce")
    return {name: None if (c := getattr(schedule, name)) is None else c.tolist() for name in names}


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("clock", list(Clock))
def test_a_file_gives_the_schedule_back(clock, suffix, tmp_path):
    for name, plan in plans().items():
        came_back(in_clock(plan, clock), tmp_path / f"{name}{suffix}")


def came_back(schedule: Schedule, path: Path) -> None:
    """Write a schedule and read it again, and compare."""
    write_schedule(schedule, path)
    again = read_schedule(path)
    assert columns(again) == columns(schedule)
    assert (again.topology, again.collective) == (schedule.topology, schedule.collective)
    assert again.topology.name == schedule.topology.name
    assert (again.clock, again.tick, again.size) == (schedule.clock, schedule.tick, schedule.size)
    assert again.chunks.item.tolist() == schedule.chunks.item.tolist()
    assert again.chunks.size.tolist() == schedule.chunks.size.tolist()
    assert again.chunks.denominator == schedule.chunks.denominator
    assert again.route_table.links.tolist() == schedule.route_table.links.tolist()
    verify(again)
    assert content_hash(again) == content_hash(schedule)


def test_the_document_is_the_one_that_other_programs_know(schedule):
    document = to_document(schedule)
    assert document.pop("topology")["nodes"][0] == {"id": 0, "kind": "compute"}
    assert document == {
        "format": "tutti.schedule/1",
        "collective": {"kind": "allgather", "num_ranks": 3},
        "clock": "step",
        "denominator": 3,
        "chunks": {"owner": [0, 1, 2], "size": [1, 1, 1]},
        "routes": [[0], [1], [2]],
        "transfers": {
            "chunk": [0, 1, 2, 0, 1, 2],
            "src": [0, 1, 2, 1, 2, 0],
            "dst": [1, 2, 0, 2, 0, 1],
            "route": [0, 1, 2, 1, 2, 0],
            "order": [1, 1, 1, 2, 2, 2],
        },
        "claims": {},
    }


def test_routes_that_are_the_links_may_be_left_out(schedule):
    document = to_document(schedule)
    del document["routes"]
    assert content_hash(from_document(document)) == content_hash(schedule)


class TestByHand:
    """Keys whose values follow from the others may be left out."""

    def test_the_network_and_the_collective_may_be_texts(self, document):
        texts = {"topology": "uniring:3?bandwidth=50GB/s&alpha=0.5us", "collective": "allgather"}
        read = from_document(document | texts)
        verify(read)
        assert (read.topology.num_links, read.collective) == (3, collective("allgather", 3))

    def test_of_chunks_their_number_a_datum_will_do(self, document):
        del document["denominator"]
        read = from_document(document | {"chunks": 2})
        assert (read.chunks.item.tolist(), read.chunks.size.tolist()) == ([0, 0, 1, 1, 2, 2], [1] * 6)
        assert read.chunks.denominator == 6
        with pytest.raises(InputError, match=r"chunks is 0; it must be an integer in 1\.\."):
            from_document(document | {"chunks": 0})

    def test_a_route_of_one_link_is_named_by_its_ends(self, schedule, document):
        del document["routes"], document["transfers"]["route"]
        assert content_hash(from_document(document)) == content_hash(schedule)

    def test_a_route_of_several_links_is_needed(self, document):
        del document["routes"], document["transfers"]["route"]
        document["transfers"]["dst"][4] = 1
        expected = (
            r"transfers.src\[4\] is 2: no link leads from there to 1; over several links it needs a 'route'"
        )
        with pytest.raises(InputError, match=expected):
            from_document(document)

    def test_of_parallel_links_one_must_be_chosen(self, document):
        del document["routes"], document["transfers"]["route"]
        document["topology"]["edges"].append(document["topology"]["edges"][1] | {"key": 3})
        expected = r"transfers.src\[1\] is 1: 2 links lead from there to 2; name one as its 'route'"
        with pytest.raises(InputError, match=expected):
            from_document(document)
        document["transfers"]["route"] = [0, 3, 2, 1, 2, 0]
        assert from_document(document).route.tolist() == [0, 3, 2, 1, 2, 0]


def test_optional_keys_are_there_where_they_say_something():
    gathered = to_document(in_clock(plans()["gather over routes"], Clock.TIME))
    assert gathered["routes"] == [[3], [2, 3], [1, 2, 3], [0, 1, 2, 3], [5, 0, 1, 2, 3]]
    assert (gathered["tick"], gathered["size_bytes"]) == ("1/10 s", 1000)
    assert gathered["transfers"]["count"] == [2] * 5
    assert gathered["collective"] == {"kind": "gather", "num_ranks": 6, "root": 4}
    grouped = to_document(in_clock(plans()["reduce-scatter in groups"], Clock.FLOW))
    assert grouped["chunks"]["group"] == [0] * 6 + [1] * 6
    assert grouped["collective"]["groups"] == [[0, 2, 4], [5, 1, 3]]
    assert grouped["collective"]["shards"] == [1, 2, 3]
    assert grouped["transfers"]["reduce"] == [True] * len(grouped["transfers"]["chunk"])
    assert "order" not in grouped["transfers"]
    exchanged = to_document(in_clock(plans()["all-to-all"], Clock.STEP))
    assert exchanged["chunks"]["for"] == [0, 1, 2, 3] * 4


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_fractions_and_claims_survive(suffix, tmp_path):
    links = [Link(0, 1, Fraction(10**10, 3), Fraction(1, 7)), Link(1, 0)]
    pair = Topology.from_links("pair", 2, links)
    what = collective("allgather", 2, shards=[Fraction(1, 3), 1])
    one = Schedule(
        pair,
        what,
        Clock.TIME,
        Chunks.even(what),
        np.array([0, 1]),
        np.array([0, 1]),
        np.array([0, 2**40]),
        tick=Fraction(1, 3 * 10**6),
        size=Fraction(22, 7),
        claims={"congestion": Fraction(1, 9), "tl_steps": 3},
    )
    path = tmp_path / f"schedule{suffix}"
    write_schedule(one, path)
    again = read_schedule(path)
    assert (again.tick, again.size, again.claims) == (one.tick, one.size, one.claims)
    assert (again.topology, again.collective) == (pair, what)
    assert again.order.tolist() == [0, 2**40]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_the_same_schedule_gives_the_same_bytes(schedule, suffix, tmp_path):
    paths = [tmp_path / name / f"schedule{suffix}" for name in ("a", "b")]
    for path in paths:
        path.parent.mkdir()
        write_schedule(schedule, path)
    assert paths[0].read_bytes() == paths[1].read_bytes()


def test_steps_are_kept_in_two_bytes_where_they_fit(document):
    assert from_document(document).order.dtype == np.uint16
    document["transfers"]["order"][-1] = 70_000
    assert from_document(document).order.dtype == np.uint32


def test_a_wrong_schedule_can_be_read_so_that_verify_can_judge_it(document):
    document["transfers"]["order"].reverse()
    document["chunks"]["size"] = [1, -1, 5]
    document["routes"] = [[0, 2], [1], [2]]
    document["transfers"]["dst"] = [0, 2, 0, 2, 0, 0]
    assert len(from_document(document)) == 6


class TestContentHash:
    """The name of a schedule's file."""

    def test_is_known(self, schedule):
        """A change of this value makes every stored schedule's name wrong."""
        known = "9e9946c7545507f0d69adeae1d91080c6a6fd46f613e5772a147d9050d25674e"
        assert content_hash(schedule) == known

    def test_ignores_names_labels_claims_and_stats(self, schedule):
        links = [schedule.topology.link(i) for i in range(3)]
        named = Topology.from_links("other", 3, links, labels=["a", "b", "c"])
        changed = schedule.replace(topology=named, claims={"tl_steps": 2}, stats={"build_s": 1.0})
        assert content_hash(changed) == content_hash(schedule)

    def test_ignores_how_columns_are_stored(self, schedule):
        wide = schedule.replace(
            order=schedule.order.astype(np.int64),
            count=np.ones(6, dtype=np.int32),
            reduce=np.zeros(6, dtype=bool),
            chunks=Chunks(schedule.chunks.item, 5 * schedule.chunks.size, 15),
        )
        assert content_hash(wide) == content_hash(schedule)

    @pytest.mark.parametrize(
        "change",
        [
            {"chunk": np.array([1, 1, 2, 0, 1, 2])},
            {"route": np.array([1, 1, 2, 1, 2, 0])},
            {"order": np.array([1, 1, 1, 2, 2, 3])},
            {"reduce": np.array([True] + [False] * 5)},
            {"count": np.array([2] + [1] * 5)},
            {"clock": Clock.TIME},
            {"size": Fraction(1)},
            {"collective": collective("allreduce", 3)},
            {"collective": collective("allgather", 3, shards=[1, 1, 1])},
            {"chunks": Chunks([0, 1, 2], [1, 1, 2], 3)},
            {"topology": ring_network(4)},
        ],
    )
    def test_changes_with_what_the_schedule_says(self, schedule, change):
        assert content_hash(schedule.replace(**change)) != content_hash(schedule)


def put(document: dict, path: str, value) -> None:
    *parents, last = path.split(".")
    for key in parents:
        document = document[key]
    if value is None:
        del document[last]
    else:
        document[last] = value


REFUSED = [
    ("format", None, "no key 'format'; a schedule file has"),
    ("format", "tutti.schedule/2", "unknown format 'tutti.schedule/2'; allowed: 'tutti.schedule/1'"),
    ("format", 1, "unknown format 1"),
    ("topology", None, "no key 'topology'"),
    ("topology", [], "topology: .*expected an object"),
    ("topology", "rnig:3", "topology 'rnig:3': unknown family 'rnig'; did you mean 'ring'"),
    ("topology.edges", [], "topology: .*not strongly connected"),
    ("collective", 1, "collective must be an object, not 1"),
    ("collective", "allgahter", "collective: unknown collective 'allgahter'; did you mean 'allgather'"),
    ("collective.kind", "allgahter", "collective: unknown collective 'allgahter'; did you mean 'allgather'"),
    ("collective.kind", ["allgather"], "collective: unknown collective"),
    ("collective.kind", None, "collective: no key 'kind'"),
    ("collective.num_ranks", 4, "collective: num_ranks is 4; the topology has 3"),
    ("collective.num_ranks", True, "collective: num_ranks is true; it must be an integer"),
    ("collective.root", 0, "collective: allgather takes no root"),
    ("collective.shards", [1, 0.5, 1.5], None),
    ("collective.shards", [1, 2, None], r"collective: shards\[2\] is null; it must be an exact number"),
    ("collective.shards", [1, 2], "2 shards for"),
    ("collective.groups", [[0, 1], 2], r"collective: groups\[1\] is 2; it must be a list"),
    ("collective.groups", [[0, 9]], r"collective: groups is 9; it must be an integer in 0\.\.2"),
    ("collective.rot", 1, "collective: unknown key 'rot'; did you mean 'root'"),
    ("clock", "stpe", "unknown clock 'stpe'; did you mean 'step'"),
    ("clock", None, "no key 'clock'"),
    ("clock", "flow", "transfers.order has no meaning in the flow clock"),
    ("denominator", 0, r"denominator is 0; it must be an integer in 1\.\."),
    ("denominator", 2**63, "denominator is 9223372036854775808; it must be"),
    ("denominator", "3", "denominator is '3'; it must be an integer"),
    ("tick", "1/10", "tick: time '1/10' has no unit"),
    ("tick", -1, "tick is -1; it must be positive"),
    ("size_bytes", "big", "size_bytes: 'big' is not a number"),
    ("size_bytes", [1], "size_bytes is a list; it must be an exact number"),
    ("claims", [], "claims must be an object"),
    ("claims.tb", True, "claims.tb is true; it must be an exact number"),
    ("ordr", 1, "unknown key 'ordr'"),
    ("chunks", None, "no key 'chunks'"),
    ("chunks", [], "chunks must be an object, not a list"),
    ("chunks", True, "chunks must be an object, not true"),
    ("chunks", 1, "unknown key 'denominator'"),
    ("chunks.size", None, "no key 'chunks.size'"),
    ("chunks.size", [1, 1.5, 1], r"chunks.size\[1\] is 3/2; it must be an integer"),
    ("chunks.size", [1, 1], "one length: chunks.owner has 3, chunks.size has 2"),
    ("chunks.size", [1, 1, 2**63], r"chunks.size\[2\] does not fit 64 bits"),
    ("chunks.owner", [0, 1, 3], r"chunks.owner\[2\] is 3; allowed: 0\.\.2"),
    ("chunks.owner", [0, -1, 2], r"chunks.owner\[1\] is -1; allowed: 0\.\.2"),
    ("chunks.for", [0, 1, 2], "chunks.for is for all-to-all; this is allgather"),
    ("chunks.group", [0, 0, 1], r"chunks.group\[2\] is 1, but its owner is in group 0"),
    ("chunks.sizes", [1, 1, 1], "chunks: unknown key 'sizes'; did you mean 'size'"),
    ("routes", {}, "routes must be a list of lists"),
    ("routes", [[0], 1], r"routes\[1\] is 1; it must be a list"),
    ("routes", [[0], [1], []], r"routes\[2\] has no link"),
    ("routes", [[0], [1], [3]], r"routes.links\[2\] is 3; allowed: 0\.\.2"),
    ("routes", [[0], [1], ["2"]], r"routes\[2\] is '2'; it must be an integer"),
    ("transfers.chunk", None, "no key 'transfers.chunk'"),
    ("transfers.chunk", 3, "transfers.chunk must be a list"),
    ("transfers.chunk", [0, 1, 2, 0, 1, 3], r"transfers.chunk\[5\] is 3; allowed: 0\.\.2"),
    ("transfers.chunk", [0, 1, 2, 0, 1, True], r"transfers.chunk\[5\] is true; it must be an integer"),
    (
        "transfers.count",
        [1, 1, 2, 1, 1, 1],
        r"transfers.count\[2\] is 2, which runs beyond the last chunk, 2",
    ),
    ("transfers.count", [1, 0, 1, 1, 1, 1], r"transfers.count\[1\] is 0; allowed: 1\.\.3"),
    ("transfers.route", [0, 1, 3, 1, 2, 0], r"transfers.route\[2\] is 3; allowed: 0\.\.2"),
    ("transfers.route", None, "no key 'transfers.route'"),
    ("transfers.src", None, "no key 'transfers.src'"),
    ("transfers.src", [0, 0, 2, 1, 2, 0], r"transfers.src\[1\] is 0, but its route starts at 1"),
    ("transfers.dst", [1, 2, 0, 2, 0, 2], r"transfers.dst\[5\] is 2, but its route ends at 1"),
    ("transfers.order", None, "no key 'transfers.order'"),
    ("transfers.order", [1, 1, -1, 2, 2, 2], r"transfers.order\[2\] is -1; allowed: at least 0"),
    ("transfers.reduce", [0, 0, 0, 0, 0, 0], r"transfers.reduce\[0\] is 0; it must be true or false"),
]


@pytest.mark.parametrize(("path", "value", "message"), REFUSED)
def test_what_is_no_schedule_is_refused_in_one_line(document, path, value, message, tmp_path):
    put(document, path, value)
    file = written(document, tmp_path)
    if message is None:  # decimals are exact in JSON
        assert read_schedule(file).collective.shards == (1, Fraction(1, 2), Fraction(3, 2))
        return
    with pytest.raises(InputError, match=message) as caught:
        read_schedule(file)
    assert str(caught.value).startswith(f"{file}: ")
    assert "\n" not in str(caught.value)


def test_a_chunk_of_a_datum_that_the_collective_has_not_is_refused(document):
    document["collective"] = {"kind": "broadcast", "num_ranks": 3, "root": 1}
    with pytest.raises(InputError, match=r"chunk 0 is of rank 0, which has no datum in broadcast\(root=1\)"):
        from_document(document)


def test_a_float_is_refused_where_a_number_must_be_exact(document):
    with pytest.raises(InputError, match=r"size_bytes is 0\.1; it must be an exact number"):
        from_document(document | {"size_bytes": 0.1})


class TestUnreadable:
    """Files that are not there, not JSON, or damaged."""

    def test_missing(self, tmp_path):
        with pytest.raises(InputError, match=r"none\.json: can't be read: No such file"):
            read_schedule(tmp_path / "none.json")

    def test_folder(self, tmp_path):
        (tmp_path / "x.npz").mkdir()
        with pytest.raises(InputError, match=r"x\.npz: can't be read: Is a directory"):
            read_schedule(tmp_path / "x.npz")

    def test_other_name(self, tmp_path):
        with pytest.raises(InputError, match=r"plan\.xml: a schedule file's name ends in \.json"):
            read_schedule(tmp_path / "plan.xml")

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            (b'{\n"format": 1,\n}', "x.json, line 3: not JSON"),
            (b"", "x.json, line 1: not JSON"),
            (b"[]", "x.json must be an object, not a list"),
            (b"\xff\xfe", "x.json: not UTF-8 text"),
            (b'{"a": NaN}', "x.json: NaN is not a number that a schedule can have"),
            (b'{"a": 1e999}', "x.json: the number 1e999 is out of range"),
            (b"[" * 100_000, "x.json: not a schedule: nested too deeply"),
            (b'{"a": ' + b"1" * 5000 + b"}", "x.json: the number .* is out of range"),
        ],
    )
    def test_not_json(self, text, message, tmp_path):
        path = tmp_path / "x.json"
        path.write_bytes(text)
        with pytest.raises(InputError, match=message):
            read_schedule(path)

    @pytest.mark.parametrize("suffix", [".json.gz", ".npz"])
    def test_damaged(self, schedule, suffix, tmp_path):
        path = tmp_path / f"x{suffix}"
        write_schedule(schedule, path)
        whole = path.read_bytes()
        for damaged in (whole[: len(whole) // 2], b"", b"junk" * 10, whole[:200] + b"????" + whole[204:]):
            path.write_bytes(damaged)
            with pytest.raises(InputError) as caught:
                read_schedule(path)
            assert "\n" not in str(caught.value)

    def test_pickles_are_not_loaded(self, tmp_path):
        path = tmp_path / "x.npz"
        np.savez(path, header=np.array([{}], dtype=object))
        with pytest.raises(InputError, match="damaged: it holds Python objects"):
            read_schedule(path)

    def test_what_is_no_archive_is_not_said_to_hold_objects(self, schedule, tmp_path):
        path = tmp_path / "x.npz"
        write_schedule(schedule, tmp_path / "x.json")
        for text in ((tmp_path / "x.json").read_bytes(), bytes(range(256))):
            path.write_bytes(text)
            with pytest.raises(InputError, match="not an npz archive"):
                read_schedule(path)

    def test_a_single_array(self, tmp_path):
        path = tmp_path / "x.npz"
        with path.open("wb") as file:
            np.save(file, np.zeros(3))
        with pytest.raises(InputError, match="not an npz archive"):
            read_schedule(path)

    def test_an_npz_of_something_else(self, tmp_path):
        path = tmp_path / "x.npz"
        np.savez(path, weights=np.zeros(3))
        with pytest.raises(InputError, match="no array 'header'"):
            read_schedule(path)

    @pytest.mark.parametrize(
        ("name", "value", "message"),
        [
            ("transfers.chunk", np.zeros(6), "transfers.chunk must be a list of integers"),
            ("transfers.chunk", np.zeros((6, 1), int), "transfers.chunk must be a list of integers"),
            ("transfers.reduce", np.zeros(6, int), "transfers.reduce must be a list of true or false"),
            ("chunks.size", np.full(3, 2**63, np.uint64), "chunks.size has numbers that do not fit 64 bits"),
            ("transfers.chunks", np.zeros(6, int), "transfers: unknown key 'chunks'"),
            ("weights", np.zeros(6, int), "unknown key 'weights'"),
        ],
    )
    def test_columns_of_another_type(self, schedule, name, value, message, tmp_path):
        path = tmp_path / "x.npz"
        write_schedule(schedule, path)
        with np.load(path) as archive:
            arrays = dict(archive)
        np.savez(path, **(arrays | {name: value}))
        with pytest.raises(InputError, match=message):
            read_schedule(path)


class TestUnwritable:
    """A file is written whole or not at all."""

    def test_no_such_folder(self, schedule, tmp_path):
        with pytest.raises(InputError, match=r"x\.json: can't be written: No such file or directory"):
            write_schedule(schedule, tmp_path / "none" / "x.json")

    def test_other_name(self, schedule, tmp_path):
        with pytest.raises(InputError, match="a schedule file's name ends in"):
            write_schedule(schedule, tmp_path / "x.pickle")

    def test_full_disk(self, schedule, tmp_path, monkeypatch):
        """The old file stays, and no draft is left."""

        def full(*_):
            raise OSError(28, "No space left on device")

        path = tmp_path / "x.json"
        path.write_text("before")
        monkeypatch.setattr("tutti.schedules.files.schedule_file._text", full)
        with pytest.raises(InputError, match=r"x\.json: can't be written: No space left on device"):
            write_schedule(schedule, path)
        assert path.read_text() == "before"
        assert list(tmp_path.iterdir()) == [path]

    def test_the_target_is_a_folder(self, schedule, tmp_path):
        (tmp_path / "x.npz").mkdir()
        with pytest.raises(InputError, match=r"x\.npz: can't be written: Is a directory"):
            write_schedule(schedule, tmp_path / "x.npz")
        assert [path.name for path in tmp_path.iterdir()] == ["x.npz"]


def test_gzip_carries_no_date_and_no_name(schedule, tmp_path):
    path = tmp_path / "x.json.gz"
    write_schedule(schedule, path)
    assert path.read_bytes()[3:8] == bytes(5)  # flags and time of the gzip header
    assert json.loads(gzip.decompress(path.read_bytes())) == to_document(schedule)


@pytest.mark.parametrize(("suffix", "limit"), [(".json.gz", "MOST_TEXT"), (".npz", "MOST_ARRAYS")])
def test_what_unpacks_to_more_than_is_read_is_refused(suffix, limit, tmp_path, monkeypatch):
    path = tmp_path / f"x{suffix}"
    if suffix == ".npz":
        np.savez_compressed(path, header=np.zeros(10**6, np.uint8))
    else:
        path.write_bytes(gzip.compress(bytes(10**6)))
    assert path.stat().st_size < 10**5
    monkeypatch.setattr(f"tutti.schedules.files.schedule_file.{limit}", 10**5)
    with pytest.raises(InputError, match=rf"x{suffix}: too long: .*B; at most 100KB$"):
        read_schedule(path)


def test_a_pipe_is_written_to_and_not_replaced(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    end = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_whole(pipe, lambda file: file.write(b"all of it"))
    assert pipe.is_fifo()
    assert os.read(end, 100) == b"all of it"
    os.close(end)


def test_what_is_a_copy_of_what_is_kept_and_counts():
    schedule = in_clock(plans()["allreduce in two shots"], Clock.STEP)
    document = to_document(schedule)
    assert document["chunks"]["copy_of"] == [-1, -1, *[-1, 2, 2, 3, 3, 4, 4], *[-1, 9, 9, 10, 10, 11, 11],
                                             *[-1, 16, 16, 17, 17, 18, 18]]  # fmt: skip
    assert from_document(document).chunks.copy_of.tolist() == document["chunks"]["copy_of"]
    document["chunks"]["copy_of"][8] = 5  # rank 3's sum starts from another value, so the schedule differs
    assert content_hash(from_document(document)) != content_hash(schedule)
    document["chunks"]["copy_of"][8] = 23
    with pytest.raises(InputError, match=r"chunks.copy_of\[8\] is 23; allowed: -1..22$"):
        from_document(document)


SMALL = {
    "format": "tutti.schedule/1",
    "topology": "ring:4",
    "collective": "broadcast",
    "clock": "step",
    "chunks": 1,
    "transfers": {"chunk": [0, 0, 0], "src": [0, 0, 1], "dst": [1, 3, 2], "order": [1, 1, 2]},
}
"""A broadcast in a file of 220 bytes."""


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"chunks": 2**31 - 1}, r"2147483647 chunks for each of 1 data of broadcast .* at most 16777216"),
        ({"chunks": 2**24 + 1}, "16777217 chunks for each of 1 data"),
        ({"collective": "allgather", "chunks": 2**22 + 1}, "4194305 chunks for each of 4 data of allgather"),
        ({"topology": "torus:100x100", "collective": "all-to-all"}, "1 chunks for each of 100000000 data"),
        (
            {"collective": {"kind": "mixed", "num_ranks": 4, "parts": ["allgather"] * 5}, "chunks": 10**6},
            "1000000 chunks for each of 20 data",
        ),
    ],
)
@pytest.mark.parametrize("suffix", [".json", ".npz", ".csv"])
def test_chunks_that_a_number_states_take_no_memory_before_they_are_refused(
    suffix, changed, message, tmp_path
):
    path, document = tmp_path / f"x{suffix}", SMALL | changed
    columns = {f"transfers.{name}": np.array(column) for name, column in SMALL["transfers"].items()}
    header = {key: value for key, value in document.items() if key != "transfers"}
    if suffix == ".npz":
        np.savez(path, header=np.frombuffer(json.dumps(header).encode(), np.uint8), **columns)
    elif suffix == ".csv":
        lines = [f"# {key}: {json.dumps(value)}" for key, value in header.items()]
        path.write_text("\n".join([*lines, "chunk,src,dst,order", "0,0,1,1", "0,0,3,1", "0,1,2,2"]))
    else:
        path.write_text(json.dumps(document))
    assert path.stat().st_size < 2000
    tracemalloc.start()
    try:
        with pytest.raises(InputError, match=f"x{suffix}: {message}"):
            read_schedule(path)
        assert tracemalloc.get_traced_memory()[1] < 2**26
    finally:
        tracemalloc.stop()


def test_as_many_chunks_as_a_file_lists_are_read(monkeypatch, document):
    monkeypatch.setattr("tutti.schedules.files.document.MOST_COUNTED", 2)
    verify(from_document(document))
    assert len(from_document(SMALL | {"chunks": 2}).chunks) == 2
    with pytest.raises(
        InputError, match="3 chunks for each of 1 data of broadcast are too many; at most 2 in"
    ):
        from_document(SMALL | {"chunks": 3})
