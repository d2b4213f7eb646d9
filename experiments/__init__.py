"""Experiments: configs read and checked, the methods by name, the runner, its report and the command line.

Read `registry` first (every method by name), then `runner` (config, plan, tasks, store) and `report`, which
draws what a run kept. `plugins` adds to the registries what comes from outside. `methods` has the methods
that call others, `cli` the command ``tutti``. `bench` measures what the README claims, `solver_study`
compares solvers, `growth` draws how the finder's networks grow with N. `printable` is what all of these print
through. `run` is ``python experiments/run.py``, and `compile_kernels` compiles all kernels once. Everything
else is below this folder, and nothing imports it.
"""

if __name__ != "tutti.experiments":
    raise ImportError("the package experiments is called tutti.experiments")

DISTRIBUTION = "tutti-collectives"
"""The name of the distribution, as in `pyproject.toml`. The name ``tutti`` on the package index belongs to
another project."""


def installed_version() -> str:
    """Return the version of the installed distribution; "unknown" in a copy that is not installed."""
    from importlib import metadata  # takes 50 ms, of which no help needs any

    try:
        return metadata.version(DISTRIBUTION)
    except metadata.PackageNotFoundError:
        return "unknown"
