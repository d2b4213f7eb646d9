"""The search over the horizon, with a solver whose answers are made up of a known optimum."""

import math

import pytest

from tests.sweep import for_each
from tutti.models.time_expanded import HorizonAnswer, HorizonLimits, HorizonSearch
from tutti.topologies import NoSchedule

NONE = NoSchedule("there is none")


def grown(optimum, begin, *, unknown=(), most=math.inf, known=None, past_unknown=False):
    """Return the search after it, and the horizons that were asked for; `unknown` ones are not decided."""
    search, asked = HorizonSearch(HorizonLimits(), begin), []
    if known is not None:
        search.offer("known", known)

    def ask(horizon):
        asked.append(horizon)
        if horizon in unknown:
            return HorizonAnswer()
        return HorizonAnswer(infeasible=True) if horizon < optimum else HorizonAnswer("found", optimum)

    search.grow(ask, begin, most, past_unknown=past_unknown)
    return search, asked


@for_each("optimum", range(2, 7))
@for_each("known", [None, 6, 8])
def test_without_undecided_horizons_the_optimum_is_proven(optimum, known):
    search, asked = grown(optimum, 2, known=known)
    result = search.result({}, NONE)
    assert (result.ticks, result.proven, result.gap) == (optimum, optimum, 0)
    assert result.rows == ("known" if known == optimum else "found")
    assert asked == list(range(2, optimum if known == optimum else optimum + 1))


def test_an_undecided_horizon_ends_the_search_or_is_left_behind_unproven():
    search, asked = grown(4, 2, unknown={3})
    assert (search.rows, search.proven, asked) == (None, 3, [2, 3])
    with pytest.raises(NoSchedule, match="there is none"):
        search.result({}, NONE)
    search, asked = grown(4, 2, unknown={3}, past_unknown=True)
    assert (search.ticks, search.proven, asked) == (4, 3, [2, 3, 4])
    assert search.result({}, NONE).gap == 0.25


def test_an_infeasible_horizon_proves_more_than_undecided_ones_before_it():
    search, _ = grown(5, 2, unknown={2, 3}, past_unknown=True)
    assert (search.ticks, search.proven) == (5, 5)


def test_no_horizon_beyond_the_most_is_asked_for():
    search, asked = grown(5, 2, most=3)
    assert (search.rows, search.proven, asked) == (None, 4, [2, 3])
    assert grown(5, 4, most=3)[1] == []


def test_only_a_better_or_equal_schedule_is_kept_and_bounds_are_rounded_up():
    search = HorizonSearch(HorizonLimits(gap=0.25), 2)
    assert not search.met
    search.offer("first", 4)
    search.learn(HorizonAnswer("worse", 5, bound=2.5), 5)
    assert (search.rows, search.ticks, search.proven) == ("first", 4, 3)
    assert search.met
    search.learn(HorizonAnswer("equal", 4, bound=-math.inf), 4)
    assert (search.rows, search.proven) == ("equal", 3)


def test_a_solve_has_the_time_that_is_left_but_no_less_than_solvers_take():
    assert HorizonLimits("highs").options(math.inf).time_limit is None
    assert HorizonLimits("highs").options(7.0).time_limit == 7.0
    assert HorizonLimits("highs").options(-1.0).time_limit > 0
