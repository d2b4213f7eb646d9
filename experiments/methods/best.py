"""The portfolio `best`: many methods on one problem, the fastest verified schedule at its size.

Methods are tried one after the other until there is no time left or the fastest is near enough to the proven
bound: those that make steps, trees and matching, then those that search, then the exact ones. Methods whose
time has a closed form (`Method.estimate`) share their places in this order, the fastest first; one whose
closed form is many times the fastest so far is skipped. Each gets at most 3/5 of the time left. While there
is no schedule, it gets nine tenths, and an overtime is added. A method that improves schedules starts from
the fastest so far. It is tried twice, the second time with all the time left. An allreduce through switches
is also composed of the fastest halves. One that does not handle the problem, or finds nothing legal, is
passed over; what each did is kept in ``stats["tried"]``.

Methods run in a copy of this process, which is killed if one exceeds its time (`topologies.apart`). Ctrl-C
ends the search, and the fastest schedule so far is raised (`Interrupted`).

Seeds are tasks of the runner, but these methods are not, because a method depends on those before it: on
whether they are near enough to the bound, and on the time that they left. If it improves schedules, it also
depends on the fastest one.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np

from tutti.experiments.methods.calling import CallingOptions
from tutti.models.bounds import Bound, FoundBounds, each_bound, own_bounds
from tutti.schedules.collective import Kind
from tutti.schedules.compose import from_allgather
from tutti.schedules.groups import by_groups, limited, parts_of, together
from tutti.schedules.method import Method, Problem
from tutti.schedules.schedule import Schedule
from tutti.schedules.simulation.simulate import best_slices
from tutti.schedules.verify import verify_answer
from tutti.topologies.apart import Apart
from tutti.topologies.errors import InputError, Interrupted, NoSchedule, TuttiError, Unsupported
from tutti.topologies.exact import ROUNDING
from tutti.topologies.interruption import OutOfTime, within
from tutti.topologies.kernels import COMPILATION
from tutti.topologies.options import Duration, Names, Number
from tutti.topologies.processes import CallEnd
from tutti.topologies.progress import tell
from tutti.topologies.units import MICRO, duration

DEFAULT_SECONDS, DEFAULT_GAP = "60s", 5e-3


class Budget(NamedTuple):
    """Numbers that divide the time among the methods, and decide which methods are left out."""

    share: float
    """Largest fraction of the remaining time that a method gets. A larger value lets slow methods end, and
    fewer methods are tried."""
    first_share: float
    """The same fraction before there is a schedule."""
    last_share: float
    """Fraction of the remaining time that the last method may use. With a larger value it may be killed, and
    its result is then lost."""
    proving: float
    """Largest fraction of the time limit that lower bounds get before the first method. A larger value leaves
    methods less. Bounds that take longer are found while methods run; at the end they get this time again.
    """
    program: float
    """Fraction of the time limit that the linear program gets among those bounds. With a larger value it
    proves more, and may come too late."""
    least_seconds: float
    """Shortest time limit of any step. With a larger value a short limit may be exceeded by more."""
    least_overtime: float
    """While there is no schedule, the time limit is extended by itself, or by this many seconds if that is
    more. With a larger value a schedule is found more often, and the answer may come later."""
    grace_seconds: float
    """A method that keeps its own limit is killed this many seconds after it. A larger value spares more."""
    hopeless: float
    """A method is left out if its closed form is more than this many times the fastest schedule so far. A
    larger value tries more methods that are unlikely to be the fastest."""
    long: float
    """The α are small if the proven bound is more than this many times the largest. With a larger value
    methods of few messages are tried early more often."""
    lost: float
    """If compiling kernels and loading libraries takes more than this fraction of the time limit, a note says
    so. A larger value says it less often."""


BUDGET = Budget(
    share=0.6,
    first_share=0.9,
    last_share=0.95,
    proving=0.1,
    program=0.3,
    least_seconds=0.1,
    least_overtime=5.0,
    grace_seconds=0.5,
    hopeless=4.0,
    long=100.0,
    lost=0.2,
)
QUICK = (
    *("torus_rings", "shifted_ring", "ring", "recursive_doubling", "rhd", "swing", "bruck", "pairwise"),
    *("shortest_path_all_to_all", "one_shot_allreduce", "de_bruijn_allreduce", "direct", "hierarchical"),
    *("sharp", "birkhoff", "nccl", "rails", "bfb", "expansion"),
)
TREES_AND_FLOWS = ("blueconnect", "themis", "ccube", "multitree", "forestcoll", "mcf", "tacos")
FEW_MESSAGES = ("min_latency", "recursive_hybrid", "windowed_mcf", "local_search")
LITTLE_DATA = ("allreduce_trees", "allreduce_epochs", "list_scheduling", "allreduce_lp", "blink", "tto")
SELDOM = ("dbt", "nccl_like", "cp_allreduce", "sccl", "taccl")
"""Methods that take long or are seldom the fastest."""
ORDER = (*QUICK, *TREES_AND_FLOWS, *FEW_MESSAGES, *LITTLE_DATA, *SELDOM, "local_search")
"""The order of the methods: quick ones first, then those that use all the time that they get. The local
search comes twice, as it improves the fastest schedule."""
ORDER_OF_LONG = (*QUICK, *TREES_AND_FLOWS, *LITTLE_DATA, *FEW_MESSAGES, *SELDOM)
"""All but the last where α is little: little data on the links matters more than few messages."""
ORDER_OF_SHORT = (*QUICK, "min_latency", *TREES_AND_FLOWS, *FEW_MESSAGES, *LITTLE_DATA, *SELDOM)
"""All but the last behind switches, where messages hold ports for α, if it is not."""
EARLY = {*QUICK, *TREES_AND_FLOWS, "min_latency"}
"""After these an allreduce is composed of its halves."""
VARIANTS: Mapping[str, Sequence[Mapping[str, Any]]] = {
    "rhd": ({}, {"distance": "halving"}),
    "swing": ({}, {"version": "latency"}),
    "shortest_path_all_to_all": (
        {"chunks": 1, "search_effort": 0},
        {"chunks": 1, "search_effort": 0, "reroutes": 1, "min_steps": True},
        {},
    ),
    "nccl": ({}, {"algorithm": "nvls"}, {"algorithm": "nvls_tree"}),
    "forestcoll": ({}, {"trees": 1}),
    "tacos": ({}, {"chunks": 4}),
    "taccl": ({}, {"sketch": "ndv2-sk-1"}, {"sketch": "dgx2-sk-1"}),
}
"""Options with which a method is tried, one set after the other; {} stands for its defaults."""
OUT_OF_TIME = ENDED, LATE = "out of time", "no time left"
SLOWER = "its closed form is "
"""Start of the reason why a method was skipped: it would be much slower than the fastest so far."""
NEAR_ENOUGH = MET, NEAR = "the proven bound is met", "near enough to the proven bound"
"""Reasons why a method was not tried: the fastest schedule is good enough."""
INTERRUPTED = "interrupted before all methods were tried"
"""Note on the fastest schedule so far, if Ctrl-C ended the search."""
PARTS, HALVES = "the best of each part", "the best of both halves"
"""Names in `Tried.method` that are no methods. `PARTS` is tried first for a mixed collective; `HALVES` is for
an allreduce, after the quick methods."""


@dataclass(frozen=True)
class BestOptions(CallingOptions):
    """Options of the portfolio.

    Parameters
    ----------
    time_limit
        A time with its unit. When it has passed and there is a schedule, no other method is begun, and the
        running one is ended after the kernel that it may be compiling.
    methods
        Methods that are tried, in this order; empty: all sensible ones.
    stop_at_gap
        No other method is tried once the gap to the proven bound is at most this fraction.

    Raises
    ------
    InputError
        If the time is none, a method is not a name, or the gap is negative.
    """

    OWNER: ClassVar[str] = "best"
    CALLED: ClassVar[str] = "methods"

    time_limit: Annotated[str, Duration("60s")] = DEFAULT_SECONDS
    methods: Annotated[tuple[str, ...], Names()] = ()
    stop_at_gap: Annotated[float, Number(least=0, words="it must be 0 or more, such as 0.005")] = DEFAULT_GAP


@dataclass(frozen=True)
class PortfolioEntry:
    """A method with the options that are not its defaults; the last one gets all the time that is left."""

    method: Method
    given: Mapping[str, Any] = field(default_factory=dict)
    last: bool = False
    expected: float | None = None
    """The seconds of its closed form, infinite if it does not handle the problem; None: it has none."""

    @property
    def label(self) -> str:
        """The method's name and these options."""
        return " ".join([self.method.name, *(f"{name}={value}" for name, value in self.given.items())])

    @property
    def options(self) -> Any:
        """The method's options: its fast way, and those given."""
        return self.method.options(**{**self.method.fast, **self.given})

    def estimated(self, problem: Problem) -> PortfolioEntry:
        """Return the entry with the seconds of its closed form."""
        if self.method.estimate is None:
            return replace(self, expected=None)
        try:
            self.method.supports(problem, self.options)
            return replace(self, expected=self.method.estimate(problem, self.options))
        except TuttiError:
            return replace(self, expected=math.inf)


class Tried(NamedTuple):
    """The result of one method: simulated seconds (infinite: no schedule), seconds that it took, and why."""

    method: str
    seconds: float
    took: float
    why: str = ""

    @property
    def document(self) -> dict[str, Any]:
        """The same in plain words, times in microseconds and seconds."""
        known: dict[str, Any] = {"method": self.method, "took_s": self.took}
        return known | ({"why": self.why} if self.why else {"time_us": self.seconds * MICRO})


def portfolio(methods: Mapping[str, Method]) -> Method:
    """Return the method `best` over these methods."""
    return Method(
        name="best",
        kind="heuristic",
        synthesize=lambda problem, options, rng: fastest(problem, _chosen(methods, options), options, rng),
        options=BestOptions,
        size_dependent=lambda problem, options: True,
        seeded=True,
        quick={"time_limit": "10s"},
        summary="the fastest schedule of all sensible methods within a time budget",
    )


def fastest(
    problem: Problem, entries: Sequence[PortfolioEntry], options: BestOptions, rng: np.random.Generator
) -> Schedule:
    """Return the schedule of least simulated time at the problem's size, verified.

    Parameters
    ----------
    problem
        The problem, with a size.
    entries
        In the order in which they are tried.
    options
        For how long, and how near to the proven bound is near enough.

    Raises
    ------
    NoSchedule
        If no method found one.
    """
    budget, compiling = options.seconds, COMPILATION.seconds
    search = _PortfolioSearch(problem, options.stop_at_gap, budget, rng)
    long = search.bound > BUDGET.long * float(max(problem.topology.alpha))
    if not options.methods and (long or problem.topology.num_switches):
        order = (ORDER_OF_LONG if long else ORDER_OF_SHORT).index
        entries = [*sorted(entries[:-1], key=lambda entry: order(entry.method.name)), entries[-1]]
    search.entries = by_estimate(problem, entries)
    stopped = _stopped(search)
    compiling = COMPILATION.seconds - compiling
    if search.best is None:
        reasons = "; ".join(f"{one.method}: {one.why}" for one in search.tried if one.why != LATE)
        ended = any(one.why in OUT_OF_TIME for one in search.tried)
        more = f" in {options.time_limit} and overtime; give it a longer time_limit" if ended else ""
        raise NoSchedule(f"best: no method has a schedule of this{more} ({reasons})")
    proven = FoundBounds(problem, tuple(search.found), search.all_found)
    found: dict[str, Any] = {"tried": tuple(search.tried), "bounds": tuple(search.bounds), "found": proven}
    if search.alone:
        found["alone"] = search.alone
    if compiling > BUDGET.lost * budget and not search.met:
        once = f"compiling kernels and loading libraries took {compiling:.0f} s, which only a first run does"
        known = search.best.stats.get("note")
        found["note"] = f"{f'{known}; ' if known else ''}{once}; run it again to try more methods"
    made = search.best.replace(stats={**search.best.stats, **found})
    if stopped is not None:
        raise Interrupted(made) from stopped
    return made


def _stopped(search: _PortfolioSearch) -> KeyboardInterrupt | None:
    """Try all methods; return what stopped it, if there is a schedule by then."""
    slow = next((entry for entry in search.entries if entry.method.name not in EARLY), None)
    try:
        with search.proving(), Apart(_Performer(search.problem, search.entries)) as search.apart:
            search.attempt_parts()
            for entry in search.entries:
                if entry is slow:
                    search.attempt_halves()
                search.attempt(entry)
    except KeyboardInterrupt as stop:
        if search.best is None:
            raise
        note = "; ".join(filter(None, [search.best.stats.get("note"), INTERRUPTED]))
        search.best = search.best.replace(stats={**search.best.stats, "note": note})
        return stop
    return None


class _Attempt(NamedTuple):
    """A request to a method: its label, a problem, its options, a schedule to improve, and randomness."""

    label: str
    problem: Problem
    options: Mapping[str, Any]
    given: Schedule | None
    rng: np.random.Generator


class _AttemptResult(NamedTuple):
    """A verified schedule and its simulated seconds, or why there is none; and the state of randomness."""

    rng: Mapping[str, Any]
    schedule: Schedule | None = None
    seconds: float = math.inf
    why: str = ""


class _Performer:
    """Makes attempts in the process of `Apart`. Equal problems become one object."""

    def __init__(self, problem: Problem, entries: Sequence[PortfolioEntry]) -> None:
        self.problems, self.methods = [problem], {entry.label: entry.method for entry in entries}

    def __call__(self, attempt: _Attempt) -> _AttemptResult:
        """Return the result of an attempt."""
        problem = next((known for known in self.problems if known == attempt.problem), None)
        if problem is None:
            problem = attempt.problem
            self.problems.append(problem)
        method, rng = self.methods[attempt.label], attempt.rng
        try:
            options = method.options(**attempt.options)
            method.supports(problem, options)
            if method.improve is not None and attempt.given is not None:
                made = method.improve(problem, attempt.given, options, rng)
            else:
                made = method.synthesize(problem, options, rng)
            schedule = verify_answer(made, problem, method.name)
            seconds = best_slices(schedule, problem.size or Fraction(1))[1]
        except Exception as error:  # noqa: BLE001 (one attempt's fault is not the others')
            return _AttemptResult(rng.bit_generator.state, why=_told(error))
        return _AttemptResult(rng.bit_generator.state, schedule, seconds)


def by_estimate(problem: Problem, entries: Sequence[PortfolioEntry]) -> list[PortfolioEntry]:
    """Return the entries in the order in which they are tried.

    Those whose time has a closed form share their places, the fastest first; the others keep theirs.
    """
    known = [entry.estimated(problem) for entry in entries]
    timed = [(entry.expected, place) for place, entry in enumerate(known) if entry.expected is not None]
    order = list(range(len(known)))
    for (_, place), (_, chosen) in zip(timed, sorted(timed), strict=True):
        order[place] = chosen
    return [known[place] for place in order]


class _PortfolioSearch:
    """The fastest schedule so far, all bounds that methods proved on the way, and what became of each."""

    apart: Apart
    """The process in which methods run."""
    entries: Sequence[PortfolioEntry]
    """The methods, in the order in which they are tried."""
    whole: _PortfolioSearch | None = None
    """The search whose part this is, which `part` names."""
    part = ""
    ended = False
    """Whether the search ends at its time limit even without a schedule."""

    def __init__(self, problem: Problem, gap: float, budget: float, rng: np.random.Generator) -> None:
        self.until, self.rng = time.monotonic() + budget, rng
        self.overtime = max(budget, BUDGET.least_overtime)
        self.problem, self.size = problem, problem.size or Fraction(1)
        self.enough = 1 + max(gap, ROUNDING)
        self.bound, self.bounds, self.found, self.all_found = 0.0, list[Bound](), list[Bound](), False
        self.first = max(BUDGET.proving * budget, BUDGET.least_seconds)
        with suppress(OutOfTime), within(self.first):
            self.found.extend(each_bound(problem.topology, problem.collective, self.size))
            self.all_found = True
        self._raise_bound(self.found)
        self.best: Schedule | None = None
        self.seconds = math.inf
        self.tried: list[Tried] = []
        self.alone: tuple[float, ...] = ()

    def _raise_bound(self, proven: Sequence[Bound]) -> None:
        """Raise the bound on the whole to the largest of these."""
        self.bound = max([self.bound, *(float(bound.time(self.size)) for bound in proven)])

    @contextmanager
    def proving(self) -> Iterator[None]:
        """Find the bounds that took too long in another copy of this process, and take them at the end."""
        seconds = self.first * BUDGET.program / BUDGET.proving

        def find(known: Sequence[Bound]) -> list[Bound]:
            problem = self.problem
            return list(each_bound(problem.topology, problem.collective, self.size, seconds, known))

        with Apart(find) as prover:
            if not self.all_found:
                prover.begin(self.found, self.first)
            yield
            if not (self.all_found or self.met) and (ended := prover.answer()).how is CallEnd.ANSWER:
                self.found, self.all_found = ended.answer[0], True
                self._raise_bound(self.found)

    def attempt_parts(self) -> None:
        """Put the fastest schedules of a mixed collective's parts together, found in half of the time."""
        what, topology = self.problem.collective, self.problem.topology
        if not what.parts:
            return
        seconds = BUDGET.share * (self.until - time.monotonic()) / len(what.parts)
        alone = [Problem(topology, part, self.size * share) for share, part in parts_of(what)]

        def run() -> float:
            found = [self._part(each, seconds, each.collective.kind) for each in alone]
            made = verify_answer(together(what, found, self.size), self.problem, "best")
            return self._judged(_composed(PARTS, found), made)

        self._attempted(PARTS, run)

    def attempt_halves(self) -> None:
        """Compose an allreduce through switches of the fastest halves, found in half of the time left."""
        topology, seconds = self.problem.topology, BUDGET.share * (self.until - time.monotonic()) / 2
        able = self.problem.collective.kind is Kind.ALLREDUCE and topology.num_switches > 0
        if not able or self._over() or self.best is None or seconds < BUDGET.least_seconds:
            return

        halves: list[Schedule] = []

        def half(problem: Problem) -> Schedule:
            turned = problem.topology is not topology  # a reduce-scatter is made so
            kind = Kind.REDUCE_SCATTER if turned else Kind.ALLGATHER
            halves.append(self._part(problem, seconds, kind, ended=True))
            return halves[-1]

        def run() -> float:
            # What halves prove, and their times alone, are not the whole's.
            made = from_allgather(self.problem, half).replace(stats={})
            return self._judged(_composed(HALVES, halves), verify_answer(made, self.problem, "best"))

        self._attempted(HALVES, run)

    def _part(self, problem: Problem, seconds: float, kind: Kind, *, ended: bool = False) -> Schedule:
        """Return the fastest schedule of a part, whose kind is said."""
        search = _PortfolioSearch(problem, self.enough - 1, seconds, self.rng)
        search.apart, search.whole, search.part, search.ended = self.apart, self, f"the {kind} alone", ended
        for entry in by_estimate(problem, self.entries):
            search.attempt(entry)
        if search.best is None:
            raise NoSchedule(f"a part has no schedule: {problem.collective.kind}")
        return search.best

    def attempt(self, entry: PortfolioEntry) -> None:
        """Try a method, unless no time is left or the fastest schedule is near enough."""
        if why := self._over() or self._hopeless(entry):
            self.tried.append(Tried(entry.label, math.inf, 0.0, why))
            return
        tell(self._under_way(entry.label))

        def run() -> float:
            seconds = max(self._end() - time.monotonic(), BUDGET.least_seconds)
            options, left = self._within_budget(entry, seconds)
            start = None if entry.method.improve is None else self.best  # it may have millions of transfers
            attempt = _Attempt(entry.label, self.problem, dict(vars(options)), start, self.rng)
            ended = self.apart.call(attempt, None if math.isinf(left) else left)
            if ended.how is not CallEnd.ANSWER:
                raise NoSchedule(ENDED if ended.how is CallEnd.TIME else f"its process died ({ended.cause})")
            made: _AttemptResult = ended.answer
            self.rng.bit_generator.state = made.rng
            if made.schedule is None:
                raise NoSchedule(made.why)
            return self._judged(entry.label, made.schedule, made.seconds)

        self._attempted(entry.label, run)

    def _attempted(self, label: str, run: Callable[[], float]) -> None:
        """Keep what became of an attempt, which returns simulated seconds."""
        began, seconds, why = time.monotonic(), math.inf, ""
        try:
            seconds = run()
        except Exception as error:  # noqa: BLE001 (one attempt's fault is not the others')
            why = _told(error)
        self.tried.append(Tried(label, seconds, time.monotonic() - began, why))

    def _under_way(self, label: str) -> str:
        """Return what is tried now, and what there is so far: of a part, and of the whole that it is for."""
        if self.whole is None:
            return f"{label}{self.so_far('so far')}"
        found = self.so_far(f"{self.part} so far")
        return f"{self.part}: {label}{found}{self.whole.so_far('the whole so far')}"

    def so_far(self, what: str) -> str:
        """Return the fastest schedule as words, and how far it is from what is proven; or nothing."""
        if self.best is None:
            return ""
        over = f", {self.seconds / self.bound - 1:.1%} over its bound" if self.bound else ""
        return f"; {what} {duration(self.seconds * MICRO)} by {self.best.stats['algorithm']}{over}"

    @property
    def met(self) -> bool:
        """Whether the fastest schedule is near enough to what is proven."""
        return self.seconds <= self.bound * self.enough

    def _over(self) -> str:
        """Return why no other method is tried; empty: one is."""
        if self.met:
            return MET if self.seconds <= self.bound * (1 + ROUNDING) else NEAR
        return LATE if time.monotonic() > self._end() else ""

    def _hopeless(self, entry: PortfolioEntry) -> str:
        """Return that a method's closed form is much slower than the fastest so far; empty: it is not."""
        slower = (entry.expected or 0.0) / self.seconds if self.best is not None else 0.0
        return f"{SLOWER}{slower:.3g} times the fastest so far" if BUDGET.hopeless < slower < math.inf else ""

    def _end(self) -> float:
        """Return the latest start of a method: the end of the time, or of the overtime without a schedule."""
        return self.until + (0.0 if self.ended or self.best is not None else self.overtime)

    def _within_budget(self, entry: PortfolioEntry, left: float) -> tuple[Any, float]:
        """Return a method's options, and when it is killed: later if it keeps a limit itself."""
        own, most = entry.options, left * (BUDGET.first_share if self.best is None else BUDGET.share)
        options = limited(own, most)
        if self.best is None and self.ended:
            return options, left
        if entry.last and entry.method.improve is not None:
            return replace(own, time_limit=f"{BUDGET.last_share * left:.3f}s"), left + BUDGET.grace_seconds
        return options, left + BUDGET.grace_seconds if options is not own else most

    def _judged(self, label: str, schedule: Schedule, seconds: float | None = None) -> float:
        """Keep a verified schedule if it is the fastest, and what it proves; return its seconds."""
        if seconds is None:
            seconds = best_slices(schedule, self.size)[1]
        own = own_bounds(schedule)
        self._raise_bound(own)
        self.bounds += own
        alone = schedule.stats.get("alone", self.alone)
        self.alone = tuple(map(min, alone, self.alone or alone))
        if seconds < self.seconds:
            best = schedule.replace(stats={**schedule.stats, "algorithm": label})
            self.seconds, self.best = seconds, best  # in one statement: the time may end between two
        return seconds


def _composed(what: str, parts: Sequence[Schedule]) -> str:
    """Return what a schedule is composed of, and the methods that made its parts, in order."""
    return f"{what}: {', '.join(part.stats['algorithm'] for part in parts)}"


def _told(error: Exception) -> str:
    """Return why a method made nothing legal: it refuses, numbers outgrow it, or it is at fault."""
    if isinstance(error, Unsupported | NoSchedule | InputError):
        return str(error)
    return f"a fault: {type(error).__name__}: {error}"


def _chosen(methods: Mapping[str, Method], options: BestOptions) -> list[PortfolioEntry]:
    """Return the methods to try, in order, each with its variants."""
    named = [replace(method, estimate=None) for method in options.chosen(methods)]  # in the caller's order
    entries = [
        PortfolioEntry(by_groups(method), given)
        for method in named or [methods[name] for name in ORDER if name in methods]
        for given in VARIANTS.get(method.name, ({},))
    ]
    return [*entries[:-1], replace(entries[-1], last=True)]
