"""``tutti run``: a whole experiment."""

from __future__ import annotations

import argparse
import sys

from tutti.experiments.cli import Exit
from tutti.experiments.cli.output import SHOWN, console, print_table
from tutti.experiments.printable import remark, say
from tutti.experiments.runner.config import read_config
from tutti.experiments.runner.judge import INSTANCE, REFERENCE
from tutti.experiments.runner.pool import load_methods
from tutti.experiments.runner.run import RunOptions, Summary, carry_out
from tutti.experiments.runner.study import study_of
from tutti.experiments.solver_study.statistics import shift_of, standings
from tutti.topologies.units import MICRO, duration, format_size

TRAINING_TIMES = ("time_s", "compute_s", "bubble_s", "activations_s", "weights_s", "optimal_s")


def execute(arguments: argparse.Namespace) -> int:
    """Run it, say what came out, and return the exit code."""
    given = ("out", "workers", "fresh", "rejudge", "only", "quiet", "scheduler")
    options = RunOptions(**{name: getattr(arguments, name) for name in given})
    config = read_config(arguments.config)
    study = study_of(config, load_methods(options.registry))
    summary = carry_out(study, options, console(sys.stderr))
    if summary.interrupted:
        remark(stopped(summary))
        return Exit.INTERRUPTED
    if not options.quiet:
        _SHOWN[config.kind](summary)
        _print_counts(summary)
    return Exit.NO if summary.failed else Exit.OK


def stopped(summary: Summary) -> str:
    """Return what is said of a run that was stopped."""
    every = summary.done + summary.missing
    return f"stopped; {summary.done} of {every} rows are kept, the same command continues"


def _print_summary(summary: Summary) -> None:
    gaps = summary.gaps
    gaps = gaps[gaps["size_bytes"] == gaps.groupby(["topology", "collective"])["size_bytes"].transform("max")]
    if 0 < len(gaps) <= SHOWN.instances:
        methods = list(gaps.columns[len(INSTANCE) + len(REFERENCE) :])
        columns = methods if len(methods) <= SHOWN.methods else ["best_method", "best_gap"]
        lines = []
        for line in gaps.to_dict("records"):
            topology, what, size = (line[name] for name in INSTANCE)
            lines.append([topology, what, format_size(size), *(_gap(line[name]) for name in columns)])
        title = "gap to the proven bound, at the largest size"
        heads = [name.replace("_", " ") if len(methods) > SHOWN.methods else name for name in columns]
        print_table(title, ["topology", "collective", "size", *heads], lines)
        say("gap: time over the proven lower bound, less one, in %; -: no gap, results.csv says why")


def _print_study(summary: Summary) -> None:
    found = standings(summary.rows)
    lines = [[s.solver, f"{s.right}/{s.tried}", s.timeouts, s.wrong, s.failed, s.mean_s] for s in found]
    title = (
        f"shifted geometric mean of the seconds (shift {shift_of(summary.rows):g} s; "
        "what is not solved, or wrong, counts as the limit)"
    )
    print_table(title, ["solver", "right", "time-outs", "wrong", "failed", "mean (s)"], lines)


def _print_training(summary: Summary) -> None:
    from tutti.experiments.training.config import claims, stated_in

    rows = [row for row in summary.rows if row["status"] == "ok"]
    lines = [
        [
            row["job"],
            row["method"],
            *(duration(row[name] * MICRO) for name in TRAINING_TIMES),
            f"{row['saving']:.1%}",
        ]
        for row in rows
    ]
    heads = ["job", "method", *(name.removesuffix("_s") for name in TRAINING_TIMES), "saving"]
    print_table("an iteration, and what optimal collectives would save", heads, lines)
    stated = claims(summary.rows, stated_in(summary.directory))
    if stated:
        print_table("what papers state", stated[0].HEADS, [one.cells for one in stated])


def _print_resilience(summary: Summary) -> None:
    from tutti.experiments.resilience.losses import BEST, losses

    for case in losses(summary.rows):
        lines = [line.cells for line in case.lines if line.method == BEST]
        print_table(str(case), case.lines[0].HEADS[1:] if lines else [], [cells[1:] for cells in lines])


_SHOWN = {
    "schedules": _print_summary,
    "solvers": _print_study,
    "training": _print_training,
    "failures": _print_resilience,
}
"""What prints the rows of a study, by its kind."""


def _print_counts(summary: Summary) -> None:
    """Print how many rows of each status there are, how many are not run, and where it all is."""
    counts = ", ".join(f"{count} {status}" for status, count in summary.counts.items()) or "none"
    left_out = " (results made by other code or another config are left out)" if summary.stale else ""
    more = f"; {summary.missing} not run{left_out}" if summary.missing else ""
    where = f"report: {summary.report}" if summary.report else f"in {summary.directory}"
    say(f"{summary.done} rows: {counts}{more}; {where}")


def _gap(gap: float | str | None) -> str | None:
    """Return a gap in percent; a method's name as it is."""
    if isinstance(gap, str):
        return gap
    return None if gap is None or gap != gap else f"{gap:.2%}"
