"""The options of TE-CCL."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from models.solvers import Feature, find_backend
from models.starts import NO_START
from models.teccl.epochs import BEST, FASTEST, SLOWEST
from topologies.errors import InputError
from topologies.units import parse_time

NAMED = (FASTEST, SLOWEST, BEST)
FINISH, REWARD = "finish", "reward"
UPWARD, ONCE = "upward", "once"
CHOICES = {"objective": (FINISH, REWARD), "search": (UPWARD, ONCE)}


@dataclass(frozen=True)
class TecclOptions:
    """Options of TE-CCL.

    Parameters
    ----------
    chunks
        Into how many equal chunks every item is cut.
    epoch
        Length: what a chunk takes on the ``"fastest"`` or the ``"slowest"`` way, or a time with its unit;
        ``"best"``: of these two, and of what messages of more chunks take, the one that ends first.
    epochs
        The most; 0: as many as it takes.
    objective
        ``"finish"``: the fewest epochs; ``"reward"``: the paper's, reads early on average, within `epochs`
        or, if that is 0, within the fewest.
    search
        How the fewest epochs are found: ``"upward"``, one number of epochs after the other, or ``"once"``,
        by one program that minimizes the finish.
    buffers
        Whether ranks store chunks to forward them later.
    window
        Epochs of a round of the decomposition; 0: the whole at once.
    start
        A method whose schedule is listed into epochs to begin with, or ``"none"``. One that does not fit is
        dropped, and the result's message says so.
    cuts
        Whether the project's lower bounds are used: the search begins at them, and chunks must cross the
        cuts (`models.teccl.program`). Else it begins at the longest way.
    gap
        Relative to the optimum, at which to stop early.
    solver
        A back-end for mixed-integer programs.
    time_limit
        Of all solves, a time with its unit.

    Raises
    ------
    InputError
        If a value is out of range, the solver unknown or not installed, or a time none.
    """

    chunks: int = 1
    epoch: str = FASTEST
    epochs: int = 0
    objective: str = FINISH
    search: str = UPWARD
    buffers: bool = True
    window: int = 0
    start: str = NO_START
    cuts: bool = True
    gap: float = 0.0
    solver: str = "highs"
    time_limit: str = "60s"

    def __post_init__(self) -> None:
        """Check the values."""
        for name, least in (("chunks", 1), ("epochs", 0), ("window", 0)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise InputError(
                    f"teccl option {name} is {value!r}; it must be an integer of at least {least}"
                )
        for name, allowed in CHOICES.items():
            if getattr(self, name) not in allowed:
                raise InputError(
                    f"teccl option {name} is '{getattr(self, name)}'; allowed: {', '.join(allowed)}"
                )
        for name in ("buffers", "cuts"):
            if not isinstance(getattr(self, name), bool):
                raise InputError(f"teccl option {name} is {getattr(self, name)!r}; it must be true or false")
        if isinstance(self.gap, bool) or not isinstance(self.gap, int | float) or not 0 <= self.gap < 1:
            raise InputError(f"teccl option gap is {self.gap!r}; it must be at least 0 and below 1")
        self._check_window()
        for name in ("epoch", "time_limit"):
            self._check_time(name)
        find_backend(self.solver, {Feature.MILP})

    def _check_window(self) -> None:
        if self.window and self.objective != FINISH:
            raise InputError(
                "teccl option window goes with objective 'finish' only; its rounds have their own"
            )
        if self.window and (self.start != NO_START or self.search != UPWARD):
            raise InputError("teccl option window goes without start and search; its rounds have their own")

    def _check_time(self, name: str) -> None:
        text = getattr(self, name)
        if name == "epoch" and text in NAMED:
            return
        words = f"{', '.join(NAMED)} or a positive time" if name == "epoch" else "a positive time"
        try:
            positive = parse_time(text) > 0
        except InputError as error:
            raise InputError(f"teccl option {name} must be {words}: {error}") from error
        if not positive:
            raise InputError(f"teccl option {name} is {text!r}; it must be {words}")

    @property
    def length(self) -> Fraction | str:
        """Of an epoch, as `Epochs` takes it."""
        return self.epoch if self.epoch in NAMED else Fraction(parse_time(self.epoch))
