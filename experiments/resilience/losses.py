"""What failures cost, from the rows of a study: quantiles over the samples of each number of failures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import pandas as pd

from tutti.experiments.resilience.study import ANEW, DISCONNECTED, MADE
from tutti.experiments.runner.judge import method_label
from tutti.topologies.units import format_size

BEST, BOUND = "best", "bound"
SHOWN = (*MADE, BOUND)
"""What losses are told of, in order."""
CASE = ["topology", "collective", "size_bytes", "kind"]


@dataclass(frozen=True)
class FailureLosses:
    """Losses of one number of failures, as shares of the time on the whole network.

    Parameters
    ----------
    method
        The method that made the schedules, or `BEST`: the fastest schedule on the whole network, rerouted and
        repaired, and the fastest new schedule of any method.
    failures, made, samples
        How many links or adapters fail, what is made then (one of `SHOWN`), and the number of samples.
    low, median, high, worst
        Quantiles 0.1, 0.5, 0.9 and 1 of the loss.
    gap, worst_gap
        Median and largest gap to the bound of the network that is left.
    changed
        Mean number of transfers with another route; None if all are new.
    """

    method: str
    failures: int
    made: str
    samples: int
    low: float
    median: float
    high: float
    worst: float
    gap: float
    worst_gap: float
    changed: float | None

    HEADS: ClassVar[tuple[str, ...]] = (
        *("method", "fail", "made", "samples", "median loss", "p90", "worst", "median gap", "worst gap"),
        "transfers changed",
    )

    @property
    def cells(self) -> tuple[str, ...]:
        """Its cells in a table, under `HEADS`."""
        shares = (self.median, self.high, self.worst, self.gap, self.worst_gap)
        changed = "" if self.changed is None else f"{self.changed:.4g}"
        return (
            *(self.method, str(self.failures), self.made, str(self.samples)),
            *(f"{share:.1%}" for share in shares),
            changed,
        )


@dataclass(frozen=True)
class FailureCase:
    """A network, a collective, a size and what fails: its lines, and the samples that cut ranks off."""

    topology: str
    collective: str
    size: int
    kind: str
    lines: tuple[FailureLosses, ...]
    disconnected: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.collective} on {self.topology}, {format_size(self.size)}, {self.kind} that fail"


def losses(rows: Iterable[Mapping[str, Any]]) -> list[FailureCase]:
    """Return what failures cost, case by case, in the order of the rows."""
    frame = pd.DataFrame([dict(row) for row in rows])
    return [_case(key, group) for key, group in frame.groupby(CASE, sort=False)] if len(frame) else []


def _case(key: Any, rows: pd.DataFrame) -> FailureCase:
    cut = rows[rows["status"] == DISCONNECTED]
    done = rows[rows["status"] == "ok"]
    named = zip(done["method"], done["options"].fillna(""), strict=True)
    done = done.assign(label=[method_label({"method": name, "options": given}) for name, given in named])
    found = {BEST: _best(done)} if len(done) else {}
    found |= {str(label): group for label, group in done.groupby("label", sort=False)}
    lines = [line for label, group in found.items() for line in _lines(label, _with_bound(group))]
    topology, collective, size, kind = key
    said = tuple(f"{row['failed']}: {row['message']}" for row in cut.to_dict("records"))
    return FailureCase(topology, collective, int(size), kind, tuple(lines), said)


def _best(done: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of the schedule that is fastest on the whole network, and of the fastest made anew."""
    whole = done["whole_us"].min()
    loaded = done["label"].iloc[int(done["whole_us"].argmin())]
    old = done[(done["label"] == loaded) & (done["made"] != ANEW)]
    anew = done[done["made"] == ANEW]
    anew = anew.loc[anew.groupby("left", sort=False)["time_us"].idxmin()]
    return pd.concat([old, anew.assign(whole_us=whole, loss=anew["time_us"] / whole - 1)])


def _with_bound(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows and, for each sample, one of the bound of what is left."""
    bound = rows.drop_duplicates("left")
    loss = bound["bound_us"] / bound["whole_us"] - 1
    return pd.concat([rows, bound.assign(made=BOUND, loss=loss, gap=0.0, changed=None)])


def _lines(label: str, rows: pd.DataFrame) -> Iterable[FailureLosses]:
    for failures, several in rows.groupby("failures"):
        for made in SHOWN:
            group = several[several["made"] == made]
            if len(group):
                low, median, high, worst = group["loss"].quantile([0.1, 0.5, 0.9, 1]).tolist()
                gap, worst_gap = group["gap"].quantile([0.5, 1]).tolist()
                mean = group["changed"].astype(float).mean()
                changed = None if pd.isna(mean) else float(mean)
                what = (label, int(str(failures)), made, len(group))
                yield FailureLosses(*what, low, median, high, worst, gap, worst_gap, changed)
