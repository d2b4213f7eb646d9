"""Methods and options by their names in earlier versions: old names are always read, new ones are written."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from tutti.topologies.errors import InputError, suggestion

NAMES: dict[str, Any] = tomllib.loads(Path(__file__).with_name("method_names.toml").read_text("utf-8"))
"""Places of the methods, and all names in earlier versions of methods and their options."""
OLD_NAMES: dict[str, str] = NAMES["old_names"]
OLD_OPTIONS: Mapping[str, Mapping[str, str]] = NAMES["old_options"]
OLD_MODELS = {"all-to-all": "mcf"}
"""Names of studies' models before version 0.2, and their names of today."""
METHOD_LISTS = frozenset({"base_methods", "methods"})
"""Options whose value is a list of methods."""
_ASSIGNED = re.compile(r"(?:^| )(\w+)=")
_WORD = re.compile(r"\w+\b(?!=)")


def current_name(name: str) -> str:
    """Return today's name of a method; a method from outside keeps a name that one had here earlier."""
    return OLD_NAMES.get(name, name)


def unknown_method(name: str, known: Collection[str]) -> str:
    """Return what is wrong with a name that no method has: a removed method's says what to use instead."""
    if name in NAMES["removed"]:
        version, instead = NAMES["removed"][name]
        return f"method '{name}' was removed in version {version}; use '{instead}'"
    return f"unknown method '{name}'{suggestion(name, known)}"


def current_model(text: str) -> str:
    """Return today's name of a study's model, which may have options after it."""
    name, space, options = text.partition(" ")
    return OLD_MODELS.get(name, name) + space + options


def current_options(method: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return a method's options under their names of today.

    Raises
    ------
    InputError
        If one is given by both its names.
    """
    old, found = OLD_OPTIONS.get(method, {}), dict[str, Any]()
    for name, value in given.items():
        new = old.get(name, name)
        if new in found or (new != name and new in given):
            raise InputError(f"method {method}: options '{name}' and '{new}' say the same; give one of them")
        found[new] = _current_methods(value) if new in METHOD_LISTS else value
    return found


def current_pattern(pattern: str) -> str:
    """Return a shell pattern of tasks with the names of today of the methods in it.

    Examples
    --------
    >>> current_pattern("* stepwise*"), current_pattern("*stepwise_*"), current_pattern("*rounds=1*")
    ('* shortest_path_all_to_all*', '*stepwise_*', '*rounds=1*')
    """
    return _WORD.sub(lambda word: current_name(word[0]), pattern)


def _current_methods(value: Any) -> Any:
    """Return a list of methods, or a text with commas, with their names of today."""
    if isinstance(value, str):
        return ",".join(current_name(name.strip()) for name in value.split(","))
    if isinstance(value, list | tuple):
        return [current_name(name) if isinstance(name, str) else name for name in value]
    return value


def current_label(text: str) -> str:
    """Return a method's name and options, as rows have them, under their names of today.

    Examples
    --------
    >>> current_label("tacos chunks=4 pick=rarest"), current_label("stepwise")
    ('tacos chunk_rule=rarest chunks=4', 'shortest_path_all_to_all')
    """
    name, _, options = text.partition(" ")
    method, places = current_name(name), list(_ASSIGNED.finditer(options))
    if not places or places[0].start():
        return f"{method} {options}".rstrip() if method != name else text
    ends = [*(place.start() for place in places[1:]), len(options)]
    given = {place[1]: options[place.end() : end] for place, end in zip(places, ends, strict=True)}
    try:
        current = current_options(method, given)
    except InputError:
        return text
    return " ".join([method, *(f"{option}={current[option]}" for option in sorted(current))])
