"""Solvers compared on the same problems: intervals of differences, pairwise wins, PAR10, the virtual best.

A solver may not have run all problems of a study: a licence is for small programs, a solver has one thread,
or its presolve has a fault on some. So solvers are compared in groups that ran the same problems
(`statistics.comparable`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import combinations, permutations
from types import SimpleNamespace

import numpy as np
import pandas as pd
from scipy.stats import bootstrap

from tutti.experiments.report.results import LOOKS, Row
from tutti.experiments.report.standings import shifted_geometric_mean
from tutti.experiments.report.tables import Cell, PageTable, number, seconds
from tutti.experiments.solver_study.statistics import LEAST_SECONDS, PROBLEM, SAME, shift_of
from tutti.topologies.exact import FloatArray

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
