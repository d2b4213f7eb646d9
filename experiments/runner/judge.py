"""The judgement of a verified schedule: exact cost, simulated time, and the gap to a proven bound.

The time of a flow is that of its best number of slices (`schedules.simulation.simulate.best_slices`). The gap
table compares the methods: one line for each network, collective and size.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tutti.models.bounds import Bound, best_bound
from tutti.models.bounds.latency import distance_bound
from tutti.models.bounds.spreading import AlphaDistances
from tutti.models.bounds.traffic import Traffic
from tutti.schedules.collective import Collective
from tutti.schedules.cost import step_cost, total_cost
from tutti.schedules.schedule import Clock, Schedule
from tutti.schedules.simulation.simulate import best_slices, simulate
from tutti.topologies.errors import TuttiError
from tutti.topologies.exact import ROUNDING
from tutti.topologies.topology import Topology
from tutti.topologies.units import GIGA, MICRO, format_size

if TYPE_CHECKING:
    import pandas as pd

GAP_DIGITS = 12
"""Decimals of a gap. It is the quotient of a float and an exact number, so that more would show rounding."""
STATS = (
    *("algorithm", "program", "build_s", "solve_s", "variables", "constraints", "solver", "solver_gap"),
    *("trees", "height", "mean_height", "search_s", "removal_s", "packing_s"),
    *("rank_egress", "rank_egress_unicast", "rank_ingress", "rank_ingress_unicast"),
    *("link_traffic", "link_traffic_unicast", "protocol", "nccl_us"),
    *("predicted_tl", "predicted_tb", "prediction", "program_course"),
)
"""Statistics of a method (`Schedule.stats`) that become columns."""
WIDE_GAP = 1e-3
"""A note names a solver's own gap above this. A larger value names fewer."""
ONE_BYTE = Fraction(1)
"""M in bytes at which the time of a schedule is hardly more than the α that it pays."""
Row = Mapping[str, Any]
GAPS = "gaps.csv"
INSTANCE = ("topology", "collective", "size_bytes")
REFERENCE = (
    *("bound_us", "bound_kind", "exact_us", "exact_method", "exact_for"),
    *("best_us", "best_method", "best_gap"),
)


@dataclass(frozen=True)
class ProvenBound:
    """The largest lower bound on the time of one collective at one size.

    Parameters
    ----------
    seconds, kind
        The bound, and what proves it.
    computed_s
        Seconds that it took to compute all bounds but the methods' own; None where that is not known.
    """

    seconds: Fraction
    kind: str
    computed_s: float | None = field(default=None, compare=False)

    @classmethod
    def of(cls, topology: Topology, collective: Collective, size: Fraction) -> ProvenBound:
        """Return it for M = `size` bytes."""
        best = best_bound(topology, collective, size)
        return cls(Fraction(best.time(size)), str(best.kind))

    def or_better(self, bounds: Iterable[Bound], size: Fraction) -> ProvenBound:
        """Return the largest of this and of other bounds, checked ones, for M = `size` bytes."""
        others = ((Fraction(bound.time(size)), str(bound.kind)) for bound in bounds)
        every = (self, *(ProvenBound(*other, self.computed_s) for other in others))
        return max(every, key=lambda bound: bound.seconds)


class Cost(NamedTuple):
    """Costs of a schedule that hold at every size, exact.

    Parameters
    ----------
    schedule
        The schedule.
    congestion
        Seconds per 10^9 bytes of M.
    between_hosts
        Share of M that leaves hosts, each byte as often as it does; None without hosts.
    tl_steps
        T_L in comm steps, where steps follow one another: the time is then at least T_L times the least α.
        None under the other clocks, for a schedule made for one size (A.5.3), and where messages overtake
        those of earlier steps: T_L and T_B would then overstate the time.
    tb
        T_B in units of M/B; None where links differ or under the other clocks.
    tc
        T_C in units of M γ (dissertation, A.3.4); None where nothing is reduced, or under other clocks.
    """

    schedule: Schedule
    congestion: Fraction
    between_hosts: Fraction | None
    tl_steps: int | None = None
    tb: Fraction | None = None
    tc: Fraction | None = None

    @classmethod
    def of(cls, schedule: Schedule) -> Cost:
        """Return the costs of a schedule."""
        total = total_cost(schedule)
        found = cls(schedule, total.congestion * GIGA, total.between_hosts)
        if schedule.clock is not Clock.STEP or schedule.size is not None:
            return found
        steps = step_cost(schedule)
        in_turn = _one_after_the_other(schedule, steps.tl_steps)
        return found._replace(tl_steps=steps.tl_steps if in_turn else None, tb=steps.tb, tc=steps.tc or None)

    def columns(self) -> dict[str, Any]:
        """Return the columns of a result row that hold at every size."""
        exact, stats = {"tb": self.tb, "tc": self.tc}, self.schedule.stats
        return {
            "tl_steps": self.tl_steps,
            **{f"{name}_factor": None if value is None else float(value) for name, value in exact.items()},
            **{f"{name}_exact": None if value is None else str(value) for name, value in exact.items()},
            "congestion": float(self.congestion),
            "congestion_exact": str(self.congestion),
            "transfers": len(self.schedule),
            "clock": str(self.schedule.clock),
            **{name: _plain(stats[name]) for name in STATS if stats.get(name) is not None},
        }

    def global_bytes(self, size: Fraction) -> float | None:
        """Return what leaves hosts at M = `size` bytes, each byte as often as it does; None without hosts."""
        return None if self.between_hosts is None else float(self.between_hosts * size)


def _one_after_the_other(schedule: Schedule, steps: int) -> bool:
    """Whether the time is at least the least α for each step; often a bound says so without a simulation."""
    topology, traffic = schedule.topology, Traffic.of(schedule.collective)
    least = steps * min(topology.alpha, default=Fraction(0))
    farthest = distance_bound(topology, traffic, AlphaDistances(topology))
    proven = farthest is not None and farthest.value >= least
    return proven or simulate(schedule, ONE_BYTE).time >= float(least) * (1 - ROUNDING)


def _plain(value: Any) -> Any:
    """Return a number or text of a method as a plain one of Python."""
    if isinstance(value, np.generic):
        return value.item()
    return value if isinstance(value, (int, float, str)) else str(value)


def time_columns(schedule: Schedule, size: Fraction, bound: ProvenBound) -> dict[str, Any]:
    """Return the columns of a result row that depend on M = `size` bytes; a flow's is the best pipelining.

    Where nothing has to move the bound is 0 and there is no gap; where nothing moves there is no algbw.

    Raises
    ------
    TuttiError
        If the simulated time beats the bound, which no legal schedule can.
    """
    slices, time = best_slices(schedule, size)
    if too_fast(against := bound_columns(time * MICRO, bound)):
        least = f"the {bound.kind} bound of {against['bound_us']:.9g} us"
        raise TuttiError(f"simulated {time * MICRO:.9g} us beats {least}")
    alone = [seconds * MICRO for seconds in schedule.stats.get("alone", ())]  # of a mixed collective's parts
    alone_us = "; ".join(f"{one:.9g}" for one in alone)
    return {
        "time_us": time * MICRO,
        "algbw_gbps": float(size) / time / GIGA if time else None,
        **against,
        **({"sequential_us": sum(alone), "alone_us": alone_us} if alone else {}),
        "slices": slices if schedule.clock is Clock.FLOW else None,
    }


def bound_columns(time_us: float, bound: ProvenBound) -> dict[str, Any]:
    """Return the columns of a result row that compare its time with a bound."""
    least = float(bound.seconds * MICRO)
    gap = round(time_us / least - 1, GAP_DIGITS) + 0.0 if least else None
    return {"bound_us": least, "bound_kind": bound.kind, "gap": gap}


def too_fast(row: Row) -> bool:
    """Whether its time is below its bound by more than rounding."""
    return row["gap"] is not None and row["gap"] < -ROUNDING


def notes(schedule: Schedule, size: Fraction) -> str:
    """Return the notes beside a result: the method's own, a solver's gap that is wide, `rounding_note`."""
    said, gap = [schedule.stats.get("note", "")], schedule.stats.get("solver_gap")
    if gap is not None and gap > WIDE_GAP:
        said.append(f"the solver's solution is only known to be within {gap:.2%} of its optimum")
    return "; ".join(filter(None, [*said, rounding_note(schedule, size)]))


def rounding_note(schedule: Schedule, size: Fraction) -> str:
    """Return what becomes of a size that does not divide into the chunks; empty where it does.

    Nothing is rounded here: loads are exact fractions of a byte, and only a program that moves real
    bytes must round.
    """
    denominator = schedule.chunks.denominator
    if not any((int(share) * size) % denominator for share in np.unique(schedule.chunks.size)):
        return ""
    chunks = f"{len(schedule.chunks)} chunks of whole bytes"
    return f"{format_size(size)} does not divide into {chunks}; times are for fractional chunks"


def method_label(row: Row) -> str:
    """Return what a method is called beside others: its name and its options."""
    return " ".join(filter(None, [row["method"], row.get("options") or ""]))


def with_busbw(row: Row, collective: Collective) -> dict[str, Any]:
    """Return a row with `busbw_gbps`, where it has an algbw and the collective a factor."""
    algbw, factor = row.get("algbw_gbps"), collective.bus_factor
    return {**row, "busbw_gbps": None if algbw is None or factor is None else algbw * float(factor)}


def grouped(items: Iterable[Any], key: Callable[[Any], Any]) -> dict[Any, list[Any]]:
    """Return items by their keys, which come in the order of the items."""
    groups: dict[Any, list[Any]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups


def is_named(name: str, row: Row) -> bool:
    """Whether a row is of the method of that name, or of that name and those options."""
    return name in (row["method"], method_label(row))


def with_speedups(rows: Iterable[Row], baseline: str) -> list[dict[str, Any]]:
    """Return rows with `speedup`: the baseline's least time of the same instance over the row's."""
    found = [(itemgetter(*INSTANCE)(row), row) for row in rows]
    least: dict[tuple[Any, ...], float] = {}
    for case, row in found:
        if is_named(baseline, row) and row.get("time_us"):
            least[case] = min(_time(row), least.get(case, math.inf))
    timed = [(row, least.get(case) if row.get("time_us") else None) for case, row in found]
    return [{**row, "speedup": None if base is None else base / _time(row)} for row, base in timed]


class GapTableBuilder:
    """The gap table, from the rows of one instance after the other.

    Its columns are, in order:

    - ``topology, collective, size_bytes``.
    - ``bound_us, bound_kind``: the largest proven lower bound.
    - ``exact_us, exact_method, exact_for``: the best exact method and the sense in which it is optimal.
    - ``best_us, best_method, best_gap``: the best of all (of equal ones the first of the config). Its gap is
      what bound and schedules leave open.
    - A column for each method: its gap to the bound, empty where it has none. Several seeds of one method
      share a column, which holds the best.
    - ``bound_s``: the seconds that the bound took.
    - `SAID` of each method.
    """

    def __init__(self) -> None:
        self._labels: dict[str, None] = {}
        self._lines: list[dict[str, Any]] = []

    def add(self, rows: Iterable[Row]) -> None:
        """Add all rows of some instances."""
        every = list(rows)
        self._labels |= dict.fromkeys(map(method_label, every), None)
        self._lines += [_line(*entry) for entry in grouped(every, itemgetter(*INSTANCE)).items()]

    def frame(self) -> pd.DataFrame:
        """Return the table."""
        import pandas as pd  # slow to import, and few commands need it

        more = [f"{label}: {name}" for name in SAID for label in self._labels]
        return pd.DataFrame(self._lines, columns=[*INSTANCE, *REFERENCE, *self._labels, "bound_s", *more])


def method_columns(gaps: pd.DataFrame) -> list[str]:
    """Return the columns of a gap table that hold the gaps of methods."""
    names = list(gaps.columns[len(INSTANCE) + len(REFERENCE) :])
    return names[: names.index("bound_s")] if "bound_s" in names else names


def _line(instance: tuple[Any, ...], rows: list[Row]) -> dict[str, Any]:
    line = dict(zip(INSTANCE, instance, strict=True))
    if not (done := [row for row in rows if row["status"] == "ok"]):
        return line
    best, bound = min(done, key=_time), max(done, key=lambda row: float(row["bound_us"] or 0))
    line |= {"bound_us": bound["bound_us"], "bound_kind": bound["bound_kind"]}
    line |= {"best_us": best["time_us"], "best_method": method_label(best), "best_gap": _gap(best, bound)}
    line["bound_s"] = max((row["bound_s"] for row in done if row.get("bound_s") is not None), default=None)
    exact = min((row for row in done if row["kind"] == "exact"), key=_time, default=None)
    if exact is not None:
        line |= {"exact_us": exact["time_us"], "exact_method": method_label(exact)}
        line["exact_for"] = exact.get("exact_for")
    for label, several in grouped(done, method_label).items():
        gaps = (_gap(row, bound) for row in several)
        line[label] = min((gap for gap in gaps if gap is not None), default=None)
        line |= {f"{label}: {name}": value for name, value in _said(several, best, exact).items()}
    return line


SAID = ("time_us", "over_best", "over_exact", "worst_seed_us", "synth_s")
"""Columns of each method after the gaps in the gap table. They are its time; (time - best)/best, the loss of
its schedule; its time over that of the best exact method; the time of its worst seed, of several; and the
seconds of all seeds."""


def _said(rows: list[Row], best: Row, exact: Row | None) -> dict[str, Any]:
    """Return `SAID` of the rows of a method, one a seed that was kept."""
    time = min(map(_time, rows))
    entries = [entry for row in rows for entry in (row.get("course") or "").split("; ") if entry]
    tries = [float(entry.split()[1]) for entry in entries] or [*map(_time, rows)]
    spent = [row["synth_s"] for row in rows if row.get("synth_s") is not None]
    return {
        "time_us": time,
        "over_best": time / _time(best) - 1 if _time(best) else None,
        "over_exact": time / _time(exact) if exact and _time(exact) else None,
        "worst_seed_us": max(tries) if len(tries) > 1 else None,
        "synth_s": sum(spent) if spent else None,
    }


def _gap(row: Row, bound: Row) -> float | None:
    """Return a row's gap to the largest bound of its instance, which another's method may have proven."""
    if row["gap"] is None or row["bound_us"] == bound["bound_us"]:
        return None if row["gap"] is None else float(row["gap"])
    return float(row["time_us"]) / float(bound["bound_us"]) - 1


def _time(row: Row) -> float:
    return float(row["time_us"])
