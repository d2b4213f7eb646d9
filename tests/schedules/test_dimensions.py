"""Groups by dimensions: their ranks, their collectives, and texts that are refused."""

from fractions import Fraction

import pytest

from tests.sweep import for_each
from tutti.schedules.collective import collective, concurrent, grouped
from tutti.topologies import InputError

ROWS = ((0, 1, 2), (3, 4, 5))
COLUMNS = ((0, 3), (1, 4), (2, 5))


def test_the_first_dimension_varies_fastest():
    what, size = grouped("tp=3,dp=2", 6, "allreduce")
    assert size is None
    assert what == concurrent([collective("allreduce", 6, groups=groups) for groups in (ROWS, COLUMNS)])


def test_the_middle_of_three_is_found_by_hand():
    what, _ = grouped("tp=2:none,pp=3:allgather,dp=2:none", 12, "")
    assert what.groups == ((0, 2, 4), (1, 3, 5), (6, 8, 10), (7, 9, 11))


def test_each_has_a_collective_and_a_size_of_its_own():
    what, size = grouped("tp=3:allgather@1MB, dp=2:reduce-scatter@4MB", 6, "allreduce")
    parts = [collective("allgather", 6, groups=ROWS), collective("reduce-scatter", 6, groups=COLUMNS)]
    assert what == concurrent(parts, [1, 4])
    assert what.weights == (Fraction(1, 4), Fraction(1))
    assert size == 4 * 10**6


def test_one_that_does_something_is_no_mixture():
    what, size = grouped("tp=3:allgather@1MB,dp=2:none", 6, "allreduce")
    assert (what, size) == (collective("allgather", 6, groups=ROWS), 10**6)


@for_each("text", ["tp=3,dp=*", "tp=*,dp=2", "tp=3,pp=1,dp=*", " tp = 3 , dp = 2 "])
def test_what_is_left_may_be_left_open(text):
    assert grouped(text, 6, "allreduce")[0] == grouped("tp=3,dp=2", 6, "allreduce")[0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tp=3,dp=3", "groups 'tp=3,dp=3': the sizes multiply to 9, for 6 ranks"),
        ("tp=4,dp=*", "groups 'tp=4,dp=*': the sizes multiply to 4, for 6 ranks"),
        ("tp=*,dp=*", "groups 'tp=*,dp=*': '*' occurs 2 times"),
        ("tp=3,tp=2", "groups 'tp=3,tp=2': 'tp' occurs 2 times"),
        ("tp=3,dp", "groups 'tp=3,dp': 'dp' is no dimension; write tp=8 or tp=8:allreduce@64MB"),
        ("tp=0,dp=2", "groups 'tp=0,dp=2': 'tp=0' is no dimension; write tp=8 or tp=8:allreduce@64MB"),
        ("tp=3:allredcue,dp=2", "unknown collective 'allredcue'; did you mean 'allreduce'?"),
        (
            "tp=3@1MB,dp=2",
            "groups 'tp=3@1MB,dp=2': only some dimensions give bytes; give them for all or none",
        ),
        (
            "tp=3:none,dp=2:none",
            "groups 'tp=3:none,dp=2:none': no dimension of more than one rank does anything",
        ),
        ("tp=1,dp=6:none", "groups 'tp=1,dp=6:none': no dimension of more than one rank does anything"),
    ],
)
def test_what_is_no_such_text_is_refused_in_a_line(text, message):
    with pytest.raises(InputError) as error:
        grouped(text, 6, "allreduce")
    assert str(error.value).startswith(message.split(";")[0])
    assert "\n" not in str(error.value)


@for_each("amount", ["0B", "-1MB", "1", "many"])
def test_sizes_are_positive_and_have_a_unit(amount):
    with pytest.raises(InputError, match="size"):
        grouped(f"tp=3@{amount},dp=2@1MB", 6, "allreduce")


def test_a_billion_ranks_are_refused_at_once():
    with pytest.raises(InputError, match="multiply to"):
        grouped("tp=100000000,dp=100000000", 6, "allreduce")
