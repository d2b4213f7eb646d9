"""SVG and HTML: elements with everything in them escaped, and the templates of pages."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape


@cache
def templates(*folders: Path) -> Environment:
    """Return the templates of folders, looked for in order.

    Values are escaped, and a name that is not given is an error.
    """
    environment = Environment(
        loader=FileSystemLoader(folders),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.policies["json.dumps_kwargs"] = {}  # the columns of the charts' rows stay in order
    return environment


def as_it_is(file: Path) -> Markup:
    """Return a file as a page has it, such as a style or a script."""
    return Markup(file.read_text(encoding="utf-8"))


def tag(name: str, *children: object, **attributes: object) -> Markup:
    """Return an element with everything in it escaped.

    Attributes that are None are left out; ``_`` in a name stands for ``-``, but at the end for nothing.

    Examples
    --------
    >>> tag("text", "a<b", class_="x", data_tip='"')
    Markup('<text class="x" data-tip="&#34;">a&lt;b</text>')
    """
    pairs = (
        Markup(' {}="{}"').format(Markup(key.rstrip("_").replace("_", "-")), _text(value))
        for key, value in attributes.items()
        if value is not None
    )
    # `name` and the attributes' names are literals of this package.
    opening = Markup("<{}{}>").format(Markup(name), Markup("").join(pairs))
    inner = Markup("").join(escape(child) for child in children)
    return opening + inner + Markup("</{}>").format(Markup(name))


def group(parts: Iterable[object], **attributes: object) -> Markup:
    """Return the parts in a ``<g>``."""
    return tag("g", *parts, **attributes)


def _text(value: object) -> object:
    return f"{value:.1f}".removesuffix(".0") if isinstance(value, float) else value
