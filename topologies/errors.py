"""The errors that users see. Each is one line that says what is wrong, where, and what is allowed."""

from __future__ import annotations

import difflib
import traceback
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import Any


class TuttiError(Exception):
    """Base of every error that tutti raises on purpose; its text is one line."""


class InputError(TuttiError):
    """The user's input is wrong: a topology, a size, a file or an option."""


class Disconnected(InputError):
    """Failures have cut some ranks of a network off from the rest."""


class Unsupported(TuttiError):
    """A method does not handle a problem. It is raised before anything is built."""


class NoSchedule(TuttiError):
    """A method found no schedule: the problem is infeasible, or a limit was reached."""


class VerificationError(TuttiError):
    """A schedule does not do its collective; the text is one line.

    Parameters
    ----------
    text
        The fault and its place; if a row is given, it follows "transfer 7".
    row
        The first wrong transfer; None if no single one is to blame (the chunk table, missing data).
    """

    def __init__(self, text: str, row: int | None = None) -> None:
        super().__init__(text if row is None else f"transfer {row}{text}")
        self.text, self.row = text, row

    def renumbered(self, first_row: int) -> VerificationError:
        """Return the same error for the table in which the first row has this number."""
        return self if self.row is None else VerificationError(self.text, self.row + first_row)


class Interrupted(KeyboardInterrupt):
    """Ctrl-C. It carries what had been found by then, so that this is not lost.

    Parameters
    ----------
    found
        A verified schedule, or the result that is made of it for the user.
    """

    def __init__(self, found: Any) -> None:
        super().__init__("interrupted; what was found by then is in `found`")
        self.found = found


def within(where: str, make: Callable[[], Any]) -> Any:
    """Return what `make` does, and put `where` before the message of an `InputError`."""
    try:
        return make()
    except InputError as error:
        raise InputError(f"{where}: {error}") from None


def raised(error: BaseException, within: Collection[str] = ()) -> str:
    """Return what was raised, and where: ``"ValueError: text (file.py:12)"``, the text cut to its first line.

    Parameters
    ----------
    error
        The exception.
    within
        Names of files. The place is the innermost call in one of them, if there is one, else of all.
    """
    frames = traceback.extract_tb(error.__traceback__)
    shown = [frame for frame in frames if frame.filename in within] or list(frames)
    where = f"({Path(shown[-1].filename).name}:{shown[-1].lineno})" if shown else ""
    words = f"{type(error).__name__}:", str(error).partition("\n")[0], where
    return " ".join(word for word in words if word)


def installing(extra: str) -> str:
    """Return how to install an extra of tutti: from its folder, as no package index has it.

    Examples
    --------
    >>> installing("mpi")
    "pip install -e '.[mpi]' in the folder of tutti"
    """
    return f"pip install -e '.[{extra}]' in the folder of tutti"


def visible(text: str) -> str:
    r"""Return a user's text for an error or a note; ``?`` replaces each character that does not print.

    Examples
    --------
    >>> visible("a\x07b")
    'a?b'
    """
    return "".join(sign if sign.isprintable() else "?" for sign in text)


SHOWN = 40
"""Most characters of a user's word that an error repeats. A larger value shows more of a long word."""


def shortened(text: str, most: int = SHOWN) -> str:
    """Return a text of at most `most` characters; if it was longer, three dots follow.

    Examples
    --------
    >>> shortened("abc", 2), shortened("ab", 2)
    ('ab...', 'ab')
    """
    return text[:most] + "..." * (len(text) > most)


def listed(names: Sequence[str], most: int = 4) -> str:
    """Return the first names, and three dots if there are more.

    Examples
    --------
    >>> listed(["a", "b", "c"], 2), listed(["a"], 2)
    ('a, b, ...', 'a')
    """
    return ", ".join(names[:most]) + ", ..." * (len(names) > most)


def suggestion(word: str, allowed: Iterable[str]) -> str:
    """Return ``"; did you mean 'x'?"`` or the list of what is allowed."""
    choices = sorted(set(allowed))
    spelt = {choice.lower().replace("-", "_"): choice for choice in choices}  # case does not matter
    close = [spelt[found] for found in difflib.get_close_matches(word.lower().replace("-", "_"), spelt, n=1)]
    if close:
        return f"; did you mean '{close[0]}'?"
    return f"; allowed: {', '.join(choices)}"
