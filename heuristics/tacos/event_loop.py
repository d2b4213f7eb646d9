"""The loop of TACOS (MICRO 2024, Algorithm 2), from arrival to arrival: what all matching rules share.

The time-expanded network is never built: between two arrivals nothing changes, so time jumps from one to the
next. At each event links are matched (Algorithm 1), and then what arrives next is delivered. If links have
unlike durations, an event is what some of them bring (IV-F). Between links of one duration everything on its
way arrives together, so an event is a round: a time span of the paper.

How links are matched is up to a *rule*, a named tuple of what the rule keeps. Its type chooses the kernels
that `match` and `deliver` call when numba compiles the loop, so each rule has a loop without a branch or an
indirect call, and one on disk: of a closure over the rule's kernel numba would never find the compiled loop
again. There are two states. `event_state` has room for arrivals at any time; the rules of `matching` and
`guided` work on it. `round_state` has less than half as many bits for a rank and chunk, and no arrivals; the
rule of `round_matching` works on it.

Threads may share the nodes of a round. They play many rounds without coming back to the interpreter, and wait
for each other after each step, many thousand times a second. Each counts the steps that it has done, in a
line of the cache of its own, and reads how many the others have. Within a kernel that takes a fraction of a
microsecond where all of them run; a wait that takes long is left to the caller, who lets other threads have
the processor.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Any, NamedTuple, TypeVar

import numpy as np

from tutti.heuristics.tacos.bitsets import leaf
from tutti.topologies.exact import Int32Array, Int64Array
from tutti.topologies.kernels import Kernel, intrinsic, kernel

NEVER = np.int64(2**63 - 1)

LINE = 8
"""64-bit words of a line of the cache."""

STEP, NOW, LISTED = range(3)
"""Where `Part.at` has each number."""


class TacosLoopTuning(NamedTuple):
    """How threads share a loop."""

    steps: int
    """Steps after which a thread returns to the interpreter, where it can be interrupted."""
    patience: int
    """Looks at the other threads before a wait is left to the caller: some ten microseconds."""


TUNING = TacosLoopTuning(steps=512, patience=4096)

Matcher = TypeVar("Matcher", bound=Callable[..., None])


class MatchedTransfers(NamedTuple):
    """Transfers by start, shape (transfers,): int32 chunk, int32 link, int64 start in ticks."""

    chunk: Int32Array
    link: Int32Array
    start: Int64Array


class Part(NamedTuple):
    """How far one thread is. It is no field of the states: the loop over a larger state takes twice as long.

    Parameters
    ----------
    thread
        Its number.
    at
        int64, shape (3,): how many steps it has done, two for each event; the time in ticks, `NEVER` at the
        end; and how many links may have something to send.
    barrier
        int64, shape (threads, LINE): how many steps each thread has done, in column 0. Threads share it.
    """

    thread: int
    at: Int64Array
    barrier: Int64Array


def parts_for(threads: int, now: int = 0, listed: int = 0) -> list[Part]:
    """Return the parts of some threads that have done nothing so far."""
    barrier = np.zeros((threads, LINE), np.int64)
    return [Part(thread, np.array([0, now, listed]), barrier) for thread in range(threads)]


_KERNELS: dict[str, dict[type, Any]] = {"match": {}, "deliver": {}}
"""The kernels of each type of rule."""


def _by_rule() -> Callable[..., Any]:
    """Return a decorator that lets kernels call the kernel of a rule's type in place of a function."""
    from numba.extending import overload

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @overload(function, strict=False)  # type hints differ: here arguments are numba's types
        def compiled(rule: Any, made: Any, listed: Any, now: Any) -> Callable[..., Any] | None:
            kernels, rule_type = _KERNELS[function.__name__], getattr(rule, "instance_class", None)
            if rule_type not in kernels:
                return None
            chosen = kernels[rule_type].compiled

            def call(rule: Any, made: Any, listed: int, now: int) -> Any:
                return chosen(rule, made, listed, now)

            return call

        return function

    return decorate


by_rule = functools.partial(Kernel, decorate=_by_rule)


@by_rule
def match(rule: Any, made: Any, listed: int, now: int | np.int64) -> None:
    """Send, at an event, what the rule matches."""
    raise NotImplementedError("a rule is matched in compiled code only")


@by_rule
def deliver(rule: Any, made: Any, listed: int, now: int | np.int64) -> tuple[np.int64, int]:
    """Deliver what arrives next; return when, or `NEVER`, and how many links may have something to send."""
    raise NotImplementedError("a rule is matched in compiled code only")


def plays(rule_type: type, deliver: Callable[..., Any]) -> Callable[[Matcher], Matcher]:
    """Return a decorator: the decorated kernel matches rules of that type, on the state of `deliver`."""

    def decorate(matcher: Matcher) -> Matcher:
        _KERNELS["match"][rule_type], _KERNELS["deliver"][rule_type] = matcher, deliver
        return matcher

    return decorate


@kernel(nogil=True)
def play(rule: Any, made: Any, part: Part, until: int) -> None:
    """Play a thread's part of a synthesis (Algorithm 2).

    Until nothing is on its way, so many steps are done, or other threads are long in coming. Invariant: no
    thread is more than a step ahead of another.

    Parameters
    ----------
    rule
        What is matched at an event.
    made
        The thread's state.
    part
        How far the thread is.
    until
        The number of steps.
    """
    at = part.at
    while at[STEP] < until and at[NOW] != NEVER and all_arrived(part.barrier, at[STEP]):
        if at[STEP] % 2 == 0:
            # Algorithm 2 runs Algorithm 1 on one more time span; here on the links that an event may have
            # changed.
            match(rule, made, at[LISTED], at[NOW])
        else:
            # What is on its way may be exchanged here (chunk replacement, IV-F), before anything arrives.
            at[NOW], at[LISTED] = deliver(rule, made, at[LISTED], at[NOW])
        at[STEP] += 1
        arrive(part.barrier, part.thread, at[STEP])


def run(rule: Any, states: Sequence[Any], parts: Sequence[Part], until: int = int(NEVER)) -> None:
    """Play a synthesis, given each thread's state and part, to the end or until so many steps are done."""
    stop = Event()
    work = functools.partial(_work, rule, until, stop)
    if len(parts) == 1:
        work(states[0], parts[0])
        return
    with ThreadPoolExecutor(len(parts)) as pool:
        try:
            list(pool.map(work, states, parts))
        finally:
            stop.set()


def _work(rule: Any, until: int, stop: Event, made: Any, part: Part) -> None:
    at = part.at
    try:
        while at[STEP] < until and at[NOW] != NEVER and not stop.is_set():
            play(rule, made, part, min(until, int(at[STEP]) + TUNING.steps))
            time.sleep(0)
    except BaseException:  # the others would wait for ever
        stop.set()
        raise


def _place(context: Any, builder: Any, kind: Any, array: Any, row: Any) -> Any:
    """Return the address of a row's first number."""
    from numba.core import cgutils

    view = context.make_array(kind)(context, builder, array)
    return cgutils.get_item_pointer(context, builder, kind, view, [row, row.type(0)])


@intrinsic
def _read(context: Any, steps: Any, thread: Any) -> Any:
    """Return how many steps a thread has done; what it wrote before is then there to read."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.load_atomic(_place(context, builder, signature.args[0], *arguments), "acquire", LINE)

    return steps.dtype(steps, thread), generate


@intrinsic
def _write(context: Any, steps: Any, thread: Any, done: Any) -> Any:
    """Let the others read how many steps a thread has done, and what it wrote before."""
    from numba.types import void

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place = _place(context, builder, signature.args[0], *arguments[:2])
        builder.store_atomic(arguments[2], place, "release", LINE)
        return context.get_dummy_value()

    return void(steps, thread, done), generate


@leaf
def arrive(steps: Int64Array, thread: int, done: int) -> None:
    """Say that a thread has done so many steps."""
    _write(steps, np.int64(thread), np.int64(done))


@leaf
def all_arrived(steps: Int64Array, done: int) -> bool:
    """Wait a while until all threads have done so many steps; return whether they have."""
    for thread in range(len(steps)):
        left = TUNING.patience
        while _read(steps, np.int64(thread)) < done:
            left -= 1
            if left == 0:
                return False
    return True
