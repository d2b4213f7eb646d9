"""Tuning: for every size the fastest schedule, or the fastest of a runtime's own algorithms, as files.

A set of schedules is made in a run of the experiment runner by all methods that are asked for. The run can be
stopped and continued, and its report shows who wins where and how far that is from the bound. Those schedules
count that fit the format, rounded to whole units as they are written. A runtime takes only a few files, so
sizes are cut into at most that many ranges, those with the least mean loss against the fastest at each size.

A `Tuner` writes the rules by which a runtime takes its own algorithms on the ranks of a network.
``nccl-tuner`` is the CSV of the example in NCCL's repository, which that plug-in loads (``plugins/tuner``): a
line for each range of sizes, with algorithm and protocol, of NCCL's own model or of the simulator.
``ompi-rules`` is the file of dynamic rules of Open MPI's component ``tuned``, whose algorithms are made as
schedules and simulated. Sizes are those of M, as both runtimes count them. A range of the model ends at the
byte where its choice changes, one of the simulator where the lines of two neighbours through their times
cross.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from operator import itemgetter
from pathlib import Path
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np

from tutti.experiments.registry import find_method
from tutti.experiments.runner.results import SCHEDULES, schedule_path
from tutti.heuristics.nccl.machine import NcclOptions
from tutti.heuristics.nccl.method import METHOD, found, reckoned
from tutti.heuristics.nccl.model import KINDS, VERSION, NcclCluster, jumps
from tutti.schedules.collective import Collective, Kind
from tutti.schedules.files.schedule_file import read_schedule
from tutti.schedules.method import Method, Problem
from tutti.schedules.programs.formats import ProgramFormat
from tutti.schedules.programs.moves import rounded
from tutti.schedules.schedule import Schedule
from tutti.schedules.simulation.simulate import best_slices
from tutti.schedules.verify import verify
from tutti.topologies.errors import InputError, TuttiError
from tutti.topologies.exact import INT64_MAX, FloatArray, Int64Array
from tutti.topologies.options import Choice, Options
from tutti.topologies.progress import tell
from tutti.topologies.topology import Topology
from tutti.topologies.units import MICRO

METHODS = (
    *("ring", "direct", "rhd", "recursive_doubling", "bruck", "shortest_path_all_to_all", "dbt", "nccl_like"),
    *("torus_rings", "blueconnect", "multitree", "min_latency", "recursive_hybrid", "rails", "bfb"),
    *("forestcoll", "mcf", "allreduce_trees", "tacos", "swing", "one_shot_allreduce", "de_bruijn_allreduce"),
)
"""Methods that make a schedule within seconds, on any network."""


class Winner(NamedTuple):
    """A range of sizes with its schedule: of sizes[first] to sizes[last] of a `Tuning`."""

    candidate: int
    first: int
    last: int


class TuningCandidate(NamedTuple):
    """A schedule that fits the format.

    Parameters
    ----------
    method, options
        Who made it.
    schedule
        A verified schedule, with chunks of whole units.
    """

    method: str
    options: str
    schedule: Schedule


class Tuning(NamedTuple):
    """A choice of schedules by size.

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
    rows: Sequence[Mapping[str, Any]], form: ProgramFormat, options: Any, directory: Path, most: int
) -> Tuning:
    """Choose among the schedules of a run, those that the format can have.

    Parameters
    ----------
    rows
        The rows of one network and collective (`experiments.runner.results`).
    form, options
        The format.
    directory
        A folder whose folder ``runs`` has the run.
    most
        Largest number of files.

    Raises
    ------
    InputError
        If no schedule fits.
    """
    good = [row for row in rows if row["status"] == "ok" and row["schedule"]]
    sizes = sorted({int(row["size_bytes"]) for row in rows})
    bounds = {int(row["size_bytes"]): row["bound_us"] for row in good}
    candidates, reasons, trial = [], {}, directory / f"trial{form.suffix}"
    for digest, row in {row["schedule"]: row for row in good}.items():
        if (path := schedule_path(directory / "runs" / SCHEDULES, digest)) is None:
            continue
        tell(f"reading {row['method']}'s schedule")
        schedule = rounded(read_schedule(path), options.units)
        verify(schedule)
        try:
            form.write(schedule, trial, options)
        except TuttiError as error:
            reasons[row["method"]] = str(error)
            continue
        candidates.append(TuningCandidate(row["method"], row["options"] or "", schedule))
    trial.unlink(missing_ok=True)
    if not candidates:
        why = "; ".join(f"{method}: {reason}" for method, reason in reasons.items())
        raise InputError(f"no method made a schedule that fits{': ' if why else ''}{why}")
    times = np.array([[best_slices(one.schedule, Fraction(size))[1] for size in sizes] for one in candidates])
    least = np.array([bounds.get(size) or 0.0 for size in sizes]) / MICRO
    return Tuning(np.array(sizes), candidates, times, least, choose(times, most))


def choose(times: FloatArray, most: int) -> Sequence[Winner]:
    """Cut the sizes into at most `most` ranges, each with one schedule, of least mean loss.

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
    total = np.cumsum(np.pad(loss, ((0, 0), (1, 0))), axis=1)
    number, start = loss.shape[1], (0.0, tuple[Winner, ...]())

    def with_last(before: tuple[float, tuple[Winner, ...]], begin: int, end: int) -> Any:
        costs = total[:, end] - total[:, begin]
        return before[0] + costs.min(), (*before[1], Winner(int(costs.argmin()), begin, end - 1))

    # Of the sizes before each end the least loss, and its ranges: of none, then of one more in each turn.
    best, whole = [start, *[(np.inf, ())] * number], []
    for _ in range(min(most, number)):
        ends = ([with_last(best[begin], begin, end) for begin in range(end)] for end in range(1, number + 1))
        best = [start, *(min(ways, key=itemgetter(0)) for ways in ends)]
        whole.append(best[number])
    return next(ranges for lost, ranges in whole if lost <= whole[-1][0] * (1 + 1e-9))


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


MODEL, SIMULATOR = "model", "simulator"


@dataclass(frozen=True)
class NcclTunerOptions(NcclOptions):
    """Options of NCCL's tuner file.

    Parameters
    ----------
    by
        Whose times count: of NCCL's model, or of the simulator, which says nothing of protocols: there an
        algorithm's is the model's.

    Raises
    ------
    InputError
        As `NcclOptions`, and if `by` is neither.
    """

    OWNER: ClassVar[str] = "nccl-tuner"

    by: Annotated[str, Choice((MODEL, SIMULATOR))] = MODEL


@dataclass(frozen=True)
class OmpiRulesOptions(Options):
    """Options of Open MPI's rules; there are none."""

    OWNER: ClassVar[str] = "ompi-rules"


class Ompi(NamedTuple):
    """A collective's number in Open MPI, and for numbers of its algorithms the method that makes the same."""

    number: int
    algorithms: Mapping[int, tuple[str, Mapping[str, Any]]]


ONE_WAY = {"one_way": True}
OMPI: Mapping[Kind, Ompi] = {
    Kind.ALLGATHER: Ompi(0, {2: ("bruck", {}), 3: ("rhd", {}), 4: ("ring", ONE_WAY)}),
    Kind.ALLREDUCE: Ompi(2, {3: ("recursive_doubling", {}), 4: ("ring", ONE_WAY), 6: ("rhd", {})}),
    Kind.ALL_TO_ALL: Ompi(3, {1: ("direct", {}), 2: ("pairwise", {}), 3: ("bruck", {})}),
    Kind.REDUCE_SCATTER: Ompi(12, {2: ("rhd", {}), 3: ("ring", ONE_WAY)}),
}


class TunerRule(NamedTuple):
    """An algorithm for M of `low` to `high` bytes: its name and protocol, or its number and name."""

    low: int
    high: int
    takes: tuple[str, str]


@dataclass(frozen=True)
class Tuner:
    """The base of files of rules.

    Each has a name, which ``--format`` takes, the name of its file, the class of its options, and the
    variables of the environment by which the runtime loads the file.

    Parameters
    ----------
    topology, what
        The network and the collective.
    chosen
        Its options.
    """

    topology: Topology
    what: Collective
    chosen: Any

    def seconds(self, sizes: Sequence[int], method: Method, options: Any) -> FloatArray:
        """Return the simulated time of a method's verified schedules at all sizes."""
        made: dict[Fraction | None, Schedule] = {}
        times = []
        for size in map(Fraction, sizes):
            problem = Problem(self.topology, self.what, size)
            key = size if method.size_dependent(problem, options) else None
            if key not in made:
                method.supports(problem, options)
                made[key] = method.synthesize(problem, options, np.random.default_rng(0))
                verify(made[key])
            times.append(best_slices(made[key], size)[1])
        return np.array(times)


class NcclTuner(Tuner):
    """Rules for NCCL.

    Raises
    ------
    Unsupported
        If NCCL has no such collective, or the network no hosts, or the options leave nothing.
    """

    name, file, options = "nccl-tuner", "nccl_tuner.conf", NcclTunerOptions
    environment = "NCCL_TUNER_PLUGIN=libnccl-tuner-example.so NCCL_TUNER_CONFIG_FILE={}"

    @cached_property
    def cluster(self) -> NcclCluster:
        """The machine as NCCL sees it."""
        METHOD.supports(Problem(self.topology, self.what), self.chosen)
        return found(self.topology, self.chosen)[-1]

    def rules(self, sizes: Sequence[int]) -> list[TunerRule]:
        """Return the choice of NCCL's model, or of the simulator, at each size."""
        if self.chosen.by == MODEL:

            def takes(size: int) -> tuple[str, str]:
                every = reckoned(self.cluster, self.what.kind, Fraction(size), self.chosen)
                least = min(every, key=lambda one: one.micros)
                return str(least.algorithm), str(least.protocol)

            return _exact_ranges(takes, sizes, jumps(self.cluster))
        asked = [reckoned(self.cluster, self.what.kind, Fraction(size), self.chosen) for size in sizes]
        pairs = [(str(one.algorithm), str(one.protocol)) for one in asked[0]]
        times = np.array([[one.micros for one in row] for row in asked]).T
        for algorithm in dict(pairs):
            own = [place for place, pair in enumerate(pairs) if pair[0] == algorithm]
            given = replace(self.chosen, algorithm=algorithm, protocol=None)
            times[own] *= self.seconds(sizes, METHOD, given) / times[own].min(axis=0)
        return _ranges(sizes, times, pairs)

    def lines(self, rules: Sequence[TunerRule]) -> Iterator[str]:
        """Yield the lines of the CSV.

        The collective's name has no hyphen there. With 0 channels NCCL chooses; with -1 the plug-in sets one.
        """
        yield from (f"# {note}" for note in self.notes)
        yield "# collective_type,min_bytes,max_bytes,algorithm,protocol,channels,nNodes,nRanks"
        kind, ranks = self.what.kind.replace("-", ""), f"{self.cluster.hosts},{self.cluster.ranks}"
        for rule in rules:
            yield f"{kind},{rule.low},{rule.high},{','.join(rule.takes)},0,{ranks}"

    @property
    def notes(self) -> list[str]:
        """Notes on the times that decide, the assumed machine, and what the file does not cover."""
        whose = "its model" if self.chosen.by == MODEL else "simulated schedules"
        others = ", ".join(kind for kind in KINDS if kind is not self.what.kind)
        return [
            f"NCCL {VERSION}, by {whose}",
            f"assumed: {self.cluster}",
            f"the plug-in gives one channel to what has no line: add lines for {others}",
        ]


class OmpiTuner(Tuner):
    """Rules for Open MPI.

    Raises
    ------
    InputError
        If it has no such collective, or no algorithm for the network.
    """

    name, file, options = "ompi-rules", "ompi_rules.conf", OmpiRulesOptions
    environment = "OMPI_MCA_coll_tuned_use_dynamic_rules=1 OMPI_MCA_coll_tuned_dynamic_rules_filename={}"

    @cached_property
    def algorithms(self) -> list[tuple[str, Method, Any, str]]:
        """The number of each algorithm, its method with options, and why there is no schedule of it."""
        if self.what.kind not in OMPI:
            raise InputError(f"format '{self.name}' has {', '.join(OMPI)}; not {self.what.kind}")
        problem, every = Problem(self.topology, self.what), []
        for number, (name, given) in OMPI[self.what.kind].algorithms.items():
            method = find_method(name)
            options = method.options(**given)
            every.append((str(number), method, options, method.refusal(problem, options)))
        return every

    def rules(self, sizes: Sequence[int]) -> list[TunerRule]:
        """Return the fastest algorithm at each size, by simulated schedules."""
        if not (able := [one for one in self.algorithms if not one[-1]]):
            raise InputError(f"format '{self.name}' has no algorithm: {'; '.join(self.notes)}")
        times = np.array([self.seconds(sizes, method, options) for _, method, options, _ in able])
        return _ranges(sizes, times, [(number, method.name) for number, method, *_ in able])

    def lines(self, rules: Sequence[TunerRule]) -> Iterator[str]:
        """Yield the lines of the rules: of one collective on one number of ranks."""
        yield "1  # collectives"
        yield f"{OMPI[self.what.kind].number}  # {self.what.kind}"
        yield "1  # numbers of ranks"
        yield f"{self.topology.num_ranks}  # ranks"
        yield f"{len(rules)}  # sizes from which on: algorithm, fan-out, bytes of a segment"
        for rule in rules:
            yield f"{rule.low} {rule.takes[0]} 0 0  # {rule.takes[1]}"
        yield from (f"# {note}" for note in self.notes)

    @property
    def notes(self) -> list[str]:
        """The algorithms that are left out, as there is no schedule of them."""
        return [f"without {number}: {reason}" for number, *_, reason in self.algorithms if reason]


TUNERS: Mapping[str, type[NcclTuner | OmpiTuner]] = {form.name: form for form in (NcclTuner, OmpiTuner)}


def _exact_ranges(
    takes: Callable[[int], tuple[str, str]], sizes: Sequence[int], jumps: Sequence[int]
) -> list[TunerRule]:
    """Return what is taken, by the byte from the first size to the last.

    From one jump to the next times are linear in the size, so that the fastest at both ends is so between.
    """
    first, last = sizes[0], sizes[-1]
    within = {edge for jump in jumps if first < jump <= last for edge in (jump - 1, jump)}
    edges = sorted({first, last, *within})
    starts = [change for low, high in pairwise(edges) for change in _changes(takes, low, high)]
    lows, highs = [0, *starts], [*(start - 1 for start in starts), INT64_MAX]
    return [TunerRule(low, high, takes(max(low, first))) for low, high in zip(lows, highs, strict=True)]


def _changes(takes: Callable[[int], tuple[str, str]], low: int, high: int) -> Iterator[int]:
    """Yield the sizes up to `high` from which on something else is taken, from `low` on."""
    if takes(low) == takes(high):
        return
    if (middle := (low + high) // 2) == low:
        yield high
        return
    yield from _changes(takes, low, middle)
    yield from _changes(takes, middle, high)


def _ranges(sizes: Sequence[int], times: FloatArray, takes: Sequence[tuple[str, str]]) -> list[TunerRule]:
    """Return the fastest at each size, those of neighbouring sizes as one."""
    winners = choose(times, len(sizes))
    tuning = Tuning(np.array(sizes), [], times, np.zeros(len(sizes)), winners)
    every = [(*tuning.limits(winner), takes[winner.candidate]) for winner in winners]
    return [TunerRule(low, INT64_MAX if below is None else below - 1, taken) for low, below, taken in every]
