"""The formats that schedules are exported to, and programs imported from: `FORMATS`, a line each.

A format is a module with ``OPTIONS``, a class of options (`topologies.options`), and functions

    write(schedule, path, options) -> dict[str, Any]     facts about the file, to be printed
    read(path, root) -> Program                          only if its programs are imported
    loader(paths) -> str                                 only with ranges of sizes: how to load a set
    judged(path, root, interleavings) -> None            only with ranges: judge a file by its runtime's rules

which is loaded when the format is asked for.
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
    """A format of files that others load.

    Parameters
    ----------
    name
        As ``--format`` has it.
    summary
        Who loads it.
    module
        Where it is implemented.
    imported
        Whether its programs are made schedules.
    suffix
        Of its files.
    """

    name: str
    summary: str
    module: str
    imported: bool = False
    suffix: str = ""

    @property
    def options(self) -> type[Any]:
        """The class of its options."""
        options: type[Any] = import_module(self.module).OPTIONS
        return options

    def write(self, schedule: Schedule, path: Path, options: Any) -> dict[str, Any]:
        """Write a verified schedule, and return what is to be said of that.

        Raises
        ------
        TuttiError
            If the format, or what loads it, can't have it; then nothing is written.
        """
        said: dict[str, Any] = import_module(self.module).write(schedule, path, options)
        return said

    @property
    def ranged(self) -> bool:
        """Whether a file says for which sizes it is, so that a runtime loads several."""
        return hasattr(import_module(self.module), "loader")

    def loader(self, paths: Sequence[Path]) -> str:
        """Return the lines of a shell that make a runtime load these files, or say how it does."""
        lines: str = import_module(self.module).loader(paths)
        return lines

    def judge(self, path: Path, root: int | None, interleavings: int) -> None:
        """Judge the program in a file as its runtime plays it, where files are `ranged`.

        Raises
        ------
        InputError
            If it holds none.
        ProgramError
            If it isn't right.
        """
        import_module(self.module).judged(path, root, interleavings)

    def read(self, path: Path, root: int | None = None) -> Program:
        """Return the program in a file; `root` is that of a rooted collective, where the file doesn't say.

        Raises
        ------
        InputError
            If it holds none, or the format isn't read.
        """
        module = import_module(self.module)
        if not hasattr(module, "read"):
            raise InputError(f"format '{self.name}' is written only")
        program: Program = module.read(path, root)
        return program

    def check_imported(self) -> None:
        """Check that its programs are made schedules.

        Raises
        ------
        InputError
            If they aren't, naming the formats whose are.
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
            "tutti.schedules.programs.chakra.files",
        ),
        ProgramFormat("goal", "GOAL, for LogGOPSim and ATLAHS", "tutti.schedules.programs.goal"),
        ProgramFormat("nccl-graph", "NCCL's graph file, of rings", "tutti.schedules.programs.nccl_graph"),
        ProgramFormat(
            "graphml", "the network and its loads, for Gephi and networkx", "tutti.schedules.programs.graphml"
        ),
        ProgramFormat("csv", "the schedule as CSV, for spreadsheets", "tutti.schedules.programs.csv_format"),
        ProgramFormat("listing", "what each rank does, for people", "tutti.schedules.programs.listing"),
    )
}


def find_format(name: str) -> ProgramFormat:
    """Return the format of that name.

    Raises
    ------
    InputError
        If there is none; the message suggests one.
    """
    if name not in FORMATS:
        raise InputError(f"unknown format '{name}'{suggestion(name, FORMATS)}")
    return FORMATS[name]
