"""The parts of the site that are made from the code: facts and examples of methods, commands, and pictures.

A page of a method, `methods.md` and `commands.md` are Markdown files that can be read as they are. When the
site is built, `completed` adds to each what the code knows.
"""

import contextlib
import csv
import inspect
import os
import re
import textwrap
from pathlib import Path

import charts
import concept_pictures
from numpydoc.docscrape import NumpyDocString
from pictures import method_picture
from written import read

import tutti
from tutti.experiments.cli.parser import make_parser
from tutti.experiments.registry import METHODS
from tutti.experiments.report.tables import lines_of
from tutti.experiments.result import Result
from tutti.schedules import Method
from tutti.schedules.collective import KINDS, Kind
from tutti.topologies.errors import Unsupported
from tutti.topologies.options import describe_options

ROOT = Path(__file__).parents[1]
EXAMPLES = ("torus:4x4", "hypercube:3", "L(K_{4,4})", "dgx_a100:2", "dgx1", "mesh:4x4", "complete:2")
"""Networks for examples. A page without a network of its own shows the first one that the method handles."""
SIZE = "1MB"
MANY = 80
"""Cells of a table from which on it is folded, if most of them hold numbers."""
TABLE = re.compile(r"^\|.*\n\| *-.*\n(?:\|.*\n)+", re.MULTILINE)
KINDS_OF = {"exact": "Exact methods", "heuristic": "Heuristics", "expansion": "Expansions"}


def write_pictures(folder: Path) -> None:
    """Write the pictures that pages include."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in (*concept_pictures.write(), *charts.write()):
        (folder / f"{name}.html").write_text(text)


def completed(page: str, text: str) -> str:
    """Return the text of a page of the site, with what the code adds to it.

    Parameters
    ----------
    page
        Its name without the suffix, from `docs/` on.
    text
        As it is written.
    """
    if page == "methods":
        return "\n".join([text, *_all_methods()])
    if page == "commands":
        return "\n".join([text, *_all_commands()])
    folder, _, name = page.rpartition("/")
    return _method_page(METHODS[name]) if folder == "methods" else TABLE.sub(_folded, text)


def _folded(table: re.Match[str]) -> str:
    """Return a table of many numbers in a fold that its reader opens."""
    head, _, *lines = table[0].strip().splitlines()
    cells = [cell for line in lines for cell in re.split(r"(?<!\\)\|", line.strip("| "))]
    numbers = sum(any(letter.isdigit() for letter in cell) for cell in cells)
    if len(cells) < MANY or 2 * numbers < len(cells):
        return table[0]
    columns = " · ".join(filter(None, map(str.strip, head.replace("`", "").split("|"))))
    return f"\n::::{{dropdown}} {len(lines)} rows: {columns}\n{table[0]}::::\n"


def _all_methods() -> list[str]:
    lines = []
    for kind, title in KINDS_OF.items():
        names = [name for name, method in METHODS.items() if method.kind == kind]
        rows = [(f"[{name}](methods/{name}.md)", METHODS[name].summary) for name in names]
        lines += ["", f"## {title}", "", lines_of(("method", "what it is"), rows)]
    return lines


def _method_page(method: Method) -> str:
    written, made, call = read(method.name), *_example(method)
    made_by = getattr(method.synthesize, "func", method.synthesize)  # a method may be made of another one
    able, path = method.capabilities, Path(inspect.getsourcefile(made_by)).relative_to(ROOT)
    facts = {
        "kind": " for ".join(filter(None, [method.kind, method.exactness(method.options())])),
        "collectives": ", ".join(str(kind) for kind in KINDS if kind in able.collectives),
        "several kinds at once": "yes" if Kind.MIXED in able.collectives else "no",
        "ranks": able.groups.value,
        "shards": "uneven" if able.uneven_shards else "equal",
        "networks": "; ".join(f"needs {need}" for need in able.needs) or "any",
        "random": "yes: give it seeds" if method.seeded else "no",
    }
    said = written.sections
    return "\n".join(
        [
            *(f"# {method.name}", "", written.lead, ""),
            *("```{raw} html", method_picture(made.schedule, made.size), "```", ""),
            f"*The schedule of the [example](#example) below: {made.schedule.collective} on "
            f"`{made.schedule.topology.name}`.*",
            *("", "| | |", "| --- | --- |", *(f"| {name} | {text} |" for name, text in facts.items()), ""),
            *("## Algorithm", "", said["Algorithm"], ""),
            *("## Guarantees", "", said["Guarantees"], ""),
            *_options(method),
            *("## Cost", "", said["Cost"], "", *_costs(method.name), ""),
            *("## When to use it", "", said["When to use it"], ""),
            *("## Example", "", "```console", call, str(made), "```", ""),
            *("## Code", "", f"`{path}`; [Architecture](../architecture.md) says where the rest is.", ""),
        ]
    )


def _costs(name: str) -> list[str]:
    """Return the table of what was measured of a method."""
    with (ROOT / "docs/methods/costs.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["method"] == name]
    lines = [
        (
            *(f"`{row['network']}`", row["collective"], f"{int(row['ranks']):,}"),
            *(f"{int(row['transfers']):,}", f"{float(row['seconds']):.2g}"),
        )
        for row in rows
    ]
    return [
        "Measured (`docs/measure_methods.py`, one seed, after compilation, one busy core):",
        "",
        lines_of(("network", "collective", "ranks", "transfers", "seconds"), lines),
    ]


def _options(method: Method) -> list[str]:
    """Return the options as a list of definitions, by the docstrings of the class and of its bases."""
    lines = ["## Options", ""]
    said: dict[str, list[str]] = {}
    for cls in reversed(method.options.__mro__):
        for names, _, text in NumpyDocString(inspect.cleandoc(cls.__doc__ or ""))["Parameters"]:
            said |= dict.fromkeys(names.split(", "), text)
    for name, default in describe_options(method).items():
        text = "\n".join(said[name]).replace("``", "`")
        lines += [
            f"{name}, by default {f'`{default}`' if default else 'empty'}",
            textwrap.indent(text, "  ").replace("  ", ": ", 1),
            "",
        ]
    return lines if len(lines) > 2 else [*lines, "None.", ""]


def _example(method: Method) -> tuple[Result, str]:
    """Return an example that has been run, and the command that runs it."""
    wanted = read(method.name).example
    size = wanted.get("size", SIZE)
    for text in [wanted["network"]] if "network" in wanted else EXAMPLES:
        for kind in [wanted["collective"]] if "collective" in wanted else KINDS:
            with contextlib.suppress(Unsupported):
                made = tutti.synthesize(text, str(kind), size=size, method=method.name, **method.quick)
                options = "".join(f" --option {name}={value}" for name, value in method.quick.items())
                call = f'$ tutti synth "{text}" --method {method.name} --collective {kind} --size {size}'
                return made, call + options
    raise LookupError(f"{method.name} handles none of {EXAMPLES}")


def _all_commands() -> list[str]:
    os.environ["COLUMNS"] = "100"
    parser = make_parser()
    lines = ["", "```text", parser.format_help().rstrip(), "```"]
    for name, command in parser.commands.items():
        lines += ["", f"## {name}", "", "```text", command.format_help().rstrip(), "```"]
    return lines
