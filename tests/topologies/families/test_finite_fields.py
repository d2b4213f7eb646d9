"""Finite fields against their axioms and, if q is prime, against the integers modulo q."""

import itertools

import numpy as np
import pytest

from tests.sweep import for_each
from tutti.topologies import InputError
from tutti.topologies.families.finite_fields import finite_field, prime_power

ORDERS = [2, 3, 4, 5, 7, 8, 9, 16, 25, 27]


@for_each("order", ORDERS)
def test_the_axioms_of_a_field_hold(order):
    field = finite_field(order)
    plus, times, every = field.plus, field.times, np.arange(order)
    a, b, c = np.ix_(every, every, every)
    assert (plus == plus.T).all()
    assert (times == times.T).all()
    assert (plus[plus[a, b], c] == plus[a, plus[b, c]]).all()
    assert (times[times[a, b], c] == times[a, times[b, c]]).all()
    assert (times[a, plus[b, c]] == plus[times[a, b], times[a, c]]).all()
    assert (plus[0] == every).all()
    assert (times[1] == every).all()
    assert (plus[every, field.negative] == 0).all()
    assert (times[every, field.inverse][1:] == 1).all()


@pytest.mark.parametrize("order", [2, 3, 5, 7, 11, 13])
def test_a_prime_field_is_the_integers_modulo_it(order):
    field = finite_field(order)
    for a, b in itertools.product(range(order), repeat=2):
        assert field.plus[a, b] == (a + b) % order
        assert field.times[a, b] == a * b % order
        assert field.minus(np.array(a), np.array(b)) == (a - b) % order


@for_each("order", ORDERS)
def test_the_powers_of_a_primitive_element_are_all_elements_but_zero(order):
    field = finite_field(order)
    assert sorted(field.powers.tolist()) == list(range(1, order))
    if order > 2:
        root = field.powers[1]
        assert (field.times[field.powers[:-1], root] == field.powers[1:]).all()


@pytest.mark.parametrize(("order", "characteristic"), [(8, 2), (9, 3), (27, 3), (25, 5)])
def test_adding_an_element_to_itself_p_times_is_zero(order, characteristic):
    field = finite_field(order)
    total = np.zeros(order, dtype=np.int64)
    for _ in range(characteristic):
        total = field.plus[total, np.arange(order)]
    assert not total.any()


def test_a_dot_product_is_the_sum_of_products():
    field = finite_field(7)
    left, right = np.array([[1, 2, 3], [4, 5, 6]]), np.array([3, 3, 1])
    assert field.dot(left, right).tolist() == [12 % 7, 33 % 7]


def test_prime_powers_are_told_from_other_numbers():
    assert [n for n in range(30) if prime_power(n)] == [
        2, 3, 4, 5, 7, 8, 9, 11, 13, 16, 17, 19, 23, 25, 27, 29,
    ]  # fmt: skip
    assert prime_power(243) == (3, 5)


@pytest.mark.parametrize(
    ("order", "message"),
    [
        (6, "q = 6 is not a prime power"),
        (1, "q = 1 is not"),
        (0, "q = 0 is not"),
        (257, "q = 257 is too large"),
    ],
)
def test_an_order_without_a_field_is_refused(order, message):
    with pytest.raises(InputError, match=message):
        finite_field(order)
