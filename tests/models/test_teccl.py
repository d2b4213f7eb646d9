"""TE-CCL: earliest finishes against searches that share no code, every schedule through the verifier."""

import math
import time
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from models.optimum import METHOD as OPTIMUM
from models.sccl import Instance
from models.teccl import METHOD, Epochs
from schedules import Problem, collective
from schedules.schedule import Clock
from schedules.simulate import simulate
from schedules.verify import verify
from topologies import InputError, NoSchedule, Unsupported
from topologies.text import parse_topology

SIZE = 2**20
UNEVEN = "mesh:2x3?bandwidth=50GB/s,25GB/s&alpha=0.5us"


def problem(text, kind="allgather", size=SIZE, **details):
    topology = parse_topology(text)
    what = collective(kind, topology.num_ranks, **details)
    return Problem(topology, what, None if size is None else Fraction(size))


def made(task, **options):
    chosen = METHOD.options(**options)
    METHOD.supports(task, chosen)
    schedule = METHOD.synthesize(task, chosen, np.random.default_rng(0))
    verify(schedule)
    assert schedule.clock is Clock.TIME
    return schedule


def fewest_epochs(topology, targets, most):
    """Breadth-first search over states (who has which chunk) where every link moves one chunk an epoch.

    `targets` has for each chunk its first rank and the ranks that must get it.
    """
    ends = list(zip(topology.source.tolist(), topology.target.tolist(), strict=True))
    goal = {(c, n) for c, (_, ranks) in enumerate(targets) for n in ranks}
    states = {frozenset((c, first) for c, (first, _) in enumerate(targets))}
    for epoch in range(most + 1):
        if any(goal <= state for state in states):
            return epoch
        following = set()
        for state in states:
            choices = []
            for a, b in ends:
                able = [(c, b) for c in range(len(targets)) if (c, a) in state and (c, b) not in state]
                choices.append(able or [None])
            following |= {state.union(place for place in some if place) for some in product(*choices)}
        states = following
    return None


@pytest.mark.parametrize("solver", ["highs", "cp-sat", "scip"])
@pytest.mark.parametrize("text", ["ring:3", "ring:4", "uniring:3", "mesh:2x2", "mesh:4x1", "complete:4"])
def test_an_allgather_ends_in_the_fewest_epochs_of_an_exhaustive_search(solver, text):
    task = problem(text)
    ranks = range(task.topology.num_ranks)
    schedule = made(task, solver=solver)
    assert schedule.stats["solver_gap"] == 0
    assert schedule.stats["epochs"] == fewest_epochs(task.topology, [(n, ranks) for n in ranks], 5)


@pytest.mark.parametrize("text", ["mesh:3x1", "ring:4", "uniring:3", "mesh:4x1"])
def test_a_scatter_ends_in_the_fewest_epochs_of_an_exhaustive_search(text):
    task = problem(text, "scatter", root=0)
    targets = [(0, [n]) for n in range(task.topology.num_ranks)]
    schedule = made(task)
    assert schedule.stats["solver_gap"] == 0
    assert schedule.stats["epochs"] == fewest_epochs(task.topology, targets, 5)


@pytest.mark.parametrize(
    ("text", "epochs"),
    [
        ("mesh:3x3", 4),  # ../shared/reference/peers_measured.csv: TE-CCL with Gurobi, 4 epochs
        ("hypercube:3", 3),  # 7 chunks over 3 links
        ("torus:3x3", 2),  # 8 over 4
        ("ring:8", 4),
    ],
)
@pytest.mark.parametrize("options", [{}, {"buffers": False}, {"window": 1}, {"window": 2}])
def test_known_numbers_of_epochs(text, epochs, options):
    schedule = made(problem(text), **options)
    assert (schedule.stats["epochs"], schedule.stats["solver_gap"]) == (epochs, 0)


@pytest.mark.parametrize("text", ["mesh:2x3", "ring:5", "gen_kautz:2,5", UNEVEN])
@pytest.mark.parametrize("kind", ["allgather", "scatter"])
def test_what_is_proven_holds_for_the_true_optimum(text, kind):
    """An epoch grid only loses: the true optimum of the same chunks is no later than the last epoch.

    And with all messages of one length, messages of one chunk can begin on the grid: if the optimum sends
    no bundles, it is the least number of epochs.
    """
    task = problem(text, kind, **({"root": 0} if kind == "scatter" else {}))
    schedule = made(task)
    truth = OPTIMUM.synthesize(task, OPTIMUM.options(time_limit="1s"), np.random.default_rng(0))
    least = simulate(truth, SIZE).time
    assert least * (1 - truth.stats["solver_gap"]) <= simulate(schedule, SIZE).time * (1 + 1e-9)
    assert simulate(schedule, SIZE).time <= float(schedule.stats["epochs"] * schedule.tick) * (1 + 1e-9)
    alone = len(set(zip(truth.order.tolist(), truth.route.tolist(), strict=True))) == len(truth)
    if task.topology.homogeneous and alone and truth.stats["solver_gap"] == 0:
        assert schedule.stats["epochs"] == math.ceil(Fraction(least) / schedule.tick - Fraction(1, 10**6))


def test_a_slow_link_is_held_for_several_epochs_and_carries_more_in_long_ones():
    """By hand: 1 us is a chunk's time at 100 GB/s, 2.5 us at 40; α 0. In epochs of 2.5 us: 2 and 1 chunks."""
    task = problem("mesh:2x2?bandwidth=100GB/s,40GB/s&alpha=0us", size=400000)
    fast, slow = (
        Epochs(Instance(task.topology, task.collective, 1), task.size, x) for x in ("fastest", "slowest")
    )
    assert (fast.epoch, slow.epoch) == (Fraction(1, 10**6), Fraction(5, 2 * 10**6))
    assert {(d, n) for d, n in zip(fast.lasts, fast.carries, strict=True)} == {(1, 1), (3, 1)}
    assert {(d, n) for d, n in zip(slow.lasts, slow.carries, strict=True)} == {(1, 2), (1, 1)}


@pytest.mark.parametrize("epoch", ["fastest", "slowest", "300ns", "2us"])
@pytest.mark.parametrize("size", [600, SIZE])
def test_every_epoch_length_gives_a_legal_schedule(epoch, size):
    """With little data α is most of a send, so a send of several epochs may carry several chunks."""
    made(problem(UNEVEN, size=size), epoch=epoch if size == 600 or epoch != "300ns" else "1us", window=4)


@pytest.mark.parametrize("size", [600, SIZE])
@pytest.mark.parametrize("text", ["mesh:4x1", "ring:6", UNEVEN])
def test_the_best_epoch_ends_no_later_than_the_named_ones(text, size):
    task = problem(text, size=size)
    best, *named = (made(task, epoch=epoch) for epoch in ("best", "fastest", "slowest"))
    ends = [schedule.stats["epochs"] * schedule.tick for schedule in (best, *named)]
    assert ends[0] <= min(ends[1:])


def test_with_little_data_the_best_epoch_carries_several_chunks():
    """By hand: around a directed ring of 4 with 2 chunks a shard, 3 sends of both, or 6 of one; α is all."""
    task = problem("uniring:4", size=4)
    best, single = made(task, epoch="best", chunks=2), made(task, chunks=2)
    assert (best.stats["epochs"], single.stats["epochs"]) == (3, 6)


def test_a_send_of_several_epochs_may_carry_several_chunks():
    """By hand: α = 1 us, chunks of 1 ns, in epochs of 0.7 us: 2 epochs a send, in which all go at once."""
    task = problem("mesh:4x1?bandwidth=50GB/s&alpha=1us", "scatter", size=200, root=0)
    schedule = made(task, epoch="700ns")
    assert schedule.stats["epochs"] == 6
    assert len(schedule) == 6


def test_the_reward_is_the_most_of_all_schedules_of_a_path():
    """Scatter on a path of 3 from an end, 2 epochs: the far chunk must leave first, the near one second."""
    task = problem("mesh:3x1", "scatter", root=0)
    schedule = made(task, objective="reward", epochs=2)
    assert [(int(s), int(r)) for s, r in zip(schedule.order, schedule.source, strict=True)] == [
        (0, 0),
        (1, 0),
        (1, 1),
    ]


def test_the_reward_prefers_early_reads_to_an_early_finish():
    """In 3 epochs from an end of a path: by the reward the near chunk leaves first, and all end later."""
    task = problem("mesh:3x1", "scatter", root=0)
    early, fast = made(task, objective="reward", epochs=3), made(task)
    options = {}
    for order in ((0, 1, 2), (1, 0, 1)):  # start of the near chunk, of the far one, of its second hop
        near, _, last = order
        options[order] = sum(Fraction(1, k + 1) for end in (near + 1, last + 1) for k in range(end, 4))
    best = max(options, key=options.get)
    assert best == (0, 1, 2)
    assert sorted(early.order.tolist()) == [0, 1, 2]
    assert (early.stats["epochs"], fast.stats["epochs"]) == (3, 2)


def test_without_buffers_ranks_pass_chunks_on_as_they_arrive():
    schedule = made(problem("mesh:3x3"), buffers=False)
    arrival = {
        (int(c), int(n)): int(k) + 1
        for c, n, k in zip(schedule.chunk, schedule.target, schedule.order, strict=True)
    }
    for c, n, k in zip(schedule.chunk, schedule.source, schedule.order, strict=True):
        assert int(c) == int(n) or arrival[int(c), int(n)] == int(k)


@pytest.mark.parametrize("window", [0, 2])
@pytest.mark.parametrize("kind", ["allgather", "reduce-scatter", "allreduce", "all-to-all"])
@pytest.mark.parametrize("text", ["uniring:4", "gen_kautz:2,5", UNEVEN])
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


def test_an_early_stop_is_within_its_gap():
    schedule = made(problem("mesh:3x3"), gap=0.34)
    assert schedule.stats["epochs"] <= 4 / (1 - 0.34)
    assert schedule.stats["solver_gap"] <= 0.34


def test_rounds_end_where_one_program_does_not_fit():
    """Two rounds of the decomposition see less than the whole, so they may end later, never earlier."""
    for text in ("mesh:2x4", "gen_kautz:2,7", "mesh:3x3?drop_nodes=8"):
        whole, rounds = made(problem(text)), made(problem(text), window=1)
        assert whole.stats["solver_gap"] == 0
        assert rounds.stats["epochs"] >= whole.stats["epochs"]


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
        ({"epoch": "fast"}, "^teccl option epoch must be fastest, slowest, best or a positive time: "),
        (
            {"epoch": "0us"},
            "^teccl option epoch is '0us'; it must be fastest, slowest, best or a positive time$",
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


def test_a_program_too_large_for_its_time_is_not_begun():
    """Epochs of a millionth of a microsecond: counted, not listed."""
    task = problem("ring:4", size=2**20)
    begin = time.process_time()
    with pytest.raises(NoSchedule, match=r"sends to decide; give it a window, longer epochs or more time"):
        made(task, epoch="0.000001us")
    assert time.process_time() - begin < 5
