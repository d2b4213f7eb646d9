"""Features of PDLP alone: its statuses and refusals."""

from dataclasses import replace

import numpy as np
import pytest

from tests.models.solvers.programs import transport
from tutti.models.solvers import pdlp, solve
from tutti.topologies.errors import InputError


def test_the_table_of_native_statuses_is_that_of_pdlp():
    from ortools.pdlp import solve_log_pb2

    native = {name.removeprefix(pdlp.PREFIX) for name in dict(solve_log_pb2.TerminationReason.items())}
    assert native == set(pdlp.TERMINATIONS) | {"UNSPECIFIED", "OTHER"}


def test_pdlp_refuses_what_it_can_not_read():
    broken = replace(transport(3), row_lower=np.full(6, 2.0))
    with pytest.raises(InputError, match=r"^pdlp does not accept model transport or its options: "):
        solve(broken, "pdlp")
