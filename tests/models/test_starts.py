"""A start that a model does not know is refused in one line, whatever was given."""

from fractions import Fraction

import pytest

from models.optimum import METHOD as OPTIMUM
from models.starts import check_start
from models.teccl import METHOD as TECCL
from schedules import Problem, collective
from topologies import InputError
from topologies.text import parse_topology


def test_the_nearest_word_is_suggested():
    with pytest.raises(InputError, match=r"^sccl option start is 'bfbs'; did you mean 'bfb'\?$"):
        check_start("sccl", "bfbs", ["none", "bfb", "forestcoll"])


@pytest.mark.parametrize("given", [5, True, ["recursive_doubling"]])
@pytest.mark.parametrize(
    ("method", "words"), [(TECCL, "bfb, forestcoll, none"), (OPTIMUM, "auto, bfb, forestcoll, none")]
)
def test_what_is_no_word_is_refused_too(method, words, given):
    problem = Problem(parse_topology("ring:3"), collective("allgather", 3), Fraction(10**6))
    with pytest.raises(InputError) as refusal:
        method.supports(problem, method.options(start=given))
    assert str(refusal.value) == f"{method.name} option start is '{given}'; allowed: {words}"
