"""``tutti run``, a whole experiment; ``tutti tune``, a runtime's files for all sizes; and ``tutti model``."""

from __future__ import annotations

import itertools
import shlex
import sys
from pathlib import Path
from typing import Any

from tutti.experiments import tuning
from tutti.experiments.cli import Exit
from tutti.experiments.cli.commands import ModelCommand, RunCommand, TuneCommand
from tutti.experiments.cli.output import SHOWN, console, print_answer, print_json, print_table
from tutti.experiments.printable import remark, say
from tutti.experiments.runner.config import KINDS, read_config
from tutti.experiments.runner.judge import INSTANCE, method_columns
from tutti.experiments.runner.run import RunOptions, Summary, carry_out, run
from tutti.experiments.runner.study import study_of
from tutti.experiments.solver_study.statistics import not_run, shift_of, standings
from tutti.models.solvers.highs import check_path, write_model
from tutti.schedules.collective import collective
from tutti.schedules.files.schedule_file import write_text
from tutti.schedules.programs.formats import FORMATS, ProgramFormat
from tutti.topologies.errors import InputError, suggestion
from tutti.topologies.files import check_folder, write_topology
from tutti.topologies.options import build_options, parse_assignments
from tutti.topologies.processes import load
from tutti.topologies.text import parse_topology
from tutti.topologies.transforms import forwarding
from tutti.topologies.units import GIGA, MICRO, duration, format_size, parse_size

MOST_MEMORY = 4 * GIGA
"""Most bytes that a program may take without ``--large``. A larger value refuses less."""
TRAINING_TIMES = ("time_s", "compute_s", "bubble_s", "activations_s", "weights_s", "optimal_s")
"""Columns of a study of training that are printed."""


def do_run(arguments: RunCommand) -> int:
    """Run the experiment of a config, print its results in short, and return the exit code."""
    given = ("out", "workers", "fresh", "rejudge", "only", "quiet", "scheduler")
    options = RunOptions(**{name: getattr(arguments, name) for name in given})
    config = read_config(arguments.config)
    summary = carry_out(study_of(config, load(options.registry)), options, console(sys.stderr))
    if summary.interrupted:
        remark(summary.stopped)
        return Exit.INTERRUPTED
    if not options.quiet:
        KINDS[config.kind].show(summary)
        print_counts(summary)
    return Exit.NO if summary.failed else Exit.OK


def print_summary(summary: Summary) -> None:
    """Print the gaps of a study of schedules."""
    gaps = summary.gaps
    gaps = gaps[gaps["size_bytes"] == gaps.groupby(["topology", "collective"])["size_bytes"].transform("max")]
    if 0 < len(gaps) <= SHOWN.instances:
        methods = method_columns(gaps)
        columns = methods if len(methods) <= SHOWN.methods else ["best_method", "best_gap"]

        def cell(gap: float | str | None) -> str | None:
            return gap if isinstance(gap, str) else None if gap is None or gap != gap else f"{gap:.2%}"

        lines = []
        for line in gaps.to_dict("records"):
            topology, what, size = (line[name] for name in INSTANCE)
            lines.append([topology, what, format_size(size), *(cell(line[name]) for name in columns)])
        title = "gap to the proven bound, at the largest size"
        heads = [name.replace("_", " ") if len(methods) > SHOWN.methods else name for name in columns]
        print_table(title, ["topology", "collective", "size", *heads], lines)
        say("gap: time over the proven lower bound, less one, in %; -: no gap, results.csv says why")


def print_study(summary: Summary) -> None:
    """Print which solver is how fast."""
    found = standings(summary.rows)
    lines = [[s.solver, f"{s.right}/{s.tried}", s.timeouts, s.wrong, s.failed, s.mean_s] for s in found]
    counted = f"shift {shift_of(summary.rows):g} s; what is not solved, or wrong, counts as the limit"
    title = f"shifted geometric mean of the seconds ({counted})"
    print_table(title, ["solver", "right", "time-outs", "wrong", "failed", "mean (s)"], lines)
    for line in not_run(summary.rows):
        say(f"not run: {line}")


def print_training(summary: Summary) -> None:
    """Print the iterations of a study of training, and what papers state."""
    from tutti.experiments.training.study import claims, stated_in

    lines = []
    for row in summary.rows:
        if row["status"] == "ok":
            times = (duration(row[name] * MICRO) for name in TRAINING_TIMES)
            lines.append([row["job"], row["method"], *times, f"{row['saving']:.1%}"])
    heads = ["job", "method", *(name.removesuffix("_s") for name in TRAINING_TIMES), "saving"]
    print_table("an iteration, and what optimal collectives would save", heads, lines)
    for row in summary.rows:
        if row["status"] == "unsupported":
            say(f"{row['status']}: {row['job']}, {row['method']}: {row['message']}")
    if stated := claims(summary.rows, stated_in(summary.directory)):
        print_table("what papers state", stated[0].HEADS, [one.cells for one in stated])


def print_losses(summary: Summary) -> None:
    """Print what failures cost with the best method."""
    from tutti.experiments.resilience import BEST, HEADS, losses

    for case in losses(summary.rows):
        lines = [line.cells for line in case.lines if line.method == BEST]
        print_table(str(case), HEADS[1:] if lines else [], [cells[1:] for cells in lines])


def print_counts(summary: Summary) -> None:
    """Print the number of rows of each status and of those not run, and where the results are."""
    counts = ", ".join(f"{count} {status}" for status, count in summary.counts.items()) or "none"
    left_out = " (results made by other code or another config are left out)" if summary.stale else ""
    more = f"; {summary.missing} not run{left_out}" if summary.missing else ""
    where = f"report: {summary.report}" if summary.report else f"in {summary.directory}"
    say(f"{summary.done} rows: {counts}{more}; {where}")


def do_tune(arguments: TuneCommand) -> int:
    """Run the methods and write the best schedules for ranges of sizes; or write the rules of a tuner."""
    if arguments.format in tuning.TUNERS:
        _write_rules(arguments)
        return Exit.OK
    if arguments.format not in FORMATS:
        known = suggestion(arguments.format, [*FORMATS, *tuning.TUNERS])
        raise InputError(f"unknown format '{arguments.format}'{known}")
    form = FORMATS[arguments.format]
    options = build_options(form, parse_assignments(arguments.option))
    if not form.ranged:
        able = ", ".join(one.name for one in FORMATS.values() if one.ranged)
        raise InputError(f"format '{form.name}' has no ranges of sizes; with ranges: {able}")
    sizes = [f"{size}B" for size in _sizes(arguments.sizes)]
    out: Path = arguments.output
    check_folder(out)
    network = out / "network.json"
    write_topology(forwarding(parse_topology(arguments.topology)), network)
    methods = arguments.methods.split(",") if arguments.methods else tuning.METHODS
    config = out / "tuning.toml"
    config.write_text(tuning.config(network, arguments.collective, sizes, methods, arguments.time_limit))
    summary = run(config, RunOptions(out=out / "runs", workers=arguments.workers), console(sys.stderr))
    if summary.interrupted:
        remark("stopped; the same command continues")
        return Exit.INTERRUPTED
    said = tuning.write(tuning.tune(summary.rows, form, options, out, arguments.files), form, options, out)
    loader = form.loader([out.resolve() / line["file"] for line in said])
    (out / "load.env").write_text(loader + "\n")
    if arguments.json:
        print_json({"files": said, "loader": loader, "report": str(summary.report)})
    else:
        _print_set(said, form, loader, summary.report)
    return Exit.OK


def _write_rules(arguments: TuneCommand) -> None:
    """Write rules by which a runtime chooses among its own algorithms by size."""
    form = tuning.TUNERS[arguments.format]
    options = build_options(form, parse_assignments(arguments.option))
    if arguments.methods:
        raise InputError(f"--methods {arguments.methods}: '{form.name}' is of the runtime's own algorithms")
    network = parse_topology(arguments.topology)
    tuner = form(network, collective(arguments.collective, network.num_ranks), options)
    rules, out = tuner.rules(_sizes(arguments.sizes)), arguments.output
    check_folder(out)
    path = out / form.file
    write_text(path, "".join(f"{line}\n" for line in tuner.lines(rules)))
    loader = f"export {form.environment.format(shlex.quote(str(path.resolve())))}"
    (out / "load.env").write_text(loader + "\n")
    if arguments.json:
        named = [rule._asdict() for rule in rules]
        print_json({"file": str(path), "rules": named, "notes": tuner.notes, "loader": loader})
        return
    lines = [[str(rule.low), str(rule.high), " ".join(rule.takes)] for rule in rules]
    print_table(f"what {form.name} takes at which size", ["from, bytes", "to", "algorithm"], lines)
    for note in tuner.notes:
        remark(f"note: {note}")
    say(f"load with (load.env): {loader}")


def _sizes(text: str) -> list[int]:
    """Return the sizes of ``1KB..1GB``, each twice the one before, or those of a list."""
    low, dots, high = text.partition("..")
    if not dots:
        return sorted({int(parse_size(part)) for part in text.split(",")})
    first, last = int(parse_size(low)), int(parse_size(high))
    if not 0 < first < last:
        raise InputError(f"--sizes {text}: the first size must be less than the last")
    doubled = (first << doublings for doublings in itertools.count())
    return [*itertools.takewhile(lambda size: size < last, doubled), last]


def _print_set(said: list[dict[str, Any]], form: ProgramFormat, loader: str, report: Path | None) -> None:
    lines = []
    for line in said:
        low = format_size(line["from"]) if line["from"] else "0 B"
        high = "any" if line["below"] is None else format_size(line["below"])
        gaps = " to ".join(f"{gap:.1%}" for gap in line["gap"])
        lines.append([line["file"], low, high, line["method"], f"{line['worst_loss']:.1%}", gaps])
    heads = ["file", "from", "below", "method", "over the fastest", "over the bound"]
    print_table(f"what to load at which size, as {form.name}", heads, lines)
    say(f"load with (load.env): {loader}")
    if report:
        say(f"who wins where, by how much: {report}")


def do_model(arguments: ModelCommand) -> None:
    """Build a model, write it to a file and print its sizes and its optimum, if that is known."""
    from tutti.experiments.solver_study.milp_instances import find_model

    model = find_model(arguments.model)
    check_path(arguments.output)
    topology = parse_topology(arguments.topology)
    if not arguments.large and (memory := model.memory(topology)) > MOST_MEMORY:
        entries = f"about {model.entries(topology):.2g} nonzeros"
        takes = f"{entries} and take about {memory / GIGA:.0f} GB of memory"
        what = f"model {model.name} on {topology.name} would have {takes}"
        raise InputError(f"{what}; --large writes it all the same")
    instance = model.build(topology)
    write_model(instance.compiled, arguments.output)
    fields = {
        "model": model.name,
        "summary": model.summary,
        "sense": "maximize" if instance.compiled.maximize else "minimize",
        "variables": instance.compiled.num_columns,
        "integers": int(instance.compiled.integer.sum()),
        "constraints": instance.compiled.num_rows,
        "nonzeros": instance.compiled.num_nonzeros,
        "optimum": None if instance.known is None else str(instance.known),
        "file": str(arguments.output),
    }
    print_answer(fields, fields, as_json=arguments.json)
