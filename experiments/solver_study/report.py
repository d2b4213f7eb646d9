"""The page of a study of solvers, of linear or of mixed-integer programs, and its charts.

Linear programs have performance profiles, time against size, and errors against the certified values;
mixed-integer ones have incumbents and bounds over time, and primal integrals.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import altair as alt
import pandas as pd
from markupsafe import Markup

from tutti.experiments.report.charts import (
    COLOUR,
    DASH,
    LIMIT,
    METHODS,
    MUTED,
    OPACITY,
    Drawn,
    Figure,
    named_rows,
    page_charts,
    points,
    specs_of,
    stepped,
    steps,
    tips_of,
)
from tutti.experiments.report.page import THEMES, manifest_lines
from tutti.experiments.report.panels import shares
from tutti.experiments.report.results import LOOKS, Row, Series, drawn_as
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
from tutti.experiments.runner.results import read_manifest, read_rows
from tutti.experiments.solver_study.instances import MODELS
from tutti.experiments.solver_study.milp_instances import MIXED, is_mixed
from tutti.experiments.solver_study.statistics import (
    LEAST_SECONDS,
    MIXED_TOLERANCE,
    RULES,
    SHIFT,
    SIZES,
    TOLERANCE,
    building,
    choices,
    comparable,
    difference_table,
    disagreements,
    measure_table,
    not_run,
    outcome_table,
    problems_of,
    profile,
    shift_of,
    standings,
    study_frame,
    trace_of,
    win_table,
)


def contents(directory: Path) -> dict[str, Any]:
    """Return the contents of the page of a folder of results.

    Raises
    ------
    InputError
        If there are no readable results.
    """
    return study_contents(read_rows(directory), read_manifest(directory))


def study_contents(rows: Sequence[Mapping[str, Any]], manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Return the contents of the page of a study."""
    frame = study_frame(rows)
    mixed, ran = any(map(is_mixed, frame.model)), frame[frame.ran].drop_duplicates("method")
    solvers = enumerate(zip(ran.method, ran.options, strict=True))
    looks = {name: Series(place, name, options, "", name) for place, (name, options) in solvers}
    kind, name = "mixed" if mixed else "linear", str(manifest.get("name", "study"))
    made = []
    for one in [] if mixed else building(frame):
        spent = (seconds(one.build_s), seconds(one.solve_s), f"{100 * one.share:.1f} %")
        made.append(("", [Cell(one.model, "name"), one.builder, one.size, str(one.instances), *spent]))
    threads = sorted(frame.threads.fillna(1).astype(int).unique())
    wrong = frame.wrong.sum()
    are = f"{wrong} {'answer is' if wrong == 1 else 'answers are'}"
    return {
        "title": f"{name}: tutti study of solvers",
        "heading": name,
        "lead": TEXTS[kind]["lead"].format(
            instances=counted(frame.program.nunique(), f"{'mixed-integer' if mixed else kind} program"),
            solvers=counted(len(looks), "solver"),
            seeds=counted(frame.seed.nunique(), "seed"),
            limit=seconds(frame.limit_s.max()),
            threads="one thread" if threads == [1] else f"{' or '.join(map(str, threads))} threads",
        ),
        "alarm": Markup(TEXTS[kind]["wrong"]).format(are, tolerance=TOLERANCE) if wrong else "",
        "series": list(looks.values()),
        "tips": ["\n".join(filter(None, (label, one.options))) for label, one in looks.items()],
        "picks": [THEMES],
        "sections": [
            _summary(kind, frame, looks, manifest),
            Section("What became of every problem", block("outcomes", outcome_table(frame))),
            Section("Solvers on the same problems", list(_comparisons(frame))),
            *(_mixed_sections if mixed else _linear_sections)(frame, looks),
            _agreement(kind, frame, looks),
            Section("Every program", block("", _programs(kind, frame, looks))),
            *([] if mixed else [Section("Model building", block("", PageTable.of("building", made)))]),
        ],
        "manifest": list(manifest_lines(manifest)),
        "charts": page_charts(study_specs(), list(looks.values())),
    }


def _summary(kind: str, frame: pd.DataFrame, looks: Look, manifest: Mapping[str, Any]) -> Section:
    """Return how each solver did over all programs, and what it was not run on."""
    texts = TEXTS[f"{kind}-standings"]
    told = ""
    if dict(manifest.get("settings", {})).get("clock") == "cpu" and kind == "mixed":
        share = (frame.cpu_s / frame.solve_s).median()
        told = texts["clock"].format(100 * (1 if pd.isna(share) else share))
    every = comparable(frame)[0]
    fastest = {solver: sum(ratio <= 1.0 for ratio in own) for solver, own in profile(every).items()}
    values: Any = {"shift": shift_of(frame), "problems": problems_of(frame), "clock": told}
    table = _standing_table(f"{kind}-standings", every, looks, fastest, **values)
    left = [f"Not run: {line}." for line in not_run(frame)]
    return Section("Solvers", block(f"{kind}-standings", table), left, id="summary")


def _standing_table(
    key: str, frame: pd.DataFrame, looks: Look, fastest: Mapping[str, int], **values: Any
) -> PageTable:
    """Return a line a solver, with what the kind's texts have heads for."""
    lines = standings(frame)
    rows: list[tuple[str, list[Said]]] = []
    for s in lines:
        best, right = lines[0].mean_s, f"{s.right} of {s.tried}"
        said: dict[str, Said] = {
            "solver": Cell(s.solver, "name", series=looks[s.solver]),
            "mean": Cell(seconds(s.mean_s), "best" if s is lines[0] else ""),
            "over the best": f"{s.mean_s / best:.2f}" if best else "",
            **dict.fromkeys(("solved", "proven"), right),
            "fastest": str(fastest.get(s.solver, 0)),
            "primal integral": f"{100 * s.integral:.1f} %",
            "gap left": f"{100 * s.gap:.1f} %",
            "wrong": Cell(str(s.wrong), "wrong" if s.wrong else ""),
            "largest error": _error(s.worst_error),
            **{head: str(getattr(s, name)) for head, name in COUNTED.items()},
        }
        rows.append((f"s{looks[s.solver].number}", [said[head] for head in _heads(key)]))
    return PageTable.of(key, rows, **values)


COUNTED = {
    "incumbent": "found",
    "best known": "best",
    "on a grid": "grid",
    "failed": "failed",
    "limit reached": "timeouts",
}
"""Heads of counts, and what the standings call them."""


def _heads(key: str) -> list[str]:
    return [head.removesuffix("#") for head in TEXTS[key]["heads"]]


def _error(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:.1e}" if value else "0"


def _comparisons(frame: pd.DataFrame) -> Iterator[PageBlock]:
    """Yield what comparisons are, and the tables of each group of solvers that ran the same problems."""
    text = TEXTS["comparison"]["text"]
    yield PageBlock("", "", text.format(**vars(RULES), percent=100 * RULES.confidence))
    for group in comparable(frame):
        solvers = group.method.unique()
        if len(solvers) > 1:
            programs = group.program.nunique()
            title = f"{problems_of(group)} problems of {programs} programs, {len(solvers)} solvers"
            yield PageBlock("", title, ", ".join(solvers), [measure_table(group)])
            tables = (difference_table(group), win_table(group))
            yield from (PageBlock("", "", "", [table]) for table in tables if table.rows)


def _linear_sections(frame: pd.DataFrame, looks: Look) -> list[Section]:
    """Return which solver to choose when, and the charts of a study of linear programs."""
    models = dict(list(frame.groupby("model", sort=False)))
    known = {model: own for model, own in models.items() if own["size"].notna().any()}
    groups = {"all models": frame, **(known if len(known) > 1 else {})}
    each = {name: comparable(own)[0] for name, own in groups.items()}
    profiles = (Panel(name, "", profile_chart(own, looks, name)) for name, own in each.items())
    scaling = (Panel(model, "", scaling_chart(own, looks, model)) for model, own in known.items())
    sizes = (f"{size} below {end:,.0f}" if end < math.inf else f"{size} above" for size, end in SIZES)
    summaries = (f"{model}: {MODELS[model].summary}." for model in models if model in MODELS)
    chosen = [("", [Cell(c.model, "name"), c.size, str(c.instances), advice(c)]) for c in choices(frame)]
    table = PageTable.of("choices", chosen, sizes=", ".join(sizes), models=" ".join(summaries))
    unproven = sorted(frame.program[frame.answer == "unproven"].unique())
    said = [f"Without a certified value: {', '.join(unproven)}."] if unproven else []
    errors = block("errors", Panel("", "", error_chart(frame, looks)), tolerance=TOLERANCE)
    return [
        Section("Which solver to choose when", block("", table)),
        Section("Performance profiles", block("solver-profiles", *profiles)),
        Section("Time against size", block("scaling", *scaling)),
        Section("Accuracy", errors, said),
    ]


def _mixed_sections(frame: pd.DataFrame, looks: Look) -> list[Section]:
    """Return the solvers by model, and the charts of a study of mixed-integer programs."""
    families, every = [], comparable(frame)[0]
    family = frame.model.str.partition(" ")[0]
    for name, own in frame[frame.ran].groupby(family, sort=False):
        for group in comparable(own):
            if group.method.nunique() > 1:
                text = f"{MIXED[name].summary}." if name in MIXED else ""
                title = f"{name}: {counted(group.program.nunique(), 'program')}"
                table = _standing_table("mixed-family", group, looks, {}, family=title)
                families.append(PageBlock("", title, text, [table]))
    panels = [
        Panel("time to proven optimality", "", profile_chart(every, looks, "all models")),
        Panel("primal integral", "", integral_chart(every, looks)),
    ]
    courses = []  # of programs that took some solver a while
    for (model, topology), own in frame.groupby(["model", "topology"], sort=False):
        tried = own[own.integers.notna() & (own.seed == own.seed.iloc[0])]
        if (~tried.solved | (tried.taken >= DRAWN.soon)).any():
            chart = trace_chart(tried, looks, f"incumbents and bounds over time, {model} {topology}")
            courses += [Panel(f"{model}, {topology}", "", chart)] if chart else []
    return [
        Section("By model", families),
        Section("Profiles", block("proof-profiles", *panels)),
        Section("Incumbents and bounds over time", block("courses", *courses, soon=DRAWN.soon)),
    ]


def _agreement(kind: str, frame: pd.DataFrame, looks: Look) -> Section:
    """Return which answers differ, which of them are refuted, and what failed."""
    pairs, texts = disagreements(frame), TEXTS[kind]
    told = texts["apart" if pairs else "agree"].format(counted(len(pairs), "pair"), tolerance=TOLERANCE)
    said = [told] if told else []
    for a, b in pairs:
        refuted = ", ".join(row.method for row in (a, b) if row.wrong)
        if not (refuted and kind == "linear"):
            claims = ", ".join(f"{row.method} {row.objective:.10g}" for row in (a, b))
            end = f"; refuted: {refuted}" if refuted else texts["undecided"]
            said.append(f"{a.program}: {claims}{end}.")
    failed = frame[frame.status == "failed"].itertuples()
    said += [f"{row.method} failed on {row.program}, seed {row.seed:.0f}: {row.message}" for row in failed]
    heads, wrong = _heads(f"{kind}-refuted"), []
    for row in frame[frame.wrong].itertuples():
        ends = [_digits(row.certified_lower), _digits(row.certified_upper)]
        cells: dict[str, Said] = {
            "solver": Cell(row.method, "name", series=looks[row.method]),
            "program": row.program,
            "seed": f"{row.seed:.0f}",
            "stopped": row.termination,
            **{name: _digits(getattr(row, name)) for name in ("objective", "bound", "worth")},
            "certified value": " to ".join(dict.fromkeys(ends)),
            "proven to lie between": " and ".join(ends),
            "relative error": Cell(_error(row.relative_error), "wrong"),
        }
        wrong.append(("", [cells[head] for head in heads]))
    table = PageTable.of(f"{kind}-refuted", wrong, tolerance=MIXED_TOLERANCE) if wrong else None
    return Section("Agreement", block("", table), said, id="agreement")


def _digits(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:.10g}"


def _programs(kind: str, frame: pd.DataFrame, looks: Look) -> PageTable:
    """Return what each solver made of each program; of linear ones the least mean is bold."""
    lines: list[tuple[str, list[Said]]] = []
    for (model, topology), own in frame.groupby(["model", "topology"], sort=False):
        told = (_of_mixed if kind == "mixed" else _of_linear)(own)
        tried = {solver: own[own.method == solver] for solver in looks}
        means = {
            solver: each.taken.mean() if kind == "mixed" else shifted_geometric_mean(each.charged, SHIFT)
            for solver, each in tried.items()
            if len(each) and each.solved.all()
        }
        least = min(means.values(), default=0.0) if kind == "linear" else None
        cells = [
            Cell(seconds(means[solver]), "best" if means[solver] == least else "", _tip(each))
            if solver in means
            else _unsolved(kind, each)
            for solver, each in tried.items()
        ]
        lines.append(("", [Cell(topology, "name"), model, *told, *cells]))
    return PageTable.of(f"{kind}-programs", lines, method_heads(looks.values()))


def _unsolved(kind: str, own: pd.DataFrame) -> Cell:
    """Return why a solver did not solve all seeds of a program: the first of them, or a wrong one."""
    if own.empty:
        return Cell("", "none")
    if own.wrong.any():
        return Cell("wrong", "wrong", _tip(own))
    row = next(own[~own.solved].itertuples())
    text = row.status
    if kind == "linear":
        text = "limit" if text == "timeout" else text
    elif not math.isnan(row.objective):
        text = f"{number(row.objective, 6)}, {text if text == 'grid' else f'{100 * row.gap:.3g} %'}"
    elif not math.isnan(row.integers):
        text = "–"
    return Cell(text, "none", _tip(own))


def _tip(own: pd.DataFrame) -> str:
    """Return what a tooltip says of the seeds of a solver and a program, a line each."""
    lines = []
    for row in own.itertuples():
        named = ("objective", "bound", "primal_integral")
        values = [f"{name} {getattr(row, name):.9g}" for name in named if pd.notna(getattr(row, name))]
        parts = (f"seed {row.seed:.0f}: {row.status}", seconds(row.solve_s), *values, row.message)
        lines.append(", ".join(filter(None, parts)))
    return "\n".join(lines)


def _of_linear(own: pd.DataFrame) -> list[Said]:
    """Return the nonzeros and the certified value of a program."""
    row, known = next(own.itertuples()), own.nonzeros.dropna()
    size = f"{known.iloc[0]:,.0f}" if len(known) else ""
    if row.certified_exact:
        return [size, row.certified_exact]
    lower, upper = row.certified_lower, row.certified_upper
    if math.isnan(lower) or math.isnan(upper):
        return [size, "not certified"]
    width = (upper - lower) / abs(upper) if upper else upper - lower
    return [size, f"{upper:.9g} (proven to {width:.0e})"]


def _of_mixed(own: pd.DataFrame) -> list[Said]:
    """Return the whole columns of a program, and the best known value."""
    tried = own[own.integers.notna()]
    best = tried.best_known.dropna()
    size = f"{tried.integers.iloc[0]:,.0f} of {tried.variables.iloc[0]:,.0f}" if len(tried) else ""
    return [size, number(best.iloc[0], 6) if len(best) else ""]


def advice(choice: Row) -> str:
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


Look = Mapping[str, Series]
"""The series of each solver's label."""


DRAWN = SimpleNamespace(**LOOKS["limits"]["study"])
"""Limits on what the charts of a study draw."""


@cache
def study_specs() -> str:
    """Return the specs of the page of a study (`specs_of`)."""
    axis = alt.Axis(title="time over the fastest solver's (τ)", tickCount=5)
    ratio = alt.X("value:Q", scale=alt.Scale(type="log"), axis=axis)
    part = alt.X("value:Q", title="primal integral over the limit", scale=alt.Scale(domain=[0, 1]))
    charts: dict[str, Drawn] = {
        "profile": steps(ratio, "problems solved (%)", "told:N|that is"),
        "integral": steps(part, "problems (%)"),
        "scaling": _scaling(),
        "errors": _errors(),
        "trace": _trace("objective", zero=True),
        "trace cut": _trace("objective (axis cut)", zero=False),
    }
    return specs_of(charts)


def _scaling() -> Drawn:
    """Return seconds against nonzeros, and the limit."""
    x = alt.X("nonzeros:Q", scale=alt.Scale(type="log"), axis=alt.Axis(format="~s", tickCount=4, grid=False))
    y = alt.Y("seconds:Q", scale=alt.Scale(type="log"), axis=alt.Axis(format="~r", tickCount=5))
    tips = tips_of("method:N|solver", "topology:N", "nonzeros:Q", "seconds:Q", "solved:N")
    line = named_rows().mark_line(strokeWidth=1.8).encode(x, y, COLOUR, DASH, opacity=OPACITY)
    limit = named_rows().mark_rule(**LIMIT).encode(y=alt.Y("max(limit):Q", title="seconds"))
    return alt.layer(limit, line, points(x, y, tips)).properties(height=DRAWN.height)


def _errors() -> Drawn:
    """Return the errors of each solver's answers; a rule where an answer is wrong."""
    ticks = [0, *(10.0**power for power in range(-13, 1, 3))]
    scale = alt.Scale(type="symlog", constant=DRAWN.error)
    axis = alt.Axis(title="relative error against the certified value", values=ticks, format="~g")
    x = alt.X("error:Q", scale=scale, axis=axis)
    tips = tips_of("method:N|solver", "program:N", "seed:Q", "error:Q")
    wrong = named_rows().mark_rule(**LIMIT).encode(x=alt.datum(TOLERANCE))
    return alt.layer(wrong, points(x, METHODS, tips)).properties(height=alt.Step(26))


def _trace(title: str, zero: bool) -> Drawn:
    """Return incumbents, with a marker at each better one, and bounds (dotted) over time."""
    x = alt.X("seconds:Q", scale=alt.Scale(type="log"), axis=alt.Axis(format="~r", tickCount=5, grid=False))
    y = alt.Y("value:Q", title=title, scale=alt.Scale(zero=zero))
    tips = tips_of("method:N|solver", "what:N", "value:Q", "seconds:Q")
    dashes = alt.Scale(domain=["incumbent", "bound"], range=[[1, 0], [2, 2.5]])
    dotted = alt.StrokeDash("what:N", scale=dashes, legend=None)
    better = named_rows().transform_filter("datum.better")
    best = named_rows().mark_rule(**LIMIT, color=MUTED).encode(y=alt.Y("max(best):Q", title=title))
    lines = stepped(x, y, dotted, tips=tips)
    return alt.layer(best, lines, points(x, y, tips, better)).properties(height=DRAWN.height)


def profile_chart(frame: pd.DataFrame, looks: Look, title: str) -> Figure:
    """Return the performance profiles: the share of problems solved within each ratio to the fastest."""
    ratios, total = profile(frame), problems_of(frame)
    furthest = min(max([2.0, *(r for own in ratios.values() for r in own)]), DRAWN.ratio)
    shown = {looks[solver]: [r for r in own if r <= furthest] for solver, own in ratios.items()}
    fastest = {solver: sum(r <= 1.0 for r in own) for solver, own in ratios.items()}
    told = {key: f"fastest on {fastest[key]} of {total}, solved {len(own)}" for key, own in ratios.items()}
    data = shares(shown, total, (1.0, furthest))
    data = data.assign(told=data.method.map(told)) if len(data) else data
    return Figure("profile", f"performance profiles, {title}", data=data)


def scaling_chart(frame: pd.DataFrame, looks: Look, title: str) -> Figure:
    """Return charged seconds (mean over seeds) against the nonzeros of the matrix, a line a solver."""
    known = frame[frame.ran].dropna(subset="nonzeros").assign(charged=frame.charged.clip(LEAST_SECONDS))
    groups = known.groupby(["method", "topology"], sort=False)
    data = groups.agg(nonzeros=("nonzeros", "first"), seconds=("charged", "mean"), solved=("solved", "sum"))
    data["solved"] = data.solved.map(str) + " of " + groups.size().map(str)
    data = data.reset_index("topology").sort_values("nonzeros", kind="stable")
    data = data.assign(limit=frame.limit_s.max(), **drawn_as(looks, data.index))
    return Figure("scaling", f"time against size, {title}", data=data.sort_values("series", kind="stable"))


def error_chart(frame: pd.DataFrame, looks: Look) -> Figure:
    """Return the relative error of every answer against its certified value, a line of dots a solver."""
    known = frame[frame.ran].dropna(subset="relative_error")
    error = known.relative_error.mask(known.relative_error < DRAWN.error, 0.0)
    data = pd.DataFrame({"error": error, **known[["program", "seed"]], **drawn_as(looks, known.method)})
    data = data.sort_values("series", kind="stable")
    return Figure("errors", "errors against the certified values", data=data)


def trace_chart(frame: pd.DataFrame, looks: Look, title: str) -> Figure | None:
    """Return incumbents and bounds over time, a colour a solver; None without any.

    Parameters
    ----------
    frame
        The rows of one program, one a solver.
    looks
        The series of each solver.
    title
        What is read to those who can't see the chart.
    """
    data = pd.DataFrame(
        {"seconds": at, "value": value, "what": what, "better": better, **looks[row.method].columns}
        for row in frame.itertuples()
        for part, what in ((1, "incumbent"), (2, "bound"))
        for at, value, better in _milp_steps(row, part)
    )
    if data.empty:
        return None
    best = frame.best_known.iloc[0]
    values = [*data.value, *([] if pd.isna(best) else [best])]
    # The axis is cut if over half of it would be empty, unless tolerances are all by which the values differ.
    cut = max(values) / 2 < min(values) < max(values) * (1 - MIXED_TOLERANCE)
    return Figure("trace cut" if cut else "trace", title, data=data.assign(best=best))


def _milp_steps(row: Row, part: int) -> list[tuple[float, float, bool]]:
    """Return (seconds, value, whether it is a better incumbent) of incumbents (1) or bounds (2)."""
    found: list[tuple[float, float, bool]] = []
    for point in trace_of(row):
        at, value = max(point[0], DRAWN.earliest), point[part]
        negative = part == 2 and value is not None and value < 0 <= row.best_known  # no program here has one
        if value is None or negative or abs(value) > DRAWN.beyond * max(1.0, abs(row.best_known)):
            continue
        found.append((at, value, part == 1 and (not found or found[-1][1] != value)))
    end = max(row.taken, DRAWN.earliest)
    return [*found, (end, found[-1][1], False)] if found and found[-1][0] < end else found


def integral_chart(frame: pd.DataFrame, looks: Look) -> Figure:
    """Return the share of problems whose primal integral is at most a share of the limit, a line a solver."""
    parts = frame.part.clip(upper=1.0)[frame.ran].groupby(frame.method, sort=False)
    own = {looks[solver]: values for solver, values in parts}
    data = shares(own, problems_of(frame), (0.0, 1.0))
    return Figure("integral", "primal integrals, all models", data=data)
