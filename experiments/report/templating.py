"""The pages' templates, and the files beside them that go into pages as they are."""

from __future__ import annotations

from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup


def template(name: str) -> Template:
    """Return a template: values are escaped, and a name that is not given is an error."""
    return _environment().get_template(name)


def source(name: str) -> Markup:
    """Return a file as it is, such as a style or a script."""
    environment = _environment()
    return (
        Markup("")
        if environment.loader is None
        else Markup(environment.loader.get_source(environment, name)[0])
    )


@cache
def _environment() -> Environment:
    return Environment(
        loader=PackageLoader("experiments.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
