"""The version of this installation."""

import importlib.metadata


def _version() -> str:
    try:
        return importlib.metadata.version("tutti")
    except importlib.metadata.PackageNotFoundError:
        return "(not installed)"


VERSION = _version()
