"""SCCL's program: its families by the paper's numbers, and its size."""

import pyomo.environ as pyo
import pytest

from tests.models.sccl.cases import instance
from tutti.models.sccl.program import build, crossings
from tutti.models.time_expanded import ChunkInstance
from tutti.schedules import collective
from tutti.topologies.text import parse_topology


@pytest.mark.parametrize(
    ("text", "kind", "chunks", "more"),
    [("torus:3x3", "allgather", 2, 1), ("mesh:2x3", "all-to-all", 1, 0), ("ring:5", "broadcast", 1, 3)],
)
def test_places_are_counted_without_writing_the_program(text, kind, chunks, more):
    topology = parse_topology(text)
    rooted = {"root": 1} if kind == "broadcast" else {}
    instance = ChunkInstance(topology, collective(kind, topology.num_ranks, **rooted), chunks)
    steps = instance.least_steps + more
    assert crossings(instance, steps) == len(build(instance, steps).x)


def test_every_family_of_the_paper_is_a_named_constraint_over_its_set():
    """SCCL, section 3.2: C1 and C3 are one equation of holdings; C6 comes with the question that is asked."""
    m = build(instance("ring:4", 1, "broadcast"), 3)
    families = {
        c.local_name: (c.index_set().local_name, c.doc.split(":")[0])
        for c in m.component_objects(pyo.Constraint)
    }
    assert families == {
        "a_chunk_is_where_it_has_come": ("HOLDINGS", "C1, C3"),
        "every_postcondition_is_met": ("WANTED", "C2"),
        "a_chunk_crosses_after_it_has_come": ("CROSSINGS", "C4"),
        "a_link_carries_its_rounds": ("LOADS", "C5"),
    }
    assert [v.local_name for v in m.component_objects(pyo.Var)] == ["x", "rounds", "has"]


def test_a_toy_reads_as_its_equations():
    """A broadcast over one link in one step: the chunk crosses it, within the rounds of the step."""
    m = build(instance("mesh:2x1", 1, "broadcast"), 1)
    rows = {c.name: str(c.expr) for c in m.component_data_objects(pyo.Constraint)}
    assert rows == {
        "a_chunk_is_where_it_has_come[1,0,1]": "has[1,0,1]  ==  x[0,0,1]",
        "every_postcondition_is_met[1,0]": "has[1,0,1]  ==  1",
        "a_link_carries_its_rounds[0,1]": "x[0,0,1]  <=  rounds[1]",
    }
