"""Contiguity against all choices of joined neighbours, and the families of its model."""

import itertools
from fractions import Fraction

import numpy as np
import pyomo.environ as pyo
import pytest

from tests.models.taccl.cases import MEGABYTE, QUICK, SLOW, demand, made, microseconds
from tutti.models.taccl import read_sketch
from tutti.models.taccl.costs import Costs
from tutti.models.taccl.demand import PathRules, Paths, demand_of
from tutti.models.taccl.logical import logical_links
from tutti.models.taccl.ordering import ordered
from tutti.models.taccl.routing import greedy_routing, route
from tutti.models.taccl.scheduling import SchedulingModel, exactly_scheduled
from tutti.models.taccl.solving import Deadline, StageLimits
from tutti.models.taccl.transfers import Contiguity, RoutedTransfers
from tutti.schedules import collective
from tutti.schedules.message_durations import messages, transfer_ticks
from tutti.schedules.schedule import Chunks
from tutti.schedules.simulation.simulate import simulate
from tutti.topologies.text import parse_topology


def least_end(transfers: RoutedTransfers, sequence, groups) -> float:
    """Return the end of messages that keep the order of a sequence on every port; inf if none can.

    Starts are raised until data and ports agree; in a cycle they rise without end.
    """
    of = {transfer: number for number, group in enumerate(groups) for transfer in group}
    message = [transfers.message(transfers.link[group[0]], len(group)) for group in groups]
    after = [
        (of[b], of[j], message[of[b]].arrival) for j in range(len(transfers)) for b in transfers.before[j]
    ]
    queues = {}
    for transfer in sequence:
        for port, enter, hold in message[of[transfer]].uses:
            queues.setdefault(port, []).append((of[transfer], enter, hold))
    for queue in queues.values():
        for (a, enter, hold), (b, later, _) in itertools.pairwise(queue):
            if a != b:
                after.append((a, b, enter + hold - later))
    start = [0] * len(groups)
    for _ in range(len(groups) + 1):
        raised = False
        for a, b, apart in after:
            if start[b] < start[a] + apart:
                start[b], raised = start[a] + apart, True
        if not raised:
            return max(s + m.arrival for s, m in zip(start, message, strict=True))
    return float("inf")


def test_contiguity_is_the_best_of_all_ways_to_join_neighbours():
    """A gather over two boxes: all 2^7 joins of the neighbours on the one link between them."""
    topology = parse_topology("ndv2:2")
    what = collective("gather", 16)
    logical = logical_links(topology, read_sketch("ndv2-sk-1"))
    d = demand_of(logical, what, Chunks.even(what, 1), Fraction(16 * 1000), PathRules())
    transfers = RoutedTransfers.spreading(d, route(d, StageLimits(deadline=Deadline.after(2))).sent)
    first = ordered(transfers, 0, 0, np.random.default_rng(0))
    sequence = [transfer for (transfer,) in first.messages]
    long = [transfer for transfer in sequence if logical.links[transfers.link[transfer]].between]
    assert len(long) == 8, "the other box's chunks"
    ends = []
    for joins in itertools.product([False, True], repeat=len(long) - 1):
        groups = [[long[0]]]
        for transfer, joined in zip(long[1:], joins, strict=True):
            groups[-1].append(transfer) if joined else groups.append([transfer])
        ends.append(
            least_end(
                transfers, sequence, groups + [[transfer] for transfer in sequence if transfer not in long]
            )
        )
    assert ends[0] == first.end
    found, stats = exactly_scheduled(first, Contiguity.BETWEEN, StageLimits(gap=1e-9))
    assert found.end == pytest.approx(min(ends), rel=1e-6)
    assert found.end < first.end
    assert stats["solver_gap"] == pytest.approx(0, abs=1e-6)


def test_parts_of_a_chunk_are_not_reduced_at_once():
    schedule = made("hypercube:3" + SLOW, "reduce-scatter")
    grouped = messages(schedule)
    begin = schedule.order
    end = begin + transfer_ticks(schedule, grouped).until_arrival[grouped.of_row]
    into = {}
    for row in range(len(schedule)):
        into.setdefault((schedule.target[row], schedule.chunk[row]), []).append((begin[row], end[row]))
    for times in into.values():
        times.sort()
        assert all(a[1] <= b[0] for a, b in itertools.pairwise(times))
    together = made("hypercube:3" + SLOW, "reduce-scatter", concurrent_receives=True)
    assert microseconds(together) == pytest.approx(30)


def test_joining_chunks_pays_where_latency_rules():
    short = {"sketch": "ndv2-sk-1", "time_limit": 5, **QUICK}
    joined = microseconds(made("ndv2:2", "gather", 16 * 1000, **short))
    apart = microseconds(made("ndv2:2", "gather", 16 * 1000, contiguity="none", **short))
    assert joined < apart


def test_words_are_as_good_as_members():
    """Options made in Python may be text: joining chunks everywhere takes less where latency rules."""
    small = {"chunks": 4, "restarts": 0, "reroutes": 0}
    apart, words, members = (
        simulate(made("ring:4?alpha=1ms", "allgather", MEGABYTE, **small, contiguity=how), MEGABYTE).time
        for how in ("none", "all", Contiguity.ALL)
    )
    assert words == members < apart
    topology, what = parse_topology("dgx2:2"), collective("all-to-all", 32)
    sketch = read_sketch("dgx2-sk-1")
    logical = logical_links(topology, sketch)
    rows = [
        demand_of(logical, what, Chunks.even(what), MEGABYTE, PathRules(sketch, paths)).allowed
        for paths in ("sketch", Paths.SKETCH)
    ]
    assert np.array_equal(*rows)


def test_every_family_of_the_paper_is_a_named_constraint_over_its_set():
    """Appendix B.3: (1) is the objective, (3) no start but the order's; chunks go around a ring."""
    d = demand("ring:4", chunks=2)
    transfers = RoutedTransfers.spreading(d, greedy_routing(Costs(d)).sent)
    order = ordered(transfers, 0, 0, np.random.default_rng(0))
    m = SchedulingModel(order, Contiguity.ALL, 1e-4).build()
    families = {
        family.local_name: (family.index_set().local_name, family.doc.split(":")[0])
        for family in m.component_objects(pyo.Constraint)
    }
    assert families == {
        "the_end_is_after_every_arrival": ("TRANSFERS", "(2)"),
        "a_chunk_is_sent_when_it_is_held": ("DEPENDENCIES", "(4)"),
        "a_message_takes_its_latency": ("TRANSFERS", "(18)"),
        "the_size_of_a_message_counts_on": ("FOLLOWING", "(17)"),
        "chunks_together_arrive_together": ("FOLLOWING", "(17)"),
        "chunks_together_are_sent_together": ("FOLLOWING", "(16)"),
        "orders_are_kept": ("FOLLOWING", "(16)"),
        "a_port_is_held_by_one_message": ("NEIGHBOURS", "(19), (20), (21)"),
        "a_rank_reduces_one_part_of_a_chunk_at_a_time": ("RECEIVED_APART", "section 5.3"),
        "a_port_has_time_for_its_messages": ("SPANS", "added"),
    }
    assert [objective.local_name for objective in m.component_objects(pyo.Objective)] == ["duration"]
