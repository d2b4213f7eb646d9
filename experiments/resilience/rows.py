"""The rows of a study of failures: their columns, and what stands in some."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

DISCONNECTED = "disconnected"
"""The status of a sample that cuts ranks off."""
MADE = REROUTED, REPAIRED, ANEW = "rerouted", "repaired", "anew"
"""What is made of a method when links fail: the column `made`."""
COLUMNS: dict[str, Any] = {
    "topology": pa.string(),
    "nodes": pa.int64(),
    "switches": pa.int64(),
    "links": pa.int64(),
    "collective": pa.string(),
    "size_bytes": pa.int64(),
    "kind": pa.string(),
    "failures": pa.int64(),
    "failed": pa.string(),
    "left": pa.string(),
    "method": pa.string(),
    "options": pa.string(),
    "made": pa.string(),
    "status": pa.string(),
    "message": pa.string(),
    "time_us": pa.float64(),
    "whole_us": pa.float64(),
    "loss": pa.float64(),
    "bound_us": pa.float64(),
    "bound_kind": pa.string(),
    "gap": pa.float64(),
    "changed": pa.int64(),
    "transfers": pa.int64(),
    "synth_s": pa.float64(),
}
"""Name and type of every column. ``failures`` of ``kind`` fail, those in ``failed``; ``left`` is what is left
of ``topology``, whose numbers stand before. ``whole_us`` is the time of the method's schedule on the whole
network, and ``loss`` is ``time_us`` over it, less one; ``gap`` is to the bound of what is left. ``changed``
transfers of the whole network's go another way; ``synth_s`` is what making the schedule took."""
