"""Methods that behave badly, for the runner's tests; workers import them by the name of this module."""

import os
import signal
import time
from dataclasses import dataclass

from tutti.heuristics.classic.direct import METHOD as DIRECT
from tutti.heuristics.classic.ring import RING
from tutti.schedules.method import Method
from tutti.topologies import InputError, NoSchedule, Unsupported


@dataclass(frozen=True)
class Options:
    """Of the slow method."""

    seconds: float = 0.0
    chunks: int = 1

    def __post_init__(self):
        if self.seconds < 0:
            raise InputError(f"seconds is {self.seconds}; it must not be negative")


def _good(problem, options, rng):
    return DIRECT.synthesize(problem, DIRECT.options(), rng)


def _slow(problem, options, rng):
    time.sleep(options.seconds)
    return _good(problem, options, rng)


def _lucky(problem, options, rng):
    """Seed 2 makes a ring, which is best on a ring; all others are no better than the good method."""
    if rng.integers(1000) == LUCKY_DRAW:
        return RING.synthesize(problem, RING.options(), rng)
    return _good(problem, options, rng)


def _stuck(problem, options, rng):
    """Seed 3 hangs."""
    if rng.integers(1000) == STUCK_DRAW:
        time.sleep(3600)
    return _good(problem, options, rng)


def _crash(problem, options, rng):
    raise ValueError("a fault\nin two lines")


def _interrupts(problem, options, rng):
    raise KeyboardInterrupt


def _killed(problem, options, rng):
    os.kill(os.getpid(), signal.SIGKILL)


def _hang(problem, options, rng):
    time.sleep(3600)


def _liar(problem, options, rng):
    schedule = _good(problem, options, rng)
    return schedule.replace(chunk=schedule.chunk[1:], route=schedule.route[1:], order=schedule.order[1:])


def _hopeless(problem, options, rng):
    raise NoSchedule("hopeless: infeasible")


def _picky(problem, options):
    raise Unsupported(f"picky does nothing, and {problem.topology.name} is something")


def _by_size(problem, options, rng):
    if problem.size is None:
        raise ValueError("the size is missing")
    return _good(problem, options, rng)


def _always(problem, options):
    return True


LUCKY_DRAW = 837  # default_rng(2).integers(1000)
STUCK_DRAW = 811  # default_rng(3).integers(1000)

_METHODS = [
    Method("good", "heuristic", _good),
    Method("slow", "heuristic", _slow, options=Options),
    Method("lucky", "heuristic", _lucky, seeded=True),
    Method("stuck", "heuristic", _stuck, seeded=True),
    Method("crash", "heuristic", _crash),
    Method("interrupts", "heuristic", _interrupts),
    Method("killed", "heuristic", _killed),
    Method("hang", "heuristic", _hang),
    Method("liar", "exact", _liar),
    Method("hopeless", "exact", _hopeless),
    Method("picky", "exact", _good, check=_picky),
    Method("by_size", "exact", _by_size, size_dependent=_always),
]
METHODS = {method.name: method for method in _METHODS}
