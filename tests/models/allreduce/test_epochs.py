"""Trees of allreduces in epochs: by hand, against another solver, legality, symmetry and what is refused."""

from fractions import Fraction

import numpy as np
import pytest
from scipy.optimize import linprog

import tutti.models.allreduce.epochs as epochs_module
from tutti.models.allreduce.epochs import METHOD, AllreduceEpochsOptions, _lines, _PairSearch
from tutti.models.bounds import best_bound
from tutti.schedules import Clock, Problem, collective
from tutti.schedules.simulation.simulate import simulate
from tutti.schedules.verify import verify
from tutti.topologies import InputError, NoSchedule, Unsupported
from tutti.topologies.text import parse_topology

ALPHA = Fraction(1, 2 * 10**6)


def made(network, size, *, seed=0, shards=None, time_limit="2s"):
    topology = parse_topology(network) if isinstance(network, str) else network
    what = collective("allreduce", topology.num_ranks, shards=shards)
    options = AllreduceEpochsOptions(time_limit=time_limit)
    schedule = METHOD.synthesize(
        Problem(topology, what, Fraction(size)), options, np.random.default_rng(seed)
    )
    verify(schedule)
    assert schedule.clock is Clock.TIME
    return schedule


@pytest.mark.parametrize(
    ("vector", "alphas"),
    [
        # On a path of three the sum is made in the middle, of K - 1 pieces in K epochs, the first of which
        # has no sums to spread and the last none to add up: K α + V (1 + 1 / (K - 1)), with V in units of α.
        (1, 4),  # K = 2: 2 + 2
        (6, 12),  # K = 3: 3 + 9, or 4: 4 + 8
        (12, 20),  # K = 4: 4 + 16, or 5: 5 + 15
    ],
)
def test_on_a_path_by_hand(vector, alphas):
    size = vector * ALPHA * 50 * 10**9
    schedule = made("mesh:3", size)
    time = simulate(schedule, size).time / float(ALPHA)
    assert time == pytest.approx(alphas, rel=1e-6)


def test_the_program_is_what_it_says():
    """All pairs of trees of a path of three in four epochs, each a column, by another solver."""
    topology = parse_topology("mesh:3")
    size, epochs = 300_000.0, 4
    search = _PairSearch(_lines(topology), size, epochs, np.random.default_rng(1))
    search.begin(None)
    search.run(np.inf, 30)
    link = {
        (int(a), int(b)): e for e, (a, b) in enumerate(zip(topology.source, topology.target, strict=True))
    }
    parents = {0: [-1, 0, 1], 1: [1, -1, 1], 2: [1, 2, -1]}
    columns = []
    for parent in parents.values():
        for rise in np.ndindex((epochs,) * 3):
            for fall in np.ndindex((epochs,) * 3):
                use = _use(parent, rise, fall, link, topology.num_links, epochs)
                if use is not None:
                    columns.append(use)
    matrix = np.unique(np.array(columns), axis=0).T
    vector = size / 50e9
    rows = np.hstack([-np.tile(np.eye(epochs), (topology.num_links, 1)), vector * matrix])
    total = np.hstack([np.zeros(epochs), np.ones(matrix.shape[1])])[None, :]
    cost = np.hstack([np.ones(epochs), np.zeros(matrix.shape[1])])
    found = linprog(cost, A_ub=rows, b_ub=np.full(len(rows), -5e-7), A_eq=total, b_eq=[1.0])
    assert search.program.optimum.time * search.unit == pytest.approx(found.fun, rel=1e-6)


def _use(parent, rise, fall, link, links, epochs):
    """The uses of each link in each epoch; None where epochs don't follow each other."""
    use, last = np.zeros((links, epochs)), -1
    for rank, other in enumerate(parent):
        if other < 0:
            if rise[rank] or fall[rank]:
                return None
            continue
        if parent[other] >= 0 and (rise[rank] >= rise[other] or fall[other] >= fall[rank]):
            return None
        last = max(last, rise[rank])
        use[link[rank, other], rise[rank]] += 1
        use[link[other, rank], fall[rank]] += 1
    first = min(fall[rank] for rank, other in enumerate(parent) if other >= 0)
    return use.ravel() if last < first else None


NETWORKS = (
    "complete:2",
    "ring:5",
    "mesh:2x3?bandwidth=50GB/s,25GB/s",
    "torus:3x3",
    "gen_kautz:2,7",
    "uniring:4",
    "mesh:3x3?alpha=0us",
    "dragonfly:2x3",
    "dgx1",
)


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("size", [1000, 10**6, 32 * 10**6])
def test_schedules_are_legal_and_above_the_bound(network, size):
    schedule = made(network, size, time_limit="300ms")
    bound = best_bound(schedule.topology, schedule.collective, size).time(size)
    assert simulate(schedule, size).time >= float(bound) * (1 - 1e-9)


def test_shards_may_be_uneven():
    shards = [Fraction(1, 2), Fraction(0), Fraction(1, 3), Fraction(1, 6)]
    made("ring:4", 10**6, shards=shards, time_limit="300ms")


def test_a_large_vector_is_near_the_bound():
    """The two halves of a reduce-scatter and an allgather take nearly twice as long on a mesh."""
    size = 32 * 10**6
    schedule = made("mesh:3x3", size)
    bound = best_bound(schedule.topology, schedule.collective, size).time(size)
    assert simulate(schedule, size).time < 1.06 * float(bound)


def test_images_load_alike_links_alike():
    schedule = made("torus:3x3", 10**6)
    lines = _lines(schedule.topology)
    assert len(lines.symmetries) > 1
    load = np.zeros(schedule.topology.num_links)
    count = np.ones(len(schedule), dtype=int) if schedule.count is None else schedule.count
    sizes = np.concatenate([[0], np.cumsum(schedule.chunks.size)])
    np.add.at(load, schedule.route, sizes[schedule.chunk + count] - sizes[schedule.chunk])
    ends = zip(schedule.topology.source.tolist(), schedule.topology.target.tolist(), strict=True)
    orbits = np.array([lines.orbit[pair] for pair in ends])
    for orbit in range(orbits.max() + 1):
        own = load[orbits == orbit]
        # weights are rounded to whole units, one for each image of a pair at most
        assert np.ptp(own) <= 1e-3 * own.max()


def test_only_the_heaviest_pairs_are_kept(monkeypatch):
    few = epochs_module.TUNING._replace(trees=40)
    monkeypatch.setattr(epochs_module, "TUNING", few)
    schedule = made("torus:3x3", 32 * 10**6)
    assert schedule.stats["trees"] <= 40


def test_the_same_seed_makes_the_same():
    one, other = (made("ring:4", 10**6, time_limit="60s") for _ in range(2))
    assert len(one) == len(other)
    assert (one.chunk == other.chunk).all()
    assert (one.order == other.order).all()


@pytest.mark.parametrize(
    ("network", "what", "words"),
    [
        ("dgx_a100:2", None, "needs a switch-free topology"),
        ("torus:12x12", None, "takes at most 128 ranks; torus:12x12 has 144"),
        ("ring:4", ("allgather", {}), "does allreduce; not allgather"),
        ("ring:4", ("allreduce", {"groups": [[0, 1], [2, 3]]}), "needs one group of all ranks"),
    ],
)
def test_what_is_refused(network, what, words):
    topology = parse_topology(network)
    kind, details = what or ("allreduce", {})
    problem = Problem(topology, collective(kind, topology.num_ranks, **details), Fraction(1000))
    with pytest.raises(Unsupported, match=words):
        METHOD.synthesize(problem, AllreduceEpochsOptions(), np.random.default_rng(0))


def test_it_needs_a_size():
    problem = Problem(parse_topology("ring:4"), collective("allreduce", 4), None)
    with pytest.raises(InputError, match="allreduce_epochs needs a size"):
        METHOD.synthesize(problem, AllreduceEpochsOptions(), np.random.default_rng(0))


def test_too_many_rows_are_refused(monkeypatch):
    monkeypatch.setattr(epochs_module, "COUNTS", epochs_module.COUNTS._replace(rows=3))
    with pytest.raises(
        NoSchedule, match="allreduce_epochs on ring:4: too many links times steps for its programs"
    ):
        made("ring:4", 1000)
