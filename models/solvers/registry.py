"""The known solvers, and what is checked before a model is built: can it be done, and in time.

The seconds of a linear program are estimated from its size. Linear program (A.1) was measured on one core, in
CPU seconds to build it in Pyomo, compile it and solve it with HiGHS. It takes 0.5 to 1 for 16,000 variables,
0.2 to 2.1 (median 1.3) for 18,000 to 21,000, 2 to 6 for 36,000 by interior point, and 55 for 937,000 by PDLP.
The estimate is linear, and other programs have one of their own: it refuses what has no chance.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from tutti.models.solvers import command_line, gurobi, highs, ortools, pdlp
from tutti.models.solvers.backend import Backend
from tutti.models.solvers.options import LEAST_SECONDS, Feature
from tutti.topologies.errors import InputError, Unsupported, suggestion

BACKENDS = {
    backend.name: backend
    for backend in (
        highs.HIGHS,
        ortools.GLOP,
        pdlp.PDLP,
        gurobi.GUROBI,
        ortools.SCIP,
        ortools.CPSAT,
        command_line.CBC,
        command_line.GLPK,
    )
}
"""Every known solver, installed or not; a new one is a module like `pdlp` and its place here."""

VARIABLES_A_SECOND = 20_000
"""Variables a second of a program in Pyomo, such as (A.1), that is built, compiled and solved on one core.
With a larger value more models are begun that take longer than their time limit."""


def known_solvers() -> list[Backend]:
    """Return all solvers by name, without importing any."""
    return sorted(BACKENDS.values(), key=lambda backend: backend.name)


def find_backend(solver: str, needs: Iterable[Feature] = ()) -> Backend:
    """Return the back-end of that name, if it can do what is needed.

    Raises
    ------
    InputError
        If there is none of that name, or it, or the package that a feature needs, is not installed.
    Unsupported
        If it lacks a feature; the message names a solver that has all.
    """
    if not isinstance(solver, str):  # a config may hold anything
        raise InputError(f"solver is {solver!r}; it must be one of {', '.join(sorted(BACKENDS))}")
    if solver not in BACKENDS:
        raise InputError(f"unknown solver '{solver}'{suggestion(solver, BACKENDS)}")
    backend, wanted = BACKENDS[solver], frozenset(needs)
    if not wanted <= backend.features:
        lacking = ", ".join(sorted(wanted - backend.features))
        able = [b for b in BACKENDS.values() if wanted <= b.features]
        others = sorted(b.name for b in [b for b in able if b.installed] or able)
        instead = f"use {' or '.join(others)}" if others else "no known solver does"
        raise Unsupported(f"solver {solver} does not do {lacking}; {instead}")
    if not backend.installed:
        raise InputError(f"solver {solver} is not installed; get it with: {backend.install}")
    for extra in backend.missing:
        if extra.feature in wanted:
            raise InputError(f"solver {solver} has no {extra.feature} here; get it with: {extra.install}")
    return backend


def milp_options(solver: str, seconds: float, gap: float | None, seed: int | None = None) -> Any:
    """Return a back-end's options for a mixed-integer program.

    Parameters
    ----------
    solver
        The back-end's name.
    seconds
        The time limit; inf for none.
    gap
        Relative gap at which it may stop; None for the solver's own.
    seed
        Seed of its random choices, where it takes one; None for its own.

    Raises
    ------
    InputError, Unsupported
        As `find_backend`.
    """
    backend = find_backend(solver, {Feature.MILP})
    limit = max(seconds, LEAST_SECONDS) if math.isfinite(seconds) else None
    given: dict[str, Any] = {"time_limit": limit, "relative_gap": gap}
    if seed is not None and Feature.SEED in backend.features:
        given["seed"] = seed
    return backend.options(**given)


MOST_VARIABLES = 5_000_000
"""Largest number of variables of a model without a time limit: each takes from 0.2 to some kilobytes."""


def seconds_for(variables: int) -> float:
    """Return about how many seconds linear program (A.1) takes to build and solve.

    Examples
    --------
    >>> seconds_for(5_000)
    0.25
    """
    return variables / VARIABLES_A_SECOND


def refuse_too_large(
    what: str, variables: int, time_limit: float | None, seconds: float | None = None
) -> None:
    """Refuse a model that would not be built and solved within its time limit.

    Parameters
    ----------
    what
        Names the model and what it is of: ``"mcf by=model on torus:8x8"``.
    variables
        The model's number of variables.
    time_limit
        Seconds; None for no limit: then a model of more than `MOST_VARIABLES` is refused.
    seconds
        An estimate for the model; None: `seconds_for` its variables.

    Raises
    ------
    Unsupported
        If the estimate exceeds the limit, or there is none and the model would outgrow memory.

    Examples
    --------
    >>> refuse_too_large("mcf on torus:64x64", 67_108_865, 60)
    Traceback (most recent call last):
    tutti.topologies.errors.Unsupported: mcf on torus:64x64 has 67,108,865 variables, about 3.4e+03 s to \
build and solve; its time limit is 60 s
    """
    if seconds is None:
        seconds = seconds_for(variables)
    limit = f"without a time_limit it may have {MOST_VARIABLES:,}"
    if time_limit is not None:
        limit = f"its time limit is {time_limit:g} s"
    if variables > MOST_VARIABLES if time_limit is None else seconds > time_limit:
        size = f"{variables:,} variables, about {seconds:.2g} s to build and solve"
        raise Unsupported(f"{what} has {size}; {limit}")
