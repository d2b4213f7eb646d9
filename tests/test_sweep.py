"""Sweeps go through all their items, and say which one fails."""

import pytest

from tests.sweep import for_each


@pytest.fixture
def limit():
    return 3


@for_each("number", range(3))
def test_items_and_fixtures_are_both_given(number, limit):
    assert number < limit


def test_a_failure_names_its_item_and_ends_the_loop():
    seen = []

    @for_each(("text", "value"), [("a", 1), ("b", 2), ("c", 3)])
    @for_each("factor", [1, 2])
    def test(text, value, factor):
        seen.append((text, value, factor))
        assert (value, factor) != (2, 2)

    with pytest.raises(AssertionError) as caught:
        test()
    assert caught.value.__notes__ == ["for factor = 2", "for text = 'b', value = 2"]
    assert seen == [("a", 1, 1), ("a", 1, 2), ("b", 2, 1), ("b", 2, 2)]


def test_what_should_be_raised_and_is_not_names_its_item_too():
    @for_each("number", [1, 0])
    def test(number):
        with pytest.raises(ZeroDivisionError):
            1 // (number - 1)

    with pytest.raises(pytest.fail.Exception, match="DID NOT RAISE") as caught:
        test()
    assert caught.value.__notes__ == ["for number = 0"]


def test_a_loop_over_nothing_is_refused():
    with pytest.raises(ValueError, match="no number to test"):
        for_each("number", range(0))
