"""Options of TACOS out of range are refused in one line."""

import pytest

from heuristics.tacos import TacosOptions
from topologies import InputError


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"chunks": 0}, "tacos: chunks is 0; allowed: an integer of at least 1"),
        ({"chunks": 1.5}, "tacos: chunks is 1.5; allowed: an integer of at least 1"),
        ({"degree": 0}, "tacos: degree is 0; allowed: an integer of at least 1"),
        ({"degree": True}, "tacos: degree is True; allowed: an integer of at least 1"),
        ({"pick": "rarist"}, "tacos: unknown pick 'rarist'; did you mean 'rarest'?"),
        ({"wait": "no"}, "tacos: wait is 'no'; allowed: true, false"),
        ({"guide": "tree"}, "unknown guide 'tree'"),
        ({"allreduce": "halfs"}, "unknown allreduce 'halfs'"),
        ({"time_limit": 0}, "time_limit is 0; allowed: a positive number of seconds"),
        ({"time_limit": -1.5}, "time_limit is -1.5"),
        ({"time_limit": float("inf")}, "time_limit is inf"),
        ({"memory": "0B"}, "it must be positive"),
        ({"memory": "much"}, "much"),
        ({"memory": "16"}, "16"),
        ({"memory": 16}, "16"),
    ],
)
def test_options_out_of_range_are_refused(options, message):
    with pytest.raises(InputError) as error:
        TacosOptions(**options)
    assert message in str(error.value)
