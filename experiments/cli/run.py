"""``tutti run``: a whole experiment."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Hashable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console

from tutti.experiments.cli.output import console, print_table
from tutti.experiments.printable import say
from tutti.experiments.resilience.failures import is_resilience
from tutti.experiments.runner.judge import INSTANCE, REFERENCE
from tutti.experiments.runner.run import RunOptions, Summary, run
from tutti.experiments.solver_study import is_study, run_study
from tutti.experiments.solver_study.statistics import shift_of, standings
from tutti.experiments.training.config import is_training, read_training
from tutti.topologies.units import duration, format_size

OK, FAILED, INTERRUPTED = 0, 1, 130
MOST_INSTANCES = 40
"""More lines than this are for the report."""
TRAINING_TIMES = ("time_s", "compute_s", "bubble_s", "activations_s", "weights_s", "optimal_s")
MOST_METHODS = 12
"""Of more methods than this, a line names the best only."""


def execute(arguments: argparse.Namespace) -> int:
    """Run it, say what came out, and return the exit code."""
    options = RunOptions(
        out=arguments.out,
        workers=arguments.workers,
        fresh=arguments.fresh,
        rejudge=arguments.rejudge,
        only=arguments.only,
        quiet=arguments.quiet,
        scheduler=arguments.scheduler,
    )
    summary = _run_config(arguments.config, options, console(sys.stderr))
    if summary.interrupted:
        say(stopped(summary), sys.stderr)
        return INTERRUPTED
    if not options.quiet:
        _printer(arguments.config)(summary)
    return FAILED if summary.failed else OK


def _run_config(config: Path, options: RunOptions, screen: Console) -> Summary:
    """Run a config of any kind."""
    if is_study(config):
        return run_study(config, options, screen)
    if is_training(config):
        from tutti.experiments.training.study import run_training

        return run_training(config, options, screen)
    if is_resilience(config):
        from tutti.experiments.resilience.study import run_resilience

        return run_resilience(config, options, screen)
    return run(config, options, screen, write_report)


def _printer(config: Path) -> Callable[[Summary], None]:
    if is_study(config):
        return _print_study
    if is_resilience(config):
        return _print_resilience
    return partial(_print_training, config) if is_training(config) else _print_summary


def write_report(directory: Path) -> Path:
    """Write the report of a folder of results, and return its path."""
    from tutti.experiments.report import write_report as write  # drawing takes a while to import

    return write(directory)


def stopped(summary: Summary) -> str:
    """Return what is said of a run that was stopped."""
    every = summary.done + summary.missing
    return f"tutti: stopped; {summary.done} of {every} rows are kept, the same command continues"


def _print_summary(summary: Summary) -> None:
    gaps = summary.gaps
    gaps = gaps[gaps["size_bytes"] == gaps.groupby(["topology", "collective"])["size_bytes"].transform("max")]
    if 0 < len(gaps) <= MOST_INSTANCES:
        methods = list(gaps.columns[len(INSTANCE) + len(REFERENCE) :])
        columns = methods if len(methods) <= MOST_METHODS else ["best_method", "best_gap"]
        lines = [
            [*_instance(line), *(_gap(line[name]) for name in columns)] for line in gaps.to_dict("records")
        ]
        title = "gap to the proven bound, at the largest size"
        heads = [name.replace("_", " ") if len(methods) > MOST_METHODS else name for name in columns]
        print_table(title, ["topology", "collective", "size", *heads], lines)
        say("gap: time over the proven lower bound, less one, in %; -: no gap, results.csv says why")
    _print_counts(summary)


def _print_study(summary: Summary) -> None:
    lines = [
        [s.solver, f"{s.right}/{s.tried}", s.timeouts, s.wrong, s.failed, s.mean_s]
        for s in standings(summary.rows)
    ]
    title = (
        f"shifted geometric mean of the seconds (shift {shift_of(summary.rows):g} s; "
        "what is not solved, or wrong, counts as the limit)"
    )
    print_table(title, ["solver", "right", "time-outs", "wrong", "failed", "mean (s)"], lines)
    _print_counts(summary)


def _print_training(config: Path, summary: Summary) -> None:
    from tutti.experiments.training.stated import claims

    rows = [row for row in summary.rows if row["status"] == "ok"]
    lines = [
        [row["job"], row["method"], *(_time(row[name]) for name in TRAINING_TIMES), f"{row['saving']:.1%}"]
        for row in rows
    ]
    heads = ["job", "method", *(name.removesuffix("_s") for name in TRAINING_TIMES), "saving"]
    print_table("an iteration, and what optimal collectives would save", heads, lines)
    stated = claims(summary.rows, read_training(config).stated)
    if stated:
        print_table("what papers state", stated[0].HEADS, [one.cells for one in stated])
    _print_counts(summary)


def _print_resilience(summary: Summary) -> None:
    from tutti.experiments.resilience.losses import BEST, losses

    for case in losses(summary.rows):
        lines = [line.cells for line in case.lines if line.method == BEST]
        print_table(str(case), case.lines[0].HEADS[1:] if lines else [], [cells[1:] for cells in lines])
    _print_counts(summary)


def _time(seconds: float) -> str:
    return duration(seconds * 1e6)


def _print_counts(summary: Summary) -> None:
    """Print how many rows of each status there are, how many are not run, and where it all is."""
    counts = ", ".join(f"{count} {status}" for status, count in summary.counts.items()) or "none"
    left_out = " (results made by other code or another config are left out)" if summary.stale else ""
    more = f"; {summary.missing} not run{left_out}" if summary.missing else ""
    where = f"report: {summary.report}" if summary.report else f"in {summary.directory}"
    say(f"{summary.done} rows: {counts}{more}; {where}")


def _instance(line: Mapping[Hashable, Any]) -> list[str]:
    topology, what, size = (line[name] for name in INSTANCE)
    return [topology, what, format_size(size)]


def _gap(gap: float | str | None) -> str | None:
    """Return a gap in percent; a method's name as it is."""
    if isinstance(gap, str):
        return gap
    return None if gap is None or gap != gap else f"{gap:.2%}"
