"""Exceptions of signal handlers, raised where they do no harm.

Python runs a signal's handler between any two instructions, so also in functions that compiled code calls.
An exception there is printed and lost (in llvmlite, and where numba hears that an object is gone), or ends
the process: numba makes the named tuples that kernels return without a look at whether that failed. And a
module that is being imported may take it for a failed import, and leave itself out or say something else of
it. So it is raised in the function that called the compiled code, or that imports, as soon as that goes on.
"""

from __future__ import annotations

import sys
from pathlib import Path
from traceback import walk_stack
from types import FrameType
from typing import Any

CALLED = (
    *(str(Path(*parts)) for parts in (("llvmlite", "binding"), ("numba", "core", "serialize.py"))),
    "<frozen importlib",
)
"""Of files with functions that compiled code calls, and of those that import."""
GONE = ("on_disposal", "_on_type_disposal")
"""How numba calls what hears that an object is gone, which may be between any two instructions as well."""
NAMED_TUPLE = "namedtuple_"
"""How the module is called in which `collections.namedtuple` makes a constructor."""


def raise_in(frame: FrameType | None, error: BaseException) -> None:
    """Raise an exception in a frame that a signal has interrupted, or in the one that it returns to.

    Parameters
    ----------
    frame
        As the handler gets it.
    error
        The exception.
    """
    called = [place for place, _ in walk_stack(frame) if _is_called(place)]
    if not called or called[-1].f_back is None:
        raise error
    caller, before = called[-1].f_back, sys.gettrace()

    def trace(place: FrameType, event: str, _: Any) -> None:
        caller.f_trace = None
        sys.settrace(before)
        raise error

    caller.f_trace = trace  # its next line, or its end
    sys.settrace(lambda place, event, _: None)  # without one, frames are not traced either


def _is_called(frame: FrameType) -> bool:
    made = str(frame.f_globals.get("__name__", "")).startswith(NAMED_TUPLE)
    return made or frame.f_code.co_name in GONE or any(file in frame.f_code.co_filename for file in CALLED)
