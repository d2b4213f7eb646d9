"""Every method by name. A new one is one import and one line here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from expansions import METHOD as EXPANSION
from heuristics.blink import METHOD as BLINK
from heuristics.direct import METHOD as DIRECT
from heuristics.multitree import METHOD as MULTITREE
from heuristics.rhd import METHOD as RHD
from heuristics.ring import METHOD as RING
from heuristics.tacos import METHOD as TACOS
from models.all_to_all import METHOD as MCF
from models.allreduce_lp import METHOD as ALLREDUCE_LP
from models.allreduce_trees import METHOD as ALLREDUCE_TREES
from models.bfb import METHOD as BFB
from models.forestcoll import METHOD as FORESTCOLL
from schedules.method import Method
from topologies.errors import InputError, suggestion


def by_name(methods: Iterable[Method]) -> dict[str, Method]:
    """Return the methods under their names, in order."""
    return {method.name: method for method in methods}


METHODS = by_name(
    [
        RING,
        DIRECT,
        RHD,
        MULTITREE,
        BLINK,
        TACOS,
        BFB,
        EXPANSION,
        FORESTCOLL,
        MCF,
        ALLREDUCE_TREES,
        ALLREDUCE_LP,
    ]
)
"""The methods of this project, by the name used in configs and on the command line."""


def find_method(name: str, methods: Mapping[str, Method] | None = None) -> Method:
    """Return the method of that name.

    Raises
    ------
    InputError
        If there is none; the message suggests one.
    """
    known = METHODS if methods is None else methods
    if name not in known:
        raise InputError(f"unknown method '{name}'{suggestion(name, known)}")
    return known[name]
