"""The page of a study of solvers, of linear or of mixed-integer programs."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean, median
from typing import Any

from markupsafe import Markup

from tutti.experiments.report.page import THEMES, manifest_lines, render
from tutti.experiments.report.series import Series
from tutti.experiments.report.standings import shifted_geometric_mean
from tutti.experiments.report.tables import (
    TEXTS,
    Cell,
    PageBlock,
    PageTable,
    Panel,
    Said,
    Section,
    block,
    counted,
    method_heads,
    number,
    seconds,
)
from tutti.experiments.runner.manifest import MANIFEST
from tutti.experiments.runner.results import read_rows
from tutti.experiments.runner.study import REPORT
from tutti.experiments.solver_study.charts import (
    DRAWN,
    error_chart,
    integral_chart,
    profile_chart,
    scaling_chart,
    study_charts,
    trace_chart,
)
from tutti.experiments.solver_study.comparison import (
    RULES,
    difference_table,
    measure_table,
    outcome_table,
    win_table,
)
from tutti.experiments.solver_study.instances import MODELS
from tutti.experiments.solver_study.milp_instances import MIXED, is_mixed
from tutti.experiments.solver_study.statistics import (
    MIXED_TOLERANCE,
    NOT_RUN,
    SHIFT,
    SIZES,
    TOLERANCE,
    Row,
    SolverChoice,
    SolverStanding,
    best_known,
    building,
    by_solver,
    charged,
    choices,
    comparable,
    disagreements,
    gap_left,
    grouped,
    instance_of,
    is_mixed_row,
    missing,
    not_run,
    problems_of,
    profile,
    shift_of,
    size_class,
    solved,
    standings,
    taken,
)
from tutti.topologies.errors import InputError
from tutti.topologies.files import read_text, written

Looks = Mapping[str, Series]


def write_study_report(directory: Path, page: Path | None = None) -> Path:
    """Write the page of a folder of results, `REPORT` in it without `page`, and return its path.

    Raises
    ------
    InputError
        If there are no readable results, or the page can't be written.
    """
    try:
        rows = read_rows(directory)
        manifest = json.loads(read_text(directory / MANIFEST))
    except (InputError, ValueError) as error:
        raise InputError(f"{directory}: no readable results of a study: {error}") from error
    return written(page or directory / REPORT, render_study(rows, manifest).encode(), "report")


def render_study(rows: Sequence[Row], manifest: Mapping[str, Any]) -> str:
    """Return the page of a study as HTML."""
    mixed = any(is_mixed(row["model"]) for row in rows)
    looks = {
        solver: Series(place, solver, str(own[0]["options"] or ""), "", solver)
        for place, (solver, own) in enumerate(by_solver(rows).items())
    }
    kind, name = "mixed" if mixed else "linear", str(manifest.get("name", "study"))
    instances = counted(len(set(map(instance_of, rows))), f"{'mixed-integer' if mixed else kind} program")
    threads = sorted({int(row.get("threads") or 1) for row in rows})
    wrong = sum(row.get("answer") == "wrong" for row in rows)
    are = f"{wrong} {'answer is' if wrong == 1 else 'answers are'}"
    return render(

        title=f"{name}: tutti study of solvers",
        heading=name,
        lead=TEXTS[kind]["lead"].format(
            instances=instances,
            solvers=counted(len(looks), "solver"),
            seeds=counted(len({row["seed"] for row in rows}), "seed"),
            limit=seconds(max((float(row["limit_s"]) for row in rows), default=0.0)),
            threads="one thread" if threads == [1] else f"{' or '.join(map(str, threads))} threads",
        ),
        alarm=Markup(TEXTS[kind]["wrong"]).format(are, tolerance=TOLERANCE) if wrong else "",
        series=list(looks.values()),
        tips=["\n".join(filter(None, (label, one.options))) for label, one in looks.items()],
        picks=[THEMES],
        sections=[
            _summary(kind, rows, looks, manifest),
            Section("What became of every problem", block("outcomes", outcome_table(rows))),
            Section("Solvers on the same problems", list(_comparisons(rows))),
            *(_mixed_sections if mixed else _linear_sections)(rows, looks),
            _agreement(kind, rows, looks),
            Section("Every program", block("", _programs(kind, rows, looks))),
            *([] if mixed else [Section("Model building", block("", _building_table(rows)))]),
        ],
        manifest=list(manifest_lines(manifest)),
        charts=study_charts(list(looks.values())),
    )


def _summary(kind: str, rows: Sequence[Row], looks: Looks, manifest: Mapping[str, Any]) -> Section:
    """Return how each solver did over all programs, and what it was not run on."""
    texts = TEXTS[f"{kind}-standings"]
    told = ""
    if dict(manifest.get("settings", {})).get("clock") == "cpu" and kind == "mixed":
        shares = [row["cpu_s"] / row["solve_s"] for row in rows if not missing(row.get("cpu_s"))]
        told = texts["clock"].format(100 * (median(shares) if shares else 1))
    fastest = {solver: sum(r <= 1.0 for r in own) for solver, own in profile(comparable(rows)[0]).items()}
    values: Any = {"shift": shift_of(rows), "problems": problems_of(rows), "clock": told}
    table = _standing_table(f"{kind}-standings", standings(rows), looks, fastest, **values)
    left = [f"Not run: {line}." for line in not_run(rows)]
    return Section("Solvers", block(f"{kind}-standings", table), left, id="summary")


def _standing_table(
    key: str, lines: Sequence[SolverStanding], looks: Looks, fastest: Mapping[str, int], **values: Any
) -> PageTable:
    """Return a line a solver, with what the kind's texts have heads for."""
    said: dict[str, Callable[[SolverStanding], Said]] = {
        "solver": lambda s: Cell(s.solver, "name", series=looks[s.solver]),
        "mean": lambda s: Cell(seconds(s.mean_s), "best" if s is lines[0] else ""),
        "over the best": lambda s: f"{s.mean_s / lines[0].mean_s:.2f}" if lines[0].mean_s else "",
        "solved": lambda s: f"{s.right} of {s.tried}",
        "proven": lambda s: f"{s.right} of {s.tried}",
        "fastest": lambda s: str(fastest.get(s.solver, 0)),
        "limit reached": lambda s: str(s.timeouts),
        "incumbent": lambda s: str(s.found),
        "best known": lambda s: str(s.best),
        "primal integral": lambda s: f"{100 * s.integral:.1f} %",
        "gap left": lambda s: f"{100 * s.gap:.1f} %",
        "on a grid": lambda s: str(s.grid),
        "wrong": lambda s: Cell(str(s.wrong), "wrong" if s.wrong else ""),
        "failed": lambda s: str(s.failed),
        "largest error": lambda s: _error(s.worst_error),
    }
    heads = _heads(key)
    rows = [(f"s{looks[s.solver].number}", [said[head](s) for head in heads]) for s in lines]
    return PageTable.of(key, rows, **values)


def _heads(key: str) -> list[str]:
    return [head.removesuffix("#") for head in TEXTS[key]["heads"]]


def _error(value: float | None) -> str:
    return "–" if missing(value) else f"{value:.1e}" if value else "0"


def _comparisons(rows: Sequence[Row]) -> Iterator[PageBlock]:
    """Yield what comparisons are, and the tables of each group of solvers that ran the same problems."""
    text = TEXTS["comparison"]["text"]
    yield PageBlock("", "", text.format(**RULES._asdict(), percent=100 * RULES.confidence))
    for group in comparable(rows):
        solvers = list(by_solver(group))
        if len(solvers) > 1:
            programs = len(set(map(instance_of, group)))
            title = f"{problems_of(group)} problems of {programs} programs, {len(solvers)} solvers"
            yield PageBlock("", title, ", ".join(solvers), [measure_table(group)])
            tables = (difference_table(group), win_table(group))
            yield from (PageBlock("", "", "", [table]) for table in tables if table.rows)


def _linear_sections(rows: Sequence[Row], looks: Looks) -> list[Section]:
    """Return whom to choose when, and the charts of a study of linear programs."""
    models = grouped(rows, lambda row: str(row["model"]))
    known = {model: own for model, own in models.items() if any(map(size_class, own))}
    groups = {"all models": rows, **(known if len(known) > 1 else {})}
    profiles = [
        Panel(name, "", profile_chart(comparable(own)[0], looks, name)) for name, own in groups.items()
    ]
    scaling = [Panel(model, "", scaling_chart(own, looks, model)) for model, own in known.items()]
    sizes = (f"{size} below {end:,.0f}" if end < math.inf else f"{size} above" for size, end in SIZES)
    summaries = (f"{model}: {MODELS[model].summary}." for model in models if model in MODELS)
    chosen: list[tuple[str, list[Said]]] = [
        ("", [Cell(c.model, "name"), c.size, str(c.instances), advice(c)]) for c in choices(rows)
    ]
    table = PageTable.of("choices", chosen, sizes=", ".join(sizes), models=" ".join(summaries))
    unproven = sorted({" ".join(instance_of(row)) for row in rows if row.get("answer") == "unproven"})
    said = [f"Without a certified value: {', '.join(unproven)}."] if unproven else []
    errors = block("errors", Panel("", "", error_chart(rows, looks)), tolerance=TOLERANCE)
    return [
        Section("Which solver to choose when", block("", table)),
        Section("Performance profiles", block("solver-profiles", *profiles)),
        Section("Time against size", block("scaling", *scaling)),
        Section("Accuracy", errors, said),
    ]


def _mixed_sections(rows: Sequence[Row], looks: Looks) -> list[Section]:
    """Return the solvers by model, and the charts of a study of mixed-integer programs."""
    families, every = [], comparable(rows)[0]
    ran = (row for row in rows if row["status"] != NOT_RUN)
    for family, own in grouped(ran, lambda row: str(row["model"]).partition(" ")[0]).items():
        for group in comparable(own):
            if len(lines := standings(group)) > 1:
                table = _standing_table("mixed-family", lines, looks, {})
                text = f"{MIXED[family].summary}." if family in MIXED else ""
                title = f"{family}: {counted(len(set(map(instance_of, group))), 'program')}"
                families.append(PageBlock("", title, text, [table]))
    profiles = {
        "time to proven optimality": profile_chart(every, looks, "all models"),
        "primal integral": integral_chart(every, looks),
    }
    return [
        Section("By model", families),
        Section(
            "Profiles", block("proof-profiles", *(Panel(name, "", one) for name, one in profiles.items()))
        ),
        Section("Incumbents and bounds over time", block("courses", *_courses(rows, looks), soon=DRAWN.soon)),
    ]


def _courses(rows: Sequence[Row], looks: Looks) -> Iterator[Panel]:
    """Yield the chart of each program that took some solver a while."""
    for (model, topology), own in grouped(rows, instance_of).items():
        tried = [row for row in own if is_mixed_row(row) and row["seed"] == own[0]["seed"]]
        if any(not solved(row) or taken(row) >= DRAWN.soon for row in tried):
            chart = trace_chart(tried, looks, f"incumbents and bounds over time, {model} {topology}")
            if chart is not None:
                yield Panel(f"{model}, {topology}", "", chart)


def _agreement(kind: str, rows: Sequence[Row], looks: Looks) -> Section:
    """Return which answers differ, which of them are refuted, and what failed."""
    pairs, texts = disagreements(rows), TEXTS[kind]
    told = texts["apart"] if pairs else texts["agree"]
    said = [told.format(counted(len(pairs), "pair"), tolerance=TOLERANCE)] if told else []
    for a, b in pairs:
        refuted = ", ".join(row["method"] for row in (a, b) if row.get("answer") == "wrong")
        if not (refuted and kind == "linear"):
            claims = ", ".join(f"{row['method']} {row['objective']:.10g}" for row in (a, b))
            end = f"; refuted: {refuted}" if refuted else texts["undecided"]
            said.append(f"{a['model']} {a['topology']}: {claims}{end}.")
    said += [
        f"{row['method']} failed on {' '.join(instance_of(row))}, seed {row['seed']}: {row['message']}"
        for row in rows
        if row["status"] == "failed"
    ]
    cells: dict[str, Callable[[Row], Said]] = {
        "solver": lambda row: Cell(row["method"], "name", series=looks[row["method"]]),
        "program": lambda row: " ".join(instance_of(row)),
        "seed": lambda row: str(row["seed"]),
        "stopped": lambda row: str(row["termination"]),
        "objective": lambda row: _digits(row.get("objective")),
        "bound": lambda row: _digits(row.get("bound")),
        "worth": lambda row: _digits(row.get("worth")),
        "certified value": lambda row: " to ".join(dict.fromkeys(_ends(row))),
        "proven to lie between": lambda row: " and ".join(_ends(row)),
        "relative error": lambda row: Cell(_error(row.get("relative_error")), "wrong"),
    }
    heads = _heads(f"{kind}-refuted")
    wrong = [("", [cells[head](row) for head in heads]) for row in rows if row.get("answer") == "wrong"]
    table = PageTable.of(f"{kind}-refuted", wrong, tolerance=MIXED_TOLERANCE) if wrong else None
    return Section("Agreement", block("", table), said, id="agreement")


def _digits(value: Any) -> str:
    return "–" if missing(value) else f"{value:.10g}"


def _ends(row: Row) -> list[str]:
    return [_digits(row["certified_lower"]), _digits(row["certified_upper"])]


def _programs(kind: str, rows: Sequence[Row], looks: Looks) -> PageTable:
    """Return what each solver made of each program; of linear ones the least mean is bold."""
    lines: list[tuple[str, list[Said]]] = []

    def mean(rows: Sequence[Row]) -> float:
        if kind == "mixed":
            return fmean(map(taken, rows))
        return shifted_geometric_mean(map(charged, rows), SHIFT)

    for (model, topology), own in grouped(rows, instance_of).items():
        told = _of_mixed(own) if kind == "mixed" else _of_linear(own)
        tried = {solver: [row for row in own if row["method"] == solver] for solver in looks}
        done = {solver: each for solver, each in tried.items() if each and all(map(solved, each))}
        means = {solver: mean(each) for solver, each in done.items()}
        least = min(means.values(), default=0.0) if kind == "linear" else None
        cells = [
            Cell(seconds(means[solver]), "best" if means[solver] == least else "", _tip(each))
            if solver in means
            else _unsolved(kind, each)
            for solver, each in tried.items()
        ]
        lines.append(("", [Cell(topology, "name"), model, *told, *cells]))
    return PageTable.of(f"{kind}-programs", lines, method_heads(looks.values()))


def _unsolved(kind: str, rows: Sequence[Row]) -> Cell:
    """Return why a solver did not solve all seeds of a program: the first of them, or a wrong one."""
    if not rows:
        return Cell("", "none")
    if any(row.get("answer") == "wrong" for row in rows):
        return Cell("wrong", "wrong", _tip(rows))
    row = next(row for row in rows if not solved(row))
    text = str(row["status"])
    if kind == "linear":
        text = "limit" if text == "timeout" else text
    elif not missing(row.get("objective")):
        left = text if text == "grid" else f"{100 * gap_left(row):.3g} %"
        text = f"{number(float(row['objective']), 6)}, {left}"
    elif is_mixed_row(row):
        text = "–"
    return Cell(text, "none", _tip(rows))


def _tip(rows: Sequence[Row]) -> str:
    """Return what a tooltip says of the seeds of a solver and a program, a line each."""
    lines = []
    for row in rows:
        parts = [f"seed {row['seed']}: {row['status']}"]
        parts += [seconds(float(row["solve_s"]))] if not missing(row.get("solve_s")) else []
        named = ("objective", "bound", "primal_integral")
        parts += [f"{name} {row[name]:.9g}" for name in named if not missing(row.get(name))]
        lines.append(", ".join([*parts, *([str(row["message"])] if row.get("message") else [])]))
    return "\n".join(lines)


def _of_linear(rows: Sequence[Row]) -> list[Said]:
    """Return the nonzeros and the certified value of a program."""
    row = rows[0]
    size = next((f"{one['nonzeros']:,.0f}" for one in rows if size_class(one)), "")
    if row.get("certified_exact"):
        return [size, str(row["certified_exact"])]
    lower, upper = row.get("certified_lower"), row.get("certified_upper")
    if lower is None or upper is None or missing(lower) or missing(upper):
        return [size, "not certified"]
    width = (upper - lower) / abs(upper) if upper else upper - lower
    return [size, f"{upper:.9g} (proven to {width:.0e})"]


def _of_mixed(rows: Sequence[Row]) -> list[Said]:
    """Return the whole columns of a program, and the best known value."""
    tried = [row for row in rows if is_mixed_row(row)]
    best = next((value for row in tried if (value := best_known(row)) is not None), None)
    size = f"{tried[0]['integers']:,.0f} of {tried[0]['variables']:,.0f}" if tried else ""
    return [size, "" if best is None else number(best, 6)]


def _building_table(rows: Sequence[Row]) -> PageTable:
    lines = [
        (
            "",
            [
                Cell(one.model, "name"), one.builder, one.size, str(one.instances),
                seconds(one.build_s), seconds(one.solve_s), f"{100 * one.share:.1f} %",
            ],
        )
        for one in building(rows)
    ]  # fmt: skip
    return PageTable.of("building", lines)


def advice(choice: SolverChoice) -> str:
    """Return in one sentence which solver to choose for a model and size, and why, as the data has it."""
    best = choice.lines[0]
    if not best.right:
        return "no solver solved any within the limit"
    names = " or ".join(choice.equals)
    solved_text = f"{best.right} of {best.tried} solved" if best.right < best.tried else "all solved"
    text = f"{names}: {solved_text}, mean {seconds(best.mean_s)}"
    after = next((line for line in choice.lines if line.solver not in choice.equals), None)
    if after is None:
        return text
    fewer = f", {after.right} of {after.tried} solved" if after.right < best.right else ""
    return f"{text}; next {after.solver}, {seconds(after.mean_s)}{fewer}"
