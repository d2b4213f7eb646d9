"""The method `teccl`: every collective and epoch length verified; what is refused and said."""

from fractions import Fraction

import pytest

from tests.models.teccl.cases import METHOD, SIZE, UNEVEN, made, made_on, network, problem
from tests.sweep import for_each
from tutti.schedules import Problem, collective
from tutti.topologies import InputError, Link, NoSchedule, Topology, Unsupported
from tutti.topologies.text import parse_topology


@pytest.mark.parametrize("epoch", ["fastest", "slowest", "300ns", "2us"])
@pytest.mark.parametrize("size", [600, SIZE])
def test_every_epoch_length_gives_a_legal_schedule(epoch, size):
    """A send of little data is mostly α, so a send of several epochs may carry several chunks."""
    made(problem(UNEVEN, size=size), epoch=epoch if size == 600 or epoch != "300ns" else "1us", window=4)


@pytest.mark.parametrize("size", [600, SIZE])
@pytest.mark.parametrize("text", ["mesh:4x1", "ring:6", UNEVEN])
def test_the_best_epoch_ends_no_later_than_the_named_ones(text, size):
    task = problem(text, size=size)
    best, *named = (made(task, epoch=epoch) for epoch in ("best", "fastest", "slowest"))
    ends = [schedule.stats["epochs"] * schedule.tick for schedule in (best, *named)]
    assert ends[0] <= min(ends[1:])


def test_with_little_data_the_best_epoch_carries_several_chunks():
    """A directed ring of 4 with 2 chunks a shard needs 3 sends of both, or 6 of one; α is all of the time."""
    task = problem("uniring:4", size=4)
    best, single = made(task, epoch="best", chunks=2), made(task, chunks=2)
    assert (best.stats["epochs"], single.stats["epochs"]) == (3, 6)


def test_a_send_of_several_epochs_may_carry_several_chunks():
    """α = 1 us and chunks of 1 ns take 2 epochs of 0.7 us a send, in which all chunks go together."""
    task = problem("mesh:4x1?bandwidth=50GB/s&alpha=1us", "scatter", size=200, root=0)
    schedule = made(task, epoch="700ns")
    assert schedule.stats["epochs"] == 6
    assert len(schedule) == 6


@for_each("window", [0, 2])
@pytest.mark.parametrize("kind", ["allgather", "reduce-scatter", "allreduce", "all-to-all"])
@for_each("text", ["uniring:4", "gen_kautz:2,5", UNEVEN])
def test_every_collective_is_legal(kind, text, window):
    made(problem(text, kind), window=window)


@pytest.mark.parametrize("window", [0, 1])
@pytest.mark.parametrize("kind", ["broadcast", "reduce", "scatter", "gather"])
def test_rooted_collectives_are_legal(kind, window):
    made(problem("mesh:2x3", kind, root=4), chunks=2, window=window)


def test_groups_are_legal():
    made(problem("mesh:2x3", groups=[[0, 1, 2], [3, 4, 5]]))


def test_no_chunk_is_sent_where_nobody_needs_it():
    """A scatter's sends are the hops of its paths: each chunk's last hop ends where it must."""
    schedule = made(problem("mesh:2x3", "scatter", root=4))
    senders = set(zip(schedule.chunk.tolist(), schedule.source.tolist(), strict=True))
    for chunk, target in zip(schedule.chunk.tolist(), schedule.target.tolist(), strict=True):
        assert target == chunk or (chunk, target) in senders


def test_without_a_size_like_links_will_do_and_others_will_not():
    made(problem("ring:4", size=None))
    with pytest.raises(InputError, match=r"^teccl needs a size on mesh:2x3.*: its epochs depend on it$"):
        made(problem(UNEVEN, size=None))


@pytest.mark.parametrize(
    ("text", "details", "message"),
    [
        ("ring:4", {"shards": [1, 2, 3, 4]}, "^teccl needs shards of one size"),
    ],
)
def test_what_epochs_can_not_count_is_not_supported(text, details, message):
    with pytest.raises(Unsupported, match=message):
        made(problem(text, **details))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"chunks": 0}, "^teccl option chunks is 0; it must be an integer of at least 1$"),
        ({"epochs": -1}, "^teccl option epochs is -1; it must be an integer of at least 0$"),
        ({"window": True}, "^teccl option window is True; it must be an integer of at least 0$"),
        ({"epoch": "fast"}, "^teccl option epoch must be fastest, slowest, best, exact or a positive time: "),
        (
            {"epoch": "0us"},
            "^teccl option epoch is '0us'; it must be fastest, slowest, best, exact or a positive time$",
        ),
        ({"time_limit": "0s"}, "^teccl option time_limit is '0s'; it must be a positive time$"),
        ({"objective": "time"}, "^teccl option objective is 'time'; allowed: finish, reward$"),
        ({"buffers": 1}, "^teccl option buffers is 1; it must be true or false$"),
        ({"gap": 1}, "^teccl option gap is 1; it must be at least 0 and below 1$"),
        ({"window": 2, "objective": "reward"}, "^teccl option window goes with objective 'finish' only"),
        ({"solver": "z3"}, "z3"),
    ],
)
def test_bad_options_are_one_line(options, message):
    with pytest.raises(InputError, match=message):
        METHOD.options(**options)


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("mesh:3x3", {"epochs": 3}, "there is none in 3 epochs, at least 4 are needed$"),
        (
            "mesh:3x3",
            {"epochs": 3, "objective": "reward"},
            "there is none in 3 epochs, at least 4 are needed$",
        ),
        ("torus:4x4", {"time_limit": "1ms"}, "found none in 0.001 s; give it more time or a window$"),
        (
            "torus:5x5",
            {"time_limit": "1ms", "window": 2},
            "in 0.001 s a round of 2 epochs brought nothing closer; give",
        ),
    ],
)
def test_no_schedule_says_why(text, options, message):
    with pytest.raises(NoSchedule, match=rf"^teccl: allgather of 1 chunks a shard on {text}: {message}"):
        made(problem(text), **options)


@for_each("window", [0, 2])
@pytest.mark.parametrize("kind", ["allgather", "allreduce", "all-to-all", "broadcast", "reduce", "gather"])
@for_each("text", ["dgx_a100:1", "dgx_h100:1", "dgx_a100:2?ranks=2+2", "switch2d:2x2"])
def test_every_collective_is_legal_with_switches(text, kind, window):
    rooted = kind in ("broadcast", "reduce", "gather")
    small = text if "ranks" in text or "2d" in text else f"{text}?drop_nodes=3,4,5,6,7"
    made_on(parse_topology(small), kind, {"root": 1} if rooted else {}, window=window)


@for_each("epoch", ["slowest", "best", "300ns"])
@for_each("text", ["dgx_a100:1?drop_nodes=3,4,5,6,7", "dgx_h100:1?drop_nodes=3,4,5,6,7"])
@pytest.mark.parametrize("kind", ["allgather", "reduce-scatter"])
def test_every_epoch_length_gives_a_legal_schedule_with_switches(epoch, text, kind):
    made_on(parse_topology(text), kind, epoch=epoch)


def test_the_halves_of_an_allreduce_do_not_meet_where_what_is_rounded_up_holds_a_link_longer():
    ends = [(0, 4, 2, 0), (4, 0, 1, 1), (1, 4, 3, 2), (4, 1, 1, 3), (2, 4, 1, 2), (4, 2, 1, 0), (3, 4, 2, 1)]
    where = network(4, [*ends, (4, 3, 2, 0), (0, 4, 1, 1)], num_switches=1)
    made_on(where, "allreduce", size=1000, chunks=2, epoch="best", solver="cp-sat")


def test_halves_of_an_allreduce_have_epochs_of_one_length_where_there_are_switches():
    """The switch copies but can't add: only routes of the allgather may end at it."""
    ends = [(0, 3, 1, 3), (3, 0, 2, 1), (1, 3, 3, 2), (3, 1, 1, 1), (2, 3, 1, 0), (3, 2, 3, 2)]
    for epoch in ("fastest", "slowest", "best"):
        made_on(network(3, ends, num_switches=1, multicast=[3]), "allreduce", size=3000, epoch=epoch)


def test_many_short_epochs_are_counted_at_once():
    """A chunk of 0.2 B takes 0.5 ps, the epoch; four messages of 1 us and an epoch each reach rank 4."""
    fast, slow = (Fraction(400 * 10**9), Fraction(0)), (Fraction(400 * 10**9), Fraction(1, 10**6))
    links = [*(Link(i, (i + 1) % 4, *fast) for i in range(4)), Link(3, 4, *slow), Link(4, 0, *slow)]
    task = Problem(Topology.from_links("one far away", 5, links), collective("allgather", 5), Fraction(1))
    with pytest.raises(NoSchedule, match="in 8000004 epochs"):
        made(task)
