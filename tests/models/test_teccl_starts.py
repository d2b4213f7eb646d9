"""TE-CCL's starts and cuts: points checked by other arithmetic, optima that neither changes."""

import math
from fractions import Fraction

import numpy as np
import pyomo.environ as pyo
import pytest
from scipy.optimize import linprog
from scipy.sparse import csr_array, vstack

from experiments.registry import METHODS
from models.sccl import Instance
from models.solvers import compile_model
from models.teccl import Epochs, State
from models.teccl.known import Known
from models.teccl.program import Program
from models.teccl.search import NOT_NEEDED, finish_of
from models.teccl.starts import listed, passes_on, shortest
from schedules import Problem, collective
from schedules.verify import verify
from topologies import InputError, NoSchedule, Topology
from topologies.text import parse_topology
from topologies.topology import Link

METHOD = METHODS["teccl"]
SIZE = 2**20
UNEVEN = "mesh:2x3?bandwidth=50GB/s,25GB/s&alpha=0.5us"


def problem(text, kind="allgather", size=SIZE, **details):
    topology = parse_topology(text)
    return Problem(topology, collective(kind, topology.num_ranks, **details), Fraction(size))


def made(task, **options):
    chosen = METHOD.options(**options)
    METHOD.supports(task, chosen)
    schedule = METHOD.synthesize(task, chosen, np.random.default_rng(0))
    verify(schedule)
    return schedule


def in_epochs(task, chunks=1, length="fastest"):
    return Epochs(Instance(task.topology, task.collective, chunks, "teccl", switches=True), task.size, length)


def listing(task, name, epochs):
    return listed(epochs, Known.of(METHODS[name], task, epochs.instance.chunks, 0).schedule)


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


@pytest.mark.parametrize(
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
    """Of the program that minimizes the finish, cuts included, and of that of the reward."""
    task = problem(text, kind, **details)
    epochs = in_epochs(task, chunks, length)
    known = Known.of(METHODS[name], task, chunks, 0)
    if known.schedule is None:
        assert name != "tacos", "it does all of these"
        return
    if (known.schedule.route_target >= task.topology.num_ranks).any():
        assert (name, "dgx_h100" in text) == ("forestcoll", True), "only its switches copy"
        return
    sends = listed(epochs, known.schedule)
    finish = finish_of(epochs, sends)
    assert finish >= epochs.least
    for add, objective in ((lambda p: p.add_finish(epochs.least), finish), (lambda p: p.add_reward(), None)):
        program = Program(epochs, State.start(epochs), finish + 1)
        model = compiled(program, add)
        point = program.point(sends, model.variables)
        assert violated(model, point) == []
        assert ((model.lower <= point) & (point <= model.upper)).all()
        if objective is not None:
            assert float(model.cost @ point) + model.offset == objective


def test_a_point_that_is_not_legal_is_seen():
    """The check above can fail: a chunk that goes on before it has come, and a link used twice."""
    task = problem("mesh:3x1", "broadcast", root=0)
    epochs = in_epochs(task)
    program = Program(epochs, State.start(epochs), 4)
    model = compiled(program, lambda p: p.add_finish(2))
    (first, *_), (second, *_) = (
        [e for e, ends in enumerate(epochs.ends) if ends == wanted] for wanted in ((0, 1), (1, 2))
    )
    good, early = ([(first, 0, now), (second, 0, 1)] for now in (0, 1))
    assert violated(model, program.point(good, model.variables)) == []
    assert violated(model, program.point(early, model.variables))


@pytest.mark.parametrize("text", ["ring:4", "mesh:2x3", "gen_kautz:2,5", "complete:4", UNEVEN])
@pytest.mark.parametrize("search", ["upward", "once"])
def test_neither_start_nor_cuts_change_the_optimum(text, search):
    """All eight ways to ask agree, and with the exhaustive `optimum` of single chunks between like links."""
    task = problem(text)
    ends = set()
    for start in ("none", "tacos", "bfb"):
        for cuts in (True, False):
            schedule = made(task, search=search, start=start, cuts=cuts)
            assert schedule.stats["solver_gap"] == 0 or (start != "none" and not cuts)
            ends.add(schedule.stats["epochs"])
    assert len(ends) == 1
    truth = METHODS["optimum"].synthesize(task, METHODS["optimum"].options(), np.random.default_rng(0))
    assert truth.stats["solver_gap"] == 0
    if task.topology.homogeneous and text != "gen_kautz:2,5":  # where bundles do not pay
        last = max(truth.order.tolist()) * truth.tick  # messages of one epoch each, the last begins then
        assert ends == {math.floor(last / in_epochs(task).epoch) + 1}


@pytest.mark.parametrize("solver", ["highs", "scip", "cp-sat"])
@pytest.mark.parametrize("start", ["none", "ring"])
def test_one_program_finds_the_fewest_epochs(solver, start):
    """4 epochs: ../shared/reference/peers_measured.csv, mesh 3x3; the ring's 8 are far from it."""
    schedule = made(problem("mesh:3x3"), search="once", solver=solver, start=start, cuts=False)
    assert (schedule.stats["epochs"], schedule.stats["solver_gap"]) == (4, 0)


@pytest.mark.parametrize("solver", ["highs", "scip", "cp-sat"])
def test_the_reward_is_the_same_from_a_start(solver):
    task = problem("mesh:2x3")
    options = {"objective": "reward", "epochs": 4, "solver": solver}
    plain, started = made(task, **options), made(task, start="tacos", **options)

    def reward(schedule):
        reads = zip(schedule.order.tolist(), schedule.chunk.tolist(), schedule.target.tolist(), strict=True)
        return sum(Fraction(1, k + 1) for begin, _, _ in reads for k in range(begin + 1, 5))

    assert reward(plain) == reward(started)


def test_a_start_at_the_bound_needs_no_program():
    schedule = made(problem("mesh:3x3"), start="tacos")
    assert (schedule.stats["epochs"], schedule.stats["solver_gap"]) == (4, 0)
    assert (schedule.stats["solver"], schedule.stats["variables"]) == (NOT_NEEDED, 0)
    assert schedule.stats["note"] == "start tacos: 4 epochs"


def test_a_start_within_the_gap_is_the_answer():
    """Around a ring of 9 nodes in a mesh a chunk goes 8 hops; 4 epochs are the least, (8 - 4) / 8 the gap."""
    schedule = made(problem("mesh:3x3"), start="ring", gap=0.5, search="once")
    assert (schedule.stats["epochs"], schedule.stats["solver_gap"]) == (8, 0.5)
    assert schedule.stats["solver"] == NOT_NEEDED


def test_a_start_is_the_answer_where_time_runs_out():
    schedule = made(problem("mesh:3x3"), start="ring", time_limit="1ms")
    assert (schedule.stats["epochs"], schedule.stats["solver_gap"]) == (8, 0.5)


@pytest.mark.parametrize("search", ["upward", "once"])
def test_a_start_that_is_too_long_is_dropped_and_said(search):
    schedule = made(problem("mesh:3x3"), start="ring", epochs=5, search=search)
    assert schedule.stats["epochs"] == 4
    assert schedule.stats["note"] == "start dropped: ring takes 8 epochs, 5 are allowed"


@pytest.mark.parametrize(
    ("text", "options", "note"),
    [
        (
            "dgx_a100:1?drop_nodes=4,5,6,7",
            {"start": "bfb"},
            "start dropped: bfb needs a switch-free topology",
        ),
        ("mesh:3x3", {"start": "tacos", "buffers": False}, "start dropped: in tacos ranks store what they"),
    ],
)
def test_a_start_that_does_not_fit_is_dropped_and_said(text, options, note):
    assert made(problem(text), **options).stats["note"].startswith(note)


def test_a_schedule_in_which_switches_copy_is_no_start():
    task = problem("dgx_h100:1", "broadcast", root=0)
    epochs = in_epochs(task)
    copied = METHOD.synthesize(task, METHOD.options(), np.random.default_rng(0))
    assert (copied.target >= 8).any()
    with pytest.raises(NoSchedule, match=r"^switches copy in it$"):
        listed(epochs, copied)


def test_a_schedule_in_epochs_is_listed_as_it_is():
    """An optimum of the same epochs: no later when listed again, by its own arcs."""
    for text in ("mesh:3x3", "gen_kautz:2,7", UNEVEN):
        task = problem(text)
        schedule = made(task)
        epochs = in_epochs(task)
        again = listed(epochs, schedule)
        assert finish_of(epochs, again) <= schedule.stats["epochs"]
        arcs = set(zip(schedule.route.tolist(), schedule.chunk.tolist(), strict=True))
        assert {(e, c) for e, c, _ in again} <= arcs


def test_whether_ranks_store():
    task = problem("mesh:3x1", "broadcast", root=0)
    epochs = in_epochs(task)
    way = {ends: e for e, ends in enumerate(epochs.ends)}
    assert passes_on(epochs, [(way[0, 1], 0, 0), (way[1, 2], 0, 1)])
    assert not passes_on(epochs, [(way[0, 1], 0, 0), (way[1, 2], 0, 2)])


@pytest.mark.parametrize("text", ["mesh:3x3", "ring:8", UNEVEN, "dgx_a100:1"])
def test_shortest_ways_bring_everything(text):
    epochs = in_epochs(problem(text))
    brought = {(c, epochs.ends[e][1]) for e, c, _ in shortest(epochs)}
    assert brought == set(epochs.wanted)


def two_cliques(ranks):
    """Complete networks of so many ranks, joined by one link each way."""
    cliques = (range(ranks), range(ranks, 2 * ranks))
    links = [Link(a, b) for clique in cliques for a in clique for b in clique if a != b]
    bridge = [Link(ranks - 1, ranks), Link(ranks, ranks - 1)]
    return Topology.from_links("two cliques", 2 * ranks, [*links, *bridge])


def relaxation_is_feasible(epochs, horizon, cuts):
    program = Program(epochs, State.start(epochs), horizon, cuts=cuts)
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
    """Over one link between cliques of 5 go 5 chunks, 5 epochs; in 4, parts of them can be made whole."""
    topology = two_cliques(5)
    task = Problem(topology, collective("allgather", 10), Fraction(SIZE))
    epochs = in_epochs(task)
    assert relaxation_is_feasible(epochs, 4, cuts=False)
    assert not relaxation_is_feasible(epochs, 4, cuts=True)
    assert relaxation_is_feasible(epochs, 5, cuts=True)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"start": "tacso"}, r"^teccl option start is 'tacso'; did you mean 'tacos'\?"),
        ({"search": "down"}, r"^teccl option search is 'down'; allowed: upward, once$"),
        ({"cuts": 1}, r"^teccl option cuts is 1; it must be true or false$"),
        ({"window": 2, "start": "tacos"}, "^teccl option window goes without start and search;"),
        ({"window": 2, "search": "once"}, "^teccl option window goes without start and search;"),
    ],
)
def test_bad_options_are_one_line(options, message):
    with pytest.raises(InputError, match=message):
        made(problem("ring:4"), **options)
