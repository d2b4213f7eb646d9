"""The options of TACOS."""

from __future__ import annotations

from dataclasses import dataclass

from heuristics.tacos import kernel
from topologies.errors import InputError, suggestion

AUTO, SAMPLED = "auto", "sampled"

EVENT_PICKS = {
    "uniform": kernel.UNIFORM,
    "rarest": kernel.RAREST,
    "scarcest": kernel.SCARCEST,
    "paper": kernel.PAPER,
}
"""The rules of the kernel that goes from event to event."""

PICKS = (AUTO, SAMPLED, *EVENT_PICKS)


@dataclass(frozen=True)
class TacosOptions:
    """The options of TACOS.

    Parameters
    ----------
    chunks
        Equal chunks a shard, at least 1.
    pick
        What a free link sends, ties being uniform.

        - ``"uniform"``: any chunk that its source has and its destination wants.
        - ``"rarest"``: of those, one that the fewest ranks have or are being sent; of those, one that the
          fewest other in-links of the destination could bring (none, one, or more; counting those that are
          still free, then all).
        - ``"scarcest"``: the same two rules in the other order.
        - ``"sampled"``: nearly the same as scarcest, on a few of the candidates; much faster on large
          networks, and only between links of one cost.
        - ``"paper"``: Algorithm 1 as printed, which goes through the unsatisfied postconditions in random
          order and gives each a random one of its cheapest free links. Slower, as each event passes over
          all postconditions.
        - ``"auto"``: sampled for over `heuristics.tacos.copying.MANY` transfers between links of one cost,
          else scarcest.

        Where chunks pass through ranks that do not want them (groups, gather, scatter, all-to-all), the
        one with farthest to go is sent, whatever the pick.
    wait
        Whether a link stays free where faster links into its destination will have brought all that
        is missing there before it could; of no effect with ``"paper"`` or between links of one cost.
    tries
        Of so many schedules, each with random numbers of its own, the one that ends first is kept; of an
        allreduce, so many for its reduce-scatter and so many for its allgather.
    degree
        To how many links a rank switches are unwound (section IV-G); None: several, and the schedule that
        ends first is kept. Of no effect without switches.

    Raises
    ------
    InputError
        If a value is not allowed.
    """

    chunks: int = 1
    pick: str = AUTO
    wait: bool = True
    tries: int = 1
    degree: int | None = None

    def __post_init__(self) -> None:
        """Check the values."""
        for name in ("chunks", "tries", "degree"):
            value = getattr(self, name)
            if name == "degree" and value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise InputError(f"tacos: {name} is {value!r}; allowed: an integer of at least 1")
        if self.pick not in PICKS:
            raise InputError(f"tacos: unknown pick '{self.pick}'{suggestion(str(self.pick), PICKS)}")
        if not isinstance(self.wait, bool):
            raise InputError(f"tacos: wait is {self.wait!r}; allowed: true, false")
