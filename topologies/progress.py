"""What slow work says of itself while it lasts. Nobody has to listen."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

_LISTENERS: list[Callable[[str], None]] = []


def tell(text: str) -> None:
    """Say what is being done now, or what has been found so far, to all who listen."""
    for listener in _LISTENERS:
        listener(text)


@contextmanager
def listening(listener: Callable[[str], None]) -> Iterator[None]:
    """Let a function have all that is told within the ``with`` block."""
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
