"""Beside what TE-CCL's authors ship: finish times on the same networks, under their rules and under ours.

``python -m experiments.bench.teccl results/paper_teccl`` plays every schedule that `configs/paper_teccl.toml`
kept and joins the fastest with the published rows. The synthesis, which takes long, is the runner's.

Under their rules α of a hop is waited for, and the link is free after bytes over bandwidth. A switch only
forwards here: in their schedules, too, who sends to all on a switch sends once to each. Epochs round their
times; an α shorter than an epoch is dropped. Where ours is slower, the α that was dropped on the longest
route is what it may cost. The bound is the largest that holds under both rules: it counts α as a delay only.

What was made for a network with other bandwidths (``?degrade=``) is played, and verified anew, on the network
itself.
"""

from __future__ import annotations

import csv
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tutti.experiments.report.results import Row, read_results
from tutti.experiments.runner.kept_schedules import schedule_path
from tutti.models.bounds import lower_bounds
from tutti.schedules.collective import Collective, collective
from tutti.schedules.files.schedule_file import read_schedule
from tutti.schedules.schedule import Schedule
from tutti.schedules.simulation.pipelining import best_slices
from tutti.schedules.simulation.simulate import SimulationOptions
from tutti.schedules.verify import verify
from tutti.topologies.exact import Rationals
from tutti.topologies.graphs.shortest_paths import alpha_distances
from tutti.topologies.text import parse_topology
from tutti.topologies.topology import Topology
from tutti.topologies.units import parse_size

REFERENCE = Path("tests/data/reference/teccl_results.csv")
NETWORKS = {
    "NDv2x4": "configs/networks/teccl_ndv2_x4.json",
    "DGX2x2": "configs/networks/teccl_dgx2_x2.json",
}
KINDS = {"allgather": "allgather", "alltoall": "all-to-all"}
DOUBLED = ("DGX2x2", "fast_early_stop")
"""These rows moved twice the size that they name: algbw times finish time."""
THEIRS = SimulationOptions(overlap_alpha=True)
DELAYS = ("cut", "degree", "distance", "combined", "mcf")
"""Bounds in which α delays and holds no link."""
MOST_HOPS = 2**19
"""Of a simulation: slices hardly help beyond."""
MET = Fraction(1, 10**6)
"""Relative: finish times are printed to so many digits."""


class Published(NamedTuple):
    """A row of the reference; seconds, and the bytes that were moved."""

    network: str
    kind: str
    variant: str
    size: Fraction
    finish: Fraction
    epoch: Fraction

    @property
    def case(self) -> Case:
        """What it is to be compared with."""
        return Case(NETWORKS[self.network], self.kind, self.size)


class Case(NamedTuple):
    """A network, a collective and M in bytes."""

    network: str
    kind: str
    size: Fraction

    @property
    def topology(self) -> Topology:
        """The network itself."""
        return _network(self.network)

    @property
    def collective(self) -> Collective:
        """Over all its ranks."""
        return collective(self.kind, self.topology.num_ranks)


@cache
def _network(text: str) -> Topology:
    return parse_topology(text)


class Found(NamedTuple):
    """The least seconds under each rule, whose schedule is the fastest by theirs, and how long that took."""

    ours: float
    theirs: float
    method: str
    synthesis: float


def published(path: Path = REFERENCE) -> list[Published]:
    """Return the rows of the reference."""
    rows = csv.DictReader(path.read_text().splitlines())
    return [
        Published(
            row["topology"],
            KINDS[row["collective"]],
            row["variant"],
            parse_size(row["size"]) * (2 if (row["topology"], row["variant"]) == DOUBLED else 1),
            Fraction(row["finish_us"]) / 10**6,
            Fraction(row["epoch_s"]),
        )
        for row in rows
    ]


def dropped(topology: Topology, epoch: Fraction) -> Fraction:
    """Return the seconds that α's shorter than an epoch add to the longest way between two ranks."""
    kept = [Fraction(alpha) if alpha >= epoch else Fraction(0) for alpha in topology.alpha]
    return _longest(topology) - _longest(replace(topology, alpha=Rationals.of(kept)))


def _longest(topology: Topology) -> Fraction:
    ranks = range(topology.num_ranks)
    most = alpha_distances(topology, ranks)[:, : topology.num_ranks].max()
    return Fraction(int(most), topology.alpha.denominator)


def bound(case: Case) -> Fraction:
    """Return the seconds that no schedule beats under either rule."""
    found = lower_bounds(case.topology, case.collective, case.size)
    return max(Fraction(each.time(case.size)) for each in found if each.kind in DELAYS)


def fastest(case: Case, rows: Iterable[Row], schedules: Path) -> Found:
    """Return the least times of the kept schedules, each verified on the network itself."""
    played = [
        Found(*seconds(_kept(row, case.topology, schedules), case.size), _name(row), row.synth_s or 0.0)
        for row in rows
    ]
    best = min(played, key=lambda found: found.theirs)
    return best._replace(ours=min(found.ours for found in played))


def seconds(schedule: Schedule, size: Fraction) -> tuple[float, float]:
    """Return the time under our rules and under theirs, each in the number of slices that is best there."""
    return best_slices(schedule, size, MOST_HOPS)[1], best_slices(schedule, size, MOST_HOPS, THEIRS)[1]


def _kept(row: Row, topology: Topology, schedules: Path) -> Schedule:
    path = schedule_path(schedules, row.schedule or "")
    if path is None:
        raise SystemExit(f"{schedules}: no schedule {row.schedule} of {row.topology}; run the config again")
    schedule = read_schedule(path)
    if row.topology != topology.name:  # what was claimed held for other bandwidths
        schedule = schedule.replace(topology=topology, claims={})
    verify(schedule)
    return schedule


def _name(row: Row) -> str:
    """Return the method with its options; ``'`` marks trees for another network."""
    return f"{row.method}{chr(39) * ('?' in row.topology)} {row.options}".strip()


def lines(rows: Sequence[Published], found: Mapping[Case, Found]) -> Iterator[str]:
    """Yield the table in Markdown, and how many rows are met."""
    yield "| network, collective | variant | M | TE-CCL, us | their rules | | bound | our rules | by | s |"
    yield "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |"
    verdicts: Counter[str] = Counter()
    for row in rows:
        best, proven = found[row.case], bound(row.case)
        verdict = _verdict(row, best)
        verdicts[verdict.partition(" ")[0]] += 1
        times = (float(row.finish), best.theirs, float(proven), best.ours)
        finish, theirs, least, ours = (f"{1e6 * time:.6g}" for time in times)
        yield (
            f"| {row.network} {row.kind} | {row.variant} | {float(row.size):g} | {finish} | {theirs} "
            f"| {verdict} | {least} | {ours} | {best.method} | {best.synthesis:.1f} |"
        )
    yield ""
    yield ", ".join(f"{verdict} {count}" for verdict, count in verdicts.items()) + f" of {len(rows)}"


def _verdict(row: Published, best: Found) -> str:
    """Return whether a published time is met, or missed by no more than the α that was dropped."""
    over = best.theirs - float(row.finish)
    if over <= float(MET * row.finish):
        return "met"
    lost = dropped(row.case.topology, row.epoch)
    return f"{'dropped' if over <= float(lost) else 'missed'} +{1e6 * over:.3g} of {1e6 * float(lost):.3g}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table of a run."""
    given = sys.argv[1:] if arguments is None else arguments
    results = read_results(Path(given[0] if given else "results/paper_teccl"))
    kept: defaultdict[Case, list[Row]] = defaultdict(list)
    for row in results.rows:
        if row.ok:
            base = row.topology.partition("?")[0]
            kept[Case(base, row.collective, Fraction(row.size_bytes))].append(row)
    rows, found = published(), {}
    for case in dict.fromkeys(row.case for row in rows):
        found[case] = fastest(case, kept[case], results.directory / "schedules")
        sys.stderr.write(f"{case.network} {case.kind} {float(case.size):g}\n")
    sys.stdout.write("".join(f"{line}\n" for line in lines(rows, found)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
