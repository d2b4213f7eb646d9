"""What a benchmark yields, a line of its table; and how verified allgathers are made and timed."""

from __future__ import annotations

import csv
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, TypeVar

from tutti.experiments.registry import find_method
from tutti.experiments.runner.tasks import Stopwatch, Synthesized, synthesize_best
from tutti.schedules.collective import collective
from tutti.schedules.method import Problem
from tutti.schedules.schedule import Schedule
from tutti.topologies.options import build_options
from tutti.topologies.text import parse_topology
from tutti.topologies.units import GIBI

GIBIBYTE = Fraction(GIBI)


def make(text: str, method: str, **options: object) -> Synthesized:
    """Return a method's verified allgather at 1 GiB."""
    topology, chosen = parse_topology(text), find_method(method)
    problem = Problem(topology, collective("allgather", topology.num_ranks), GIBIBYTE)
    return synthesize_best(chosen, problem, build_options(chosen, options), [0], GIBIBYTE)


def make_timed(text: str, method: str) -> tuple[Schedule, float]:
    """Return the same, and the seconds of synthesis and verification."""

    def once() -> tuple[Schedule, float]:
        made = make(text, method)
        return made.schedule, made.synth_s + made.verify_s

    return best_of_three(once)


REFERENCE = Path(__file__).resolve().parents[2] / "tests" / "data" / "reference"
SHORT_SECONDS = 2.0
"""What takes longer is measured once."""

T = TypeVar("T")


@dataclass(frozen=True)
class Measurement:
    """A line of the table.

    Parameters
    ----------
    benchmark, case, quantity
        What was measured of what.
    value
        A number, or an exact one as text.
    target
        What it must reach, as text; empty where nothing is asked.
    reached
        Whether it does; None where nothing is asked.
    exact
        Whether every machine gives this value: to miss its target is a fault then.
    published
        What others report of the same.
    decimals
        How many of the value to print; None: six significant digits.
    """

    benchmark: str
    case: str
    quantity: str
    value: float | str
    target: str = ""
    reached: bool | None = None
    exact: bool = False
    published: str = ""
    decimals: int | None = None


def at_most(
    name: str, case: str, quantity: str, value: float, most: float, published: str = ""
) -> Measurement:
    """Return a measurement with an upper limit, which a slow or small machine may miss."""
    return Measurement(name, case, quantity, value, f"at most {most:g}", value <= most, published=published)


def exactly(
    name: str, case: str, quantity: str, value: Fraction | int | None, wanted: Fraction | int
) -> Measurement:
    """Return a measurement that must be an exact number."""
    return Measurement(name, case, quantity, str(value), str(wanted), value == wanted, exact=True)


def best_of_three(measure: Callable[[], tuple[T, float]]) -> tuple[T, float]:
    """Return a result and the seconds that it took: the least of three, of one if that is long."""
    result, least = measure()
    if least < SHORT_SECONDS:
        least = min(least, measure()[1], measure()[1])
    return result, least


def timed(function: Callable[..., T], *arguments: Any) -> tuple[T, float]:
    """Return what a call gives, and its seconds as `best_of_three`."""

    def once() -> tuple[T, float]:
        with Stopwatch() as watch:
            result = function(*arguments)
        return result, watch.seconds

    return best_of_three(once)


def reference(table: str, **where: str) -> dict[str, str]:
    """Return the row of a table of published or measured figures that has these values."""
    with (REFERENCE / table).open(newline="") as file:
        return next(row for row in csv.DictReader(file) if where.items() <= row.items())
