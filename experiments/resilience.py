"""What failures cost: a config with ``[failures]`` has a task for each sample of failed links or adapters.

Each method has three rows in a sample: its schedule of the whole network *rerouted* as a network does, the
same schedule *repaired* (`schedules.repair`), and a new one on what is left (``anew`` in the rows). The cost
is shown by quantiles over the samples of each number of failures, which `losses` has. `contents` has the
tables and charts of what the best schedule loses, and of what each method's loses.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from itertools import combinations, groupby
from math import comb
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

import altair as alt
import numpy as np
import pandas as pd
from pydantic import Field

from tutti.experiments.report.charts import (
    COLOUR,
    OPACITY,
    Drawn,
    Figure,
    named_rows,
    page_charts,
    specs_of,
    tips_of,
)
from tutti.experiments.report.results import Series
from tutti.experiments.report.tables import TEXTS, PageBlock, PageTable, Panel, Section, explained
from tutti.experiments.runner.config import Config, Placed, RunTable, Table, at
from tutti.experiments.runner.judge import ProvenBound, bound_columns, method_label, too_fast
from tutti.experiments.runner.plan import make_plan, time_limit
from tutti.experiments.runner.results import read_rows, task_key, typed
from tutti.experiments.runner.study import (
    JUDGE,
    Row,
    Study,
    Task,
    TaskOutcome,
    Workplace,
    matches,
    status_of,
)
from tutti.experiments.runner.tasks import Stopwatch, SynthesisTask
from tutti.models.bounds import own_bounds
from tutti.schedules.method import Method
from tutti.schedules.repair import fastest_repair, rerouted
from tutti.schedules.schedule import Schedule
from tutti.schedules.simulation.simulate import SimulationOptions, best_slices, simulate
from tutti.schedules.verify import verify
from tutti.topologies.errors import Disconnected, InputError, NoSchedule, TuttiError, Unsupported
from tutti.topologies.options import options_text
from tutti.topologies.text import parse_topology, with_words
from tutti.topologies.topology import Topology
from tutti.topologies.transforms import adapters, linked_pairs
from tutti.topologies.units import MICRO, exact_number, format_size

ALL = "all"
MOST_SAMPLES = 10**5
"""Most samples of one number of failures on one network."""
MOST_FAILURES = 10**6
"""Most failures of all these samples together."""
DISCONNECTED = "disconnected"
"""The status of a sample whose failures disconnect ranks."""
MADE = REROUTED, REPAIRED, ANEW = "rerouted", "repaired", "anew"
"""The column `made`: a method's schedule is rerouted or repaired, or a new one is made."""
COLUMNS = typed("""
    topology text, nodes int, switches int, links int, collective text, size_bytes int, kind text,
    failures int, failed text, left text, method text, options text, made text, status text, message text,
    time_us float, whole_us float, loss float, bound_us float, bound_kind text, gap float, changed int,
    transfers int, synth_s float
""")
"""Name and type of every column. The first columns describe ``topology`` before the failures. ``failures``
links or adapters (``kind``) fail, which ``failed`` lists, and ``left`` is the remaining network.
``whole_us`` is the time of the method's schedule on the whole network, ``loss`` is ``time_us / whole_us -
1``, and ``gap`` is to the bound of the remaining network. ``changed`` transfers of the schedule for the
whole network have another route. ``synth_s`` is the time that making the schedule took."""


class FailuresTable(Table):
    """``[failures]``: numbers of links or network adapters (``nics``) that fail together, sampled.

    There may be several such tables. Without `degrade` what fails is removed; with it its bandwidth is
    multiplied by that. `topologies` are shell patterns.
    """

    links: int | list[int] | None = None
    nics: int | list[int] | None = None
    samples: int | str = 100
    seed: int = Field(default=0, ge=0)
    degrade: Decimal | int | str | None = None
    topologies: list[str] | None = Field(default=None, min_length=1)


class Failures:
    """A checked ``[failures]`` table.

    Parameters
    ----------
    placed
        The table and where it stands.

    Raises
    ------
    InputError
        If its keys do not fit each other, or a value is out of range.
    """

    def __init__(self, placed: Placed[FailuresTable]) -> None:
        self.where, table = placed.where, placed.table
        self.what = "links" if table.nics is None else "nics"
        given = table.links if table.nics is None else table.nics
        if given is None or None not in (table.links, table.nics):
            raise InputError(f"{self.where}: give how many fail at once: links = [1, 2], or nics")
        self.counts = given if isinstance(given, list) else [given]
        if not self.counts or min(self.counts) < 1 or len(set(self.counts)) < len(self.counts):
            raise InputError(f"{self.where}: {self.what} = {given}; different whole numbers, at least 1")
        self.samples, self.seed, self.topologies = table.samples, table.seed, table.topologies
        number = isinstance(self.samples, int) and 1 <= self.samples <= MOST_SAMPLES
        if not number and self.samples != ALL:
            allowed = f"it is 1 to {MOST_SAMPLES} or {ALL!r}"
            raise InputError(f"{self.where}: samples = {self.samples!r}; {allowed}")
        asked = table.degrade
        self.factor = None if asked is None else at(f"{self.where}: degrade", exact_number, str(asked))
        if self.factor is not None and not 0 < self.factor < 1:
            raise InputError(f"{self.where}: degrade = {table.degrade}; it must be above 0 and below 1")

    @property
    def kind(self) -> str:
        """The parts that fail, as rows and charts say."""
        return self.what if self.factor is None else f"{self.what} at {self.factor} of their bandwidth"

    def is_for(self, text: str) -> bool:
        """Whether a pattern of its ``topologies`` matches a network."""
        return matches(text, self.topologies)

    def broken(self, topology: Topology, count: int) -> list[tuple[str, str]]:
        """Return what fails in each sample, and the text of what is left.

        Raises
        ------
        InputError
            If not so many can fail, or all combinations are too many.
        """
        pairs = at(self.where, linked_pairs if self.what == "links" else adapters, topology)
        name, asked = topology.name, f"{self.where}: {self.what} = {count}"
        if count > len(pairs):
            raise InputError(f"{asked}; {name} has {len(pairs)} that can fail")
        every = comb(len(pairs), count)
        if self.samples == ALL and every > MOST_SAMPLES:
            many = f"{self.where}: {count} of {len(pairs)} {self.what} fail on {name} in more than"
            raise InputError(f"{many} {MOST_SAMPLES} ways; give a number of samples")
        wanted = every if isinstance(self.samples, str) else min(self.samples, every)
        if wanted * count > MOST_FAILURES:
            most = f"at most {MOST_FAILURES} in all samples"
            raise InputError(f"{asked} in {wanted} samples on {name}; {most}")
        found = []
        for chosen in drawn(len(pairs), count, wanted, self.seed):
            names = ["-".join(topology.labels[node] for node in pairs[one]) for one in chosen]
            key = "drop_links" if self.factor is None else "degrade"
            words = names if self.factor is None else [f"{name}:{self.factor}" for name in names]
            found.append((",".join(names), with_words(topology.name, key, words)))
        return found


def drawn(number: int, count: int, samples: int, seed: int) -> list[tuple[int, ...]]:
    """Return different combinations of `count` of 0..number-1, at random; all if there are no more.

    Fewer samples are the first of more.

    Examples
    --------
    >>> sorted(drawn(3, 2, 5, seed=0))
    [(0, 1), (0, 2), (1, 2)]
    """
    every, rng = comb(number, count), np.random.default_rng([seed, count])
    if every <= MOST_SAMPLES:
        listed = list(combinations(range(number), count))
        return [listed[one] for one in rng.permutation(every)[:samples]]
    found: dict[tuple[int, ...], None] = {}
    while len(found) < samples:
        found[tuple(sorted(rng.choice(number, count, replace=False).tolist()))] = None
    return list(found)


TASK_FORMAT = "tutti.resilience/1"


@dataclass(frozen=True, kw_only=True)
class FailureTask(Task):
    """A sample: what fails, and the tasks of the methods on the whole network, for one size."""

    what: str
    count: int
    failed: str
    left: str
    size: int
    whole: tuple[SynthesisTask, ...]

    def __str__(self) -> str:
        return f"{self.left} {self.whole[0].collective}"

    @property
    def names(self) -> tuple[str, ...]:
        """The texts by which it is picked, as it is by the whole text."""
        return self.whole[0].topology, self.left, str(self.whole[0].collective)

    def rows(self, status: str, message: str = "") -> list[Row]:
        """Return one row with what is known without running it."""
        first = self.whole[0]
        known: Row = {"topology": first.topology}
        known |= {name: first.known[name] for name in ("nodes", "switches", "links")}
        known |= {"failed": self.failed, "left": self.left, "collective": str(first.collective)}
        known |= {"size_bytes": self.size, "kind": self.what, "failures": self.count}
        return [known | {"status": status, "message": message}]

    def run(self, place: Workplace) -> TaskOutcome:
        """Time what is made of each method's schedule; ranks that are cut off are a row too."""
        try:
            left = place.topology(self.left)
        except Disconnected as error:
            return TaskOutcome(DISCONNECTED, self.rows(DISCONNECTED, str(error)))
        rows = [row for one in self.whole for row in _rows(self, one, left, place)]
        size, made = Fraction(self.size), [row for row in rows if row["status"] == "ok"]
        bound = ProvenBound.of(left, self.whole[0].collective, size)
        for row in made:
            bound = bound.or_better(own_bounds(row.pop("schedule")), size)
        for row in made:
            row |= bound_columns(row["time_us"], bound)
            if too_fast(row):
                raise TuttiError(f"{row['method']}, {row['made']}: {row['time_us']:.9g} us beats the bound")
        return TaskOutcome("ok", rows)


_whole: dict[tuple[str, int], tuple[Schedule, int, float]] = {}
"""The schedule on the whole network, its slices and its time, by a task's key and size, in this process."""
MOST_WHOLE = 16


def _on_whole(task: SynthesisTask, size: int, place: Workplace) -> tuple[Schedule, int, float]:
    key = (task.key, size)
    if key not in _whole:
        if len(_whole) >= MOST_WHOLE:
            _whole.clear()
        made = task.best_on(place.topology(task.topology), size, place).schedule
        _whole[key] = made, *best_slices(made, Fraction(size))
    return _whole[key]


def _rows(task: FailureTask, one: SynthesisTask, left: Topology, place: Workplace) -> Iterator[Row]:
    """Yield the rows of a method with its schedules, timed, which are not set against a bound yet.

    What is changed stays in the slices that it was in.
    """
    size, known = Fraction(task.size), {"method": one.method, "options": options_text(one.options)}
    try:
        whole, slices, seconds = _on_whole(one, task.size, place)
    except (Unsupported, NoSchedule) as error:
        yield task.rows(status_of(error), str(error))[0] | known
        return
    in_slices = SimulationOptions(slices)
    for made in MADE:
        row = task.rows("ok")[0] | known | {"made": made, "whole_us": seconds * MICRO}
        try:
            if made == ANEW:
                found = one.best_on(left, task.size, place)
                schedule, took = found.schedule, found.synth_s
                time = best_slices(schedule, size)[1]
            else:
                place.notify(JUDGE)
                with Stopwatch() as watch:
                    again = made == REROUTED
                    schedule = rerouted(whole, left) if again else fastest_repair(whole, left, size, slices)
                verify(schedule)
                took, row["changed"] = watch.seconds, schedule.stats["changed"]
                time = simulate(schedule, size, in_slices).time
        except (Unsupported, NoSchedule) as error:
            yield row | {"status": status_of(error), "message": str(error)}
            continue
        row |= {"transfers": len(schedule), "synth_s": took, "time_us": time * MICRO, "schedule": schedule}
        yield row | {"loss": time / seconds - 1 if seconds else None}


def study_of(config: Config, methods: Mapping[str, Method]) -> Study:
    """Return the study of a config.

    Raises
    ------
    InputError
        As `make_plan`, and for failures that make no sense or are for none of the networks.
    """
    tasks, settings = list(_tasks(config, methods)), {"time_limit_s": time_limit(config)}
    return Study(config, tasks, config.table(RunTable, "run"), columns=COLUMNS, settings=settings)


def _tasks(config: Config, methods: Mapping[str, Method]) -> Iterator[FailureTask]:
    tables = [Failures(placed) for placed in config.tables(FailuresTable, "failures")]
    groups: dict[tuple[str, str, int], list[SynthesisTask]] = {}
    for task in make_plan(config, methods):
        for size in task.sizes:
            groups.setdefault((task.topology, str(task.collective), size), []).append(task)
    networks = {text: parse_topology(text) for text, _, _ in groups}
    idle = next((table for table in tables if not any(map(table.is_for, networks))), None)
    if idle is not None:
        raise InputError(f"{idle.where}: topologies = {idle.topologies} match none of the networks")
    for (text, _, size), whole in groups.items():
        limits = [task.memory for task in whole if task.memory is not None]
        for table in tables:
            for count in table.counts if table.is_for(text) else ():
                for failed, left in table.broken(networks[text], count):
                    yield FailureTask(
                        key=task_key(TASK_FORMAT, left, size, *(task.key for task in whole)),
                        time_limit=whole[0].time_limit,
                        memory=max(limits, default=None),
                        what=table.kind,
                        count=count,
                        failed=failed,
                        left=left,
                        size=size,
                        whole=tuple(whole),
                    )


BEST, BOUND = "best", "bound"
SHOWN = (*MADE, BOUND)
"""The rows of a table of losses, in order."""
HEADS = (
    *("method", "fail", "made", "samples", "median loss", "p90", "worst", "median gap", "worst gap"),
    "transfers changed",
)
"""The heads of such a table."""
CHART = "losses"
CASE = ["topology", "collective", "size_bytes", "kind"]


class FailureLosses(NamedTuple):
    """Losses of one number of failures, as shares of the time on the whole network.

    Parameters
    ----------
    method
        The method that made the schedules, or `BEST`: the fastest schedule on the whole network, rerouted and
        repaired, and the fastest new schedule of any method.
    failures, made, samples
        How many links or adapters fail, what is made then (one of `SHOWN`), and the number of samples.
    low, median, high, worst
        Quantiles 0.1, 0.5, 0.9 and 1 of the loss.
    gap, worst_gap
        Median and largest gap to the bound of the network that is left.
    changed
        Mean number of transfers with another route; NaN if all are new.
    """

    method: str
    failures: int
    made: str
    samples: int
    low: float
    median: float
    high: float
    worst: float
    gap: float
    worst_gap: float
    changed: float

    @property
    def cells(self) -> tuple[str, ...]:
        """The cells of its row, under `HEADS`."""
        shares = (self.median, self.high, self.worst, self.gap, self.worst_gap)
        changed = "" if math.isnan(self.changed) else f"{self.changed:.4g}"
        what = (self.method, str(self.failures), self.made, str(self.samples))
        return (*what, *map("{:.1%}".format, shares), changed)


class FailureCase(NamedTuple):
    """A network, a collective, a size and what fails: its lines, and the samples that cut ranks off."""

    topology: str
    collective: str
    size: int
    kind: str
    lines: tuple[FailureLosses, ...]
    disconnected: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.collective} on {self.topology}, {format_size(self.size)}, {self.kind} that fail"


def losses(rows: Iterable[Mapping[str, Any]]) -> list[FailureCase]:
    """Return what failures cost, case by case, in the order of the rows."""
    frame = pd.DataFrame([dict(row) for row in rows])
    cases = []
    for (topology, collective, size, kind), own in frame.groupby(CASE, sort=False) if len(frame) else ():
        done, cut = own[own.status == "ok"], own[own.status == DISCONNECTED]
        named = done[["method", "options"]].fillna("").to_dict("records")
        done = done.assign(label=list(map(method_label, named)))
        found = {}
        if len(done):  # the schedule that is fastest on the whole network, and the fastest new ones
            first, new = done.loc[done.whole_us.idxmin()], done[done.made == ANEW]
            new = new.loc[new.groupby("left", sort=False).time_us.idxmin()]
            new = new.assign(whole_us=first.whole_us, loss=new.time_us / first.whole_us - 1)
            found[BEST] = pd.concat([done[(done.label == first.label) & (done.made != ANEW)], new])
        found |= {str(label): group for label, group in done.groupby("label", sort=False)}
        lines = tuple(line for label, group in found.items() for line in _lines(label, group))
        said = tuple(cut.failed + ": " + cut.message)
        cases.append(FailureCase(topology, collective, int(size), kind, lines, said))
    return cases


def _lines(label: str, rows: pd.DataFrame) -> Iterator[FailureLosses]:
    """Yield the quantiles of a method's rows, and of the bound of what is left in each sample."""
    left = rows.drop_duplicates("left")
    bound = left.assign(made=BOUND, loss=left.bound_us / left.whole_us - 1, gap=0.0, changed=None)
    every = pd.concat([rows, bound]).assign(made=lambda all_rows: pd.Categorical(all_rows.made, SHOWN))
    for (failures, made), own in every.groupby(["failures", "made"], observed=True):
        low, median, high, worst = own.loss.quantile([0.1, 0.5, 0.9, 1])
        changed = own.changed.astype(float).mean()
        shares = (low, median, high, worst, own.gap.median(), own.gap.max())
        yield FailureLosses(label, int(failures), made, len(own), *shares, changed)


def contents(directory: Path) -> dict[str, Any]:
    """Return the contents of the page of a folder of results.

    Raises
    ------
    InputError
        If the rows can't be read.
    """
    texts = TEXTS["resilience"]
    series = [Series(number, made, "", "", made) for number, made in enumerate(SHOWN)]
    words = Section("What the words are", words=explained(texts["words"]))
    return {
        "title": f"Failures, {directory.name}: tutti",
        "heading": f"What failures cost: {directory.name}",
        "lead": texts["lead"],
        "sections": [*map(_section, losses(read_rows(directory))), words],
        "charts": page_charts(specs_of({CHART: _chart()}), series),
    }


def _section(case: FailureCase) -> Section:
    """Return what the page says of a case: of the best schedule, then of each method's."""
    groups = groupby(case.lines, attrgetter("method"))
    cut = case.disconnected
    said = [f"{len(cut)} samples cut ranks off, and are not counted: {'; '.join(cut)}."] if cut else []
    return Section(str(case), [_block(case, label, list(lines)) for label, lines in groups], said)


def _block(case: FailureCase, label: str, lines: list[FailureLosses]) -> PageBlock:
    best = label == BEST
    heads = [f"{head}{'#' * (place != 1)}" for place, head in enumerate(HEADS[1:])]
    title = TEXTS["resilience"]["best"] if best else label
    table = PageTable.of("losses", [("", line.cells[1:]) for line in lines], heads, case=case, method=title)
    data = pd.DataFrame(lines)
    name, place = data.failures.map("{} fail".format), data.made.map(SHOWN.index)
    shares = 100 * data[["low", "median", "high", "worst"]]
    data = shares.assign(name=name, method=data.made, series=place)
    panel = Panel("", "", Figure(CHART, f"loss of {case}, {label}", data=data))
    return PageBlock("losses", title, "", [table], [panel], folded=not best, looks="two")


def _chart() -> Drawn:
    """Return bars from the tenth to the ninetieth percentile, with the median and the worst."""
    across = alt.X("low:Q", title="time over that on the whole network, less 1 (%)")
    lane = alt.YOffset("method:N", sort=list(SHOWN))
    base = named_rows().encode(alt.Y("name:N", title=None, sort=None), lane, COLOUR, opacity=OPACITY)
    shares = (f"{column}:Q|{column}|.1f" for column in ("low", "median", "high", "worst"))
    tips = tips_of("method:N|made", "name:N|links or adapters", *shares)
    return alt.layer(
        base.mark_rule(strokeWidth=1).encode(across, x2="worst:Q"),
        base.mark_bar(height=6, opacity=0.55).encode(across, x2="high:Q", tooltip=tips),
        base.mark_tick(thickness=3, height=11).encode(x="median:Q", tooltip=tips),
        base.mark_point(filled=True, size=22).encode(x="worst:Q", tooltip=tips),
    ).properties(height=alt.Step(14))
