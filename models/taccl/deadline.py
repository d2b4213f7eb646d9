"""Time that is shared out: a stage gets a share of what is left, and what it leaves over goes to the next."""

from __future__ import annotations

import math
from dataclasses import dataclass
from time import monotonic


@dataclass(frozen=True)
class Deadline:
    """When something should be over.

    Parameters
    ----------
    moment
        Of ``time.monotonic``; inf for never.
    """

    moment: float = math.inf

    @classmethod
    def after(cls, seconds: float | None) -> Deadline:
        """Return the moment in so many seconds; None for never."""
        return cls() if seconds is None else cls(monotonic() + seconds)

    @property
    def left(self) -> float:
        """Seconds; 0 if it is over, inf if it never is."""
        return max(0.0, self.moment - monotonic())

    @property
    def over(self) -> bool:
        """Whether no time is left."""
        return self.left <= 0

    def share(self, part: float) -> Deadline:
        """Return the moment when that part of the time left is over."""
        return self if math.isinf(self.moment) else Deadline.after(self.left * part)
