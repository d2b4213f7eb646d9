"""SVG and HTML elements with everything in them escaped, for what is drawn on networks."""

from __future__ import annotations

from collections.abc import Iterable

from markupsafe import Markup, escape


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
