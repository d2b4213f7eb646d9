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
    "relative_error": pa.float64(),
    "answer": pa.string(),
    "variables": pa.int64(),
    "constraints": pa.int64(),
    "nonzeros": pa.int64(),
    "iterations": pa.int64(),
    "build_s": pa.float64(),
    "solve_s": pa.float64(),
    "certify_s": pa.float64(),
    "peak_rss_mb": pa.float64(),
    "limit_s": pa.float64(),
    "limit_mb": pa.float64(),
    "log": pa.string(),
}
"""Name and type of every column, in order; those that other runs have too mean the same.

``method`` is the label of the solver with its options, ``solver`` the back-end with its version. ``status``
is ok, timeout (a limit reached), unsupported (not installed) or failed. ``certified_lower`` and
``certified_upper`` bound the optimum of the instance, by all that any row proved; ``certified_exact`` is the
fraction where they meet. ``relative_error`` is how far the objective lies outside of them, and ``answer`` is
right, wrong or unproven (nothing certifies it). ``log`` is the file of the solver's log."""
