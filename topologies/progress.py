"""Progress reports of slow work. They reach all listeners, of which there may be none."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

_LISTENERS: list[Callable[[str], None]] = []


def tell(text: str) -> None:
    """Tell all listeners what is being done now, or what has been found so far."""
    for listener in _LISTENERS:
        listener(text)


@contextmanager
def listening(listener: Callable[[str], None]) -> Iterator[None]:
    """Pass all progress within the ``with`` block to this function, too."""
    _LISTENERS.append(listener)
    try:
        yield
    finally:
        _LISTENERS.remove(listener)


@contextmanager
def listening_alone(listener: Callable[[str], None]) -> Iterator[None]:
    """Pass all progress within the ``with`` block to this function, and to no other listener."""
    before, _LISTENERS[:] = _LISTENERS[:], [listener]
    try:
        yield
    finally:
        _LISTENERS[:] = before
