"""The tidy table of a study: a row is one solver on one instance with one seed."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

COLUMNS: dict[str, Any] = {
    "topology": pa.string(),
    "nodes": pa.int64(),
    "switches": pa.int64(),
    "links": pa.int64(),
    "collective": pa.string(),
    "model": pa.string(),
    "builder": pa.string(),
    "method": pa.string(),
    "solver": pa.string(),
    "options": pa.string(),
    "seed": pa.int64(),
    "status": pa.string(),
    "message": pa.string(),
    "termination": pa.string(),
    "solution_status": pa.string(),
    "objective": pa.float64(),
    "certified_lower": pa.float64(),
    "certified_upper": pa.float64(),
    "certified_exact": pa.string(),
    "certified_by": pa.string(),
    "bound": pa.float64(),
    "worth": pa.float64(),
    "feasible": pa.bool_(),
    "relative_error": pa.float64(),
    "answer": pa.string(),
    "variables": pa.int64(),
    "integers": pa.int64(),
    "maximize": pa.bool_(),
    "constraints": pa.int64(),
    "nonzeros": pa.int64(),
    "iterations": pa.int64(),
    "build_s": pa.float64(),
    "solve_s": pa.float64(),
    "cpu_s": pa.float64(),
    "timed_s": pa.float64(),
    "primal_integral": pa.float64(),
    "trace": pa.string(),
    "certify_s": pa.float64(),
    "peak_rss_mb": pa.float64(),
    "limit_s": pa.float64(),
    "limit_mb": pa.float64(),
    "log": pa.string(),
}
"""Name and type of every column, in order; those that other runs have too mean the same.

``method`` is the label of the solver with its options, ``solver`` the back-end with its version. ``status``
is ok, timeout (a limit reached), grid (optimal on a solver's own grid only), unsupported (not installed) or
failed. ``certified_lower`` and ``certified_upper`` bound the optimum of the instance, by all that any row
proved; ``certified_exact`` is the fraction where they meet. ``relative_error`` is how far the objective lies
outside of them, and ``answer`` is right, wrong, agreed (by two back-ends) or unproven (by nothing).
``timed_s`` is what means and profiles count: ``solve_s`` or ``cpu_s``, as the config says. ``log`` is the
file of the solver's log.

Of mixed-integer programs only: ``integers`` are their whole columns, ``bound`` is the solver's, ``worth`` the
incumbent's objective in own arithmetic and ``feasible`` whether it keeps all rows there; ``trace`` is a JSON
list of [seconds, incumbent, bound], and ``primal_integral`` that of Berthold, in seconds."""
