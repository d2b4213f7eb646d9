"""Stored allgathers of small networks: optimal, and found again by the search."""

from fractions import Fraction

import pytest

from tests.sweep import for_each
from tutti.expansions.constructions import to_schedule
from tutti.expansions.method import expanded
from tutti.expansions.searched import SEARCHED, search_allgather
from tutti.schedules import collective
from tutti.schedules.cost import step_cost
from tutti.schedules.verify import verify
from tutti.topologies import NoSchedule
from tutti.topologies.families.expressions import Base


@for_each("turned", [False, True])
@for_each("base", SEARCHED)
def test_stored_schedules_are_bandwidth_optimal_and_can_be_found_again(base, turned):
    """Table A.3 has T_L; 10 to 20 nodes take the search a second."""
    parts, loads = SEARCHED[base]
    topology = base.topology()
    again = search_allgather(topology, len(loads), parts, turned=turned, loads=loads)
    for table in (expanded(base, turned), again):
        schedule = to_schedule(table, topology, collective("allgather", topology.num_ranks))
        verify(schedule)
        cost, nodes = step_cost(schedule), topology.num_ranks
        assert (cost.tl_steps, cost.tb) == (len(loads), Fraction(nodes - 1, nodes))


def test_the_search_says_that_there_is_no_schedule_of_too_few_steps():
    with pytest.raises(NoSchedule, match=r"BW-optimal allgather of 2 steps .* on Diamond: there is none"):
        search_allgather(Base("diamond").topology(), 2, 2)
