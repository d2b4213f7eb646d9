"""The config of an experiment: a TOML file, read strictly; what is wrong is said with its place.

``sweep = {key = [..]}`` in a table makes one table of each combination of the values: a key of the table is
set, and any other name fills its ``{key}`` placeholders in the table's text.
"""

from __future__ import annotations

import itertools
import math
import re
import tomllib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, ClassVar, Generic, Literal, NamedTuple, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from tutti.experiments import plugins
from tutti.topologies.errors import InputError, TuttiError, suggestion
from tutti.topologies.files import read_text
from tutti.topologies.options import time_text
from tutti.topologies.processes import load

KeepSchedules = Literal["all", "best", "none"]
SIZE_EXAMPLE = '"1MB"'
Values = dict[str, Any]
"""A table as TOML has it, not yet checked."""
Several = Annotated[list[Values], Field(min_length=1)]
MOST_TABLES = 10**5
"""Most networks, collectives or methods of a config. Larger numbers are taken for typing errors."""
PLACEHOLDER = re.compile(r"\{([A-Za-z_]\w*)\}")
"""A name in braces; the papers' ``C(16,{3,4})`` is none."""


class Table(BaseModel):
    """A table of the config: unknown keys are errors, no value is converted."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, hide_input_in_errors=True)


TimeText = Annotated[str, BeforeValidator(time_text)]
"""A time in a config's table, as text: numbers are seconds."""


class TopologyTable(Table):
    """``[[topology]]``: one network."""

    spec: str


class PartTable(Table):
    """One of ``parts``: a collective that runs at the same time as others."""

    kind: str
    root: int | None = None
    shards: list[int | Decimal] | None = None
    groups: list[list[int]] | str | None = None
    matrix: str | None = None
    size: str | None = None


class CollectiveTable(PartTable):
    """``[[collective]]``: what to do, at which sizes M; ``kind = "mixed"`` has `parts`, each with a `size`.

    `groups` may be a text, by dimensions (`schedules.collective`). Without `sizes` M is the largest `size` of
    the parts or dimensions, or the largest row of a matrix of bytes.
    """

    sizes: list[str] | None = Field(default=None, min_length=1)
    parts: list[PartTable] | None = None


class MethodTable(Table):
    """``[[method]]``: how to make the schedules.

    ``seeds = n`` keeps the best of the seeds 0..n-1; a list of seeds keeps each. `topologies` and
    `collectives` are shell patterns of those that it is for, and `sizes` some of those of the collectives;
    without, all. `memory` is what a synthesis may take at most; without, that of ``[run]``.
    """

    name: str
    topologies: list[str] | None = Field(default=None, min_length=1)
    collectives: list[str] | None = Field(default=None, min_length=1)
    sizes: list[str] | None = Field(default=None, min_length=1)
    seeds: int | list[int] | None = None
    memory: str | None = None
    options: dict[str, Any] = {}


class ReportTable(Table):
    """``[report]``: what the results are compared with: a method, by its name or with its options."""

    baseline: str | None = None


class MachinesTable(Table):
    """``[run]`` of a study of training, and the part of other studies' tables that says where they run."""

    PLACE: ClassVar[str] = "[run]"
    """The name of the table in messages."""

    workers: int | None = None
    scheduler: str | None = None


class RunTable(MachinesTable):
    """``[run]``: how to run it; nothing here changes a result.

    Configs of earlier versions may have `shared`, a folder, which has no effect any more.
    """

    shared: str | None = None
    time_limit: TimeText | None = None
    memory: str | None = None
    keep_schedules: KeepSchedules = "all"


class Document(Table):
    """The whole file, whatever its kind; its tables are not yet read."""

    name: str
    kind: Literal["schedules", "failures", "solvers", "training"] | None = None
    plugins: list[str] = []
    topology: Several = []
    collective: Several = []
    method: Several = []
    failures: list[Values] | Values = []
    report: Values = {}
    job: Several = []
    stated: Several = []
    study: Values = {}
    instance: Several = []
    solver: Several = []
    run: Values = {}


REPORT = "report.html"
"""The name of the report's file in a folder of results."""


class StudyKind(NamedTuple):
    """A kind of study. The modules that it names are imported when they are needed: they import much.

    Parameters
    ----------
    plan
        The module below `tutti.experiments` whose ``study_of`` makes a study of a config and the methods.
    page
        ``"module:NAME"`` below `tutti.experiments` of the function that returns the contents of the page of a
        folder of results, as `report.page.write_page` takes them.
    shown
        The name in `cli.run` of the function that prints what came out.
    needed, others
        The tables that a config must have, and those that it may have.
    """

    plan: str
    page: str
    shown: str
    needed: tuple[str, ...]
    others: tuple[str, ...] = ()

    def contents(self, directory: Path) -> dict[str, Any]:
        """Return the contents of the page of a folder of results, with its tables and charts."""
        return load(f"tutti.experiments.{self.page}")(directory)

    def draw(self, directory: Path) -> Path:
        """Write the page into its folder of results, and return its path."""
        return load("tutti.experiments.report.page:write_page")(self.contents(directory), directory / REPORT)

    def show(self, summary: Any) -> None:
        """Print what came out of a run, of its `runner.run.Summary`."""
        load(f"tutti.experiments.cli.run:{self.shown}")(summary)


_COMPARED, _RUN = ("topology", "collective", "method"), ("run", "report")
_SOLVED, _TRAINED = ("study", "instance", "solver"), ("job", "method")
_FAILED, _MORE = (*_COMPARED, "failures"), ("stated", "run")
KINDS = {
    "schedules": StudyKind("runner.plan", "report.page:run_contents", "print_summary", _COMPARED, _RUN),
    "solvers": StudyKind("solver_study.tasks", "solver_study.report:contents", "print_study", _SOLVED),
    "training": StudyKind("training.study", "training.report:contents", "print_training", _TRAINED, _MORE),
    "failures": StudyKind("resilience", "resilience:contents", "print_losses", _FAILED, _RUN),
}
"""The kinds of studies that a config can be."""
MARKS = {"study": "solvers", "instance": "solvers", "job": "training", "failures": "failures"}
MARKS |= {"limit_s": "solvers"}  # a column of its rows; rows of methods have a column ``solver`` too
"""Tables of a config, or columns of its rows, that give the kind away where the config does not say it. The
first of them that is there decides; without any it is the first kind."""

T = TypeVar("T", bound=Table)
R = TypeVar("R")


class Placed(NamedTuple, Generic[T]):
    """A table with the place it stands at, for messages."""

    where: str
    table: T


@dataclass(frozen=True)
class Config:
    """A config of any kind.

    Parameters
    ----------
    path, text
        The file and what stands in it.
    name
        The name of the study; its results go to ``results/<name>``.
    kind
        One of `KINDS`.
    document
        Its tables; `tables` and `table` read them.
    """

    path: str
    text: str
    name: str
    kind: str
    document: Document | None = None

    def tables(self, kind: type[T], name: str) -> tuple[Placed[T], ...]:
        """Return the tables of one name, swept, each with its place.

        Raises
        ------
        InputError
            If one is wrong.
        """
        given = getattr(self.document, name)
        return read_tables(kind, given if isinstance(given, list) else [given], self.path, name)

    def table(self, kind: type[T], name: str) -> T:
        """Return the one table of a name.

        Raises
        ------
        InputError
            If it is wrong.
        """
        return read_table(kind, getattr(self.document, name), f"{self.path}: [{name}]")


def kind_of(tables: Mapping[str, Any]) -> str:
    """Return the kind of study that a config's tables, or the columns of its rows, are of."""
    return tables.get("kind") or next((MARKS[name] for name in MARKS if name in tables), "schedules")


def read_config(path: Path | str) -> Config:
    """Return the config in a TOML file.

    Raises
    ------
    InputError
        If the file can't be read, is no TOML, or a table or key in it is wrong.
    """
    return parse_config(read_text(path), str(path))


def parse_config(text: str, path: str = "config") -> Config:
    """Return the config in a TOML text, its plug-ins loaded.

    Parameters
    ----------
    text
        The text of the file.
    path
        What messages call it; the files of its plug-ins are named from its folder.

    Raises
    ------
    InputError
        As `read_config`.
    """
    given = parse_toml(text, path)
    document, kind = read_table(Document, given, path), kind_of(given)
    needed = KINDS[kind].needed
    allowed = ["name", "kind", "plugins", *needed, *KINDS[kind].others]
    if unknown := next((name for name in given if name not in allowed), None):
        raise InputError(f"{path}: a study of {kind} has no '{unknown}'; it has {', '.join(allowed)}")
    if missing := next((name for name in needed if name not in given), None):
        raise InputError(f"{path}: {'[study]' if missing == 'study' else f'[[{missing}]]'} is missing")
    for file in document.plugins:
        at(path, plugins.load, Path(path).parent / file)
    if not re.fullmatch(r"\w[\w.-]*", document.name):
        raise InputError(f"{path}: name '{document.name}' must be letters, digits, '_', '.' and '-'")
    return Config(path, text, document.name, kind, document)


def parse_toml(text: str, path: str) -> dict[str, Any]:
    """Return a TOML text's tables, numbers with a point exact; an error names the line."""
    try:
        return tomllib.loads(text, parse_float=Decimal)
    except tomllib.TOMLDecodeError as error:
        if place := re.fullmatch(r"(.*) \(at line (\d+), column (\d+)\)", str(error)):
            raise InputError(f"{path}:{place[2]}: not TOML: {place[1]} (column {place[3]})") from error
        raise InputError(f"{path}: not TOML: {error}") from error
    except RecursionError as error:
        raise InputError(f"{path}: nested too deeply for a config") from error
    except ValueError as error:  # an integer of thousands of digits, or a date that is none
        raise InputError(f"{path}: a number or date is out of range: {error}") from error


def read_tables(
    kind: type[T], tables: Sequence[Mapping[str, Any]], path: str, name: str
) -> tuple[Placed[T], ...]:
    """Return the tables of one name, swept, each with its place."""
    places = [f"{path}: [[{name}]] {number}" for number in range(1, len(tables) + 1)]
    count = sum(math.prod(map(len, sweeps(*one).values())) for one in zip(tables, places, strict=True))
    if count > MOST_TABLES:
        raise InputError(f"{path}: [[{name}]] and its sweeps make {count} tables; at most {MOST_TABLES}")
    return tuple(
        Placed(place, read_table(kind, filled, place))
        for table, where in zip(tables, places, strict=True)
        for filled, place in expand(table, kind.model_fields, where)
    )


def read_table(kind: type[T], values: Mapping[str, Any] | str, where: str) -> T:
    """Return a table, or one in a JSON text, checked strictly; an error names the place and the key."""
    try:
        return kind.model_validate_json(values) if isinstance(values, str) else kind.model_validate(values)
    except ValidationError as error:
        # A misspelt key explains the missing one.
        first = min(error.errors(), key=lambda details: details["type"] != "extra_forbidden")
        raise InputError(f"{where}: {_reason(kind, first['type'], first['loc'], first)}") from error


def _reason(kind: type[Table], error: str, place: tuple[int | str, ...], details: Mapping[str, Any]) -> str:
    """Say what is wrong with one key, or with the whole."""
    if not place:
        return str(details["msg"])
    key = str(place[0])
    if error == "extra_forbidden" and len(place) > 1:
        return f"'{key}': unknown key '{place[-1]}'"
    if error == "extra_forbidden":
        return f"unknown key '{key}'{suggestion(key, [*kind.model_fields, 'sweep'])}"
    if error == "missing":
        return f"key '{key}' is missing"
    if kind is Document and error == "list_type" and key != "plugins":
        return f"write [[{key}]] with double brackets: it may occur more than once"
    if error == "too_short":
        return f"'{key}' is empty; give at least one"
    value = details["input"]
    if key == "sizes" and isinstance(value, (int, Decimal)):
        return f"size {value} has no unit; write it as text, such as {SIZE_EXAMPLE}"
    wanted = str(details["msg"]).removeprefix("Input should be ").replace("dictionary", "table")
    shown = str(value).lower() if isinstance(value, bool | Decimal) else repr(value)
    return f"'{key}' must be {wanted}, not {shown}"


def at(where: str, function: Callable[..., R], *arguments: Any) -> R:
    """Call a function; an error of the user's gets its place."""
    try:
        return function(*arguments)
    except TuttiError as error:
        raise InputError(f"{where}: {error}") from error


def positive(parse: Callable[[str], Fraction], text: str | None, where: str) -> float | None:
    """Return what a text says, which must be positive; None for None."""
    if text is None:
        return None
    if (value := at(where, parse, text)) <= 0:
        raise InputError(f"{where} is '{text}'; it must be positive")
    return float(value)


def distinct_seeds(seeds: Sequence[int]) -> tuple[int, ...]:
    """Return the seeds of a list, which must be different and not negative."""
    if not seeds or min(seeds) < 0 or len(set(seeds)) < len(seeds):
        raise InputError(f"seeds = {seeds}; a list holds different seeds, none negative")
    return tuple(seeds)


def expand(table: Mapping[str, Any], keys: Collection[str], where: str) -> Iterator[tuple[Values, str]]:
    """Yield the tables that a table with sweeps stands for, each with its place.

    A table in it may have a sweep of its own, which sets its keys.

    Raises
    ------
    InputError
        If a sweep is no table of lists, if one of its keys is used nowhere, or a placeholder is not filled.

    Examples
    --------
    >>> grid = expand({"spec": "ring:{n}", "sweep": {"n": [4, 8]}}, {"spec"}, "[[topology]] 1")
    >>> [table["spec"] for table, _ in grid]
    ['ring:4', 'ring:8']
    """
    axes, used = sweeps(table, where), set(PLACEHOLDER.findall(repr(table)))
    for inner, name in axes:
        if not inner and name not in keys and name not in used:
            known = suggestion(name, [*keys, *used])
            raise InputError(f"{where}, sweep: '{name}' is no key, and no text has {{{name}}}{known}")
    for values in itertools.product(*axes.values()):
        chosen = sorted(zip(axes, values, strict=True), key=lambda one: one[0][0] != "")
        filled = {key: _without_sweep(value) for key, value in table.items() if key != "sweep"}
        for (inner, name), value in chosen:
            if inner or name in keys:
                (filled[inner] if inner else filled)[name] = value
        notes = ", ".join(f"{name} = {value}" for (_, name), value in chosen)
        place = f"{where} ({notes})" if notes else where
        yield _fill(filled, {name: value for (inner, name), value in chosen if not inner}, place), place


def sweeps(table: Mapping[str, Any], where: str) -> dict[tuple[str, str], list[Any]]:
    """Return the values of a table's sweeps, by the key of the table in it that has one, or "", and its own.

    Raises
    ------
    InputError
        If a sweep is no table of lists.

    Examples
    --------
    >>> sweeps({"sweep": {"n": [4, 8]}, "options": {"sweep": {"chunks": [1, 2]}}}, "[[method]] 1")
    {('options', 'chunks'): [1, 2], ('', 'n'): [4, 8]}
    """
    inside = {key: value for key, value in table.items() if isinstance(value, dict) and key != "sweep"}
    found = {}
    for inner, swept in (*inside.items(), ("", table)):
        place, sweep = f"{where}, {inner}" if inner else where, swept.get("sweep", {})
        if not isinstance(sweep, dict):
            raise InputError(f"{place}: sweep is {sweep!r}; write it as {{key = [value, ...]}}")
        for name, values in sweep.items():
            if not isinstance(values, list) or not values:
                said = f"'{name}' is {values!r}; give a list of values, such as [4, 8]"
                raise InputError(f"{place}, sweep: {said}")
            found[inner, name] = values
    return found


def _without_sweep(value: Any) -> Any:
    return {key: of for key, of in value.items() if key != "sweep"} if isinstance(value, dict) else value


def _fill(value: Any, chosen: Mapping[str, Any], where: str) -> Any:
    if isinstance(value, dict):
        return {key: _fill(inner, chosen, where) for key, inner in value.items()}
    if isinstance(value, list):
        return [_fill(inner, chosen, where) for inner in value]
    if not isinstance(value, str):
        return value
    for name in PLACEHOLDER.findall(value):
        if name not in chosen:
            raise InputError(f"{where}: nothing fills {{{name}}} in '{value}'; add sweep = {{{name} = [..]}}")
    return PLACEHOLDER.sub(lambda match: str(chosen[match[1]]), value)
