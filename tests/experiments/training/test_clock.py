"""Times of collectives: by schedules, bounds and formulae."""

from fractions import Fraction

import pytest

from tutti.experiments.training.networks import BOUND, Scheduled
from tutti.experiments.training.workload import SEND, Communication, Formula
from tutti.schedules.byte_matrix import byte_matrix
from tutti.schedules.collective import Kind
from tutti.topologies.errors import InputError

RING = "ring:4?bandwidth=1GB/s&alpha=1us"
MEGABYTE = Fraction(10**6)


def test_a_ring_takes_what_its_formula_says() -> None:
    """Both ways, half the data each: 6 steps of 1 us and 125 KB at 1 GB/s (Patarasuk and Yuan 2009)."""
    what = Communication(Kind.ALLREDUCE, MEGABYTE, "dp")
    network = Scheduled(RING, "ring")
    assert network.time(what) == pytest.approx(6 * (1e-6 + 125e-6))
    assert network.bound(what) <= network.time(what)


def test_the_bound_stands_for_a_method() -> None:
    """An all-to-all of 1 MB on a ring of 4: 250 KB each, 2 over the cut in half, each way twice: 500 us."""
    what = Communication(Kind.ALL_TO_ALL, MEGABYTE, "ep")
    network = Scheduled(RING, "ring", {Kind.ALL_TO_ALL: BOUND})
    assert network.time(what) == network.bound(what) >= 500e-6


def test_an_uneven_all_to_all_takes_what_its_matrix_says() -> None:
    """All of three ranks' 1 MB goes to one rank, over its two links of 1 GB/s: 1500 us, and some α."""
    uneven = Communication(Kind.ALL_TO_ALL, MEGABYTE, "ep", byte_matrix("hot:1", 4))
    network = Scheduled(RING, "mcf")
    assert network.time(Communication(Kind.ALL_TO_ALL, MEGABYTE, "ep")) < 520e-6
    assert 1500e-6 <= network.bound(uneven) <= network.time(uneven) < 1600e-6


def test_sending_takes_alpha_and_bytes_over_bandwidth() -> None:
    """On a ring to the next rank; through two switches the α of four links, the bytes once."""
    what = Communication(SEND, MEGABYTE, "pp")
    assert Scheduled(RING, "ring").time(what) == pytest.approx(1001e-6)
    switched = Scheduled("switch2d:2x2?bandwidth=1GB/s,500MB/s&alpha=1us", "ring")
    assert switched.time(what) == pytest.approx(2004e-6)


def test_a_formula_has_a_constant_and_a_rate() -> None:
    formula = Formula({Kind.ALLREDUCE: (1e-6, 1e-9)}, "here")
    assert formula.time(Communication(Kind.ALLREDUCE, MEGABYTE, "dp")) == pytest.approx(1001e-6)
    with pytest.raises(InputError, match=r"^here: no time for allgather; it has allreduce$"):
        formula.time(Communication(Kind.ALLGATHER, MEGABYTE, "fsdp"))
