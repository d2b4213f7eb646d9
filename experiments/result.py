"""The result of a synthesis: a schedule, verified, timed at a size, and compared with a proven bound.

`Result` is what `tutti.synthesize` returns and ``tutti synth`` prints. Times are in seconds; what is
printed has units.
"""

from __future__ import annotations

import html
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any

from tutti.experiments.methods.best import NEAR_ENOUGH, OUT_OF_TIME, SLOWER
from tutti.experiments.printable import printable
from tutti.experiments.runner.judge import Cost, ProvenBound, notes, time_columns
from tutti.experiments.runner.tasks import Synthesized
from tutti.models.bounds import Bound, BoundError, best_bound, found_bounds, own_bounds
from tutti.schedules.collective import Collective, Kind
from tutti.schedules.files.schedule_file import write_schedule
from tutti.schedules.programs.formats import find_format
from tutti.schedules.schedule import Schedule
from tutti.topologies.errors import InputError
from tutti.topologies.exact import json_number
from tutti.topologies.options import build_options
from tutti.topologies.topology import Topology
from tutti.topologies.units import GIGA, MICRO, duration, format_size, short, throughput

WIDE = 0.1
"""Gap above which the printed line proposes ``tutti bound --lp``. With a larger value it does so less
often."""
PROVING_SECONDS = 1.0
"""Time limit of the linear program that bounds an all-to-all. With a larger value the bound may be larger on
a network of hundreds of ranks, and the answer comes later."""
COPIED = (
    *("algorithm", "protocol", "nccl_us", "trees", "rank_egress", "rank_egress_unicast", "rank_ingress"),
    *("rank_ingress_unicast", "link_traffic", "link_traffic_unicast"),
)
"""Statistics of a method that ``--json`` shows as they are."""


@dataclass(frozen=True)
class LowerBound:
    """A time that no schedule of a collective on a network can beat at a size.

    Parameters
    ----------
    proof
        The bound and its certificate.
    topology, collective
        The problem.
    size
        M in bytes.
    """

    proof: Bound
    topology: Topology
    collective: Collective
    size: Fraction

    @property
    def seconds(self) -> float:
        """The least time of any schedule, in seconds."""
        return float(self.proof.time(self.size))

    @property
    def kind(self) -> str:
        """The kind of the proof, such as ``cut`` or ``partition``."""
        return self.proof.kind

    @property
    def certificate(self) -> Mapping[str, Any]:
        """The facts from which the bound follows, ready for JSON."""
        return self.proof.certificate

    def check(self) -> bool:
        """Return whether the certificate alone proves the bound.

        The value is recomputed in exact arithmetic by code that did not find the certificate.
        """
        try:
            self.proof.check(self.topology, self.collective)
        except (BoundError, InputError):
            return False
        return True

    def __float__(self) -> float:
        return self.seconds

    def __str__(self) -> str:
        return f"{duration(self.seconds * MICRO)} ({self.kind})"


@dataclass(frozen=True, eq=False)
class Result:
    """A verified schedule, its time at a size, and the gap to a proven lower bound.

    `tutti.synthesize` returns one. Printed, it is a table.

    Parameters
    ----------
    schedule
        The verified schedule.
    size
        M in bytes.
    method
        The name of the method that made the schedule.
    options
        The options of the method, as one text.
    seed
        The seed that was kept; None if the method is not random.
    seconds
        The seconds that the synthesis took.
    said
        Sentences that are printed before the `notes` of the schedule.
    exact_for
        The sense in which an exact method's schedule is optimal; empty for other methods.

    Examples
    --------
    >>> import tutti
    >>> result = tutti.synthesize("ring:4", "allgather", "1MB", method="bfb")
    >>> print(f"{1e6 * result.time:.1f} us, gap {result.gap:.0%}, bound: {result.bound.kind}")
    8.5 us, gap 0%, bound: first_hop
    >>> result.messages()[["source", "target", "start", "end"]].shape
    (16, 4)
    """

    schedule: Schedule
    size: Fraction
    method: str
    options: str = ""
    seed: int | None = None
    seconds: float = 0.0
    said: tuple[str, ...] = field(default=())
    exact_for: str = ""

    @classmethod
    def of(cls, made: Synthesized, size: Fraction, method: str, options: str, **more: Any) -> Result:
        """Return the result of a synthesis; `more` are `said` and `exact_for`."""
        return cls(made.schedule, size, method, options, made.seed, made.synth_s, **more)

    @property
    def time(self) -> float:
        """The simulated time in seconds. A flow schedule is cut into the best number of slices."""
        return float(self._timed["time_us"]) / MICRO

    @cached_property
    def bound(self) -> LowerBound:
        """The largest known lower bound, with its certificate. It does not include the bounds of ``--lp``."""
        own, found = own_bounds(self.schedule), found_bounds(self.schedule)
        where, what, size = self.schedule.topology, self.schedule.collective, self.size
        if found and found.complete and found.problem.size == size:
            best = max([*own, *found.bounds], key=lambda bound: bound.time(size))
        else:
            best = best_bound(where, what, size, PROVING_SECONDS, own)
        return LowerBound(best, where, what, size)

    @property
    def gap(self) -> float | None:
        """Time over bound, minus 1; None if nothing has to move."""
        return self._timed["gap"]

    @property
    def algbw(self) -> float | None:
        """M / time, in bytes per second; None if nothing moves."""
        return float(self.size) / self.time if self.time else None

    @property
    def busbw(self) -> float | None:
        """The bandwidth of a rank's port that the time corresponds to, in bytes per second, as in nccl-tests.

        It is algbw times `Collective.bus_factor`, and None for groups of different sizes.
        """
        factor = self.schedule.collective.bus_factor
        return None if self.algbw is None or factor is None else self.algbw * float(factor)

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences about the schedule and its network that a reader should know."""
        note = notes(self.schedule, self.size)
        return (*self.said, *self.schedule.topology.notes, *filter(None, [note]))

    @cached_property
    def _timed(self) -> dict[str, Any]:
        exact = Fraction(self.bound.proof.time(self.size))
        return time_columns(self.schedule, self.size, ProvenBound(exact, self.bound.kind))

    @cached_property
    def document(self) -> dict[str, Any]:
        """All facts, as ``tutti synth --json`` prints them, with times in seconds and in microseconds."""
        schedule, cost, stats = self.schedule, Cost.of(self.schedule), self.schedule.stats
        document = {
            "topology": schedule.topology.name,
            "collective": str(schedule.collective),
            "size_bytes": json_number(self.size),
            "size": format_size(self.size),
            "method": self.method,
            "exact_for": self.exact_for or None,
            "seed": self.seed,
            "verified": True,
            "time_s": self.time,
            "bound_s": self.bound.seconds,
            **self._timed,
            "busbw_gbps": None if self.busbw is None else self.busbw / GIGA,
            "tl_steps": cost.tl_steps,
            "tb_factor": _ratio(cost.tb),
            "tc_factor": _ratio(cost.tc),
            "congestion": _ratio(cost.congestion),
            "global_bytes": cost.global_bytes(self.size),
            "solver_gap": stats.get("solver_gap"),
            "synth_s": self.seconds,
            "transfers": len(schedule),
            "clock": str(schedule.clock),
            **{name: stats[name] for name in COPIED if name in stats},
            **_model(stats, schedule.collective.kind is Kind.ALLREDUCE),
        }
        if "tried" in stats:
            document["tried"] = [one.document for one in stats["tried"]]
        if "height" in stats:  # of trees, in hops between ranks
            document["heights"] = {"max": stats["height"], "mean": stats["mean_height"]}
        return document

    @property
    def fields(self) -> dict[str, str]:
        """The lines of the printed table, by name."""
        document, gap = self.document, self.gap
        proposal = "" if gap is None or gap <= WIDE else "; tutti bound --lp may prove a smaller one"
        parts = " + ".join(duration(float(time)) for time in document.get("alone_us", "0").split("; "))
        seed, sent = "" if self.seed is None else f", seed {self.seed}", document["global_bytes"]
        slices, heights, factor = document["slices"], document.get("heights"), document["tb_factor"]
        pipelined = "" if slices is None else f", {slices} slice{'s' * (slices > 1)}"
        lines = {
            "schedule": f"{document['collective']} on {document['topology']}, {document['clock']} clock",
            "method": " ".join(filter(None, [self.method, self.options])) + seed,
            "exact for": document["exact_for"],
            "fastest": document.get("algorithm") if "tried" in document else None,
            "NCCL takes": _reckoned(document) if "tried" not in document else None,
            "verified": f"{document['transfers']} transfers, all legal",
            "time": f"{duration(document['time_us'])} at {document['size']}{pipelined}",
            "instead": f"{duration(document['sequential_us'])} one after the other: {parts}"
            if "alone_us" in document
            else None,
            "algbw": document["algbw_gbps"] and throughput(document["algbw_gbps"]),
            "busbw": document["busbw_gbps"] and throughput(document["busbw_gbps"]),
            "bound": str(self.bound),
            "gap": None if gap is None else f"{gap:.4%}{proposal}",
            "T_L": document["tl_steps"],
            "T_B": factor and f"{factor} M/B = {float(Fraction(factor)):.6g} M/B",
            "T_C": self.schedule.topology.gamma and document["tc_factor"] and f"{document['tc_factor']} M γ",
            "congestion": f"{document['congestion']} s/GB",
            "between hosts": None if sent is None else f"{short(sent / 1e6)} MB in all",
            "rounds": _rounds(document),
            "epochs": document.get("epochs"),
            "program": _program(document),
            "solver": _solver(document),
            "trees": document.get("trees") and f"{document['trees']} a root",
            "heights": heights and f"{heights['max']} at most, {short(heights['mean'])} on average",
            "synthesis": f"{self.seconds:.3g} s",
            "slower": _tried(document),
        }
        return {name: printable(str(line)) for name, line in lines.items() if line is not None}

    def save(self, path: Path | str) -> None:
        """Write the schedule to a file.

        Parameters
        ----------
        path
            A name that ends in ``.json``, ``.json.gz`` or ``.npz``.

        Raises
        ------
        InputError
            If it can't be written there.
        """
        write_schedule(self.schedule, Path(path))

    def export(self, path: Path | str, format: str = "msccl", **options: Any) -> dict[str, Any]:  # noqa: A002 (as on the command line)
        """Write the schedule as a file for a runtime or a simulator.

        Parameters
        ----------
        path
            The name of the file.
        format
            The name of a format, such as ``"msccl"`` or ``"mscclpp"`` (docs/export.md lists them).
        **options
            Options of the format.

        Returns
        -------
        dict
            What ``tutti export --json`` prints about the file.

        Raises
        ------
        TuttiError
            If the format can't express the schedule, or the file can't be written.
        """
        form = find_format(format)
        return form.write(self.schedule, Path(path), build_options(form, options))

    def show(self, path: Path | str | None = None) -> Any:
        """Play the schedule at this size, below a notebook's cell or in the browser.

        Parameters
        ----------
        path
            A file to which the page is also written.

        Returns
        -------
        Page
            Its method ``save(path)`` writes the page.
        """
        from tutti.experiments.show.page import schedule_page

        return schedule_page(self.schedule, self.size).show(path)

    def transfers(self) -> Any:
        """Return a data frame with one row for each transfer."""
        return self.schedule.transfers()

    def messages(self) -> Any:
        """Return a data frame of messages at this size: which link each holds, and from when to when."""
        return self.schedule.messages(self.size)

    def __str__(self) -> str:
        width = max(map(len, self.fields))
        lines = [f"{name:{width}}  {line}" for name, line in self.fields.items()]
        return "\n".join([*lines, *(f"{'note':{width}}  {note}" for note in self.notes)])

    def __repr__(self) -> str:
        gap = "" if self.gap is None else f", {self.gap:.2%} over the bound"
        what = f"{self.schedule.collective} on {self.schedule.topology.name}"
        return f"<Result {printable(what)}: {duration(self.time * MICRO)} by {self.method}{gap}>"

    def _repr_html_(self) -> str:
        """Return the table, for a notebook."""
        left = "style='text-align:left'"
        lines = [*self.fields.items(), *(("note", note) for note in self.notes)]
        cells = ((html.escape(name), html.escape(line)) for name, line in lines)
        rows = (f"<tr><th {left}>{name}</th><td {left}>{line}</td></tr>" for name, line in cells)
        return f"<table>{''.join(rows)}</table>"


def _reckoned(document: Mapping[str, Any]) -> str | None:
    """Return what NCCL would choose, what its own model says that this takes, and what each time is for."""
    if "nccl_us" not in document:
        return None
    shared = document["time_us"] > document["nccl_us"]
    shares = "; here channels share links, which its model does not know" if shared else ""
    takes = f"{document['algorithm']} with {document['protocol']}, {duration(document['nccl_us'])}"
    compared = "to be compared with measurements; time is to be compared with the times of other methods"
    return f"{takes} by its model, {compared}{shares}"


def _tried(document: Mapping[str, Any]) -> str | None:
    """Return the times of the portfolio's other methods, the fastest first, and how many have none."""
    if "tried" not in document:
        return None
    timed = sorted((one for one in document["tried"] if "why" not in one), key=lambda one: one["time_us"])
    others = [f"{one['method']} {duration(one['time_us'])}" for one in timed[1:]]
    why = [one["why"] for one in document["tried"] if "why" in one]
    late, spared = (sum(each in reasons for each in why) for reasons in (OUT_OF_TIME, NEAR_ENOUGH))
    slow = sum(each.startswith(SLOWER) for each in why)
    counts = {
        "without a schedule": len(why) - late - spared - slow,
        "out of time": late,
        "much slower in closed form": slow,
        "not needed": spared,
    }
    without = ", ".join(f"{count} {words}" for words, count in counts.items() if count)
    return "; ".join([*others, f"{without} (--json says why)"] if without else others)


def _model(stats: Mapping[str, Any], in_halves: bool) -> dict[str, Any]:
    """Return what is said of a solved program; SCCL's and TE-CCL's own counts unless of a half."""
    if "solver_gap" not in stats and "program" not in stats:
        return {}
    names = ("program", "solver", "variables", "constraints", *(() if in_halves else ("epochs",)))
    document: dict[str, Any] = {name: stats[name] for name in names if stats.get(name) is not None}
    if "program" in document:
        document |= {name: stats[name] for name in ("build_s", "solve_s") if name in stats}
    if "frontier" in stats and not in_halves:
        keys = ("steps", "rounds", "least_rounds")
        document["frontier"] = [dict(zip(keys, point, strict=True)) for point in stats["frontier"]]
    return document


def _solver(document: Mapping[str, Any]) -> str | None:
    """Return by whom the method's model was solved, and how far from its optimum the answer may be."""
    gap = document["solver_gap"]
    if "solver" not in document or ("program" in document and gap is None):
        return None  # an exact answer: the program's line says it all
    proven = f"within {100 * gap:.2g} % of optimal" if gap else "nothing proven" if gap is None else "optimal"
    size = [] if "program" in document else _size(document)
    return ", ".join([document["solver"], f"{proven} for the method's model", *size])


def _size(document: Mapping[str, Any]) -> list[str]:
    """Return how large the solved program is."""
    return [f"{document[name]:,} {name}" for name in ("variables", "constraints") if document.get(name)]


def _program(document: Mapping[str, Any]) -> str | None:
    """Return which program was solved, by whom, how large it is and how long it took."""
    if "program" not in document:
        return None
    solved, size = f"solved {document['program']} with {document['solver']}", _size(document)
    if not size:
        return f"{solved} in {document['solve_s']:.2g} s"
    seconds = f"built in {document['build_s']:.2g} s, solved in {document['solve_s']:.2g} s"
    return f"{solved}: {', '.join(size)}; {seconds}"


def _rounds(document: Mapping[str, Any]) -> str | None:
    """Return SCCL's frontier: rounds and steps, and what is proven where that is less."""
    if "frontier" not in document:
        return None
    points = [(point["rounds"], point["steps"], point["least_rounds"]) for point in document["frontier"]]
    said = ("{} in {} steps" + " (at least {})" * (least < rounds) for rounds, _, least in points)
    return ", ".join(text.format(*point) for text, point in zip(said, points, strict=True))


def _ratio(value: Fraction | None) -> str | None:
    return None if value is None else f"{value.numerator}/{value.denominator}"
