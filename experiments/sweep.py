"""Grids in a config: ``sweep = {key = [..]}`` in a table, and ``{key}`` placeholders in its text."""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from topologies.errors import InputError, suggestion

Table = dict[str, Any]
PLACEHOLDER = re.compile(r"\{([A-Za-z_]\w*)\}")
"""A name in braces; the papers' ``C(16,{3,4})`` is none."""


def expand(table: Mapping[str, Any], keys: Collection[str], where: str) -> Iterator[tuple[Table, str]]:
    """Yield every table of the grid, with the place and the values that made it.

    A key of the sweep that is one of `keys` sets it, any other fills placeholders. The last key varies
    fastest. A nested table may have a sweep of its own, which sets its keys.

    Raises
    ------
    InputError
        If a sweep is no table of lists, if one of its keys is used nowhere, or a placeholder is not filled.

    Examples
    --------
    >>> grid = expand({"spec": "ring:{n}", "sweep": {"n": [4, 8]}}, {"spec"}, "[[topology]] 1")
    >>> [table["spec"] for table, _ in grid]
    ['ring:4', 'ring:8']
    """
    for flat, nested_notes in _expand_nested(table, where):
        axes = _axes(flat.pop("sweep", {}), where)
        used = {name for text in _texts(flat) for name in PLACEHOLDER.findall(text)}
        for key in axes:
            if key not in keys and key not in used:
                known = suggestion(key, [*keys, *used])
                raise InputError(f"{where}, sweep: '{key}' is no key, and no text has {{{key}}}{known}")
        for values in itertools.product(*axes.values()):
            chosen = dict(zip(axes, values, strict=True))
            notes = [*(f"{key} = {value}" for key, value in chosen.items()), *nested_notes]
            place = f"{where} ({', '.join(notes)})" if notes else where
            filled = {key: value for key, value in chosen.items() if key in keys}
            yield _fill({**flat, **filled}, chosen, place), place


def _expand_nested(table: Mapping[str, Any], where: str) -> Iterator[tuple[Table, list[str]]]:
    """Yield the table with each combination of the sweeps of the tables in it."""
    nested = [key for key, value in table.items() if isinstance(value, dict) and "sweep" in value]
    nested = [key for key in nested if key != "sweep"]
    grids = [list(_nested_grid(table[key], f"{where}, {key}")) for key in nested]
    for choice in itertools.product(*grids):
        replaced = {key: inner for key, (inner, _) in zip(nested, choice, strict=True)}
        yield {**table, **replaced}, [note for _, note in choice]


def _nested_grid(table: Mapping[str, Any], where: str) -> Iterator[tuple[Table, str]]:
    axes = _axes(table["sweep"], where)
    fixed = {key: value for key, value in table.items() if key != "sweep"}
    for values in itertools.product(*axes.values()):
        chosen = dict(zip(axes, values, strict=True))
        yield {**fixed, **chosen}, ", ".join(f"{key} = {value}" for key, value in chosen.items())


def _axes(sweep: Any, where: str) -> dict[str, list[Any]]:
    if not isinstance(sweep, dict):
        raise InputError(f"{where}: sweep is {sweep!r}; write it as {{key = [value, ...]}}")
    for key, values in sweep.items():
        if not isinstance(values, list) or not values:
            raise InputError(f"{where}, sweep: '{key}' is {values!r}; give a list of values, such as [4, 8]")
    return sweep


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, (list, dict)):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _texts(inner)


def _fill(value: Any, chosen: Mapping[str, Any], where: str) -> Any:
    if isinstance(value, dict):
        return {key: _fill(inner, chosen, where) for key, inner in value.items()}
    if isinstance(value, list):
        return [_fill(inner, chosen, where) for inner in value]
    if not isinstance(value, str):
        return value
    for name in PLACEHOLDER.findall(value):
        if name not in chosen:
            raise InputError(f"{where}: nothing fills {{{name}}} in '{value}'; add sweep = {{{name} = [..]}}")
    return PLACEHOLDER.sub(lambda match: str(chosen[match[1]]), value)
