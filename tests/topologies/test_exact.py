"""Exact vectors: rationals over one denominator."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutti.topologies.errors import InputError, suggestion
from tutti.topologies.exact import Rationals, common_divisor, frozen, json_number, offsets_of

small = st.fractions(min_value=-1000, max_value=1000, max_denominator=12)


@given(st.lists(small))
def test_a_vector_gives_back_the_values_it_was_made_of(values):
    assert list(Rationals.of(values)) == values


@given(st.lists(small, min_size=1), st.integers(1, 9))
def test_equality_is_by_value_whatever_the_denominator(values, factor):
    vector = Rationals.of(values)
    scaled = Rationals(vector.numerators * factor, vector.denominator * factor)
    assert vector == scaled
    assert scaled.reduced.denominator == np.lcm.reduce([v.denominator for v in values])


def test_floats_are_the_nearest_doubles():
    assert Rationals.of([Fraction(1, 4), Fraction(1, 3)]).floats.tolist() == [0.25, 1 / 3]


def test_vectors_of_different_lengths_or_values_differ():
    assert Rationals.of([1]) != Rationals.of([1, 1])
    assert Rationals.of([1]) != Rationals.of([2])
    assert Rationals.of([1]) != "1"


def test_uniform_means_all_equal():
    assert Rationals.of([]).uniform
    assert Rationals.of([Fraction(1, 3), Fraction(2, 6)]).uniform
    assert not Rationals.of([1, 2]).uniform


def test_values_that_do_not_fit_64_bits_are_refused():
    with pytest.raises(InputError, match="do not fit 64 bits"):
        Rationals.of([Fraction(1, 2**40), 2**40])


def test_frozen_arrays_never_alias_what_the_caller_can_write():
    mine = np.arange(4)
    kept = frozen(mine, np.int64)
    mine[0] = 9
    assert kept[0] == 0
    with pytest.raises(ValueError, match="read-only"):
        kept[0] = 1


def test_a_suggestion_names_the_closest_word_or_lists_what_is_allowed():
    assert suggestion("trous", ["torus", "ring"]) == "; did you mean 'torus'?"
    assert suggestion("zzz", ["torus", "ring"]) == "; allowed: ring, torus"
    assert suggestion("zzz", ["torus", "ring", "torus"]) == "; allowed: ring, torus"


def test_the_common_divisor_is_the_greatest_common_measure():
    assert common_divisor([Fraction(3, 4), Fraction(5, 6)]) == Fraction(1, 12)
    assert common_divisor([Fraction(3, 7)]) == Fraction(3, 7)


def test_offsets_are_running_totals_from_zero():
    assert offsets_of([2, 0, 3]).tolist() == [0, 2, 2, 5]
    assert offsets_of([]).tolist() == [0]


def test_a_json_number_is_an_integer_where_it_can_be():
    assert (json_number(Fraction(4)), json_number(Fraction(3, 4))) == (4, "3/4")
