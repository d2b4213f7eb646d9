r"""Statistics of a study: means, profiles, primal integrals, gaps left, and how solvers compare.

The shifted geometric mean of seconds t_1, ..., t_n with shift s is exp(mean of log(t_i + s)) - s; small times
then count little. A performance profile (Dolan and Moré 2002) tells for each ratio τ the share of problems
that a solver solves within τ times the least time of any solver. A problem is one instance with one seed.
A solver that reached a limit, failed, or gave a wrong answer is charged the limit in means, and has not
solved it.

Mixed-integer programs have a primal gap, too. With p(t) the incumbent at time t and p* the best known value
it is

.. math::

    γ(t) = 0 \text{ if } p(t) = p^*, \quad 1 \text{ before the first incumbent or if } p(t) p^* < 0, \quad
    \frac{|p(t) - p^*|}{\max(|p(t)|, |p^*|)} \text{ else},

and the primal integral its integral from 0 to the limit (Berthold, Measuring the impact of primal heuristics,
Operations Research Letters 41, 2013, section 2). Here p* is the best incumbent of any solver that own
arithmetic confirmed. An incumbent beyond it, by a grid's or a tolerance's rounding, has gap 0.

A solver may not have run all problems of a study: a licence is for small programs, a solver has one thread,
or its presolve has a fault on some. So solvers are compared in groups that ran the same problems
(`comparable`): by intervals of their differences, pairwise wins, PAR10, and the virtual best.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import chain, combinations, pairwise, permutations
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import bootstrap

from tutti.experiments.report.results import LOOKS, Row, frame_of
from tutti.experiments.report.standings import shifted_geometric_mean
from tutti.experiments.report.tables import Cell, PageTable, number, seconds
from tutti.experiments.runner.results import typed
from tutti.topologies.exact import FloatArray

COLUMNS = typed("""
    topology text, nodes int, switches int, links int, collective text, model text, builder text,
    method text, solver text, options text, seed int, status text, message text, termination text,
    solution_status text, objective float, certified_lower float, certified_upper float,
    certified_exact text, certified_by text, bound float, worth float, feasible bool,
    relative_error float, answer text, variables int, integers int, maximize bool, constraints int,
    nonzeros int, iterations int, build_s float, solve_s float, cpu_s float, timed_s float,
    primal_integral float, trace text, certify_s float, peak_rss_mb float, limit_s float, limit_mb float,
    log text, threads int, tolerance float, tree_nodes int, integrality float, violation float
""")
"""Name and type of every column, in order; those that other runs have too mean the same.

``method`` is the label of the solver with its options, ``solver`` the back-end with its version. ``status``
is ok, timeout (a limit reached), grid (optimal on a solver's own grid only), unsupported (not installed) or
failed. ``certified_lower`` and ``certified_upper`` bound the optimum of the instance, by all that any row
proved; ``certified_exact`` is the fraction where they meet. ``relative_error`` is how far the objective lies
outside of them, and ``answer`` is right, wrong, agreed (by two back-ends) or unproven (by nothing).
``timed_s`` is what means and profiles count: ``solve_s`` or ``cpu_s``, as the config says. ``log`` is the
file of the solver's log. ``tolerance`` is the solver's, of feasibility and optimality. ``violation`` is the
largest amount by which the values exceed a side of a row or column, over 1 or the side if that is larger.

Only mixed-integer programs have these: ``integers`` are their whole columns, ``bound`` is the solver's,
``worth`` the incumbent's objective in own arithmetic and ``feasible`` whether it keeps all rows there.
``trace`` is a JSON list of [seconds, incumbent, bound], and ``primal_integral`` that of Berthold, in seconds.
``tree_nodes`` are those of branch and bound (CP-SAT's branches), and ``integrality`` is the largest distance
of a whole column's value from a whole number."""
Point = tuple[float, float | None, float | None]
"""Seconds, incumbent, bound."""

SHIFT = 1.0
"""Seconds."""
MIXED_SHIFT = 10.0
"""The same where mixed-integer programs are solved."""
LEAST_SECONDS = 1e-3
"""Times below are measured too coarsely to be compared: in profiles they count as this."""
SIZES: tuple[tuple[str, float], ...] = (("small", 1e4), ("medium", 1e5), ("large", math.inf))
"""Classes of instances by the nonzeros that they stay below."""
SAME = 1.1
"""Means whose quotient is less tell no solvers apart."""
TOLERANCE = 1e-6
"""Largest relative distance of a correct objective from the proven interval, or between two that agree."""
MIXED_TOLERANCE = 1e-5
"""The same for mixed-integer programs, whose solvers satisfy rows and integrality to 1e-6."""
NOT_RUN = "unsupported"


PROBLEM = ["model", "topology", "seed"]


def instance_of(row: Mapping[str, Any]) -> tuple[str, str]:
    """Return the model and the topology of a row."""
    return row["model"], row["topology"]


def study_frame(rows: pd.DataFrame | Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    """Return the rows of a study with what its statistics count of each; a frame of them as it is.

    Returns
    -------
    DataFrame
        Further columns are `program`, "MODEL TOPOLOGY", and its `size` class where it is known; whether a row
        `ran`, is `wrong`, or `solved` its problem within its limits and not wrong; the seconds `taken` by the
        study's clock, and those `charged` in means. Of mixed-integer programs they are the `best_known`
        objective that was confirmed, whether the row's confirmed incumbent `has_best`, its primal integral as
        a `part` of the limit, and the `gap` left, |incumbent - bound| over the larger, which is 1 where one
        is missing or the answer wrong.
    """
    if isinstance(rows, pd.DataFrame):
        return rows
    frame = frame_of(rows, COLUMNS)
    frame["program"] = frame.model + " " + frame.topology
    names, ends = zip(*SIZES, strict=True)
    frame["size"] = pd.cut(frame.nonzeros, [-math.inf, *ends], right=False, labels=list(names))
    frame["ran"] = frame.status != NOT_RUN
    frame["wrong"] = frame.answer == "wrong"
    frame["solved"] = (frame.status == "ok") & ~frame.wrong
    frame["taken"] = frame.timed_s.fillna(frame.solve_s)
    frame["charged"] = frame.taken.clip(upper=frame.limit_s).where(frame.solved, frame.limit_s)
    frame["best_known"] = frame.certified_lower.where(frame.maximize.eq(True), frame.certified_upper)
    near = TOLERANCE * frame.best_known.abs().clip(1.0)
    frame["has_best"] = ((frame.worth - frame.best_known).abs() <= near) & ~frame.wrong
    frame["part"] = (frame.primal_integral / frame.limit_s).fillna(1.0)
    largest = np.maximum(frame.objective.abs(), frame.bound.abs())
    apart = ((frame.objective - frame.bound).abs() / largest).clip(upper=1.0)
    apart = apart.mask(frame.solved | (largest == 0), 0.0)
    frame["gap"] = apart.mask(largest.isna() | frame.wrong, 1.0)
    return frame


def shift_of(rows: pd.DataFrame | Iterable[Mapping[str, Any]]) -> float:
    """Return the shift of means: 10 s where there are mixed-integer programs, 1 s where there are none."""
    return MIXED_SHIFT if study_frame(rows).integers.notna().any() else SHIFT


def comparable(frame: pd.DataFrame) -> list[pd.DataFrame]:
    """Return rows in groups in which every solver ran the same problems, the largest group first.

    There is one for each set of problems that some solver ran, with all solvers that ran at least these; one
    without rows if none ran.
    """
    problem = frame.groupby(PROBLEM, sort=False).ngroup()
    ran = problem[frame.ran].groupby(frame.method, sort=False).agg(frozenset)
    ordered = sorted(dict.fromkeys(ran), key=len, reverse=True)
    able = {own: ran.index[[every >= own for every in ran]] for own in ordered}
    groups = [frame[problem.isin(own) & frame.method.isin(solvers)] for own, solvers in able.items()]
    return groups or [frame[:0]]


def standings(rows: pd.DataFrame | Iterable[Mapping[str, Any]]) -> list[Row]:
    """Return how each solver did that ran all problems (`comparable`), the best mean first.

    Returns
    -------
    list of named tuples
        The `solver`; of its rows those `tried`, `right` (solved), `timeouts`, `wrong` and `failed`, and of
        mixed-integer programs those whose incumbent was confirmed (`found`), is the `best` known, or is
        optimal on the solver's `grid` only. `mean_s` is the shifted geometric mean of the charged seconds,
        `worst_error` the largest relative error of an answer (NaN where none was judged), `integral` and
        `gap` the means of the primal integral over the limit and of the gap left.
    """
    frame = comparable(study_frame(rows))[0]
    states = {name: frame.status == name for name in ("timeout", "failed", "grid")}
    groups = frame.assign(found=frame.feasible.eq(True), **states).groupby("method", sort=False)
    found = groups.agg(
        tried=("seed", "size"),
        right=("solved", "sum"),
        timeouts=("timeout", "sum"),
        wrong=("wrong", "sum"),
        failed=("failed", "sum"),
        mean_s=("charged", partial(shifted_geometric_mean, shift=shift_of(frame))),
        worst_error=("relative_error", "max"),
        found=("found", "sum"),
        best=("has_best", "sum"),
        grid=("grid", "sum"),
        integral=("part", "mean"),
        gap=("gap", "mean"),
    )
    found = found.reset_index(names="solver").sort_values(["mean_s", "integral"], kind="stable")
    return list(found.itertuples())


def profile(frame: pd.DataFrame) -> dict[str, list[float]]:
    """Return for each solver the ratios to the least time of its solved problems, increasing.

    The share of problems solved within τ is the number of ratios up to τ over `problems_of`.
    """
    times = frame.taken.clip(LEAST_SECONDS).where(frame.solved)
    ratios = times / times.groupby([frame[name] for name in PROBLEM]).transform("min")
    return {name: sorted(own.dropna()) for name, own in ratios[frame.ran].groupby(frame.method, sort=False)}


def not_run(rows: pd.DataFrame | Iterable[Mapping[str, Any]]) -> list[str]:
    """Return which solvers were not run on how many problems, and why, in words."""
    frame = study_frame(rows)
    tried = frame.method.value_counts()
    return [
        f"{solver}: {f'{len(own)} of {tried[solver]} problems: ' if len(own) < tried[solver] else ''}{why}"
        for (solver, why), own in frame[~frame.ran].groupby(["method", "message"], sort=False)
    ]


def problems_of(frame: pd.DataFrame) -> int:
    """Return how many problems were tried."""
    return len(frame[frame.ran].drop_duplicates(PROBLEM))


def choices(frame: pd.DataFrame) -> list[Row]:
    """Return which solvers to choose for each model and size class that was run.

    Returns
    -------
    list of named tuples
        The `model` and the `size` class, of which so many `instances` were run; `lines`, the standings: most
        solved first, then least mean; and `equals`, the solvers whose mean is as good as the best (within
        `SAME`) and who solved as many.
    """
    # Rows that died before they knew their size have that of other rows of the program.
    size, models = frame.groupby("program")["size"].transform("first"), frame.model.unique()
    frame = frame.assign(size=size, model=pd.Categorical(frame.model, models))
    found = []
    for (model, size), own in frame[frame.ran].groupby(["model", "size"], observed=True):
        lines = sorted(standings(own), key=lambda one: (-one.right, one.mean_s))
        best = lines[0]
        near = max(SAME * best.mean_s, best.mean_s + LEAST_SECONDS)
        equals = [one.solver for one in lines if one.right == best.right and one.mean_s <= near]
        found.append((model, size, own.topology.nunique(), lines, equals))
    names = ["model", "size", "instances", "lines", "equals"]
    return list(pd.DataFrame(found, columns=names).itertuples())


def building(frame: pd.DataFrame) -> list[Row]:
    """Return what making the matrices costs beside solving, of instances that some solver solved.

    Returns
    -------
    list of named tuples
        For each `model`, `builder` and `size` class the number of `instances`; `build_s`, the geometric mean;
        `solve_s`, that of the least time of any solver; and `share`, the mean of build / (build + solve).
    """
    what, times = ["model", "builder", "size"], ["build_s", "solve_s"]
    programs = frame[frame.solved].groupby("program", sort=False)
    least = programs[what].last().join(programs[times].min().clip(1e-9))
    least["share"] = least.build_s / (least.build_s + least.solve_s)
    least[times] = np.log(least[times])
    groups = least.groupby(what, sort=False, observed=True)
    found = groups.mean().assign(instances=groups.size()).reset_index()
    found[times] = np.exp(found[times])
    return list(found.itertuples(index=False))


def disagreements(frame: pd.DataFrame) -> list[tuple[Row, Row]]:
    """Return every two answers to one problem that differ by more than `TOLERANCE`, relatively."""
    answered = frame[(frame.status == "ok") & frame.objective.notna()].groupby(PROBLEM, sort=False)
    pairs = chain.from_iterable(combinations(own.itertuples(), 2) for _, own in answered)
    return [(a, b) for a, b in pairs if not math.isclose(a.objective, b.objective, rel_tol=TOLERANCE)]


def trace_of(row: Row) -> list[Point]:
    """Return incumbents and bounds over time, by the study's clock: that of the solver is stretched to it."""
    stretch = row.taken / row.solve_s if row.solve_s > 0 else 1.0
    return [(at * stretch, incumbent, bound) for at, incumbent, bound in json.loads(row.trace or "[]")]


def primal_gap(value: float | None, best: float, *, maximize: bool = False) -> float:
    """Return γ of an incumbent.

    Examples
    --------
    >>> primal_gap(10.0, 8.0), primal_gap(None, 8.0), primal_gap(-1.0, 2.0, maximize=True)
    (0.2, 1.0, 1.0)
    """
    if value is None:
        return 1.0
    if (value >= best) if maximize else (value <= best):
        return 0.0
    if value * best < 0:
        return 1.0
    return abs(value - best) / max(abs(value), abs(best))


def primal_integral(
    trace: Sequence[Point], best: float | None, limit: float, *, maximize: bool = False
) -> float:
    """Return the seconds of gap 1 that an answer's course counts as, from 0 to the limit.

    Parameters
    ----------
    trace
        In order of time.
    best
        p*; None: nothing is known, and all counts as gap 1.
    limit
        Seconds.
    maximize
        The program's sense.
    """
    if best is None:
        return limit
    at = [0.0, *(min(seconds, limit) for seconds, _, _ in trace), limit]
    gaps = [1.0, *(primal_gap(incumbent, best, maximize=maximize) for _, incumbent, _ in trace)]
    return math.fsum(gap * (after - before) for gap, (before, after) in zip(gaps, pairwise(at), strict=True))


def scored(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows, those of mixed-integer programs with their primal integral: the limit if wrong."""
    found = []
    for row, line in zip(rows, study_frame(rows).itertuples(), strict=True):
        if not math.isnan(line.integers):
            best = None if line.wrong or math.isnan(line.best_known) else line.best_known
            integral = primal_integral(trace_of(line), best, line.limit_s, maximize=line.maximize is True)
            row = row | {"primal_integral": integral}
        found.append(row)
    return found


RULES = SimpleNamespace(**LOOKS["rules"]["solvers"])
"""Rules by which solvers are compared: ``[rules.solvers]`` of ``looks.toml``."""
VIRTUAL_BEST = "virtual best"
"""The name of a solver that is, on each problem, the best one."""


def differences(frame: pd.DataFrame) -> list[Row]:
    """Return the differences of every pair of solvers; none for fewer programs than `RULES.fewest`.

    If some solvers ran with several threads, each solver is compared only with itself at another number of
    threads. The intervals are percentiles of a paired bootstrap: programs are drawn with replacement, each
    with both solvers and all its seeds, because seeds of a program are not independent observations. The
    intervals of all pairs hold together with probability `RULES.confidence`.

    Parameters
    ----------
    frame
        Rows of solvers that ran the same problems.

    Returns
    -------
    list of named tuples
        The labels of both `solvers`. `ratio` is the first one's shifted geometric mean over the second's.
        `solved` is the share of problems that the first one solves, minus that of the second. Both have an
        interval. `faster` is the solver that is faster on average, and `solves_more` the one that solves more
        on average; they are empty where the interval allows both signs.
    """
    shift = shift_of(frame)
    means = frame.assign(log=np.log(frame.charged + shift), rate=frame.solved.astype(float)).pivot_table(
        index=["model", "topology"], columns="method", values=["log", "rate"]
    )
    if len(means) < RULES.fewest:
        return []
    threads = frame.threads.fillna(1.0).astype(int).map(", {} threads".format)
    # Labels without their threads: labels that become equal are one solver at several numbers of threads.
    single = dict(zip(frame.method, map(str.removesuffix, frame.method, threads), strict=True))
    alone = all(solver == one for solver, one in single.items())
    ordered = means["log"].mean().sort_values(kind="stable").index
    pairs = [(a, b) for a, b in combinations(ordered, 2) if alone or single[a] == single[b]]

    def ratio(a: FloatArray, b: FloatArray, axis: int = -1) -> FloatArray:
        own, other = (np.maximum(np.exp(x.mean(axis=axis)) - shift, LEAST_SECONDS) for x in (a, b))
        return own / other

    def lead(a: FloatArray, b: FloatArray, axis: int = -1) -> FloatArray:
        return a.mean(axis=axis) - b.mean(axis=axis)

    # Bonferroni's correction: the errors of all pairs add up to 1 - `RULES.confidence` at most.
    confidence = 1 - (1 - RULES.confidence) / max(len(pairs), 1)
    found = []
    for pair in pairs:
        times, rates = ([means[value, one].to_numpy() for one in pair] for value in ("log", "rate"))
        of_times, of_rates = _interval(times, ratio, confidence), _interval(rates, lead, confidence)
        faster, more = _ahead(pair[::-1], [round(end, 2) for end in of_times], 1), _ahead(pair, of_rates, 0)
        found.append((pair, float(ratio(*times)), of_times, faster, float(lead(*rates)), of_rates, more))
    names = ["solvers", "ratio", "ratio_interval", "faster", "solved", "solved_interval", "solves_more"]
    return list(pd.DataFrame(found, columns=names).itertuples())


def _ahead(pair: Sequence[str], interval: Sequence[float], even: float) -> str:
    """Return the first of a pair if its interval is above `even`, the second if below, otherwise nothing."""
    low, high = interval
    return pair[0] if low > even else pair[1] if high < even else ""


def _interval(
    data: list[FloatArray], statistic: Callable[..., FloatArray], confidence: float
) -> tuple[float, float]:
    found = bootstrap(
        data,
        statistic,
        paired=True,
        n_resamples=RULES.resamples,
        confidence_level=confidence,
        method="percentile",
        rng=np.random.default_rng(0),
    ).confidence_interval
    return float(found.low), float(found.high)


def difference_table(frame: pd.DataFrame) -> PageTable:
    """Return the differences as a table, each interval with its meaning in words."""
    lines = []
    for one in differences(frame):
        (a, b), (low, high), (least, most) = one.solvers, one.ratio_interval, one.solved_interval
        cells = [
            f"{one.ratio:.2f} ({low:.2f} to {high:.2f})",
            f"{one.faster} is faster" if one.faster else "no difference",
            f"{100 * one.solved:+.1f} % ({100 * least:+.1f} to {100 * most:+.1f})",
            f"{one.solves_more} solves more" if one.solves_more else "no difference",
        ]
        lines.append(("", [Cell(f"{a} / {b}", "name"), *cells]))
    return PageTable.of("differences", lines)


def virtual_best(frame: pd.DataFrame) -> pd.DataFrame:
    """Return for each problem the row of its best solver: the result of a perfect choice of solvers."""
    best = frame.sort_values(["solved", "charged"], ascending=[False, True], kind="stable")
    return best.drop_duplicates(PROBLEM).sort_index()


def wins(frame: pd.DataFrame) -> dict[tuple[str, str], int]:
    """Return for each ordered pair of solvers the number of problems on which the first beats the second.

    It beats the second if only it solves the problem, or if the second takes more than `SAME` times as long.
    """
    times = frame.taken.clip(LEAST_SECONDS).where(frame.solved, np.inf)
    table = frame.assign(time=times).pivot(index=PROBLEM, columns="method", values="time")
    return {(a, b): int((table[b] > SAME * table[a]).sum()) for a, b in permutations(table, 2)}


def win_table(frame: pd.DataFrame) -> PageTable:
    """Return wins as a table: on how many problems the solver of a line beats the solver of a column."""
    counts, solvers = wins(frame), frame.method.unique()
    lines = [("", [Cell(a, "name"), *(str(counts.get((a, b), "")) for b in solvers)]) for a in solvers]
    return PageTable.of("wins", lines, [f"{solver}#" for solver in solvers])


def outcome_table(frame: pd.DataFrame) -> PageTable:
    """Return a table of the outcomes of each solver's problems, also of those that it was not run on."""
    stopped = frame.termination.where(frame.status == "timeout")
    ends = {
        "solved": frame.solved,
        "wrong": frame.wrong,
        "time": stopped == "time limit",
        "memory": stopped == "memory limit",
        "iterations": stopped == "iteration limit",
        "on a grid": frame.status == "grid",
        "error": frame.status == "failed",
        "not run": ~frame.ran,
    }
    found = np.select(list(ends.values()), list(ends), "error")  # the first that holds counts
    counts = pd.crosstab(frame.method, found)
    counts = counts.reindex(index=frame.method.unique(), columns=list(ends), fill_value=0)
    texts = counts.astype(object).where(counts > 0, "").astype(str).itertuples(name=None)
    lines = [("", [Cell(solver, "name"), *line]) for solver, *line in texts]
    return PageTable.of("outcomes", lines, [f"{name}#" for name in ends])


def measure_table(frame: pd.DataFrame) -> PageTable:
    """Return means and their quotients, penalized run times, memory, nodes and violations of solvers."""
    groups = dict(list(frame.groupby("method", sort=False))) | {VIRTUAL_BEST: virtual_best(frame)}
    mean = partial(shifted_geometric_mean, shift=shift_of(frame))
    means = {solver: mean(own.charged) for solver, own in groups.items()}
    best = min(value for solver, value in means.items() if solver != VIRTUAL_BEST)
    lines = []
    for solver, own in sorted(groups.items(), key=lambda item: means[item[0]]):
        tolerances = ", ".join(f"{value:g}" for value in sorted(own.tolerance.dropna().unique()))
        penalized = own.taken.where(own.solved, RULES.penalty * own.limit_s)
        cells = [
            "" if solver == VIRTUAL_BEST else tolerances,
            seconds(means[solver]),
            f"{means[solver] / best:.2f}" if best else "",
            f"{own.solved.sum()} of {len(own)}",
            seconds(penalized.mean()),
            *([""] * 6 if solver == VIRTUAL_BEST else _effort(own)),
        ]
        lines.append(("", [Cell(solver, "name"), *cells]))
    return PageTable.of("measures", lines, penalty=RULES.penalty)


def _effort(own: pd.DataFrame) -> list[str]:
    """Return mean and most memory, mean nodes and iterations, and the largest violations."""
    memory = own.peak_rss_mb.dropna()
    sizes = (shifted_geometric_mean(memory, 0.0), memory.max()) if len(memory) else ()
    counts = (own[name].dropna() for name in ("tree_nodes", "iterations"))
    most = (own[name].max() for name in ("integrality", "violation"))
    return [
        *([f"{size:,.0f} MB" for size in sizes] or ["", ""]),
        *(
            number(round(shifted_geometric_mean(count, RULES.count_shift), 1)) if len(count) else ""
            for count in counts
        ),
        *("" if pd.isna(value) else f"{value:.1e}" if value else "0" for value in most),
    ]
