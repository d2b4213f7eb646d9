"""``tutti show``: a network drawn, or a schedule played on it, as a page for the browser."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from tutti.experiments.cli.output import SHOWN
from tutti.experiments.printable import say
from tutti.experiments.show.page import SUFFIXES, open_page, page_of, read_source
from tutti.schedules.files.schedule_file import check_place
from tutti.topologies.units import parse_size


def execute(arguments: argparse.Namespace) -> int:
    """Write the page, say where it is, and open it."""
    size = None if arguments.size is None else parse_size(arguments.size)
    source = read_source(arguments.what)
    path = arguments.output or Path(f"{_name(arguments.what)}.show.html")
    check_place(path, arguments.what)
    page_of(source, size).save(path)
    say(str(path))
    if not arguments.no_open:
        open_page(path)
    return 0


def _name(text: str) -> str:
    """Return a name for the page of a file or of a network's text."""
    stem = Path(text).name.partition(".")[0] if text.endswith(SUFFIXES) else text
    return re.sub(r"[^A-Za-z0-9-]+", "_", stem).strip("_")[: SHOWN.name] or "page"
