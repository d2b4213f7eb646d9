"""Every method by name. A new one is one line of ``method_names.toml``, or a plug-in (`experiments.plugins`).

A method is imported when it is first asked for: most commands want one, and all take half a second.
"""

from __future__ import annotations

from collections import UserDict
from collections.abc import Callable, Mapping
from functools import cache
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

from tutti.experiments.old_names import NAMES, OLD_NAMES, current_name, unknown_method
from tutti.topologies.errors import InputError

if TYPE_CHECKING:
    from tutti.schedules.method import Method


class Methods(UserDict[str, Any]):
    """Methods by name, in order. Its data are methods and functions that find them."""

    def __getitem__(self, name: str) -> Any:
        """Return a method."""
        found = self.data[name]
        return found() if callable(found) else found


def _at(name: str, *calls: Methods) -> Callable[[], Method]:
    """Return what finds a method; one that calls others is made by a function of these."""

    @cache
    def find() -> Method:
        found = resolve_name(f"tutti.{NAMES['methods'][name]}")
        return found(*calls) if calls else found

    return find


_STARTS = Methods({name: _at(name) for name in ("tacos", "bfb", "forestcoll", "multitree", "ring", "direct")})
"""Methods with whose schedules the search of an exact model may begin."""
_CALLERS = ("list_scheduling", "local_search")
_SINGLE = Methods({name: _at(name) for name in NAMES["methods"] if name not in (*_CALLERS, "best")})
_SINGLE.data |= {name: _at(name, _STARTS) for name in ("optimum", "teccl")}
_MADE = Methods(_SINGLE.data | {name: _at(name, _SINGLE) for name in _CALLERS})
METHODS = Methods(_MADE.data | {"best": _at("best", _MADE)})
"""The methods of this project, by the name used in configs and on the command line."""


def add_method(method: Method) -> None:
    """Add a plug-in's method. `best` and `list_scheduling` call it if their options name it."""
    OLD_NAMES.pop(method.name, None)
    for methods in (_SINGLE, _MADE, METHODS):
        methods[method.name] = method


def find_method(name: str, methods: Mapping[str, Method] | None = None) -> Method:
    """Return the method of that name, which does several collectives together if it does each alone.

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
    from tutti.schedules.groups import by_groups  # what it needs is needed only here

    return by_groups(known[current])
