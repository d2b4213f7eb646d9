"""The config of a study of solvers: ``[[instance]]`` and ``[[solver]]`` tables, read strictly."""

from __future__ import annotations

import dataclasses
from decimal import Decimal
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

from pydantic import Field

from tutti.experiments.runner.config import (
    Config,
    MachinesTable,
    Table,
    TimeText,
    at,
    distinct_seeds,
    positive,
)
from tutti.experiments.solver_study.milp_instances import is_mixed, model_text
from tutti.models.solvers import SolverOptions
from tutti.models.solvers.registry import BACKENDS
from tutti.topologies.errors import InputError, suggestion
from tutti.topologies.units import parse_size, parse_time

OF_THE_RUN = {"time_limit", "memory_limit", "seed", "log", "own_process", "relative_gap"}
"""Options that the study sets for all solvers."""


class InstanceTable(Table):
    """``[[instance]]``: a program; the limit and the seeds are those of ``[study]`` if absent."""

    model: str
    topology: str
    options: dict[str, Any] = Field(default_factory=dict)
    time_limit: TimeText | None = None
    seeds: list[int] | None = Field(default=None, min_length=1)


class SolverTable(Table):
    """``[[solver]]``: a back-end with options, under a label, which is its name if absent."""

    name: str
    label: str = ""
    options: dict[str, Any] = Field(default_factory=dict)

    def checked(self, **more: Any) -> SolverOptions:
        """Return the back-end's options, with those of the run."""
        values: dict[str, Any] = {
            name: float(value) if isinstance(value, Decimal) else value
            for name, value in self.options.items()
        }
        return BACKENDS[self.name].options(**values, **more)


class StudyTable(MachinesTable):
    """``[study]``: what is the same for all solves.

    The first count of `threads` is for all programs, the others for every `threads_every`-th.
    """

    PLACE: ClassVar[str] = "[study]"

    time_limit: TimeText
    memory_limit: str | None = None
    seeds: list[int] = Field(default=[0], min_length=1)
    keep_logs: bool = True
    clock: Literal["wall", "cpu"] = "wall"
    relative_gap: Decimal = Field(default=Decimal("1e-6"), gt=0, lt=1)
    tolerance: Decimal | None = Field(default=None, gt=0, lt=1)
    threads: list[Annotated[int, Field(ge=1)]] = Field(default=[1], min_length=1)
    threads_every: int = Field(default=1, ge=1)


class StudyProgram(NamedTuple):
    """A program of the study.

    Parameters
    ----------
    where
        Its place in the config.
    model, topology
        What it is; the model with its options (`milp_instances.find_model`).
    seeds
        Orders of rows and columns, and the solver's own seed where it has one.
    time_limit
        Seconds of a solve.
    threads
        How many a solver has; each of these is another row.
    """

    where: str
    model: str
    topology: str
    seeds: tuple[int, ...]
    time_limit: float | None
    threads: tuple[int, ...]


class StudyConfig(NamedTuple):
    """A study, read.

    Parameters
    ----------
    table
        What is the same for all solves: ``clock`` says what means and profiles count, ``relative_gap`` where
        branch and cut stops, and ``tolerance`` is that of all solvers that have none in their options.
    programs
        What is solved, in order.
    solvers
        The solvers that are compared.
    memory_limit
        Bytes of a solve; None for none.
    """

    table: StudyTable
    programs: tuple[StudyProgram, ...]
    solvers: tuple[SolverTable, ...]
    memory_limit: float | None

    @property
    def mixed(self) -> bool:
        """Whether it is about mixed-integer programs."""
        return any(is_mixed(program.model) for program in self.programs)


def read_study(config: Config) -> StudyConfig:
    """Return the study of a config.

    Raises
    ------
    InputError
        If a table or key in it is wrong.
    """
    where, study = config.path, config.table(StudyTable, "study")
    instances = config.tables(InstanceTable, "instance")
    seeds = at(f"{where}: [study]", distinct_seeds, study.seeds)
    limit = positive(parse_time, study.time_limit, f"{where}: [study]: time_limit")
    programs = tuple(
        StudyProgram(
            placed.where,
            model_text(table.model, table.options),
            table.topology.strip(),
            seeds if table.seeds is None else at(placed.where, distinct_seeds, table.seeds),
            positive(parse_time, table.time_limit, f"{placed.where}: time_limit") or limit,
            tuple(dict.fromkeys(study.threads if number % study.threads_every == 0 else study.threads[:1])),
        )
        for number, placed in enumerate(instances, start=1)
        for table in (placed.table,)
    )
    found: dict[str, SolverTable] = {}
    for each in config.tables(SolverTable, "solver"):
        solver, name, label = each.table, each.table.name, each.table.label or each.table.name
        if label in found:
            raise InputError(f"{each.where}: label '{label}' occurs twice; give each its own label")
        if name not in BACKENDS:
            raise InputError(f"{each.where}: unknown solver '{name}'{suggestion(name, BACKENDS)}")
        fields = {field.name for field in dataclasses.fields(BACKENDS[name].options)} - OF_THE_RUN
        for option in solver.options:
            asked = f"{each.where}: option '{option}'"
            if option in OF_THE_RUN:
                raise InputError(f"{asked} is the same for all solvers; [study] sets it")
            if option not in fields:
                known = suggestion(option, fields)
                raise InputError(f"{each.where}: solver {name} has no option '{option}'{known}")
        at(each.where, solver.checked)
        found[label] = solver.model_copy(update={"label": label})
    memory = positive(parse_size, study.memory_limit, f"{where}: [study]: memory_limit")
    return StudyConfig(study, programs, tuple(found.values()), memory)
