"""``tutti run --print-jobqueue``: a script, to be edited, that starts a Dask cluster and runs a study."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from experiments.printable import say
from experiments.registry import METHODS
from experiments.resilience.failures import is_resilience
from experiments.resilience.study import study_of as study_of_failures
from experiments.runner.config import read_config
from experiments.runner.plan import study_of
from experiments.runner.study import Study
from experiments.solver_study import is_study, read_study
from experiments.solver_study.run import study_of as study_of_solvers
from experiments.training.config import is_training, read_training
from experiments.training.study import study_of as study_of_training
from topologies.errors import installing

GIGABYTE = 10**9
LEAST_MEMORY = 64
"""GB of a worker, where no row may take more."""

SCRIPT = '''\
"""Runs the study {study} on a Dask cluster of {name}. Edit what is in capitals, then: python THIS_FILE

Install first: {install}, and pip install {package}.
It needs the same versions of everything where rows run, and FOLDER under the same name there: networks and
plug-ins that are files are read on the workers. Rows and schedules come back to this process, which alone
writes OUT; if it is stopped, the same script goes on. Who can reach the scheduler can run code as you.
"""

import subprocess
import sys

{imports}

CONFIG, OUT, FOLDER = {path!r}, {out!r}, {folder!r}
CORES = 16  # of {worker}; each runs one row at a time
MEMORY = {memory}  # GB of {worker}; a row that has a limit of memory takes that much of it{least}
{settings}

if __name__ == "__main__":
{cluster}
    with cluster:
{scale}        cluster.wait_for_workers(1)  # tutti run compares its versions with a worker's
        command = ["tutti", "run", CONFIG, "--out", OUT, "--scheduler", cluster.scheduler_address]
        sys.exit(subprocess.run(command, cwd=FOLDER).returncode)
'''


@dataclass(frozen=True)
class System:
    """What differs from one system to another; the texts are Python.

    Parameters
    ----------
    name, package
        Of the system, and what makes a Dask cluster of it.
    worker
        What has its cores and memory.
    imports, settings, cluster, scale
        Lines of the script.
    """

    name: str
    package: str
    worker: str
    imports: str
    settings: str
    cluster: str
    scale: str = ""


JOBS = """\
JOBS, WALLTIME, QUEUE = 8, "12:00:00", None  # None: the queue of the site
INTERFACE = None  # the network that nodes reach this machine by, such as "ib0"; None: the first\
"""
JOB_CLUSTER = """\
    cluster = {kind}(
        queue=QUEUE,
        walltime=WALLTIME,
        cores=CORES,
        memory=f"{{MEMORY}}GB",
        processes=1,
        nanny=False,
        worker_extra_args=["--resources", f"memory={{MEMORY}}e9"],
        job_script_prologue=[f"cd {{FOLDER}}"],
        interface=INTERFACE,{more}
    )\
"""
SCALE = "        cluster.adapt(minimum_jobs=JOBS, maximum_jobs=JOBS)  # another job follows one that ends\n"
SSH_CLUSTER = """\
    cluster = SSHCluster(
        HOSTS,
        connect_options={"known_hosts": None},  # trusts any host key; without this line, ~/.ssh/known_hosts
        worker_class="distributed.Worker",
        worker_options={
            "nthreads": CORES,
            "memory_limit": 0,
            "resources": {"memory": MEMORY * 10**9},
        },
        remote_python=f"env -C {FOLDER} {sys.executable}",
    )\
"""
KUBERNETES_CLUSTER = """\
    spec = make_cluster_spec(
        name="tutti",
        image=IMAGE,
        n_workers=WORKERS,
        resources={"requests": {"cpu": "1"}},
        worker_command=["dask", "worker", "--no-nanny", "--memory-limit", "0", "--nthreads", str(CORES)]
        + ["--resources", f"memory={MEMORY}e9"],
    )
    pod = spec["spec"]["worker"]["spec"]
    pod["volumes"] = [{"name": "folder", "persistentVolumeClaim": {"claimName": CLAIM}}]
    pod["containers"][0] |= {
        "workingDir": FOLDER,
        "volumeMounts": [{"name": "folder", "mountPath": FOLDER}],
        "resources": {
            "requests": {"cpu": str(CORES), "memory": f"{MEMORY}G"},
            "limits": {"memory": f"{MEMORY}G"},
        },
    }
    cluster = KubeCluster(custom_cluster_spec=spec, namespace=NAMESPACE)\
"""


def _jobs(name: str, more: str = "") -> System:
    """Return a system of batch jobs, the arguments of whose cluster end in `more`."""
    cluster = JOB_CLUSTER.format(kind=f"{name}Cluster", more=more)
    load = f"from dask_jobqueue import {name}Cluster"
    return System(f"{name} jobs", "dask-jobqueue", "a job", load, JOBS, cluster, SCALE)


SYSTEMS: Mapping[str, System] = {
    "slurm": _jobs("SLURM"),
    "pbs": _jobs("PBS", '\n        resource_spec=f"select=1:ncpus={CORES}:mem={MEMORY}GB",'),
    "kubernetes": System(
        "Kubernetes pods (with Dask's operator)",
        "dask-kubernetes",
        "a pod",
        "from dask_kubernetes.operator import KubeCluster, make_cluster_spec",
        'IMAGE, NAMESPACE, WORKERS = "registry/tutti:latest", "default", 8\n'
        'CLAIM = "tutti"  # a volume that this machine has too, with FOLDER',
        KUBERNETES_CLUSTER,
    ),
    "ssh": System(
        "machines that ssh reaches",
        "asyncssh",
        "a machine",
        "from distributed import SSHCluster",
        'HOSTS = ["node1", "node1", "node2"]  # the scheduler\'s, and one worker on each of the others',
        SSH_CLUSTER,
    ),
}


def print_script(path: Path, system: str, out: Path | None) -> int:
    """Print the script that runs a config on a system."""
    study = _study(path)
    largest = max((task.memory or 0 for task in study.tasks), default=0)
    script = SCRIPT.format(
        study=study.name,
        path=str(path),
        out=str(out or Path("results") / study.name),
        folder=str(Path.cwd()),
        install=installing("cluster"),
        memory=max(LEAST_MEMORY, math.ceil(largest / GIGABYTE)),
        least=f", here at most {largest / GIGABYTE:g}" if largest else "",
        **vars(SYSTEMS[system]),
    )
    for line in script.splitlines():
        say(line)
    return 0


def _study(path: Path) -> Study:
    """Return the study of a config of any kind, checked as if it were run."""
    if is_study(path):
        return study_of_solvers(read_study(path))
    if is_training(path):
        return study_of_training(read_training(path))
    if is_resilience(path):
        return study_of_failures(read_config(path))
    return study_of(read_config(path), METHODS)
