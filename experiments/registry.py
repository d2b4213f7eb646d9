"""Every method by name. A new one is one line here, or a plug-in (`experiments.plugins`).

A method is imported when it is first asked for: most commands want one, and all take half a second.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, MutableMapping
from functools import cache
from pkgutil import resolve_name
from typing import TYPE_CHECKING

from tutti.experiments.old_names import OLD_NAMES, current_name
from tutti.topologies.errors import InputError, suggestion

if TYPE_CHECKING:
    from tutti.schedules.method import Method


class Methods(MutableMapping[str, "Method"]):
    """Methods by name, in order, each found when it is first asked for."""

    def __init__(self, find: Mapping[str, Callable[[], Method]]) -> None:
        self.find = dict(find)

    def __getitem__(self, name: str) -> Method:
        """Return a method."""
        return self.find[name]()

    def __setitem__(self, name: str, method: Method) -> None:
        """Add a method."""
        self.find[name] = lambda: method

    def __delitem__(self, name: str) -> None:
        """Remove a method."""
        del self.find[name]

    def __iter__(self) -> Iterator[str]:
        """Go through the names."""
        return iter(self.find)

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self.find)

    def __contains__(self, name: object) -> bool:
        """Whether there is one of that name; it is not imported."""
        return name in self.find


def _at(place: str, *calls: Methods) -> Callable[[], Method]:
    """Return what finds ``module:name``: a method, or a function that makes one of those that it calls."""

    @cache
    def find() -> Method:
        found = resolve_name(place)
        return found(*calls) if calls else found

    return find


_STARTS = Methods(
    {
        "tacos": _at("tutti.heuristics.tacos:METHOD"),
        "bfb": _at("tutti.models.bfb:METHOD"),
        "forestcoll": _at("tutti.models.forestcoll:METHOD"),
        "multitree": _at("tutti.heuristics.trees.multitree:METHOD"),
        "ring": _at("tutti.heuristics.classic.ring:RING"),
        "direct": _at("tutti.heuristics.classic.direct:METHOD"),
    }
)
"""Whose schedules the search of an exact model may begin with."""
_SINGLE = Methods(
    {
        "ring": _STARTS.find["ring"],
        "direct": _STARTS.find["direct"],
        "rhd": _at("tutti.heuristics.classic.halving_doubling:RHD"),
        "recursive_doubling": _at("tutti.heuristics.classic.halving_doubling:RECURSIVE_DOUBLING"),
        "bruck": _at("tutti.heuristics.classic.bruck:METHOD"),
        "pat": _at("tutti.heuristics.classic.pat:METHOD"),
        "bine": _at("tutti.heuristics.classic.bine:METHOD"),
        "pairwise": _at("tutti.heuristics.classic.pairwise:METHOD"),
        "hierarchical": _at("tutti.heuristics.classic.hierarchical:METHOD"),
        "one_shot_allreduce": _at("tutti.heuristics.one_shot:METHOD"),
        "de_bruijn_allreduce": _at("tutti.heuristics.classic.walks:METHOD"),
        "shortest_path_all_to_all": _at("tutti.heuristics.classic.stepwise:METHOD"),
        "dbt": _at("tutti.heuristics.trees.double_binary_tree:METHOD"),
        "sharp": _at("tutti.heuristics.trees.sharp:METHOD"),
        "nccl_like": _at("tutti.heuristics.trees.nccl_like:METHOD"),
        "nccl": _at("tutti.heuristics.nccl:METHOD"),
        "shifted_ring": _at("tutti.heuristics.classic.ring:SHIFTED_RING"),
        "torus_rings": _at("tutti.heuristics.classic.by_dimension:TORUS_RINGS"),
        "blueconnect": _at("tutti.heuristics.classic.by_dimension:BLUECONNECT"),
        "themis": _at("tutti.heuristics.classic.by_dimension:THEMIS"),
        "swing": _at("tutti.heuristics.classic.swing:METHOD"),
        "ccube": _at("tutti.heuristics.trees.ccube:METHOD"),
        "tto": _at("tutti.heuristics.trees.tto:METHOD"),
        "multitree": _STARTS.find["multitree"],
        "blink": _at("tutti.heuristics.trees.blink:METHOD"),
        "min_latency": _at("tutti.heuristics.rounds:METHOD"),
        "rails": _at("tutti.heuristics.rails:METHOD"),
        "birkhoff": _at("tutti.heuristics.birkhoff:METHOD"),
        "recursive_hybrid": _at("tutti.heuristics.hybrid:METHOD"),
        "tacos": _STARTS.find["tacos"],
        "bfb": _STARTS.find["bfb"],
        "expansion": _at("tutti.expansions:METHOD"),
        "forestcoll": _STARTS.find["forestcoll"],
        "mcf": _at("tutti.models.all_to_all:METHOD"),
        "windowed_mcf": _at("tutti.models.all_to_all.message_flow:METHOD"),
        "allreduce_trees": _at("tutti.models.allreduce:ALLREDUCE_TREES"),
        "allreduce_lp": _at("tutti.models.allreduce:ALLREDUCE_LP"),
        "allreduce_epochs": _at("tutti.models.allreduce:ALLREDUCE_EPOCHS"),
        "cp_allreduce": _at("tutti.models.allreduce.few_sums:METHOD"),
        "sccl": _at("tutti.models.sccl:METHOD"),
        "optimum": _at("tutti.models.optimum:optimum", _STARTS),
        "taccl": _at("tutti.models.taccl:METHOD"),
        "teccl": _at("tutti.models.teccl:teccl", _STARTS),
    }
)
_MADE = Methods(
    {
        **_SINGLE.find,
        "list_scheduling": _at("tutti.experiments.methods.list_scheduled:listed", _SINGLE),
        "local_search": _at("tutti.experiments.methods.refined:refinement", _SINGLE),
    }
)
METHODS = Methods({**_MADE.find, "best": _at("tutti.experiments.methods.best:portfolio", _MADE)})
"""The methods of this project, by the name used in configs and on the command line."""

REMOVED = {"postal": ("0.2", "min_latency")}
"""Methods of earlier versions: the first version without each, and the method to use in its place."""


def add_method(method: Method) -> None:
    """Add a plug-in's method. `best` and `list_scheduling` call it if their options name it."""
    OLD_NAMES.pop(method.name, None)
    for methods in (_SINGLE, _MADE, METHODS):
        methods[method.name] = method


def unknown_method(name: str, known: Mapping[str, Method]) -> str:
    """Return what is wrong with a name that no method has: a removed method's says what to use instead."""
    if name in REMOVED:
        version, instead = REMOVED[name]
        return f"method '{name}' was removed in version {version}; use '{instead}'"
    return f"unknown method '{name}'{suggestion(name, known)}"


def find_method(name: str, methods: Mapping[str, Method] | None = None) -> Method:
    """Return the method of that name, which does several collectives at once if it does each alone.

    A name of an earlier version will do.

    Raises
    ------
    InputError
        If there is none; the message suggests one.
    """
    known = METHODS if methods is None else methods
    current = name if not isinstance(name, str) or name in known else current_name(name)
    if not isinstance(name, str) or current not in known:
        raise InputError(unknown_method(str(name), known))
    from tutti.schedules.by_groups import by_groups  # what it needs is needed only here

    return by_groups(known[current])
