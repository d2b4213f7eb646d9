"""Run the study: every program on its networks in every layer, each in a process of its own.

``python -m tutti.experiments.layers.study FOLDER [SECONDS]`` writes FOLDER/layers.csv, row by row, and
continues where it was stopped. A process is ended after SECONDS (default 600). The packages are those of
``requirements-layers.txt``, in a folder of their own before the others: newer HiGHS and OR-Tools can't share
a process.
"""

from __future__ import annotations

import csv
import gc
import importlib
import json
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np

from tutti.experiments.layers.programs import Built, Network
from tutti.experiments.printable import say
from tutti.topologies.processes import peak_memory
from tutti.topologies.text import parse_topology

LAYERS = {"pyomo": "pyomo", "linopy": "linopy", "poi": "pyoptinterface", "arrays": "highspy"}
"""The layers, and the package that is named with its version."""
CASES = {
    "flow": ("torus:4x4", "hypercube:5", "torus:6x6", "torus:8x8"),
    "allreduce": ("torus:3x3", "torus:4x4", "gen_kautz:3,20", "hypercube:5"),
    "bfb": ("torus:8x8", "gen_kautz:4,256", "torus:16x16", "gen_kautz:4,700"),
    "sends": ("mesh:2x3", "torus:3x3", "mesh:3x4", "torus:4x4"),
}
"""The networks of each program, smaller ones first."""
COLUMNS = (
    *("program", "network", "layer", "version", "rows", "columns", "nonzeros", "import_s", "build_s"),
    *("solve_s", "again_s", "first", "second", "peak_rss_mb", "message"),
)


def written_by(layer: str, program: str) -> Callable[[Network], Built]:
    """Return the function that builds a program in a layer, whose package it imports."""
    return getattr(importlib.import_module(f"tutti.experiments.layers.by_{layer}"), program)


def measure(program: str, network: str, layer: str) -> dict[str, Any]:
    """Build, solve, and solve again with other capacities; processor seconds of each.

    The other capacities are half on every third link; of `sends`, two chunks a step on every link.
    """
    given = Network.of(parse_topology(network))
    marks = [process_time()]
    write = written_by(layer, program)
    gc.freeze()  # else objects of imported modules are collected while a model is built
    marks.append(process_time())
    built = write(given)
    marks.append(process_time())
    first = built.solve()
    marks.append(process_time())
    other = given.b * (2.0 if program == "sends" else 1.0)
    if program != "sends":
        other[::3] /= 2
    second = built.again(other)
    spent = np.diff([*marks, process_time()]).tolist()
    return {
        **dict(zip(("import_s", "build_s", "solve_s", "again_s"), spent, strict=True)),
        "first": first,
        "second": second,
        "peak_rss_mb": peak_memory(),
        "version": version(LAYERS[layer]),
    }


def size_of(program: str, network: str) -> dict[str, int]:
    """Return rows, columns and nonzeros of a program, as arrays have it."""
    built = written_by("arrays", program)(Network.of(parse_topology(network)))
    return dict(zip(("rows", "columns", "nonzeros"), built.size or (), strict=True))


def row_of(program: str, network: str, layer: str, seconds: float) -> dict[str, Any]:
    """Return the row of a case, measured in a process of its own."""
    name = __spec__.name if __spec__ else __name__
    command = [sys.executable, "-m", name, "--one", program, network, layer]
    row: dict[str, Any] = {"program": program, "network": network, "layer": layer}
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)
    except subprocess.TimeoutExpired:
        return row | {"message": f"ended after {seconds:g} s"}
    if done.returncode:
        return row | {"message": done.stderr.strip().rpartition("\n")[2] or f"died ({done.returncode})"}
    return row | json.loads(done.stdout.strip().rpartition("\n")[2])


def main(words: list[str]) -> None:
    """Run what is missing in a folder, or one case."""
    if words[0] == "--one":
        say(json.dumps(measure(*words[1:]) | size_of(*words[1:3])))
        return
    path, seconds = Path(words[0]) / "layers.csv", float(words[1]) if len(words) > 1 else 600.0
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+", newline="") as file:
        file.seek(0)
        done = {(row["program"], row["network"], row["layer"]) for row in csv.DictReader(file)}
        table = csv.DictWriter(file, COLUMNS)
        if not done:
            table.writeheader()
        pairs = [(program, network) for program, networks in CASES.items() for network in networks]
        for case in ((*pair, layer) for pair in pairs for layer in LAYERS):
            if case not in done:
                row = row_of(*case, seconds)
                table.writerow(row)
                file.flush()
                built = "built in {build_s:.3g} s, optimum {first:.9g}"
                say(f"{' '.join(case)}: {row.get('message') or built.format(**row)}")


if __name__ == "__main__":
    main(sys.argv[1:])
