"""The cost of failures, from the rows of a study: quantiles over the samples of each number of failures."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import pandas as pd

from tutti.experiments.resilience.study import ANEW, DISCONNECTED, MADE
from tutti.experiments.runner.judge import method_label
from tutti.topologies.units import format_size

BEST, BOUND = "best", "bound"
SHOWN = (*MADE, BOUND)
"""The rows of a table of losses, in order."""
HEADS = (
    *("method", "fail", "made", "samples", "median loss", "p90", "worst", "median gap", "worst gap"),
    "transfers changed",
)
"""The heads of such a table."""
CASE = ["topology", "collective", "size_bytes", "kind"]


class FailureLosses(NamedTuple):
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
        Mean number of transfers with another route; NaN if all are new.
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
    changed: float

    @property
    def cells(self) -> tuple[str, ...]:
        """The cells of its row, under `HEADS`."""
        shares = (self.median, self.high, self.worst, self.gap, self.worst_gap)
        changed = "" if math.isnan(self.changed) else f"{self.changed:.4g}"
        what = (self.method, str(self.failures), self.made, str(self.samples))
        return (*what, *map("{:.1%}".format, shares), changed)


class FailureCase(NamedTuple):
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
    cases = []
    for (topology, collective, size, kind), own in frame.groupby(CASE, sort=False) if len(frame) else ():
        done, cut = own[own.status == "ok"], own[own.status == DISCONNECTED]
        named = done[["method", "options"]].fillna("").to_dict("records")
        done = done.assign(label=list(map(method_label, named)))
        found = {}
        if len(done):  # the schedule that is fastest on the whole network, and the fastest new ones
            first, new = done.loc[done.whole_us.idxmin()], done[done.made == ANEW]
            new = new.loc[new.groupby("left", sort=False).time_us.idxmin()]
            new = new.assign(whole_us=first.whole_us, loss=new.time_us / first.whole_us - 1)
            found[BEST] = pd.concat([done[(done.label == first.label) & (done.made != ANEW)], new])
        found |= {str(label): group for label, group in done.groupby("label", sort=False)}
        lines = tuple(line for label, group in found.items() for line in _lines(label, group))
        said = tuple(cut.failed + ": " + cut.message)
        cases.append(FailureCase(topology, collective, int(size), kind, lines, said))
    return cases


def _lines(label: str, rows: pd.DataFrame) -> Iterator[FailureLosses]:
    """Yield the quantiles of a method's rows, and of the bound of what is left in each sample."""
    left = rows.drop_duplicates("left")
    bound = left.assign(made=BOUND, loss=left.bound_us / left.whole_us - 1, gap=0.0, changed=None)
    every = pd.concat([rows, bound]).assign(made=lambda all_rows: pd.Categorical(all_rows.made, SHOWN))
    for (failures, made), own in every.groupby(["failures", "made"], observed=True):
        low, median, high, worst = own.loss.quantile([0.1, 0.5, 0.9, 1])
        changed = own.changed.astype(float).mean()
        shares = (low, median, high, worst, own.gap.median(), own.gap.max())
        yield FailureLosses(label, int(failures), made, len(own), *shares, changed)
