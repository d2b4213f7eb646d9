"""Every schedule of every method on the small networks, as a program and as files, and what doesn't fit.

Each is lowered, judged in 20 interleavings with races looked for, printed as MSCCL XML and read back: the
program must be the same. A long run prints what went wrong, and counts what doesn't fit:

    python -m tests.program_sweep [--plans] [--only tacos] [--networks ring:4 dgx1]
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from dataclasses import fields
from fractions import Fraction

from tutti.experiments.registry import METHODS
from tutti.experiments.runner.tasks import synthesize_best
from tutti.schedules import KINDS, Problem
from tutti.schedules.collective import collective
from tutti.schedules.method import first_seeds
from tutti.schedules.programs.interpreter import judge
from tutti.schedules.programs.lowering import lower
from tutti.schedules.programs.msccl.files import MscclOptions, lowered, to_xml
from tutti.schedules.programs.msccl.reader import from_xml
from tutti.schedules.programs.mscclpp.files import Misfit, PlanOptions, plan_of
from tutti.schedules.programs.mscclpp.reader import from_plan
from tutti.schedules.schedule import Schedule
from tutti.topologies import InputError, NoSchedule, Unsupported, parse_topology
from tutti.topologies.errors import TuttiError
from tutti.topologies.options import build_options

NETWORKS = (
    "ring:8", "mesh:4x4", "torus:4x4", "torus:5x6", "hypercube:5", "complete:8", "circulant:12,2,3",
    "L(K_{4,4})", "dgx1", "dgx_a100:2", "dgx_h100:4", "mi250:2", "ndv2:2",
    "dragonfly:4x5?bandwidth=400GB/s,200GB/s", "switch2d:8x4?bandwidth=300GB/s,25GB/s",
)  # fmt: skip
"""Those of docs/sizes.md that have at most 32 ranks."""
SIZE = Fraction(10**6)
FLAVOURS = {"reduce-scatter": ("msccl", "rccl"), "gather": ("rccl",), "scatter": ("rccl",)}
"""Of the collectives that `both` doesn't have."""


def schedules(network: str, kind: str, only: str):
    """Yield (method, schedule) of each method that does this within seconds."""
    topology = parse_topology(network)
    problem = Problem(topology, collective(kind, topology.num_ranks), SIZE)
    for name, method in METHODS.items():
        if name in ("best", "list_scheduling", "local_search", "optimum") or (only and only not in name):
            continue
        limit = {"time_limit": 2} if "time_limit" in {one.name for one in fields(method.options)} else {}
        try:
            options = build_options(method, {**method.quick, **limit, **method.fast})
            yield name, synthesize_best(method, problem, options, first_seeds(method, 1), SIZE).schedule
        except (Unsupported, NoSchedule, InputError):
            continue


def outcome(made: Schedule, kind: str) -> str:
    """Return what becomes of a schedule: "right", or the reason why it isn't, without numbers."""
    try:
        judge(lower(made), interleavings=20)
        judge(lower(made, in_place=True), interleavings=20)
    except Unsupported as error:
        return f"refused: {error}"
    for flavour in FLAVOURS.get(kind, ("both",)):
        options = MscclOptions(flavour=flavour)
        try:
            program = lowered(made, options)
            text = to_xml(program, options)
        except InputError as error:
            return f"does not fit: {error}"
        judge(program, interleavings=20)
        if from_xml(text, "it", root=made.collective.root) != program:
            return "comes back changed"
    return "right"


def plan_outcome(made: Schedule, kind: str) -> str:
    """Return what becomes of a schedule as an execution plan of MSCCL++."""
    try:
        program, text = plan_of(made, PlanOptions())
    except Unsupported as error:
        return f"refused: {error}"
    except Misfit as error:
        return f"does not fit: {error}"
    judge(program, interleavings=20)
    back, warnings = from_plan(text, "it")
    return "right" if back == program and not warnings else "comes back changed"


def say(text: str) -> None:
    """Print a line at once."""
    print(text, flush=True)  # noqa: T201 - this is a command


def main() -> None:
    """Run all that is asked for, and say what came of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--networks", nargs="+", default=NETWORKS)
    parser.add_argument("--only", default="")
    parser.add_argument("--plans", action="store_true", help="as plans of MSCCL++, instead of MSCCL XML")
    arguments = parser.parse_args()
    found: Counter[str] = Counter()
    began = time.monotonic()
    for network in arguments.networks:
        for kind in KINDS:
            for name, made in schedules(network, str(kind), arguments.only):
                try:
                    ended = (plan_outcome if arguments.plans else outcome)(made, str(kind))
                except TuttiError as error:
                    ended = f"wrong: {error}"
                found[ended.split(":")[0]] += 1
                if ended != "right":
                    say(f"{network} {kind} {name} ({len(made)} transfers) {ended}")
        say(f"{network}: {dict(found)} after {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
