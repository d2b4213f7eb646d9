"""The routing model: its families by the paper's numbers, and what is given up in time."""

import pyomo.environ as pyo
import pytest

from tests.models.taccl.cases import demand
from tutti.models.solvers import compile_model, solve
from tutti.models.taccl.costs import Costs
from tutti.models.taccl.routing import greedy_routing
from tutti.models.taccl.routing_model import RoutingModel
from tutti.models.taccl.solving import Deadline


def test_a_model_is_given_up_when_its_time_is_over(clock):
    costs = Costs(demand("mesh:3x3"))
    horizon = greedy_routing(costs)[1] + 1
    assert RoutingModel(costs, horizon).build(Deadline.after(100)) is not None
    assert RoutingModel(costs, horizon).build(Deadline.after(1e-6)) is None, "too large for it"

    class Ticking(Deadline):
        @property
        def left(self):
            clock[0] += 0.04
            return super().left

    assert RoutingModel(costs, horizon).build(Ticking(0.1)) is None, "over half way"


def families(m):
    """Return the set and the equation of each constraint of a model, by name."""
    return {
        family.local_name: (family.index_set().local_name, family.doc.split(":")[0])
        for family in m.component_objects(pyo.Constraint)
    }


def test_every_family_of_the_paper_is_a_named_constraint_over_its_set():
    """Appendix B.1: (1) and (11) are the objective, (3) is fixed, (12) to (14) are substituted."""
    d = demand("ndv2:2", sketch="ndv2-sk-1")
    m = RoutingModel(Costs(d), 100.0).build()
    assert families(m) == {
        "the_end_is_after_every_arrival": ("ENDS", "(2)"),
        "a_chunk_arrives_a_latency_after_it_was_held": ("TRANSFERS", "(4), (5)"),
        "a_rank_receives_a_chunk_once": ("RECEIPTS", "unsaid"),
        "a_rank_passes_on_what_it_received": ("PASSES", "unsaid"),
        "a_port_has_time_for_its_transfers": ("PORTS", "(6), (7), (8)"),
        "late_transfers_have_time": ("LATE", "added"),
        "early_transfers_have_time": ("EARLY", "added"),
        "a_host_is_reached": ("INTO_HOSTS", "(15)"),
        "a_link_with_a_transfer_is_used": ("SWITCHED_TRANSFERS", "(9)"),
        "a_used_link_has_a_transfer": ("SWITCHED", "(10)"),
    }
    assert [objective.local_name for objective in m.component_objects(pyo.Objective)] == ["duration"]
    assert all(m.start[c, r].fixed for c, r in enumerate(d.start.tolist()))
    assert len(m.a_host_is_reached) == 16, "each chunk of 16 ranks must get to the other host"


def test_a_toy_reads_as_its_equations():
    """A broadcast to one neighbour over one link that takes a unit: sent, or it is never there."""
    m = RoutingModel(Costs(demand("mesh:2x1", "broadcast")), 5.0).build()
    rows = {row.name: str(row.expr) for row in m.component_data_objects(pyo.Constraint)}
    assert rows["the_end_is_after_every_arrival[0,1]"] == "start[0,1]  <=  time"
    assert rows["a_rank_receives_a_chunk_once[0,1]"] == "is_sent[0,0]  ==  1"
    assert rows["a_port_has_time_for_its_transfers[0]"] == "is_sent[0,0]  <=  time"
    assert "start[0,0] + 1.0 - 5.0*(1 - is_sent[0,0])  <=  start[0,1]" in rows.values()


def test_what_is_added_cuts_off_no_optimum():
    """The program without the late and the early transfers has the same optimum, and a weaker relaxation."""
    costs = Costs(demand("mesh:2x3"))
    m = RoutingModel(costs, greedy_routing(costs).time + 1).build()
    full = solve(compile_model(m), "highs").objective
    m.late_transfers_have_time.deactivate()
    m.early_transfers_have_time.deactivate()
    assert solve(compile_model(m), "highs").objective == pytest.approx(full)
