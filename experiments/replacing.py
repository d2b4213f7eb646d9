"""Writing a file so that either the old one or the whole new one is there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give the path of a draft, which takes the place of `path` at the end of the ``with`` block.

    Raises
    ------
    OSError
        If it can't be written; it names `path` (a full disk does not), and no draft is left behind.
    """
    draft = path.with_name(f".{path.name}")
    try:
        yield draft
        draft.replace(path)
    except OSError as error:
        raise OSError(error.errno, error.strerror or str(error), str(path)) from error
    finally:
        draft.unlink(missing_ok=True)
