"""What a solver back-end can do."""

from __future__ import annotations

from enum import StrEnum


class Feature(StrEnum):
    """A kind of model, an algorithm, an answer or a service that a back-end offers."""

    LP = "LP"
    MILP = "MILP"
    QP = "QP"
    SIMPLEX = "simplex"
    IPM = "interior point"
    HIPO = "HiPO"
    """HiGHS's newer interior point, in a package of its own."""

    PDLP = "PDLP"
    DUALS = "duals"
    BASIS = "basis"
    """A basis is returned, and can be started from."""

    START = "start"
    """Values (and duals, for an LP) can be started from."""

    TRACE = "trace"
    """Incumbents and bounds of a MILP are told as they come."""

    THREADS = "threads"
    SEED = "seed"
