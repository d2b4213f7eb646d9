"""Every method by name. A new one is one import and one line here, or a plug-in (`experiments.plugins`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from expansions import METHOD as EXPANSION
from experiments.methods.best import portfolio
from experiments.methods.list_scheduled import listed
from heuristics.classic.bruck import METHOD as BRUCK
from heuristics.classic.by_dimension import BLUECONNECT, THEMIS, TORUS_RINGS
from heuristics.classic.direct import METHOD as DIRECT
from heuristics.classic.halving_doubling import RECURSIVE_DOUBLING, RHD
from heuristics.classic.ring import RING, SHIFTED_RING
from heuristics.classic.swing import METHOD as SWING
from heuristics.gossip import METHOD as POSTAL
from heuristics.rails import METHOD as RAILS
from heuristics.tacos import METHOD as TACOS
from heuristics.trees.blink import METHOD as BLINK
from heuristics.trees.ccube import METHOD as CCUBE
from heuristics.trees.double_binary_tree import METHOD as DBT
from heuristics.trees.multitree import METHOD as MULTITREE
from heuristics.trees.nccl_like import METHOD as NCCL_LIKE
from heuristics.trees.tto import METHOD as TTO
from models.all_to_all import METHOD as MCF
from models.allreduce import ALLREDUCE_LP, ALLREDUCE_TREES
from models.bfb import METHOD as BFB
from models.forestcoll import METHOD as FORESTCOLL
from models.optimum import optimum
from models.sccl import METHOD as SCCL
from models.taccl import METHOD as TACCL
from models.teccl import teccl
from schedules.method import Method
from topologies.errors import InputError, suggestion


def by_name(methods: Iterable[Method]) -> dict[str, Method]:
    """Return the methods under their names, in order.

    Raises
    ------
    InputError
        If two have one name.
    """
    named: dict[str, Method] = {}
    for method in methods:
        if method.name in named:
            raise InputError(f"two methods are named '{method.name}'; each needs a name of its own")
        named[method.name] = method
    return named


_STARTS = by_name([TACOS, BFB, FORESTCOLL, MULTITREE, RING, DIRECT])
"""Whose schedules the search of an exact model may begin with."""
_SINGLE = by_name(
    [
        RING,
        DIRECT,
        RHD,
        RECURSIVE_DOUBLING,
        BRUCK,
        DBT,
        NCCL_LIKE,
        SHIFTED_RING,
        TORUS_RINGS,
        BLUECONNECT,
        THEMIS,
        SWING,
        CCUBE,
        TTO,
        MULTITREE,
        BLINK,
        POSTAL,
        RAILS,
        TACOS,
        BFB,
        EXPANSION,
        FORESTCOLL,
        MCF,
        ALLREDUCE_TREES,
        ALLREDUCE_LP,
        SCCL,
        optimum(_STARTS),
        TACCL,
        teccl(_STARTS),
    ]
)
_MADE = by_name([*_SINGLE.values(), listed(_SINGLE)])
METHODS = by_name([*_MADE.values(), portfolio(_MADE)])
"""The methods of this project, by the name used in configs and on the command line."""


def add_method(method: Method) -> None:
    """Add a method from outside, which `best` and `listed` may be told to call."""
    for methods in (_SINGLE, _MADE, METHODS):
        methods[method.name] = method


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
