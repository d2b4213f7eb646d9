"""The errors that a user meets, each one line: what, where, what is allowed."""

from __future__ import annotations

import difflib
import traceback
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Any


class TuttiError(Exception):
    """Base of every error that tutti raises on purpose; its text is one line."""


class InputError(TuttiError):
    """What the user gave is wrong: a topology, a size, a file, an option."""


class Disconnected(InputError):
    """What is left of a network after failures has ranks that are cut off."""


class Unsupported(TuttiError):
    """A method does not handle a problem; said before anything is built."""


class NoSchedule(TuttiError):
    """A method found no schedule: infeasible, or stopped by a limit."""


class Interrupted(KeyboardInterrupt):
    """Ctrl-C, which comes with what had been found by then, so that it is not lost.

    Parameters
    ----------
    found
        A verified schedule, or the result that is made of it for the user.
    """

    def __init__(self, found: Any) -> None:
        super().__init__("interrupted; what was found by then is in `found`")
        self.found = found


def raised(error: BaseException, within: Collection[str] = ()) -> str:
    """Return what was raised, and where: ``"ValueError: text (file.py:12)"``, the text cut to its first line.

    Parameters
    ----------
    error
        As it was caught.
    within
        Files: the place is the last line of these that was running, if there is one, else the last of all.
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
    r"""Return a text of a user with a question mark for what does not print, for an error or a note.

    Examples
    --------
    >>> visible("a\x07b")
    'a?b'
    """
    return "".join(sign if sign.isprintable() else "?" for sign in text)


SHOWN = 40
"""Characters of a user's word that an error repeats."""


def shortened(text: str, most: int = SHOWN) -> str:
    """Return a text, cut after some characters: then three dots follow.

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
    spelt = {choice.lower().replace("-", "_"): choice for choice in choices}  # whatever the case
    close = [spelt[found] for found in difflib.get_close_matches(word.lower().replace("-", "_"), spelt, n=1)]
    if close:
        return f"; did you mean '{close[0]}'?"
    return f"; allowed: {', '.join(choices)}"
