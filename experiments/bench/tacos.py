"""Benchmarks of TACOS, against its public C++."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from tutti.experiments.bench.measurement import (
    GIBIBYTE,
    Measurement,
    at_most,
    exactly,
    make,
    reference,
)
from tutti.experiments.registry import find_method
from tutti.experiments.runner.tasks import Stopwatch, synthesize_best
from tutti.heuristics.tacos import TacosOptions
from tutti.heuristics.tacos.on_disk import synthesize_to
from tutti.schedules.collective import collective
from tutti.schedules.method import Problem
from tutti.schedules.simulation.simulate import simulate
from tutti.schedules.verify import verify
from tutti.topologies.options import build_options
from tutti.topologies.processes import peak_memory, reset_peak_memory
from tutti.topologies.text import parse_topology
from tutti.topologies.units import MICRO

USUAL = "bandwidth=50GiB/s&alpha=0.5us"
TACOS_CASES = {
    "mesh:3x3 1 chunk 1024 MiB 50 GiB/s 0.5 us allgather": (f"mesh:3x3?{USUAL}", 1),
    "mesh:5x5 same": (f"mesh:5x5?{USUAL}", 1),
    "mesh:10x10 same": (f"mesh:10x10?{USUAL}", 1),
    "mesh:16x16 same": (f"mesh:16x16?{USUAL}", 1),
    "torus:8x8 same": (f"torus:8x8?{USUAL}", 1),
    "torus:5x5 same": (f"torus:5x5?{USUAL}", 1),
    "torus:6x6x6 same": (f"torus:6x6x6?{USUAL}", 1),
    "mesh:5x5?bandwidth=50GiB/s,75GiB/s 0.5 us 1 chunk 1024 MiB": (
        "mesh:5x5?bandwidth=50GiB/s,75GiB/s&alpha=0.5us",
        1,
    ),
    "mesh:8x5?bandwidth=80GiB/s,35GiB/s 1 us 2 chunks 1024 MiB": (
        "mesh:8x5?bandwidth=80GiB/s,35GiB/s&alpha=1us",
        2,
    ),
    "mesh:10x10 100 GiB/s 1 us 2 chunks 1024 MiB": ("mesh:10x10?bandwidth=100GiB/s&alpha=1us", 2),
    "torus:3x3x3 50 GiB/s 0.5 us 1 chunk 1024 MiB": (f"torus:3x3x3?{USUAL}", 1),
    "grid 3x3x3 (mesh) same": (f"mesh:3x3x3?{USUAL}", 1),
}
"""The peer's cases, as the reference file calls them, and as ours: topology and chunks a shard."""
SEEDS = range(20)
SAME = 1 + 1e-6
"""The peer's times are rounded on the way: those that are the same agree to this factor."""


def bench_tacos() -> Iterator[Measurement]:
    """The best of 20 seeds against the public C++ TACOS, and the synthesis time of a large mesh.

    The chunk bound on steps is the most chunks that a rank must receive over its in-links.
    """
    make("mesh:3x3", "tacos")
    for case, (text, chunks) in TACOS_CASES.items():
        yield from _tacos_case(case, text, chunks)
    theirs = int(_tacos_peer("mesh:32x32 same")["value"]) / 1000
    seconds = min(make(f"mesh:32x32?{USUAL}", "tacos").synth_s for _ in range(3))
    yield at_most("tacos", "mesh:32x32", "synthesis, s", seconds, 0.1, f"{theirs:g} (TACOS C++)")
    yield at_most("tacos", "mesh:64x64", "synthesis, s", make("mesh:64x64", "tacos").synth_s, 1.5)


def bench_tacos_large() -> Iterator[Measurement]:
    """Tables on disk: 16,384 and 40,000 ranks; minutes, and 8 GB of disk."""
    published = "9072 (TACOS, 64 threads)"
    yield from _on_disk("mesh:128x128", "allgather", 60.0, "")
    yield from _on_disk("mesh:200x200", "allreduce", 1800.0, published)


def _on_disk(text: str, kind: str, seconds: float, published: str) -> Iterator[Measurement]:
    topology = parse_topology(text)
    problem = Problem(topology, collective(kind, topology.num_ranks))
    options, case = TacosOptions(memory="16GB"), f"{text} {kind}"
    with TemporaryDirectory() as folder:
        _write("mesh:3x3", folder)
        reset_peak_memory()
        path, rng = Path(folder) / "table.rounds", np.random.default_rng(0)
        with Stopwatch() as watch:
            table = synthesize_to(path, problem, options, rng)
        yield at_most("tacos-large", case, "synthesis, s", watch.seconds, seconds, published)
        least = -(-(topology.num_ranks - 1) // int(np.bincount(topology.target).min())) * len(table.parts)
        yield exactly("tacos-large", case, "steps; the chunk bound", table.steps, least)
        with Stopwatch() as watch:
            verify(table)
        yield Measurement("tacos-large", case, "verify, streamed, s", watch.seconds)
        yield at_most("tacos-large", case, "peak memory, MB", peak_memory(), 16e3)


def _write(text: str, folder: str) -> None:
    """Compile what writes and reads a table."""
    topology = parse_topology(text)
    problem = Problem(topology, collective("allreduce", topology.num_ranks))
    rng = np.random.default_rng(0)
    verify(synthesize_to(Path(folder) / "warm.rounds", problem, TacosOptions(), rng))


def _tacos_case(case: str, text: str, chunks: int) -> Iterator[Measurement]:
    tacos, topology, peer = find_method("tacos"), parse_topology(text), _tacos_peer(case)
    problem = Problem(topology, collective("allgather", topology.num_ranks), GIBIBYTE)
    options = build_options(tacos, {"chunks": chunks})
    schedule = synthesize_best(tacos, problem, options, SEEDS, GIBIBYTE).schedule
    time, theirs, name = simulate(schedule, GIBIBYTE).time * MICRO, peer["value"], f"{text} x{chunks}"
    note = peer["note"].partition("; ")[0].partition(" (")[0]
    steps = topology.homogeneous
    yield Measurement(
        "tacos",
        name,
        "time, us (to 1e-6 relative)",
        time,
        f"at most {theirs}",
        time <= float(theirs) * SAME,
        exact=True,
        published="TACOS C++" if steps else f"TACOS C++: {note}",
        decimals=len(theirs.partition(".")[2]),
    )
    if steps:  # all messages take one time, so that they start in rounds
        rounds = len(np.unique(np.asarray(schedule.order)))
        least = -(-(topology.num_ranks - 1) * chunks // int(np.bincount(topology.target).min()))
        found = exactly("tacos", name, "steps; the chunk bound", rounds, least)
        yield replace(found, published=note)


def _tacos_peer(case: str) -> dict[str, str]:
    return reference("peers_measured.csv", peer="TACOS C++", case=case)
