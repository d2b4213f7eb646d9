"""A Dask cluster gives what the pool gives, and what becomes of rows whose worker is lost."""

import contextlib
import io
import logging
import os
import signal
import socket
from dataclasses import replace

import pytest
from rich.console import Console

from experiments.runner import cluster
from experiments.runner.cluster import Cluster
from experiments.runner.config import read_config
from experiments.runner.plan import make_plan
from experiments.runner.pool import Setting
from experiments.runner.run import RunOptions, run
from tests.experiments import zoo
from tests.experiments.runner.test_run import HEAD, comparable, go, write_config
from topologies import InputError, TuttiError

SMALL = HEAD.replace("[4, 5]", "[4]")
SETTING = Setting("zoo:METHODS")


@pytest.fixture(scope="module")
def here():
    """A cluster of one worker."""
    with Cluster("local:1", SETTING) as one:
        yield one


def test_it_gives_what_the_pool_gives(here, tmp_path):
    names = ["good", "crash", "killed", "hang", "liar", "hopeless", "picky", "lucky"]
    tables = [f'name = "{name}"' for name in names]
    config = write_config(tmp_path, *tables, run_table='time_limit = "1s"', head=SMALL)
    go(config, tmp_path / "pool")
    config.write_text(config.read_text().replace("workers = 2", f'scheduler = "{here.address}"'))
    summary, _ = go(config, tmp_path / "cluster")
    assert comparable(tmp_path / "cluster") == comparable(tmp_path / "pool")
    assert summary.counts == {"ok": 4, "failed": 6, "timeout": 2, "infeasible": 2, "unsupported": 2}
    kept = [sorted((tmp_path / which / "schedules").iterdir()) for which in ("pool", "cluster")]
    assert [path.name for path in kept[0]] == [path.name for path in kept[1]]
    assert [path.read_bytes() for path in kept[0]] == [path.read_bytes() for path in kept[1]]


def tasks_of(folder, method, **more):
    tasks = make_plan(read_config(write_config(folder, method, head=SMALL)), zoo.METHODS)
    return [replace(task, **more) for task in tasks]


def test_rows_of_a_lost_worker_run_again_elsewhere(tmp_path):
    tasks = tasks_of(tmp_path, 'name = "slow"\noptions = {sweep = {chunks = [1, 2, 3, 4]}, seconds = 0.2}')
    statuses = []
    with Cluster("local:1", SETTING) as one:
        for _, outcome in one.run(tasks, {}):
            statuses.append(outcome.status)
            if len(statuses) == 1:
                (lost,) = one.workers
                os.kill(lost, signal.SIGKILL)
        assert one.workers != [lost]
    assert statuses == ["ok"] * 4


def test_a_row_that_takes_too_much_memory_has_failed(here, tmp_path):
    (task,) = tasks_of(tmp_path, 'name = "good"', memory=1e6)
    ((_, outcome),) = here.run([task], {})
    assert outcome.status == "failed"
    assert "of memory; its limit is 1 MB" in outcome.rows[0]["message"]


def test_a_worker_of_other_versions_is_refused(here, monkeypatch):
    own = cluster.versions()
    monkeypatch.setattr(cluster, "versions", lambda: own | {"numpy": "0.1"})
    with pytest.raises(InputError, match=r"worker tcp://.* differs: numpy .* \(here 0\.1\)"):
        Cluster(here.address, SETTING).__enter__()


def test_a_worker_of_other_versions_that_comes_late_is_refused(here, tmp_path, monkeypatch):
    (task,) = tasks_of(tmp_path, 'name = "good"')
    own = cluster.versions()
    with Cluster(here.address, SETTING) as late:
        monkeypatch.setattr(cluster, "versions", lambda: own | {"numpy": "0.1"})
        with pytest.raises(
            TuttiError, match=r"worker tcp://.* differs: numpy .* \(here 0\.1\); what is done"
        ):
            list(late.run([task], {}))


@pytest.mark.parametrize("address", ["local:", "local:0", "local:x", "nonsense", "tcp://x", "8786"])
def test_an_address_that_is_none_is_one_line(address, tmp_path):
    config = write_config(tmp_path, 'name = "good"', head=SMALL)
    options = RunOptions(out=tmp_path / "out", registry="zoo:METHODS", scheduler=address)
    with pytest.raises(InputError, match=f"^--scheduler {address}: write .*local:4"):
        run(config, options, Console(file=io.StringIO()))


def test_nobody_answers(tmp_path, monkeypatch):
    monkeypatch.setattr(cluster, "ANSWER_SECONDS", 0.2)
    with pytest.raises(InputError, match=r"--scheduler tcp://127\.0\.0\.1:9: nobody answers within 0\.2 s"):
        Cluster("tcp://127.0.0.1:9", SETTING).__enter__()


def test_who_answers_without_being_a_scheduler(monkeypatch):
    monkeypatch.setattr(cluster, "ANSWER_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as mute:  # takes connections, as any server, and says nothing
        address = f"tcp://127.0.0.1:{mute.getsockname()[1]}"
        with pytest.raises(InputError, match=rf"^--scheduler {address}: nobody answers within 0\.2 s$"):
            Cluster(address, SETTING).__enter__()


def test_dask_writes_nothing_itself(here):
    names = ["distributed", "distributed.client", "distributed.scheduler", "distributed.worker"]
    assert not any(logging.getLogger(name).isEnabledFor(logging.CRITICAL) for name in names)


def test_a_worker_is_no_scheduler(here):
    with cluster._client(here.address) as client:
        (worker,) = client.nthreads()
    with pytest.raises(InputError, match=f"^--scheduler {worker}: that is a Worker, no Dask scheduler$"):
        Cluster(worker, SETTING).__enter__()


@pytest.mark.parametrize("address", ["foo://a:1", "tls://127.0.0.1:1", "tcp://:::1"])
def test_an_address_that_cannot_be_is_one_line(address):
    with pytest.raises(InputError, match=f"^--scheduler {address}: .*(known|TLS|brackets)"):
        Cluster(address, SETTING).__enter__()


def test_a_cluster_here_takes_no_port_of_others(capfd):
    with socket.socket() as taken:
        with contextlib.suppress(OSError):
            taken.bind(("127.0.0.1", 8787))
            taken.listen()
        with Cluster("local:1", SETTING):
            pass
    assert capfd.readouterr().err == ""


def test_a_cluster_has_workers_of_its_own(tmp_path):
    config = write_config(tmp_path, 'name = "good"', head=SMALL, run_table='scheduler = "local:1"')
    with pytest.raises(InputError, match=r"x\.toml: \[run\]: scheduler and workers: .*; give one of them"):
        go(config, tmp_path / "out")
    with pytest.raises(InputError, match=r"^--scheduler and --workers: .*; give one of them"):
        go(config, tmp_path / "out", scheduler="local:1", workers=1)
