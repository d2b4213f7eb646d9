"""The files of users, read within limits, and files that are there whole or not at all.

`opened` and `read_text` read every file that a user may name, whatever stands in it.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, BinaryIO

from tutti.topologies.errors import InputError
from tutti.topologies.units import format_size

MOST_TEXT = 2**30
"""Most bytes of a text that is read: a network of ten million links has as many. Larger files are refused."""
DRAFTS = ".*.part"
"""Pattern of the names of drafts, those of `write_whole` too."""


@contextmanager
def opened(path: Path | str, most: float = MOST_TEXT) -> Iterator[BinaryIO]:
    """Open a file to read its bytes; errors of the system within the ``with`` block name the file.

    Only regular files are read, because a pipe may never send anything and a device may never end.

    Parameters
    ----------
    path
        The file.
    most
        The largest number of bytes that it may have.

    Raises
    ------
    InputError
        If it can't be read, is no regular file, or has more bytes.
    """
    if "\0" in str(path):
        raise InputError(f"{str(path)!r}: can't be read: no file has a null character in its name")
    try:
        # otherwise opening a pipe waits for a writer
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise InputError(f"{path}: can't be read: not a regular file")
            check_length(path, status.st_size, most)
            yield file
    except OSError as error:
        raise InputError(f"{path}: can't be read: {error.strerror or error}") from None


@contextmanager
def writing(path: Path | str) -> Iterator[None]:
    """Say that a path can't be written where the system raises an error.

    Raises
    ------
    InputError
        If it does; the message gives the system's reason.
    """
    try:
        yield
    except OSError as error:
        raise InputError(f"{path}: can't be written: {error.strerror or error}") from None


def write_whole(path: Path, write: Callable[[IO[bytes]], object]) -> None:
    """Write a file completely or not at all; a device or pipe is written to, not replaced.

    Raises
    ------
    InputError
        If it can't be written.
    """
    special = path.exists() and not path.is_file()
    draft = path if special else path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with writing(path):
            with draft.open("wb") as file:
                write(file)
            if not special:
                draft.replace(path)
    finally:
        if not special:
            with suppress(OSError):  # the error that matters is already raised
                draft.unlink(missing_ok=True)


def write_bytes(path: Path, data: bytes) -> None:
    """Write a file as `write_whole`."""
    write_whole(path, lambda file: file.write(data))


def write_text(path: Path, text: str) -> None:
    """Write a text file as `write_whole`, in UTF-8."""
    write_bytes(path, text.encode())


def check_place(path: Path, source: Path | str | None = None) -> None:
    """Refuse a path where no file can be written, as far as this is known beforehand.

    Parameters
    ----------
    path
        The file.
    source
        The file that it is made from, or any other text.

    Raises
    ------
    InputError
        If it is a directory, is in no writable directory, or is the file that it is made from.
    """
    if path.is_dir():
        raise InputError(f"{path}: can't be written: Is a directory")
    if not path.parent.is_dir():
        raise InputError(f"{path}: can't be written: no directory {path.parent}")
    if not os.access(path.parent, os.W_OK):
        raise InputError(f"{path}: can't be written: no permission to write in {path.parent}")
    if source is not None and path.exists() and path.resolve() == Path(source).resolve():
        raise InputError(f"{path}: is the input file; write to another file")


def check_length(path: Path | str, length: int, most: float) -> None:
    """Refuse a file whose declared length is larger than what is read.

    Raises
    ------
    InputError
        If it has more than `most` bytes.
    """
    if length > most:
        raise InputError(f"{path}: too long: {format_size(length)}; at most {format_size(int(most))}")


def read_text(path: Path | str, most: float = MOST_TEXT) -> str:
    """Return the UTF-8 text in a file of at most `most` bytes.

    Raises
    ------
    InputError
        As `opened`, or if it is no UTF-8.
    """
    with opened(path, most) as file:
        data = file.read(os.fstat(file.fileno()).st_size)
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8 text, at byte {error.start}") from None


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give the path of a draft, which takes the place of `path` at the end of the ``with`` block.

    The file is then stored on the disk, and a power cut does not damage it.

    Parameters
    ----------
    path
        The path of the file. A draft that a killed run left is called ``.NAME.part``.

    Raises
    ------
    OSError
        If it can't be written; it names `path` (a full disk does not), and no draft is left behind.
    """
    draft = path.with_name(f".{path.name}.part")
    try:
        yield draft
        with draft.open("rb") as file:
            os.fsync(file.fileno())  # otherwise a power cut after the renaming may leave an empty file
        draft.replace(path)
    except OSError as error:
        raise OSError(error.errno, error.strerror or str(error), str(path)) from error
    finally:
        draft.unlink(missing_ok=True)


def written(path: Path, content: bytes, what: str) -> Path:
    """Write a file completely or not at all, create its folder if needed, and return the file's path.

    Raises
    ------
    InputError
        If it can't be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as draft:
            draft.write_bytes(content)
    except OSError as error:
        raise InputError(f"{path}: can't write the {what}: {error.strerror}") from error
    return path


def check_folder(folder: Path) -> None:
    """Refuse a folder in which no file can be written, before work is done for it. Create a missing one.

    Raises
    ------
    InputError
        If the folder can't be created or written to, or is a file.
    """
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder}: not a folder")
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        TemporaryFile(dir=folder).close()


def drop_drafts(directory: Path) -> None:
    """Remove what a killed process had begun to write into a folder that no other process writes to now."""
    for draft in directory.glob(DRAFTS):
        draft.unlink(missing_ok=True)
