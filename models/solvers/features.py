"""What a solver back-end can do."""

from __future__ import annotations

from enum import StrEnum


class Feature(StrEnum):
    """A kind of model, an algorithm or an answer that a back-end offers."""

    LP = "LP"
    MILP = "MILP"
    QP = "QP"
    SIMPLEX = "simplex"
    IPM = "interior point"
    PDLP = "PDLP"
    DUALS = "duals"
