"""``tutti report``: the page of finished runs, their charts as files and their tables for LaTeX."""

from __future__ import annotations

from pathlib import Path

from tutti.experiments.cli.commands import ReportCommand
from tutti.experiments.growth.study import command_of
from tutti.experiments.printable import say
from tutti.experiments.report.figures import check_formats, choice, write_figures, write_tables
from tutti.experiments.report.page import contents, figures_of, write_page
from tutti.experiments.report.results import read_results
from tutti.experiments.runner.config import KINDS, kind_of
from tutti.experiments.runner.manifest import config_tables
from tutti.experiments.runner.study import REPORT
from tutti.topologies.errors import InputError
from tutti.topologies.files import check_folder


def do_report(arguments: ReportCommand) -> None:
    """Write what is asked for, and say where it is."""
    formats = list(dict.fromkeys(("svg" if arguments.format is None else arguments.format).split(",")))
    check_formats(formats)
    if arguments.format is not None and arguments.figures is None:
        raise InputError(f"--format {arguments.format}: of figures; give --figures DIR too")
    _check_folders(arguments)
    first, *others = arguments.runs
    for directory in arguments.runs:
        if (kind := _kind(arguments, directory)) != "schedules":
            say(f"report: {KINDS[kind].draw(directory, arguments.output)}")
            return
    results = read_results(first, *others, baseline=arguments.baseline)
    shown = contents(results)
    page = arguments.output or (Path(REPORT) if others else first / REPORT)
    say(f"report: {write_page(shown, page)}")
    if arguments.figures is not None:
        folder, charts = choice(arguments.figures, page.parent / "figures")
        figures = [figure for figure in figures_of(shown) if figure.chart in charts]
        for suffix in formats:
            write_figures(shown, figures, folder, suffix)
        say(f"figures: {len(figures)} as {','.join(formats)} in {folder}")
    if arguments.latex is not None:
        say(f"tables: {len(write_tables(results, arguments.latex))} in {arguments.latex}")


def _check_folders(arguments: ReportCommand) -> None:
    """Refuse folders that can't be written in, before anything is read or drawn."""
    figures = None if arguments.figures is None else choice(arguments.figures, Path())[0]
    asked = {"--figures": figures, "--latex": arguments.latex}
    for option, folder in asked.items():
        if folder is not None and folder.exists() and not folder.is_dir():
            raise InputError(f"{option} {folder}: not a folder")
    for folder in filter(None, [*asked.values(), arguments.output and arguments.output.parent]):
        check_folder(folder)


def _kind(arguments: ReportCommand, directory: Path) -> str:
    """Return the kind of study that made a folder, as its config says.

    Raises
    ------
    InputError
        If more is asked of a study of another kind than its page, or it is of networks alone.
    """
    if (find := command_of(directory)) is not None:
        raise InputError(f"{directory}: frontiers of networks, no runs; {find} -o {directory} draws them")
    kind = kind_of(config_tables(directory))
    more = [f"--{name}" for name in ("figures", "latex", "baseline") if getattr(arguments, name) is not None]
    more += ["several folders"] * (len(arguments.runs) > 1)
    if kind != "schedules" and more:
        raise InputError(f"{directory}: {more[0]}: for studies of methods only")
    return kind
