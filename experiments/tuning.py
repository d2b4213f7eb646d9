"""Tuning: for every size the fastest schedule that a runtime can load, as a set of files.

All methods that are asked for make their schedules in a run of the experiment runner, which can be stopped
and continued, and whose report shows who wins where and how far that is from the bound. Those schedules
count that fit the format, rounded to whole units as they are written. A runtime takes only so many files, so
sizes are cut into that many ranges at most: those with the least mean loss against the fastest at each size.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tutti.schedules.files.schedule_file import read_schedule
from tutti.schedules.programs.formats import ProgramFormat
from tutti.schedules.programs.rounding import rounded
from tutti.schedules.schedule import Schedule
from tutti.schedules.simulation.pipelining import best_slices
from tutti.schedules.verify import verify
from tutti.topologies.errors import InputError, TuttiError
from tutti.topologies.exact import FloatArray, Int64Array
from tutti.topologies.progress import tell
from tutti.topologies.units import MICRO

METHODS = (
    *("ring", "direct", "rhd", "recursive_doubling", "bruck", "shortest_path_all_to_all", "dbt", "nccl_like"),
    *("torus_rings", "blueconnect", "multitree", "min_latency", "recursive_hybrid", "rails", "bfb"),
    *("forestcoll", "mcf", "allreduce_trees", "tacos", "swing", "one_shot_allreduce", "de_bruijn_allreduce"),
)
"""Those that make a schedule within seconds, whatever the network."""


class Winner(NamedTuple):
    """A range of sizes with its schedule: of sizes[first] to sizes[last] of a `Tuning`."""

    candidate: int
    first: int
    last: int


@dataclass(frozen=True)
class TuningCandidate:
    """A schedule that fits the format.

    Parameters
    ----------
    method, options
        Who made it.
    schedule
        With chunks of whole units, verified.
    """

    method: str
    options: str
    schedule: Schedule


@dataclass(frozen=True)
class Tuning:
    """What to load at which size.

    Parameters
    ----------
    sizes
        Bytes of M, increasing.
    candidates
        The schedules.
    times
        Seconds, shape (candidates, sizes).
    bounds
        Seconds, shape (sizes,): proven lower bounds.
    winners
        By size.
    """

    sizes: Int64Array
    candidates: Sequence[TuningCandidate]
    times: FloatArray
    bounds: FloatArray
    winners: Sequence[Winner]

    def limits(self, winner: Winner) -> tuple[int, int | None]:
        """Return the bytes from which, and below which, it is loaded; the last for all that is larger."""
        low = 0 if winner.first == 0 else self._between(winner.first)
        return low, None if winner.last == len(self.sizes) - 1 else self._between(winner.last + 1)

    def _between(self, place: int) -> int:
        """Return the size between two where the lines through their times cross, to three digits."""
        before = next(w for w in self.winners if w.last == place - 1)
        after = next(w for w in self.winners if w.first == place)
        low, high = int(self.sizes[place - 1]), int(self.sizes[place])
        lead = (self.times[before.candidate] - self.times[after.candidate])[place - 1 : place + 1]
        if lead[0] < 0 < lead[1]:
            crossing = low + (high - low) * lead[0] / (lead[0] - lead[1])
            return min(max(int(float(f"{crossing:.3g}")), low), high)
        return high if lead[1] <= 0 else low


def config(network: Path | str, kind: str, sizes: Sequence[str], methods: Sequence[str], limit: str) -> str:
    """Return the config of the run that makes the schedules."""
    tables = [f'name = "tuning"\n\n[[topology]]\nspec = {json.dumps(str(network), ensure_ascii=False)}\n']
    tables.append(f'[[collective]]\nkind = "{kind}"\nsizes = [{", ".join(map(json.dumps, sizes))}]\n')
    tables += [f'[[method]]\nname = "{name}"\n' for name in methods]
    tables.append(f'[run]\ntime_limit = "{limit}"\n')
    return "\n".join(tables)


def tune(
    rows: Sequence[Mapping[str, Any]],
    read: Callable[[str], Path | None],
    fits: Callable[[Schedule], Any],
    grain: int,
    most: int,
) -> Tuning:
    """Choose among the schedules of a run.

    Parameters
    ----------
    rows
        Of one network and collective (`experiments.runner.results`).
    read
        Returns the file of the schedule of a content hash.
    fits
        Raises `TuttiError` for a schedule that the format can't have.
    grain
        Units of an item, at most (`schedules.programs.rounding`).
    most
        Files.

    Raises
    ------
    InputError
        If no schedule fits.
    """
    good = [row for row in rows if row["status"] == "ok" and row["schedule"]]
    sizes = sorted({int(row["size_bytes"]) for row in rows})
    bounds = {int(row["size_bytes"]): row["bound_us"] for row in good}
    candidates, reasons = [], {}
    for digest, row in {row["schedule"]: row for row in good}.items():
        path = read(digest)
        if path is None:
            continue
        tell(f"reading {row['method']}'s schedule")
        schedule = rounded(read_schedule(path), grain)
        verify(schedule)
        try:
            fits(schedule)
        except TuttiError as error:
            reasons[row["method"]] = str(error)
            continue
        candidates.append(TuningCandidate(row["method"], row["options"] or "", schedule))
    if not candidates:
        why = "; ".join(f"{method}: {reason}" for method, reason in reasons.items())
        raise InputError(f"no method made a schedule that fits{': ' if why else ''}{why}")
    times = np.array([[best_slices(one.schedule, Fraction(size))[1] for size in sizes] for one in candidates])
    least = np.array([bounds.get(size) or 0.0 for size in sizes]) / MICRO
    return Tuning(np.array(sizes), candidates, times, least, list(choose(times, most)))


def choose(times: FloatArray, most: int) -> Iterator[Winner]:
    """Cut the sizes into so many ranges at most, each with one schedule, of least mean loss.

    The loss at a size is the time over the least one there. Exact, by dynamic programming over where a range
    ends.

    Examples
    --------
    >>> list(choose(np.array([[1.0, 1.0, 9.0], [3.0, 2.0, 2.0]]), 2))
    [Winner(candidate=0, first=0, last=1), Winner(candidate=1, first=2, last=2)]
    >>> list(choose(np.array([[1.0, 1.0, 9.0], [3.0, 2.0, 2.0]]), 1))
    [Winner(candidate=1, first=0, last=2)]
    """
    loss = times / times.min(axis=0)
    total = np.concatenate([np.zeros((len(loss), 1)), np.cumsum(loss, axis=1)], axis=1)
    number = loss.shape[1]
    most = min(most, number)
    # least[parts][end]: of the sizes before `end`, in at most so many ranges; and where the last one begins.
    least = np.full((most + 1, number + 1), np.inf)
    least[:, 0] = 0.0
    begins = np.zeros((most + 1, number + 1), dtype=np.int64)
    for parts in range(1, most + 1):
        for end in range(1, number + 1):
            cost = least[parts - 1, :end] + (total[:, [end]] - total[:, :end]).min(axis=0)
            begins[parts, end] = int(np.argmin(cost))
            least[parts, end] = cost[begins[parts, end]]
    tolerance = 1 + 1e-9
    parts = int(np.argmax(least[:, number] <= least[most, number] * tolerance))
    ranges, end = [], number
    while end > 0:
        begin = int(begins[parts, end])
        ranges.append((begin, end))
        parts, end = parts - 1, begin
    for begin, end in reversed(ranges):
        yield Winner(int(np.argmin(total[:, end] - total[:, begin])), begin, end - 1)


def write(tuning: Tuning, form: ProgramFormat, options: Any, directory: Path) -> list[dict[str, Any]]:
    """Write a file for each range, judge it as it reads, and return what is to be said of each.

    Raises
    ------
    TuttiError
        If one can't be written, or isn't right.
    """
    said = []
    for number, winner in enumerate(tuning.winners):
        made = tuning.candidates[winner.candidate]
        (low, high), what = tuning.limits(winner), made.schedule.collective
        limits = {"min_bytes": low or None, "max_bytes": high}
        given = {name: f"{limit}B" for name, limit in limits.items() if limit is not None}
        given["name"] = options.name or f"{made.method} {what.kind} of {what.num_ranks} ranks"
        path = directory / f"{number}-{made.method}{form.suffix}"
        form.write(made.schedule, path, replace(options, **given))
        tell(f"judging {path.name}")
        form.judge(path, what.root, interleavings=20)
        inside = slice(winner.first, winner.last + 1)
        times = tuning.times[winner.candidate, inside]
        loss = times / tuning.times[:, inside].min(axis=0) - 1
        with np.errstate(divide="ignore"):
            gaps = times / tuning.bounds[inside] - 1
        said.append(
            {
                "file": path.name,
                "from": low,
                "below": high,
                "method": made.method,
                "options": made.options,
                "worst_loss": float(loss.max()),
                "gap": [float(gaps.min()), float(gaps.max())],
            }
        )
    return said
