"""What papers state beside ours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, ClassVar

from tutti.experiments.training.config import StatedTable


@dataclass(frozen=True)
class Claim:
    """A number of a paper, and ours; None where a row is missing."""

    HEADS: ClassVar = ("where", "what", "stated", "ours", "off")

    stated: StatedTable
    ours: float | None

    @property
    def cells(self) -> tuple[str, str, str, str, str]:
        """Return the cells of a table's line, as `HEADS`."""
        ours = "not run" if self.ours is None else f"{self.ours:.3g}"
        off = "" if self.off is None else f"{self.off:+.0%}"
        return self.stated.where, self.stated.what, f"{self.stated.value:.3g}", ours, off

    @property
    def off(self) -> float | None:
        """Return how far ours is from it, relatively."""
        return None if self.ours is None else self.ours / self.stated.value - 1


def claims(rows: Sequence[Mapping[str, Any]], stated: Sequence[StatedTable]) -> list[Claim]:
    """Return every stated number beside ours: the mean, over the jobs that it is about, of the ratio."""
    found = {(row["job"], row["method"]): row for row in rows if row["status"] == "ok"}
    jobs = list(dict.fromkeys(row["job"] for row in rows))
    made = []
    for one in stated:
        ratios: list[float | None] = []
        for job in (job for job in jobs if fnmatchcase(job, one.job)):
            above, below = found.get((job, one.method)), found.get((job, one.over_method or one.method))
            if above is None or below is None or not below[one.over_column or one.column]:
                ratios.append(None)
            else:
                ratios.append(above[one.column] / below[one.over_column or one.column])
        whole = [ratio for ratio in ratios if ratio is not None]
        made.append(Claim(one, sum(whole) / len(whole) if whole and len(whole) == len(ratios) else None))
    return made
