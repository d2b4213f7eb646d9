"""Tasks of many seeds, done in parts: the rows are those of all seeds tried one after the other."""

from fractions import Fraction

import numpy as np
import pytest

from tests.experiments import zoo
from tests.experiments.runner.test_cluster import SMALL, certified, tasks_of
from tests.experiments.runner.test_run import comparable, entries, go, write_config
from tutti.experiments.runner import tasks
from tutti.experiments.runner.cluster import DaskCluster
from tutti.experiments.runner.pool import Setting
from tutti.experiments.runner.store import Parts, Store
from tutti.experiments.runner.study import TaskOutcome
from tutti.experiments.runner.tasks import synthesize_best
from tutti.schedules.collective import collective
from tutti.schedules.method import Method, Problem
from tutti.schedules.schedule import Chunks, Clock, Schedule
from tutti.topologies.topology import Link, Topology

FIVE = 'name = "lucky"\nseeds = 5'


def the_task(folder, method):
    (task,) = tasks_of(folder, method)
    return task


@pytest.mark.parametrize(("seeds", "sizes"), [(1, [1]), (25, [25]), (26, [25, 1]), (60, [25, 25, 10])])
def test_the_parts_are_all_seeds_in_order(seeds, sizes, tmp_path):
    task = the_task(tmp_path, f'name = "lucky"\nseeds = {seeds}')
    divided = task.parts
    assert [len(part.seeds) for part in divided] == sizes
    assert [seed for part in divided for seed in part.seeds] == list(range(seeds))
    assert len({part.key for part in divided}) == len(sizes)
    assert {part.all_seeds for part in divided} == {seeds}
    assert (divided == (task,)) == (seeds <= 25)


def test_a_part_says_which_seeds_it_has(tmp_path):
    task = the_task(tmp_path, 'name = "lucky"\nseeds = 60')
    assert str(task.parts[1]) == f"{task} seeds=25..49 of 60"


def test_methods_without_randomness_have_one_part(tmp_path):
    task = the_task(tmp_path, 'name = "good"\nseeds = 60')
    assert task.parts == (task,)


@pytest.fixture(scope="module", params=["pool", "cluster"])
def where(request):
    """Where a run is: one worker of either kind."""
    if request.param == "pool":
        yield {"workers": 1}
    else:
        with DaskCluster("local:1", Setting("zoo:METHODS")) as one, certified(one):
            yield {"scheduler": one.address}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A run whose rows are not divided, and its config."""
    folder = tmp_path_factory.mktemp("whole")
    tables = [FIVE, 'name = "stuck"\nseeds = 5', 'name = "picky"', 'name = "good"']
    config = write_config(folder, *tables, run_table='time_limit = "1s"', head=SMALL)
    summary, _ = go(config, folder / "out")
    assert summary.counts == {"ok": 4, "timeout": 2, "unsupported": 2}
    config.write_text(config.read_text().replace("workers = 2", ""))
    return config, folder / "out"


def test_rows_made_in_parts_are_those_made_at_once(where, whole, tmp_path, monkeypatch):
    monkeypatch.setattr(tasks, "MOST_SEEDS", 2)
    divided, said = go(whole[0], tmp_path, **where)
    assert comparable(tmp_path) == comparable(whole[1])
    assert divided.counts == {"ok": 4, "timeout": 2, "unsupported": 2}
    (lucky, *_) = divided.rows
    assert (lucky["seed"], lucky["seeds"]) == (2, 5)
    assert said.count("timeout: ring:4 allgather stuck: ") == 1
    assert "(synthesis 4 of 5)" in said
    files = [{path.name for path in (out / "schedules").iterdir()} for out in (tmp_path, whole[1])]
    assert files[0] == files[1]


@pytest.mark.parametrize("most", [25, 2])
def test_the_course_has_every_seed_in_order_however_they_were_divided(most, tmp_path, monkeypatch):
    """Of five seeds the third is the best; the seconds of all are the row's."""
    monkeypatch.setattr(tasks, "MOST_SEEDS", most)
    config = write_config(tmp_path, FIVE, 'name = "good"', head=SMALL)
    summary, _ = go(config, tmp_path / "out", workers=1)
    lucky = [row for row in summary.rows if row["method"] == "lucky"]
    largest = max(lucky, key=lambda row: row["size_bytes"])
    tries = [tuple(map(float, entry.split())) for entry in largest["course"].split("; ")]
    assert len(tries) == largest["seeds"] == 5
    times = [time for _, time in tries]
    assert times.index(min(times)) == largest["seed"] == 2
    assert min(times) == pytest.approx(largest["time_us"], rel=1e-8)
    assert sum(spent for spent, _ in tries) == pytest.approx(largest["synth_s"], rel=1e-4)
    assert [bool(row.get("course")) for row in summary.rows].count(True) == 1
    assert all(row["bound_s"] >= 0 for row in summary.rows)


def test_a_run_that_was_stopped_loses_no_part(tmp_path, monkeypatch):
    monkeypatch.setattr(tasks, "MOST_SEEDS", 1)
    config = write_config(tmp_path, FIVE, head=SMALL)
    saved, save = [], Store.save

    def counted(store, task, outcome):
        if len(saved) == 3:
            raise KeyboardInterrupt
        save(store, task, outcome)
        saved.append(task)

    monkeypatch.setattr(Store, "save", counted)
    summary, _ = go(config, tmp_path / "out", workers=1)
    assert (summary.interrupted, summary.done, summary.missing) == (True, 0, 2)
    assert not summary.stale
    first = [task.seeds for task in saved]
    saved[:] = []
    monkeypatch.setattr(Store, "save", lambda *what: saved.append(what[1]) or save(*what))
    summary, _ = go(config, tmp_path / "out", workers=1)
    assert first + [task.seeds for task in saved] == [(0,), (1,), (2,), (3,), (4,), (0, 1, 2, 3, 4)]
    assert (summary.done, summary.missing) == (2, 0)
    assert list(entries(tmp_path / "out")) == [saved[-1].key], "parts are not kept beside the whole"


def test_a_run_that_was_stopped_after_the_last_part_ends(tmp_path, monkeypatch):
    monkeypatch.setattr(tasks, "MOST_SEEDS", 2)
    config = write_config(tmp_path, FIVE, head=SMALL)
    save = Store.save

    def stopped(store, task, outcome):
        if not task.is_part:
            raise KeyboardInterrupt
        save(store, task, outcome)

    monkeypatch.setattr(Store, "save", stopped)
    assert go(config, tmp_path / "out")[0].interrupted
    assert len(entries(tmp_path / "out")) == 3
    monkeypatch.setattr(Store, "save", save)
    summary, _ = go(config, tmp_path / "out")
    assert [row["seed"] for row in summary.rows] == [2, 2]


def test_seconds_are_summed_memory_is_the_most_and_the_first_of_equals_is_kept(tmp_path):
    task = the_task(tmp_path, 'name = "lucky"\nseeds = 60')

    def made(seed, time, seeds, took, memory):
        known = {"seed": seed, "seeds": seeds, "synth_s": took, "verify_s": took / 4, "peak_rss_mb": memory}
        return TaskOutcome(
            "ok",
            [row | known | {"time_us": at} for row, at in zip(task.rows("ok"), (0.5, time), strict=True)],
        )

    outcomes = [made(3, 9.0, 25, 1.0, 80.0), made(25, 7.0, 25, 2.0, 95.0), made(52, 7.0, 10, 0.5, 70.0)]
    small, large = task.combined(outcomes).rows
    assert (large["seed"], large["time_us"], small["seed"]) == (25, 7.0, 25)
    assert [large[name] for name in ("seeds", "synth_s", "verify_s", "peak_rss_mb")] == [60, 3.5, 0.875, 95.0]


def test_the_first_part_without_a_schedule_decides(tmp_path):
    task = the_task(tmp_path, 'name = "lucky"\nseeds = 75')
    pieces = task.parts
    lost = [
        TaskOutcome(status, piece.rows(status, status), trace=status)
        for piece, status in zip(pieces, ("ok", "timeout", "failed"), strict=True)
    ]
    outcome = task.combined(lost)
    assert (outcome.status, outcome.trace) == ("timeout", "timeout")
    assert outcome.rows == task.rows("timeout", "timeout")


def test_parts_after_one_without_a_schedule_are_left_out(where, tmp_path, monkeypatch):
    monkeypatch.setattr(tasks, "MOST_SEEDS", 1)
    config = write_config(tmp_path, 'name = "stuck"\nseeds = 12', run_table='time_limit = "0.3s"', head=SMALL)
    config.write_text(config.read_text().replace("workers = 2", ""))
    summary, _ = go(config, tmp_path / "out", **where)
    assert summary.counts == {"timeout": 2}
    ahead = 3 if "scheduler" in where else 1  # what was with the cluster already
    assert len(entries(tmp_path / "out")) - 1 < 4 + ahead
    assert summary.rows[0]["message"].endswith("(synthesis 4 of 12)")
    assert not go(config, tmp_path / "out", **where)[0].stale


def test_the_first_part_without_a_schedule_decides_whenever_it_ends(tmp_path):
    task = the_task(tmp_path, 'name = "lucky"\nseeds = 75')
    one, two, three = task.parts
    left = Parts([task], lambda part: False, {})
    lost, made = TaskOutcome("infeasible", []), TaskOutcome("ok", [])
    assert list(left) == [one, two, three]
    assert left.ended(two, lost) is None, "the first may be lost too"
    assert list(left) == [one]
    assert left.ended(one, made) == task
    assert left.ended(three, lost) is None, "it was under way"


def test_the_best_seed_is_the_one_whose_row_has_the_least_time():
    """0 -> 1 -> 2 takes 2 M/b at once and nearly M/b in slices; the slow link 0 -> 2 always 1.5 M/b."""
    fast, slow = Fraction(3 * 10**9), Fraction(2 * 10**9)
    links = [Link(0, 1, fast), Link(1, 2, fast), Link(2, 0, fast), Link(0, 2, slow)]
    topology = Topology.from_links("three", 3, links)
    what = collective("broadcast", 3, root=0)

    def synthesize(problem, options, rng):
        over = [0, 1] if rng.integers(1000) == zoo.LUCKY_DRAW else [0, 3]
        chunk = np.zeros(2, np.int32)
        return Schedule(topology, what, Clock.FLOW, Chunks.even(what), chunk, np.array(over, np.int32))

    method = Method("either", "heuristic", synthesize, seeded=True)
    found = synthesize_best(method, Problem(topology, what), method.options(), range(3), Fraction(10**9))
    assert found.seed == 2
