"""``tutti report``: the page of finished runs, their charts as files and their tables for LaTeX."""

from __future__ import annotations

import argparse
from pathlib import Path

from experiments.printable import say
from experiments.report.figures import check_formats, write_figures, write_gifs
from experiments.report.latex import write_tables
from experiments.report.page import contents, figures_of, write_page
from experiments.report.results import read_results
from experiments.runner.study import REPORT
from topologies.errors import InputError


def execute(arguments: argparse.Namespace) -> int:
    """Write what is asked for, and say where it is."""
    formats = list(dict.fromkeys(("svg" if arguments.format is None else arguments.format).split(",")))
    check_formats(formats)
    if arguments.format is not None and arguments.figures is None:
        raise InputError(f"--format {arguments.format}: of figures; give --figures DIR too")
    for option in ("figures", "gif", "latex"):
        folder = getattr(arguments, option)
        if folder is not None and folder.exists() and not folder.is_dir():
            raise InputError(f"--{option} {folder}: not a folder")
    first, *others = arguments.runs
    results = read_results(first, *others, baseline=arguments.baseline)
    shown = contents(results)
    page = arguments.output or (Path(REPORT) if others else first / REPORT)
    say(f"report: {write_page(shown, page)}")
    if arguments.figures is not None:
        figures = list(figures_of(shown))
        for suffix in formats:
            write_figures(shown, figures, arguments.figures, suffix)
        say(f"figures: {len(figures)} as {','.join(formats)} in {arguments.figures}")
    if arguments.gif is not None:
        say(f"GIFs: {len(write_gifs(results, arguments.gif))} in {arguments.gif}")
    if arguments.latex is not None:
        say(f"tables: {len(write_tables(results, arguments.latex))} in {arguments.latex}")
    return 0
