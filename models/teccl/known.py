"""A schedule of another method, and the sends that it is where it fits."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from schedules.method import Method, Problem
from schedules.schedule import Schedule
from schedules.verify import verify
from topologies.errors import NoSchedule, Unsupported

if TYPE_CHECKING:
    from models.teccl.epochs import Epochs
    from models.teccl.program import Send

FAST: Mapping[str, Mapping[str, Any]] = {"bfb": {"by": "counting"}, "forestcoll": {"search": "newton"}}
"""The options that name a method's fast way, where it also has a model to solve; schedules are the same."""


@dataclass(frozen=True, eq=False)
class Known:
    """What a method made of a problem.

    Parameters
    ----------
    name
        Of the method.
    schedule
        Verified; None if it has none.
    why
        It has none.
    """

    name: str
    schedule: Schedule | None
    why: str = ""

    @classmethod
    def of(cls, method: Method, problem: Problem, chunks: int, seed: int) -> Known:
        """Return the method's schedule, of so many chunks a shard where it can be told."""
        takes = {field.name for field in dataclasses.fields(method.options)}
        given = {"chunks": chunks, **FAST.get(method.name, {})}
        options = method.options(**{name: value for name, value in given.items() if name in takes})
        try:
            method.supports(problem, options)
            schedule = method.synthesize(problem, options, np.random.default_rng(seed))
        except (Unsupported, NoSchedule) as error:
            return cls(method.name, None, str(error))
        verify(schedule)
        return cls(method.name, schedule)

    def sends(self, epochs: Epochs, most: int, buffers: bool) -> tuple[list[Send] | None, str]:
        """Return the schedule as sends, None where it does not fit, and a note that says what it is.

        Parameters
        ----------
        epochs
            The instance.
        most
            Epochs allowed; 0: any number.
        buffers
            Whether ranks may store.
        """
        from models.teccl.search import finish_of, pruned  # Pyomo is slow to import
        from models.teccl.starts import listed, passes_on

        if self.schedule is None:
            return None, f"start dropped: {self.why}"
        try:
            sends = pruned(epochs, listed(epochs, self.schedule))
        except NoSchedule as error:
            return None, f"start dropped: {self.name}: {error}"
        finish = finish_of(epochs, sends)
        if most and finish > most:
            return None, f"start dropped: {self.name} takes {finish} epochs, {most} are allowed"
        if not buffers and not passes_on(epochs, sends):
            return None, f"start dropped: in {self.name} ranks store what they pass on"
        return sends, f"start {self.name}: {finish} epochs"
