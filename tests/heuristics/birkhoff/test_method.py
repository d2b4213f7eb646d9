"""`birkhoff`: what arrives, against a replay that shares no code; bounds by hand; what it refuses."""

from fractions import Fraction

import numpy as np
import pytest

from tests.delivered import delivered, problem
from tutti.experiments.registry import find_method
from tutti.heuristics.birkhoff import METHOD
from tutti.heuristics.birkhoff.method import BirkhoffOptions
from tutti.schedules import Problem, collective
from tutti.schedules.simulation.simulate import simulate
from tutti.schedules.verify import verify
from tutti.topologies import Unsupported
from tutti.topologies.text import parse_topology

RNG = np.random.default_rng(0)


def made(asked, **options):
    schedule = METHOD.synthesize(asked, BirkhoffOptions(**options), RNG)
    verify(schedule)
    return schedule


def random_bytes(seed, ranks):
    rng = np.random.default_rng(seed)
    amounts = rng.integers(0, 1000, (ranks, ranks))
    amounts[rng.random((ranks, ranks)) < 0.5 * (seed % 3)] = 0
    amounts[rng.integers(ranks)] = 0  # a rank that sends nothing
    amounts[0, 1] += 1
    return amounts


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("text", ["dgx_h100:2", "switch2d:3x4", "dgx_a100:3"])
def test_every_rank_ends_with_its_column(text, seed):
    where = parse_topology(text)
    amounts = random_bytes(seed, where.num_ranks)
    asked = problem(where, amounts)
    schedule = made(asked, slices=1 + 3 * seed)
    assert delivered(schedule, asked.size) == {pair: b for pair, b in np.ndenumerate(amounts) if b}


@pytest.mark.parametrize("pair", [(0, 1), (0, 9), (15, 2), (3, 3)])
def test_all_bytes_may_be_on_one_pair(pair):
    where = parse_topology("dgx_h100:2")
    amounts = np.zeros((16, 16), np.int64)
    amounts[pair] = 8 * 10**6
    asked = problem(where, amounts)
    assert delivered(made(asked), asked.size) == {pair: 8 * 10**6}


def test_no_adapter_sends_more_than_its_part():
    """Rank 0 alone sends 400 MB to the other host: each of 8 adapters of 50 GB/s sends 50 MB."""
    where = parse_topology("dgx_h100:2?alpha=0us")
    amounts = np.zeros((16, 16), np.int64)
    amounts[0, 8:] = 50 * 10**6
    asked = problem(where, amounts)
    found = simulate(made(asked, slices=50), asked.size)
    fabric = where.num_nodes - 1
    out = [link for link in range(where.num_links) if where.target[link] == fabric and where.source[link] < 8]
    assert [found.bytes[link] for link in out] == pytest.approx([50 * 10**6] * 8)
    assert 1e-3 <= found.time <= 1.05e-3


@pytest.mark.parametrize("form", ["random", "zipf:1.2", "hot:0.2", "block:8:0.5", "uniform"])
@pytest.mark.parametrize("hosts", [2, 5])
def test_a_gigabyte_a_rank_takes_five_percent_more_than_the_busiest_host_at_most(form, hosts):
    where = parse_topology(f"dgx_h100:{hosts}")
    what = collective("all-to-all", where.num_ranks, matrix=form)
    size = Fraction(10**9)
    amounts = what.matrix.amounts.astype(float) / what.matrix.largest_row
    outside = [~np.isin(np.arange(8 * hosts), range(8 * h, 8 * h + 8)) for h in range(hosts)]
    crossing = [amounts[~o][:, o].sum() for o in outside] + [amounts[o][:, ~o].sum() for o in outside]
    least = max(crossing) * 1e9 / 400e9
    assert least <= simulate(made(Problem(where, what, size)), size).time <= 1.05 * least


@pytest.mark.parametrize(
    ("text", "form", "least"),
    [
        # 7/8 of 0.95 GB and 0.05 GB leave each rank over its NVLinks and its adapter, 450 and 50 GB/s
        ("dgx_h100:4", "block:8:0.95", 0.88125e9 / 500e9),
        ("dgx_h100:4", "block:8:1", 0.875e9 / 500e9),
        # half a GB from each of 15 comes to one rank
        ("dgx_h100:2", "hot:0.5", 7.5e9 / 500e9),
    ],
)
def test_adapters_carry_a_part_of_what_stays_in_a_host_where_its_links_take_longer(text, form, least):
    where, size = parse_topology(text), Fraction(10**9)
    what = collective("all-to-all", where.num_ranks, matrix=form)
    assert least * 0.9999 <= simulate(made(Problem(where, what, size)), size).time <= 1.05 * least


@pytest.mark.parametrize("form", ["random", "zipf:1.2", "hot:0.2"])
def test_hosts_without_a_mesh_inside_are_balanced_over_their_own_links(form):
    """MI250s: 16 ranks of 16 GB/s to others; inside up to three links of 50 GB/s from rank to rank."""
    where, size = parse_topology("mi250:2"), Fraction(10**9)
    what = collective("all-to-all", where.num_ranks, matrix=form)
    amounts = what.matrix.amounts / what.matrix.largest_row
    least = max(amounts[:16, 16:].sum(), amounts[16:, :16].sum()) * 1e9 / 256e9
    assert least <= simulate(made(Problem(where, what, size)), size).time <= 1.05 * least


@pytest.mark.parametrize("text", ["dgx_h100:3", "mi250:2", "rail_only:4,8"])
@pytest.mark.parametrize("inside", [30, 1000])
def test_every_rank_ends_with_its_column_where_most_stays_inside(text, inside):
    where = parse_topology(text)
    amounts = random_bytes(3, where.num_ranks)
    places = {"rail_only:4,8": 8, "dgx_h100:3": 8, "mi250:2": 16}[text]
    host = np.arange(where.num_ranks) // places
    amounts[host[:, None] == host] *= inside
    asked = problem(where, amounts)
    assert delivered(made(asked), asked.size) == {pair: b for pair, b in np.ndenumerate(amounts) if b}


@pytest.mark.parametrize("form", ["random", "block:8:1", "block:8:0.95"])
def test_a_small_size_takes_no_longer_than_sending_straight(form):
    """Hosts exchange one message of all that their ranks send each other: α is paid 7 times less outside."""
    where, size = parse_topology("dgx_h100:4"), Fraction(10**6)
    asked = Problem(where, collective("all-to-all", where.num_ranks, matrix=form), size)
    straight = find_method("direct").synthesize(asked, None, RNG)
    assert simulate(made(asked), size).time <= simulate(straight, size).time


def test_shards_of_no_size_and_equal_amounts_are_sent_too():
    where = parse_topology("dgx_h100:2")
    made(Problem(where, collective("all-to-all", 16), Fraction(16)))
    shards = [Fraction(rank % 2) for rank in range(16)]
    made(Problem(where, collective("all-to-all", 16, shards=shards), Fraction(16)))


@pytest.mark.parametrize(
    ("text", "amounts", "said"),
    [
        ("ring:4", np.ones((4, 4), np.int64), "needs hosts of equally many ranks"),
        ("dgx_h100:2", np.diag([2**60, *[1] * 15]), "fit 64 bits"),
    ],
)
def test_what_it_does_not_do_is_refused(text, amounts, said):
    with pytest.raises(Unsupported, match=said):
        METHOD.supports(problem(parse_topology(text), amounts), BirkhoffOptions())
