"""Compiled kernels on disk, each of which is compiled once, however many processes start together.

numba keeps what it compiled, but processes that find nothing on disk all compile the same kernel. Here a
process claims a kernel before it compiles it. A claim is a lock on the kernel's byte of a file beside the
compiled kernels; the system lifts it when the process ends, however that happens. Other processes wait, and
load the result. Every process claims a kernel before its callees, so that no cycle of processes can wait.
"""

from __future__ import annotations

import errno
import fcntl
import functools
import os
import time
import zlib
from pathlib import Path
from typing import Any, NamedTuple

from numba.core.caching import FunctionCache, IndexDataCacheFile

from tutti.topologies.progress import tell

CLAIMS = "kernels.lock"


class Claiming(NamedTuple):
    """Times, in seconds, of a process that waits for another to compile the same kernel."""

    look: float
    """Time between two checks whether the other process has finished. A larger value notices it later."""
    told: float
    """Time after which a message tells the user. A larger value tells it later."""
    patience: float
    """Time after which a claim is ignored. No kernel takes as long to compile, so its process was stopped."""


CLAIMING = Claiming(look=0.01, told=1.0, patience=120.0)

TAKEN = {errno.EACCES, errno.EAGAIN}
_HELD: dict[CompiledOnce, int] = {}
"""The kernels that this process has claimed, with the descriptor of each lock file."""


class Index(IndexDataCacheFile):
    """numba's table of what is on disk. One that can't be read counts as empty, and is written again."""

    def _load_index(self) -> Any:
        try:
            return super()._load_index()
        except Exception:  # noqa: BLE001 (pickle raises anything: a class moved, or bytes are damaged)
            return {}


class CompiledOnce(FunctionCache):
    """numba's cache of one function, which processes fill one after the other.

    If the file of claims can't be written or locked, as on some network file systems, each process compiles
    alone. If a process holds a claim for too long, the others compile and do not save the result: if two
    processes wrote at the same time, the table of one could point to the code of the other.
    """

    kept = True

    def __init__(self, function: Any, made_from: Any, variant: str) -> None:
        """Open a variant of a function on disk; it counts only if it was made from the same sources."""
        super().__init__(function)
        self._base = self._impl.filename_base + variant
        self._cache_file = Index(self._cache_path, self._base, made_from)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the compiled kernel on disk, or None if this process is to compile and save it."""
        found = super().load_overload(sig, target_context)
        if found is None and self._claim():
            found = super().load_overload(sig, target_context)
            if found is not None:
                self.release()
        return found

    def save_overload(self, sig: Any, data: Any) -> None:
        """Save the compiled kernel for the processes that wait."""
        try:
            if self.kept:
                super().save_overload(sig, data)
        finally:
            self.release()

    def release(self) -> None:
        """Lift this process's claim, if there is one."""
        file = _HELD.pop(self, None)
        if file is not None:
            fcntl.lockf(file, fcntl.LOCK_UN, 1, self._byte)

    @functools.cached_property
    def _byte(self) -> int:
        return zlib.crc32(self._base.encode())

    def _claim(self) -> bool:
        """Claim the kernel when no other process compiles it; return whether that worked in time."""
        file, began, told = _claims(self.cache_path), time.monotonic(), False
        self.kept = True
        while file is not None and (waited := time.monotonic() - began) < CLAIMING.patience:
            try:
                fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, self._byte)
            except OSError as error:
                if error.errno not in TAKEN:
                    return False
            else:
                _HELD[self] = file
                return True
            if waited > CLAIMING.told and not told:
                tell("waiting for another process, which compiles kernels")
                told = True
            time.sleep(CLAIMING.look)
        self.kept = file is None
        return False


def release_all() -> None:
    """Lift the claims that are left, such as those of kernels that could not be compiled."""
    for cache in list(_HELD):
        cache.release()


@functools.cache
def _claims(folder: str) -> int | None:
    """Return the open file of claims, or None. Closing it would lift all claims."""
    try:
        return os.open(Path(folder) / CLAIMS, os.O_RDWR | os.O_CREAT, 0o666)
    except OSError:
        return None
