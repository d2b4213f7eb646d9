"""Options refuse values outside their annotation's range, with messages of one form."""

from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, ClassVar

import pytest

from tutti.topologies.errors import InputError
from tutti.topologies.options import Choice, Duration, Names, Number, Options, Whole


@dataclass(frozen=True)
class Demo(Options):
    """One option of each kind."""

    OWNER: ClassVar[str] = "demo"

    flag: bool = True
    maybe: bool | None = None
    whole: Annotated[int, Whole(1)] = 1
    few: Annotated[int | None, Whole(0, 3)] = None
    positive: Annotated[float | None, Number(above=0)] = None
    share: Annotated[float | Fraction, Number(least=0, below=1)] = 0.5
    tolerance: Annotated[float | None, Number(least=1e-10, most=0.1)] = None
    pick: Annotated[str, Choice(("rarest", "uniform"))] = "rarest"
    root: Annotated[int, Whole(0, words="it must be a rank")] = 0
    limit: Annotated[str, Duration("9s")] = "1s"
    names: Annotated[tuple[str, ...], Names(1)] = ("ring",)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"flag": 1}, "flag is 1; it must be true or false"),
        ({"maybe": "no"}, "maybe is 'no'; it must be true or false"),
        ({"whole": 0}, "whole is 0; it must be a whole number, at least 1"),
        ({"whole": True}, "whole is True; it must be a whole number, at least 1"),
        ({"whole": None}, "whole is None; it must be a whole number, at least 1"),
        ({"few": 4}, "few is 4; it must be a whole number, 0 to 3"),
        ({"few": 1.0}, "few is 1.0; it must be a whole number, 0 to 3"),
        ({"positive": 0}, "positive is 0; it must be a positive number"),
        ({"positive": float("inf")}, "positive is inf; it must be a positive number"),
        ({"positive": float("nan")}, "positive is nan; it must be a positive number"),
        ({"share": Fraction(3, 2)}, "share is 3/2; it must be at least 0 and below 1"),
        ({"tolerance": 5}, "tolerance is 5; it must be a number from 1e-10 to 0.1"),
        ({"pick": "rarst"}, "pick is 'rarst'; did you mean 'rarest'?"),
        ({"pick": ["x"]}, "pick is ['x']; allowed: rarest, uniform"),
        ({"root": -1}, "root is -1; it must be a rank"),
        ({"limit": "0s"}, "limit is '0s'; it must be positive, such as 9s"),
        ({"names": "ring"}, "names is 'ring'; it must be a list of names"),
        ({"names": ()}, "names is (); it must be a list of names"),
    ],
)
def test_a_value_outside_its_range_is_refused_by_name(given, message):
    with pytest.raises(InputError) as error:
        Demo(**given)
    assert str(error.value) == f"demo option {message}"


def test_values_inside_their_ranges_pass():
    ends = Demo(few=3, positive=1e-300, share=0, tolerance=0.1, root=0, names=["ring", "tacos"], maybe=False)
    assert (ends.few, ends.maybe, ends.names) == (3, False, ["ring", "tacos"])


def test_a_text_that_is_no_time_says_so_itself():
    with pytest.raises(InputError, match="soon"):
        Demo(limit="soon")
