"""``tutti tune``: the fastest schedule for every size, as files that a runtime loads, or a tuner's rules."""

from __future__ import annotations

import argparse
import shlex
import sys
from functools import partial
from pathlib import Path
from typing import Any

from tutti.experiments import tuning
from tutti.experiments.cli import Exit
from tutti.experiments.cli.output import console, print_json, print_table
from tutti.experiments.printable import remark, say
from tutti.experiments.runner.kept_schedules import schedule_path
from tutti.experiments.runner.run import RunOptions, run
from tutti.experiments.tuner_files import TUNERS
from tutti.schedules.collective import collective
from tutti.schedules.files.schedule_file import write_text
from tutti.schedules.programs.formats import FORMATS, ProgramFormat
from tutti.topologies.errors import InputError, suggestion
from tutti.topologies.files import write_topology
from tutti.topologies.options import build_options, parse_assignments
from tutti.topologies.text import parse_topology
from tutti.topologies.transforms import forwarding
from tutti.topologies.units import format_size, parse_size


def execute(arguments: argparse.Namespace) -> int:
    """Run the methods, choose, and write the set; or write the rules of a tuner."""
    if arguments.format in TUNERS:
        return _write_rules(arguments)
    if arguments.format not in FORMATS:
        known = suggestion(arguments.format, [*FORMATS, *TUNERS])
        raise InputError(f"unknown format '{arguments.format}'{known}")
    form = FORMATS[arguments.format]
    options = build_options(form, parse_assignments(arguments.option))
    if not form.ranged:
        able = ", ".join(one.name for one in FORMATS.values() if one.ranged)
        raise InputError(f"format '{form.name}' has no ranges of sizes; with ranges: {able}")
    if arguments.files < 1:
        raise InputError(f"--files {arguments.files}; it must be at least 1")
    sizes = [f"{size}B" for size in _sizes(arguments.sizes)]
    out: Path = arguments.output
    out.mkdir(parents=True, exist_ok=True)
    network = out / "network.json"
    write_topology(forwarding(parse_topology(arguments.topology)), network)
    methods = arguments.methods.split(",") if arguments.methods else tuning.METHODS
    config = out / "tuning.toml"
    config.write_text(tuning.config(network, arguments.collective, sizes, methods, arguments.time_limit))
    how = RunOptions(out=out / "runs", workers=arguments.workers)
    summary = run(config, how, console(sys.stderr))
    if summary.interrupted:
        remark("stopped; the same command continues")
        return Exit.INTERRUPTED
    read, trial = partial(schedule_path, out / "runs" / "schedules"), out / f"trial{form.suffix}"
    fits = partial(form.write, path=trial, options=options)
    chosen = tuning.tune(summary.rows, read, fits, options.units, arguments.files)
    trial.unlink()
    said = tuning.write(chosen, form, options, out)
    loader = form.loader([out.resolve() / line["file"] for line in said])
    (out / "load.env").write_text(loader + "\n")
    if arguments.json:
        print_json({"files": said, "loader": loader, "report": str(summary.report)})
    else:
        _print(said, form, loader, summary.report)
    return 0


def _write_rules(arguments: argparse.Namespace) -> int:
    """Write which of a runtime's own algorithms it takes at which size."""
    form = TUNERS[arguments.format]
    options = build_options(form, parse_assignments(arguments.option))
    if arguments.methods:
        raise InputError(f"--methods {arguments.methods}: '{form.name}' is of the runtime's own algorithms")
    network = parse_topology(arguments.topology)
    what = collective(arguments.collective, network.num_ranks)
    sizes, out = _sizes(arguments.sizes), arguments.output
    rules = form.rules(network, what, sizes, options)
    out.mkdir(parents=True, exist_ok=True)
    path = out / form.file
    write_text(path, "".join(f"{line}\n" for line in form.lines(network, what, rules, options)))
    loader = f"export {form.loader.format(shlex.quote(str(path.resolve())))}"
    notes = form.notes(network, what, options)
    (out / "load.env").write_text(loader + "\n")
    if arguments.json:
        named = [rule._asdict() for rule in rules]
        print_json({"file": str(path), "rules": named, "notes": notes, "loader": loader})
        return 0
    lines = [[str(rule.low), str(rule.high), " ".join(rule.takes)] for rule in rules]
    print_table(f"what {form.name} takes at which size", ["from, bytes", "to", "algorithm"], lines)
    for note in notes:
        remark(f"note: {note}")
    say(f"load with (load.env): {loader}")
    return 0


def _sizes(text: str) -> list[int]:
    """Return the sizes of ``1KB..1GB``, each twice the one before, or those of a list."""
    low, dots, high = text.partition("..")
    if not dots:
        return sorted({int(parse_size(part)) for part in text.split(",")})
    first, last = int(parse_size(low)), int(parse_size(high))
    if not 0 < first < last:
        raise InputError(f"--sizes {text}: the first size must be less than the last")
    sizes = []
    while first < last:
        sizes.append(first)
        first *= 2
    return [*sizes, last]


def _print(said: list[dict[str, Any]], form: ProgramFormat, loader: str, report: Path | None) -> None:
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
