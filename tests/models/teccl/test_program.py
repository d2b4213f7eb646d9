"""TE-CCL's program: its families by name, points checked by other arithmetic, cuts and reward."""

from fractions import Fraction

import numpy as np
import pyomo.environ as pyo
import pytest
from scipy.optimize import linprog
from scipy.sparse import csr_array, vstack

from tests.models.teccl.cases import SIZE, UNEVEN, epochs_of, made, made_on, problem, star
from tests.sweep import for_each
from tutti.experiments.registry import METHODS
from tutti.models.solvers import compile_model
from tutti.models.teccl.epochs import finish_of
from tutti.models.teccl.program import EpochState, TecclProgram
from tutti.models.teccl.starts import StartSchedule, in_epochs
from tutti.schedules import Problem, collective
from tutti.topologies import Topology
from tutti.topologies.topology import Link


def families(m):
    """Return the set and the equation of each constraint of a model, by name."""
    return {
        family.local_name: (family.index_set().local_name, family.doc.split(":")[0])
        for family in m.component_objects(pyo.Constraint)
        if len(family)
    }


PAPER = {
    "a_node_has_what_has_come": ("HOLDINGS", "buffers"),
    "a_chunk_is_sent_after_it_has_come": ("TRANSFERS", "copies"),
    "a_link_holds_one_message": ("SLOTS", "capacity"),
}
"""SIGCOMM 2024, sections 3.1 and 4: what every program has."""


def test_every_family_of_the_paper_is_a_named_constraint_over_its_set():
    task = problem("mesh:3x1", "broadcast", root=0)
    epochs = epochs_of(task)
    whole = {"every_demand_is_met": ("MISSING", "demands")}
    plain = TecclProgram(epochs, EpochState.start(epochs), 3, cuts=False)
    assert families(plain.build()) == PAPER | whole
    cuts = {"a_chunk_leaves_what_holds_it": ("LEFT_SETS", "cuts")}
    finish = TecclProgram(epochs, EpochState.start(epochs), 3)
    finish.build()
    finish.add_finish(2)
    late = [name for name, (_, why) in families(finish.m).items() if why == "finish"]
    assert late == ["an_epoch_is_late_while_a_demand_is_not_met"]
    assert {
        name: family for name, family in families(finish.m).items() if name not in late
    } == PAPER | whole | cuts


def test_families_without_buffers_with_bundles_and_of_a_round():
    task = problem(UNEVEN, "all-to-all", size=600)
    epochs = epochs_of(task, length=Fraction(3, 10**7))
    stored = TecclProgram(epochs, EpochState.start(epochs), 6, whole=False)
    stored.build()
    stored.add_reward(0.5)
    bundles = {"a_message_carries_its_chunks": ("MESSAGES", "capacity")}
    nearer = {"a_chunk_is_near_where_a_node_has_it": ("NEARER", "A*")}
    assert families(stored.m) == PAPER | bundles | nearer
    passed = families(TecclProgram(epochs, EpochState.start(epochs), 12, buffers=False).build())
    assert passed["a_chunk_is_passed_on_as_it_arrives"] == ("TRANSFERS", "copies")
    assert "a_chunk_is_sent_after_it_has_come" not in passed


def violated(model, point):
    """Return the rows of a compiled model that a point does not satisfy, row by row in plain arithmetic."""
    bad = []
    for row in range(model.num_rows):
        entries = range(model.starts[row], model.starts[row + 1])
        total = sum(model.value[i] * point[model.index[i]] for i in entries)
        if not model.row_lower[row] <= total <= model.row_upper[row]:
            bad.append(model.constraints[row])
    return bad


def compiled(program, add):
    program.build()
    add(program)
    return compile_model(program.m)


@for_each(
    ("text", "kind", "details", "chunks", "length"),
    [
        ("mesh:3x3", "allgather", {}, 1, "fastest"),
        ("gen_kautz:2,5", "allgather", {}, 2, "fastest"),
        (UNEVEN, "allgather", {}, 1, "fastest"),
        (UNEVEN, "allgather", {"size": 600}, 3, "700ns"),  # sends of several chunks and epochs
        ("ring:5", "all-to-all", {}, 1, "fastest"),
        ("mesh:2x3", "broadcast", {"root": 4}, 3, "fastest"),
        ("dgx_a100:1?drop_nodes=4,5,6,7", "allgather", {}, 1, "fastest"),
        ("dgx_h100:1?drop_nodes=4,5,6,7", "allgather", {}, 1, "300ns"),
    ],
)
@pytest.mark.parametrize("name", ["tacos", "bfb", "forestcoll", "multitree"])
def test_a_listed_schedule_is_a_point_of_the_program(text, kind, details, chunks, length, name):
    """The program minimizes the finish, cuts included, or has the reward."""
    task = problem(text, kind, **details)
    epochs = epochs_of(task, chunks, length)
    known = StartSchedule.of(METHODS[name], task, chunks, 0)
    if known.schedule is None:
        assert name != "tacos", "it does all of these"
        return
    if (known.schedule.route_target >= task.topology.num_ranks).any():
        assert (name, "dgx_h100" in text) == ("forestcoll", True), "only its switches copy"
        return
    sends = in_epochs(epochs, known.schedule)
    finish = finish_of(epochs, sends)
    assert finish >= epochs.least
    for add, objective in ((lambda p: p.add_finish(epochs.least), finish), (lambda p: p.add_reward(), None)):
        program = TecclProgram(epochs, EpochState.start(epochs), finish + 1)
        model = compiled(program, add)
        point = program.point(sends, model.variables)
        assert violated(model, point) == []
        assert ((model.lower <= point) & (point <= model.upper)).all()
        if objective is not None:
            assert float(model.cost @ point) + model.offset == objective


def test_a_point_that_is_not_legal_is_seen():
    """The check above can fail: for a chunk that is sent on before it has come, and a link used twice."""
    task = problem("mesh:3x1", "broadcast", root=0)
    epochs = epochs_of(task)
    program = TecclProgram(epochs, EpochState.start(epochs), 4)
    model = compiled(program, lambda p: p.add_finish(2))
    (first, *_), (second, *_) = (
        [e for e, ends in enumerate(epochs.ends) if ends == wanted] for wanted in ((0, 1), (1, 2))
    )
    good, early = ([(first, 0, now), (second, 0, 1)] for now in (0, 1))
    assert violated(model, program.point(good, model.variables)) == []
    assert violated(model, program.point(early, model.variables))


def two_cliques(ranks):
    """Two complete networks of `ranks` ranks each, joined by one link each way."""
    cliques = (range(ranks), range(ranks, 2 * ranks))
    links = [Link(a, b) for clique in cliques for a in clique for b in clique if a != b]
    bridge = [Link(ranks - 1, ranks), Link(ranks, ranks - 1)]
    return Topology.from_links("two cliques", 2 * ranks, [*links, *bridge])


def relaxation_is_feasible(epochs, horizon, cuts):
    program = TecclProgram(epochs, EpochState.start(epochs), horizon, cuts=cuts)
    model = compiled(program, lambda p: p.m.add_component("nothing", pyo.Objective(expr=0.0)))
    matrix = csr_array((model.value, model.index, model.starts), shape=(model.num_rows, model.num_columns))
    above, below = np.isfinite(model.row_upper), np.isfinite(model.row_lower)
    answer = linprog(
        np.zeros(model.num_columns),
        A_ub=vstack([matrix[above], -matrix[below]]),
        b_ub=np.concatenate([model.row_upper[above], -model.row_lower[below]]),
        bounds=list(zip(model.lower, model.upper, strict=True)),
    )
    return answer.status == 0


def test_cuts_forbid_what_the_relaxation_copies_around():
    """The link between cliques of 5 carries 5 chunks, 5 epochs; in 4, the relaxation makes parts whole."""
    topology = two_cliques(5)
    task = Problem(topology, collective("allgather", 10), Fraction(SIZE))
    epochs = epochs_of(task)
    assert relaxation_is_feasible(epochs, 4, cuts=False)
    assert not relaxation_is_feasible(epochs, 4, cuts=True)
    assert relaxation_is_feasible(epochs, 5, cuts=True)


def test_the_reward_is_the_most_of_all_schedules_of_a_path():
    """Scatter on a path of 3 from an end, 2 epochs: the far chunk must leave first, the near one second."""
    task = problem("mesh:3x1", "scatter", root=0)
    schedule = made(task, objective="reward", epochs=2)
    assert [(int(s), int(r)) for s, r in zip(schedule.order, schedule.source, strict=True)] == [
        (0, 0),
        (1, 0),
        (1, 1),
    ]


def test_the_reward_prefers_early_reads_to_an_early_finish():
    """A path from an end, 3 epochs: by the reward the near chunk leaves first, and all end later."""
    task = problem("mesh:3x1", "scatter", root=0)
    early, fast = made(task, objective="reward", epochs=3), made(task)
    options = {}
    for order in ((0, 1, 2), (1, 0, 1)):  # start of the near chunk, of the far one, of its second hop
        near, _, last = order
        options[order] = sum(Fraction(1, k + 1) for end in (near + 1, last + 1) for k in range(end, 4))
    best = max(options, key=options.get)
    assert best == (0, 1, 2)
    assert sorted(early.order.tolist()) == [0, 1, 2]
    assert (early.stats["epochs"], fast.stats["epochs"]) == (3, 2)


def test_without_buffers_ranks_pass_chunks_on_as_they_arrive():
    schedule = made(problem("mesh:3x3"), buffers=False)
    arrival = {
        (int(c), int(n)): int(k) + 1
        for c, n, k in zip(schedule.chunk, schedule.target, schedule.order, strict=True)
    }
    for c, n, k in zip(schedule.chunk, schedule.source, schedule.order, strict=True):
        assert int(c) == int(n) or arrival[int(c), int(n)] == int(k)


@pytest.mark.parametrize(("copies", "epochs"), [(False, 3), (True, 2)])
def test_a_switch_that_copies_serves_all_at_once(copies, epochs):
    """Eight ranks, by hand: holders at most double in an epoch; or one epoch in and one out to all."""
    schedule = made_on(star(8, copies=copies), "broadcast", {"root": 0})
    assert (schedule.stats["epochs"], schedule.stats["solver_gap"]) == (epochs, 0)
    assert (schedule.target == 8).any() == copies


def test_a_switch_stores_nothing():
    """A chunk that arrives is sent on in the same epoch, once."""
    schedule = made_on(star(4, copies=True))
    columns = (schedule.order, schedule.chunk, schedule.source, schedule.target)
    rows = list(zip(*(column.tolist() for column in columns), strict=True))
    arrival = {c: k + 1 for k, c, _, n in rows if n == 4}
    assert all(arrival[c] == k for k, c, a, _ in rows if a == 4)
