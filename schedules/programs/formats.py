"""The formats that schedules are exported to, and programs imported from: one line of `FORMATS` each.

A format is a module with ``OPTIONS``, a class of options (`topologies.options`), and these functions:

    write(schedule, path, options) -> dict[str, Any]     facts about the file, which are printed
    read(path, root) -> Program                          only if programs can be imported
    loader(paths) -> str                                 only with size ranges: how to load a set
    judged(path, root, interleavings) -> None            only with size ranges: judge by the runtime's rules

The module is imported when its format is used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from tutti.schedules.programs.program import Program
from tutti.schedules.schedule import Schedule
from tutti.topologies.errors import InputError, suggestion


@dataclass(frozen=True)
class ProgramFormat:
    """A format of files that other programs load.

    Parameters
    ----------
    name
        The name that ``--format`` takes.
    summary
        A few words on the programs that load it.
    module
        The module that implements it.
    imported
        Whether its programs can be converted to schedules.
    suffix
        The suffix of its files.
    """

    name: str
    summary: str
    module: str
    imported: bool = False
    suffix: str = ""

    @property
    def options(self) -> type[Any]:
        """The class of the format's options."""
        return import_module(self.module).OPTIONS

    def write(self, schedule: Schedule, path: Path, options: Any) -> dict[str, Any]:
        """Write a verified schedule, and return the facts that are printed.

        Raises
        ------
        TuttiError
            If the format, or the program that loads it, can't represent the schedule; nothing is written.
        """
        return import_module(self.module).write(schedule, path, options)

    @property
    def ranged(self) -> bool:
        """Whether a file states its range of sizes, so that a runtime can load several files."""
        return hasattr(import_module(self.module), "loader")

    def loader(self, paths: Sequence[Path]) -> str:
        """Return shell lines that make a runtime load these files, or a text that says how it does."""
        return import_module(self.module).loader(paths)

    def judge(self, path: Path, root: int | None, interleavings: int) -> None:
        """Judge the program in a file as its runtime executes it, for a format that is `ranged`.

        Raises
        ------
        InputError
            If the file holds no program.
        ProgramError
            If the program isn't right.
        """
        import_module(self.module).judged(path, root, interleavings)

    def read(self, path: Path, root: int | None = None) -> Program:
        """Return the program in a file; `root` is that of a rooted collective if the file doesn't state it.

        Raises
        ------
        InputError
            If the file holds no program, or the format can't be read.
        """
        module = import_module(self.module)
        if not hasattr(module, "read"):
            raise InputError(f"format '{self.name}' is written only")
        return module.read(path, root)

    def check_imported(self) -> None:
        """Check that programs of this format can be converted to schedules.

        Raises
        ------
        InputError
            If they can't; the message names the formats that can.
        """
        if not self.imported:
            able = ", ".join(form.name for form in FORMATS.values() if form.imported)
            raise InputError(f"programs of format '{self.name}' aren't made schedules; imported are: {able}")


FORMATS: Mapping[str, ProgramFormat] = {
    form.name: form
    for form in (
        ProgramFormat(
            "msccl",
            "MSCCL XML, for MSCCL and RCCL",
            "tutti.schedules.programs.msccl.files",
            imported=True,
            suffix=".xml",
        ),
        ProgramFormat(
            "mscclpp", "execution plans of MSCCL++", "tutti.schedules.programs.mscclpp.files", suffix=".json"
        ),
        ProgramFormat(
            "chakra",
            "Chakra traces, for ASTRA-sim's custom collectives",
            "tutti.schedules.programs.chakra",
        ),
        ProgramFormat("goal", "GOAL, for LogGOPSim and ATLAHS", "tutti.schedules.programs.goal"),
        ProgramFormat("nccl-graph", "NCCL's graph file, of rings", "tutti.schedules.programs.nccl_graph"),
        ProgramFormat(
            "graphml", "the network and its loads, for Gephi and networkx", "tutti.schedules.programs.graphml"
        ),
        ProgramFormat("csv", "the schedule as CSV, for spreadsheets", "tutti.schedules.files.csv_file"),
        ProgramFormat("listing", "what each rank does, for people", "tutti.schedules.programs.listing"),
    )
}


def find_format(name: str) -> ProgramFormat:
    """Return the format with this name.

    Raises
    ------
    InputError
        If there is none; the message suggests a similar name.
    """
    if name not in FORMATS:
        raise InputError(f"unknown format '{name}'{suggestion(name, FORMATS)}")
    return FORMATS[name]
