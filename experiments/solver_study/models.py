"""Every model of a study by its text: a name and, of mixed-integer ones, options (``sccl chunks=2``)."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from tutti.experiments.solver_study.instances import MODELS, LinearModel
from tutti.experiments.solver_study.milp_instances import MIXED
from tutti.topologies.errors import InputError, suggestion

WORDS = {"true": True, "false": False}


def model_text(name: str, options: Mapping[str, Any]) -> str:
    """Return a model's name with its options, as `find_model` reads it.

    Examples
    --------
    >>> model_text("taccl-routing", {"chunks": 2, "symmetry": False})
    'taccl-routing chunks=2 symmetry=false'
    """
    words = (
        f"{key}={str(value).lower() if isinstance(value, bool) else value}" for key, value in options.items()
    )
    return " ".join([name, *words])


def is_mixed(text: str) -> bool:
    """Whether a model is a mixed-integer program."""
    return text.partition(" ")[0] in MIXED


def find_model(text: str) -> LinearModel:
    """Return the model of that name, with its options.

    Raises
    ------
    InputError
        If there is none, or it has no such option; the message suggests one.
    """
    name, *words = text.split() or [""]
    known = {**MODELS, **MIXED}
    if name not in known:
        raise InputError(f"unknown model '{name}'{suggestion(name, known)}")
    given = dict(word.partition("=")[::2] for word in words)
    if name in MODELS:
        if given:
            raise InputError(f"model {name} has no options; remove '{' '.join(words)}'")
        return MODELS[name]
    model = MIXED[name]
    fields = {field.name for field in dataclasses.fields(model.options) if field.init}
    for key in given:
        if key not in fields:
            raise InputError(f"model {name} has no option '{key}'{suggestion(key, fields)}")
    return model.given(text, model.options(**{key: _value(word) for key, word in given.items()}))


def _value(word: str) -> Any:
    return WORDS[word] if word in WORDS else int(word) if word.isdecimal() else word
