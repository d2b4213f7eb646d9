"""How much depends on the simulator's rules: who is fastest under each, on docs/all.md's twenty networks.

``python -m experiments.bench.rules`` prints the table of docs/simulator.md. Of every network, collective and
size the quick methods' schedules are simulated under three rules, a flow in the number of slices that is best
under that rule, and the fastest is named; what our rules' choice costs under another one is its time over the
fastest one's.
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tutti.experiments.registry import find_method
from tutti.schedules.collective import collective
from tutti.schedules.method import Problem
from tutti.schedules.simulation.pipelining import best_slices
from tutti.schedules.simulation.simulate import SimulationOptions
from tutti.schedules.verify import verify
from tutti.topologies.errors import TuttiError
from tutti.topologies.text import parse_topology
from tutti.topologies.units import parse_size

CONFIG = Path("configs/all.toml")
METHODS = ("ring", "direct", "bfb", "forestcoll", "tacos", "nccl_like")
KINDS = ("allgather", "allreduce")
SIZES = ("1KB", "1MB", "1GB")
RULES: Mapping[str, SimulationOptions] = {
    "ours": SimulationOptions(),
    "store and forward": SimulationOptions(store_and_forward=True),
    "α in flight": SimulationOptions(overlap_alpha=True),
}


class Case(NamedTuple):
    """A network, collective and size, and the seconds of each method under each rule."""

    network: str
    kind: str
    size: str
    seconds: Mapping[str, Mapping[str, float]]

    def fastest(self, rule: str) -> str:
        """Return the method of least time; of equal ones the first."""
        times = self.seconds[rule]
        least = min(times.values())
        return next(method for method, time in times.items() if time <= least * (1 + 1e-9))

    def regret(self, rule: str) -> float:
        """Return the time of our rules' choice under another rule over the least."""
        return self.seconds[rule][self.fastest("ours")] / self.seconds[rule][self.fastest(rule)]


def compare(network: str, kind: str, size: str, methods: Sequence[str] = METHODS) -> Case:
    """Return the times of methods under each rule; those that can't do it are left out."""
    topology, amount = parse_topology(network), parse_size(size)
    problem = Problem(topology, collective(kind, topology.num_ranks), Fraction(amount))
    seconds: dict[str, dict[str, float]] = {rule: {} for rule in RULES}
    for name in methods:
        method = find_method(name)
        chosen = method.options()
        try:
            method.supports(problem, chosen)
            schedule = method.synthesize(problem, chosen, np.random.default_rng(0))
        except TuttiError:
            continue
        verify(schedule)
        for rule, options in RULES.items():
            seconds[rule][name] = best_slices(schedule, amount, options=options)[1]
    return Case(network, kind, size, seconds)


def lines(cases: Sequence[Case]) -> Iterator[str]:
    """Yield the tables in Markdown."""
    columns = [(kind, size) for kind in KINDS for size in SIZES]
    yield "| network | " + " | ".join(f"{kind} {size}" for kind, size in columns) + " |"
    yield "| --- |" + " --- |" * len(columns)
    found = {(case.network, case.kind, case.size): case for case in cases}
    for network in dict.fromkeys(case.network for case in cases):
        cells = [_cell(found[network, *column]) for column in columns]
        yield f"| `{network}` | " + " | ".join(cells) + " |"
    yield ""
    yield "| rule, size | another winner | ours slower, at most | best time over ours, median | range |"
    yield "| --- | --- | --- | --- | --- |"
    for rule in list(RULES)[1:]:
        for size in SIZES:
            yield _summary(rule, size, [case for case in cases if case.size == size])


def _cell(case: Case) -> str:
    """Return our winner, and under another rule another one, with what ours costs there."""
    ours, marks = case.fastest("ours"), {"store and forward": "s", "α in flight": "α"}
    others = [
        f"{marks[rule]}: {case.fastest(rule)} (+{_percent(case.regret(rule))})"
        for rule in marks
        if case.fastest(rule) != ours and case.regret(rule) > 1 + 1e-9
    ]
    return "; ".join([ours, *others])


def _summary(rule: str, size: str, cases: Sequence[Case]) -> str:
    changed = [case.regret(rule) for case in cases if case.regret(rule) > 1 + 1e-9]
    ratios = [min(case.seconds[rule].values()) / min(case.seconds["ours"].values()) for case in cases]
    worst = _percent(max(changed, default=1.0))
    spread = f"{min(ratios):.3f} to {max(ratios):.3f}"
    return (
        f"| {rule}, {size} | {len(changed)} of {len(cases)} | {worst} | {np.median(ratios):.3f} | {spread} |"
    )


def _percent(ratio: float) -> str:
    """Return what a ratio is over 1, to two digits."""
    return f"{float(f'{100 * (ratio - 1):.2g}'):g} %"


def main() -> int:
    """Print the tables, and on standard error how far it is."""
    networks = tomllib.loads(CONFIG.read_text())["topology"][0]["sweep"]["network"]
    cases = []
    for network in networks:
        cases += [compare(network, kind, size) for kind in KINDS for size in SIZES]
        sys.stderr.write(f"{network}\n")
        sys.stderr.flush()
    sys.stdout.write("".join(f"{line}\n" for line in lines(cases)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
