"""Keeps imports out of the time of methods: the clock of `COMPILATION` counts them.

Large libraries are imported where they are first needed, because most commands need few of them. So the first
synthesis of a process imports modules that later ones find loaded. `counted` looks only at modules from
files, because only these take time.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from importlib.machinery import ExtensionFileLoader, ModuleSpec, SourceFileLoader
from types import ModuleType
from typing import Any

from tutti.topologies.kernels import COMPILATION

STEPS = ("create_module", "exec_module")
"""Methods of a loader. The first loads machine code, the second runs Python code."""


class _Finder(MetaPathFinder):
    """Finds what the finders after it find, and counts the time that loading it takes."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        for finder in sys.meta_path[sys.meta_path.index(self) + 1 :]:
            spec = finder.find_spec(fullname, path, target)
            if spec is not None:
                if isinstance(spec.loader, SourceFileLoader | ExtensionFileLoader):
                    for step in STEPS:  # this loader is of this module alone
                        setattr(spec.loader, step, _in_stretch(getattr(spec.loader, step)))
                return spec
        return None


def _in_stretch(call: Callable[..., Any]) -> Callable[..., Any]:
    def counted(*args: Any) -> Any:
        with COMPILATION:
            return call(*args)

    return counted


@contextmanager
def counted() -> Iterator[None]:
    """Let `COMPILATION` count the imports inside the block."""
    finder = _Finder()
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
