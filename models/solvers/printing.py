"""The output of libraries that know no other place for their log than the process's streams."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

STREAMS = (1, 2)


@contextmanager
def printing_to(log: Path | str | None) -> Iterator[None]:
    """Append what the process prints meanwhile, in any thread, to a file; do nothing for None.

    Raises
    ------
    OSError
        If the file can't be written.
    """
    if log is None:
        yield
        return
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
    with Path(log).open("ab") as file:
        kept = [os.dup(descriptor) for descriptor in STREAMS]
        try:
            for descriptor in STREAMS:
                os.dup2(file.fileno(), descriptor)
            yield
        finally:
            ctypes.CDLL(None).fflush(None)  # what C libraries hold back would be printed elsewhere
            for descriptor, old in zip(STREAMS, kept, strict=True):
                os.dup2(old, descriptor)
                os.close(old)
