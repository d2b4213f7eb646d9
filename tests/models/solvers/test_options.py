"""The options of all solvers: ranges, and what else is refused."""

import pytest

from tests.models.solvers.programs import diet
from tutti.models.solvers import GlopOptions, GurobiOptions, HighsOptions, PdlpOptions, solve
from tutti.topologies.errors import InputError

POSITIVE = "it must be a positive number"
SECONDS = f"{POSITIVE} of seconds"
WHOLE = "it must be a whole number, at least"


def test_options_of_another_solver_are_refused():
    with pytest.raises(InputError, match=r"^solver glop takes GlopOptions, not HighsOptions$"):
        solve(diet(), "glop", HighsOptions())


@pytest.mark.parametrize(
    ("make", "values", "message"),
    [
        (HighsOptions, {"method": "simplx"}, "highs option method is 'simplx'; did you mean 'simplex'?"),
        (HighsOptions, {"time_limit": -1}, f"highs option time_limit is -1; {SECONDS}"),
        (HighsOptions, {"time_limit": "1s"}, f"highs option time_limit is '1s'; {SECONDS}"),
        (HighsOptions, {"threads": 0}, f"highs option threads is 0; {WHOLE} 1"),
        (HighsOptions, {"tolerance": 0}, f"highs option tolerance is 0; {POSITIVE}"),
        (HighsOptions, {"relative_gap": float("nan")}, f"highs option relative_gap is nan; {POSITIVE}"),
        (HighsOptions, {"seed": True}, f"highs option seed is True; {WHOLE} 0"),
        (GlopOptions, {"method": "ipm"}, "glop option method is 'ipm'; allowed: dual, primal"),
        (HighsOptions, {"strategy": "x"}, "highs option strategy is 'x'; allowed: choose, dual, primal"),
        (GlopOptions, {"iteration_limit": -3}, f"glop option iteration_limit is -3; {WHOLE} 0"),
        (GlopOptions, {"seed": -1}, f"glop option seed is -1; {WHOLE} 0"),
        (PdlpOptions, {"threads": 0}, f"pdlp option threads is 0; {WHOLE} 1"),
        (PdlpOptions, {"memory_limit": -1}, f"pdlp option memory_limit is -1; {POSITIVE} of bytes"),
        (GurobiOptions, {"method": "dal"}, "gurobi option method is 'dal'; did you mean 'dual'?"),
    ],
)
def test_an_option_out_of_range_is_named(make, values, message):
    with pytest.raises(InputError) as error:
        make(**values)
    assert str(error.value) == message


def test_a_value_that_the_solver_itself_refuses_is_an_error():
    with pytest.raises(InputError, match=r"^highs does not accept option primal_.* = 1e-30 "):
        solve(diet(), "highs", HighsOptions(tolerance=1e-30))


def test_a_log_goes_into_a_folder_that_exists():
    with pytest.raises(
        InputError, match=r"^glop option log is '/no/such/x.log'; there is no folder /no/such$"
    ):
        GlopOptions(log="/no/such/x.log")
