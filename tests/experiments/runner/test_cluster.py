"""A Dask cluster gives what the pool gives, and what becomes of rows whose worker is lost."""

import contextlib
import io
import logging
import os
import signal
import socket
import sys
import time
from dataclasses import replace
from types import SimpleNamespace

import dask
import distributed
import pytest
from distributed.core import Status
from rich.console import Console

from tests import plugged
from tests.experiments import zoo
from tests.experiments.runner.test_run import HEAD, comparable, go, write_config
from tutti.experiments.runner import cluster
from tutti.experiments.runner.cluster import DaskCluster
from tutti.experiments.runner.config import read_config
from tutti.experiments.runner.plan import make_plan
from tutti.experiments.runner.pool import Setting
from tutti.experiments.runner.run import RunOptions, run
from tutti.topologies import InputError, TuttiError

SMALL = HEAD.replace("[4, 5]", "[4]")
SETTING = Setting("zoo:METHODS")


def certified(one):
    """Let what connects by address show the certificate of a cluster here."""
    given = one._here.security
    tls, client = "distributed.comm.tls", "distributed.comm.tls.client"
    cert, key = given.tls_client_cert, given.tls_client_key
    return dask.config.set({f"{tls}.ca-file": cert, f"{client}.cert": cert, f"{client}.key": key})


@pytest.fixture(scope="module")
def here():
    """A cluster of one worker; Dask's config has the certificate that its address asks for."""
    with DaskCluster("local:1", SETTING) as one, certified(one):
        yield one


PLUGIN = """
from tutti.schedules.method import Method
from tutti.heuristics.classic.direct import METHOD as DIRECT

def make(problem, options, rng):
    return DIRECT.synthesize(problem, DIRECT.options(), rng)

MINE = Method("mine", "heuristic", make)
"""


def test_a_plug_in_that_is_changed_between_two_runs_is_read_again_by_the_workers(here, tmp_path):
    head = SMALL.replace('"x"', '"x"\nplugins = ["of_a_cluster.py"]')
    config = write_config(tmp_path, 'name = "mine"', head=head)
    config.write_text(config.read_text().replace("workers = 2", f'scheduler = "{here.address}"'))
    for text in (PLUGIN, f"{PLUGIN}# changed"):
        (tmp_path / "of_a_cluster.py").write_text(text)
        with plugged.unregistered():  # as in a process of its own
            summary = run(config, RunOptions(out=tmp_path / str(len(text))), Console(file=io.StringIO()))
        assert summary.counts == {"ok": 2}


def test_who_has_no_certificate_of_a_cluster_here_is_refused(tmp_path, monkeypatch):
    """Dask's own client too, unencrypted or with a certificate of its own making, runs nothing."""
    monkeypatch.setattr(cluster, "LIMITS", cluster.LIMITS._replace(answer=1.0))
    stranger = distributed.Security.temporary()
    with DaskCluster("local:1", SETTING) as one:
        plain = one.address.replace("tls://", "tcp://")
        assert plain != one.address
        for address, shown in ((plain, None), (one.address, stranger), (one.address, None)):
            with pytest.raises(InputError), cluster._client(address, shown):
                pass
            with pytest.raises((OSError, TypeError)):
                distributed.Client(address, security=shown, timeout=1, set_as_default=False)
        with cluster._client(one.address, one._here.security) as client:
            assert client.submit(sum, [1, 2]).result() == 3


def test_without_what_makes_certificates_no_cluster_is_started_here(monkeypatch):
    monkeypatch.setitem(sys.modules, "cryptography", None)
    with pytest.raises(InputError, match=r"needs Dask and cryptography: pip install -e '\.\[cluster\]' in"):
        DaskCluster("local:1", SETTING).__enter__()


def test_it_gives_what_the_pool_gives(here, tmp_path):
    names = ["good", "crash", "interrupts", "killed", "hang", "liar", "hopeless", "picky", "lucky"]
    tables = [f'name = "{name}"' for name in names]
    config = write_config(tmp_path, *tables, run_table='time_limit = "1s"', head=SMALL)
    go(config, tmp_path / "pool")
    config.write_text(config.read_text().replace("workers = 2", f'scheduler = "{here.address}"'))
    summary, _ = go(config, tmp_path / "cluster")
    assert comparable(tmp_path / "cluster") == comparable(tmp_path / "pool")
    assert summary.counts == {"ok": 4, "failed": 8, "timeout": 2, "infeasible": 2, "unsupported": 2}
    kept = [sorted((tmp_path / which / "schedules").iterdir()) for which in ("pool", "cluster")]
    assert [path.name for path in kept[0]] == [path.name for path in kept[1]]
    assert [path.read_bytes() for path in kept[0]] == [path.read_bytes() for path in kept[1]]


def tasks_of(folder, method, **more):
    tasks = make_plan(read_config(write_config(folder, method, head=SMALL)), zoo.METHODS)
    return [replace(task, **more) for task in tasks]


def test_rows_of_a_lost_worker_run_again_elsewhere(tmp_path):
    tasks = tasks_of(tmp_path, 'name = "slow"\noptions = {sweep = {chunks = [1, 2, 3, 4]}, seconds = 0.2}')
    statuses = []
    with DaskCluster("local:1", SETTING) as one:
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


def test_a_row_that_no_worker_has_the_memory_for_is_named(tmp_path):
    tasks = tasks_of(tmp_path, 'name = "good"', memory=5e9)
    with DaskCluster("local:1", SETTING) as one:
        one._client.scheduler_info = lambda **how: {"workers": {"tcp://x:1": {"resources": {"memory": 1e9}}}}
        assert one.lacks() == ""
        one._named = dict.fromkeys("a", tasks[0])
        one._client.futures["a"] = SimpleNamespace(status="pending")
        assert (
            one.lacks() == "5GB of memory for ring:4 allgather good (of the workers none has more than 1GB)"
        )
        one._client.processing = lambda: {"tcp://x:1": ("a",)}
        assert one.lacks() == ""
        one._client.futures.clear()
        one._client.scheduler_info = lambda **how: {"workers": {}}
        assert one.lacks() == "workers"


def test_a_worker_of_other_versions_is_refused(here, monkeypatch):
    own = cluster.versions()
    monkeypatch.setattr(cluster, "versions", lambda: own | {"numpy": "0.1"})
    with pytest.raises(InputError, match=r"worker tls://.* differs: numpy .* \(here 0\.1\)"):
        DaskCluster(here.address, SETTING).__enter__()


def test_a_worker_of_other_versions_that_comes_late_is_refused(here, tmp_path, monkeypatch):
    (task,) = tasks_of(tmp_path, 'name = "good"')
    own = cluster.versions()
    with DaskCluster(here.address, SETTING) as late:
        monkeypatch.setattr(cluster, "versions", lambda: own | {"numpy": "0.1"})
        with pytest.raises(
            TuttiError, match=r"worker tls://.* differs: numpy .* \(here 0\.1\); what is done"
        ):
            list(late.run([task], {}))


@pytest.mark.parametrize(
    "address", ["local:", "local:0", "local:257", "local:²", "local:x", "nonsense", "tcp://x", "8786"]
)
def test_an_address_that_is_none_is_one_line(address, tmp_path):
    config = write_config(tmp_path, 'name = "good"', head=SMALL)
    options = RunOptions(out=tmp_path / "out", registry="zoo:METHODS", scheduler=address)
    with pytest.raises(InputError, match=f"^--scheduler {address}: write .*local:4"):
        run(config, options, Console(file=io.StringIO()))


def test_nobody_answers(tmp_path, monkeypatch):
    monkeypatch.setattr(cluster, "LIMITS", cluster.LIMITS._replace(answer=0.2))
    with pytest.raises(InputError, match=r"--scheduler tcp://127\.0\.0\.1:9: nobody answers within 0\.2 s"):
        DaskCluster("tcp://127.0.0.1:9", SETTING).__enter__()


def test_who_answers_without_being_a_scheduler(monkeypatch):
    monkeypatch.setattr(cluster, "LIMITS", cluster.LIMITS._replace(answer=0.2))
    with socket.create_server(("127.0.0.1", 0)) as mute:  # takes connections, as any server, and says nothing
        address = f"tcp://127.0.0.1:{mute.getsockname()[1]}"
        with pytest.raises(InputError, match=rf"^--scheduler {address}: nobody answers within 0\.2 s$"):
            DaskCluster(address, SETTING).__enter__()


def test_dask_writes_nothing_itself(here):
    names = ["distributed", "distributed.client", "distributed.scheduler", "distributed.worker"]
    assert not any(logging.getLogger(name).isEnabledFor(logging.CRITICAL) for name in names)


def test_a_worker_is_no_scheduler(here):
    with cluster._client(here.address) as client:
        (worker,) = client.nthreads()
    with pytest.raises(InputError, match=f"^--scheduler {worker}: that is a Worker, no Dask scheduler$"):
        DaskCluster(worker, SETTING).__enter__()


@pytest.mark.parametrize("address", ["foo://a:1", "tls://127.0.0.1:1", "tcp://:::1"])
def test_an_address_that_cannot_be_is_one_line(address):
    nothing = dask.config.set({"distributed.comm.tls.ca-file": None})  # no certificate
    with nothing, pytest.raises(InputError, match=f"^--scheduler {address}: .*(known|TLS|brackets)"):
        DaskCluster(address, SETTING).__enter__()


def test_a_cluster_here_takes_no_port_of_others_and_has_no_more_workers_than_rows(capfd):
    with socket.socket() as taken:
        with contextlib.suppress(OSError):
            taken.bind(("127.0.0.1", 8787))
            taken.listen()
        with DaskCluster("local:3", SETTING, most=1) as one:
            assert len(one.workers) == 1
    assert capfd.readouterr().err == ""


def test_a_cluster_has_workers_of_its_own(tmp_path):
    config = write_config(tmp_path, 'name = "good"', head=SMALL, run_table='scheduler = "local:1"')
    with pytest.raises(InputError, match=r"x\.toml: \[run\]: scheduler and workers: .*; give one of them"):
        go(config, tmp_path / "out")
    with pytest.raises(InputError, match=r"^--scheduler and --workers: .*; give one of them"):
        go(config, tmp_path / "out", scheduler="local:1", workers=1)


def test_a_worker_that_lacks_us_is_named(here, monkeypatch):
    monkeypatch.setattr(cluster, "unfit", float)  # which takes no such argument
    with pytest.raises(InputError, match=r"worker tls://.* lacks tutti, or has another version: TypeError: "):
        DaskCluster(here.address, SETTING).__enter__()


def test_a_scheduler_of_another_version_is_refused(here, monkeypatch):
    own = distributed.__version__
    monkeypatch.setattr(distributed, "__version__", "2019.1")
    with pytest.raises(InputError, match=f"has distributed {own}, not 2019.1 as here"):
        DaskCluster(here.address, SETTING).__enter__()


def test_a_row_is_wanted_while_its_worker_is_not_told_to_end():
    state = SimpleNamespace(tasks={"a": SimpleNamespace(state="executing")})
    assert cluster._wanted("a", SimpleNamespace(status=Status.running, state=state))
    assert not cluster._wanted("a", SimpleNamespace(status=Status.closing, state=state))


def test_what_runs_is_what_a_worker_has_begun(here, tmp_path):
    quick, long = tasks_of(tmp_path, 'name = "slow"\noptions = {sweep = {seconds = [0.0, 100.0]}}')
    with DaskCluster(here.address, SETTING) as one:
        done, _ = next(one.run([quick, long], {}))
        assert done == quick
        while not (seen := [row for row in one.running() if row.task == str(long)]):
            time.sleep(0.05)
    ((_, seconds, where),) = seen
    assert 0 <= seconds < 50
    assert where.startswith("tls://")
