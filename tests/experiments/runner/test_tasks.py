"""What a synthesis takes: the first one of a process pays for nothing that the second one finds."""

import sys
import time
from dataclasses import replace

import pytest

from tests.models.solvers.programs import in_a_new_process
from tutti.experiments.registry import METHODS
from tutti.experiments.runner import tasks
from tutti.schedules import Problem, collective
from tutti.topologies.text import parse_topology

CASES = [
    ("sccl", "ring:4", "allgather", {}),
    ("tacos", "torus:3x3", "allgather", {}),
    ("teccl", "ring:4", "allgather", {}),
    ("taccl", "ring:4", "allgather", {}),
    ("forestcoll", "dgx_a100:2", "allgather", {}),
    ("mcf", "ring:4", "all-to-all", {}),
    ("bfb", "torus:3x3", "allgather", {"by": "model"}),
]
"""Methods that import other libraries where they need them."""
FIRST_ROWS = """
import sys
from tutti.experiments.runner import tasks
from tutti.experiments.registry import METHODS
from tutti.experiments.runner.plan import tasks_of
from tutti.schedules import Problem, collective
from tutti.topologies.text import parse_topology

class Watch(tasks.Stopwatch):
    def __enter__(self):
        self.before = set(sys.modules)
        return super().__enter__()

    def __exit__(self, *error):
        super().__exit__(*error)
        imported[self.seconds] = sorted(set(sys.modules) - self.before)

imported = {{}}
tasks.Stopwatch = Watch
for name, text, kind, options in {cases!r}:
    where = parse_topology(text)
    place = tasks.Workplace(METHODS, topology=lambda text: where)
    problem = Problem(where, collective(kind, where.num_ranks))
    (task,) = tasks_of(problem, METHODS[name], options, (10**6,), 1)
    (row,) = task.run(place).rows
    print(name, *imported[row["synth_s"]])
"""


def test_a_methods_first_row_in_a_process_has_a_time_in_which_nothing_was_imported():
    said = in_a_new_process(FIRST_ROWS.format(cases=CASES)).splitlines()
    assert said == [name for name, *_ in CASES]


@pytest.mark.parametrize(("seconds", "begins"), [(7.0, [5.0]), (2.5, [5.0, 8.5])])
def test_a_synthesis_is_not_charged_for_imports_and_is_done_again_if_short(
    tmp_path, monkeypatch, seconds, begins
):
    """It imports for 5 s and then takes `seconds`; before it is repeated, garbage is collected for 1 s."""
    clock, calls = [0.0], []

    def collect():
        clock[0] += 1

    monkeypatch.setattr(tasks.gc, "collect", collect)
    monkeypatch.setattr(time, "perf_counter", lambda: clock[0])
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(sys.modules, "the_clock", clock)
    (tmp_path / "imported_slowly.py").write_text("import the_clock; the_clock[0] += 5\n")

    def synthesize(problem, options, rng):
        import imported_slowly  # noqa: F401

        calls.append(clock[0])
        clock[0] += seconds
        return METHODS["ring"].synthesize(problem, METHODS["ring"].options(), rng)

    method = replace(METHODS["ring"], synthesize=synthesize)
    problem = Problem(parse_topology("ring:4"), collective("allgather", 4))
    try:
        made = tasks.synthesize_best(method, problem, method.options(), (0,), 10**6)
    finally:
        sys.modules.pop("imported_slowly")
    assert (calls, made.synth_s) == (begins, seconds)


def test_the_programs_that_a_method_solves_have_a_course():
    """Incumbents fall, bounds rise to the optimum, and nothing comes before what it follows."""
    problem = Problem(parse_topology("mesh:3x3"), collective("allgather", 9))
    method = METHODS["taccl"]
    made = tasks.synthesize_best(method, problem, method.options(), (0,), 10**6)
    programs = [entries.split("; ") for entries in made.schedule.stats["program_course"].split(" | ")]
    seconds = []
    for entries in programs:
        points = [[None if word == "-" else float(word) for word in entry.split()] for entry in entries]
        seconds += [point[0] for point in points]
        incumbents = [point[1] for point in points if point[1] is not None]
        bounds = [point[2] for point in points if point[2] is not None]
        assert incumbents == sorted(incumbents, reverse=True)
        assert bounds == sorted(bounds)
        assert bounds[-1] == pytest.approx(incumbents[-1], rel=1e-4)
    assert seconds == sorted(seconds)


def test_methods_without_such_programs_have_no_course():
    problem = Problem(parse_topology("torus:3x3"), collective("allgather", 9))
    method = METHODS["bfb"]
    made = tasks.synthesize_best(method, problem, method.options(), (0,), 10**6)
    assert "program_course" not in made.schedule.stats
