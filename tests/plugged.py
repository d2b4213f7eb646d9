"""The plug-ins that docs/plugins.md shows, as files and registered for a while."""

import re
import sys
from collections.abc import Iterator, MutableMapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from tutti.experiments import plugins, registry
from tutti.models.bounds import check, report
from tutti.models.solvers.registry import BACKENDS
from tutti.topologies.text import FAMILIES

PAGE = (Path(__file__).parent.parent / "docs" / "plugins.md").read_text(encoding="utf-8")
REGISTRIES: tuple[MutableMapping[Any, Any], ...] = (
    *(registry.METHODS, registry._SINGLE, registry._MADE),
    *(FAMILIES, check.PROOFS, report.FURTHER, BACKENDS),
    *(plugins._plugins, plugins._added),
)


def blocks(language: str) -> list[str]:
    """The code blocks of a language, those inside a list without its indentation."""
    found = re.findall(rf"^( *)```{language}\n(.*?)^ *```", PAGE, flags=re.MULTILINE | re.DOTALL)
    return [re.sub(f"^{indent}", "", text, flags=re.MULTILINE) for indent, text in found]


def files() -> dict[str, str]:
    """Each block of Python by the file's name that its first line is."""
    return {text.partition("\n")[0].removeprefix("# "): text for text in blocks("python")}


def names(file: str) -> dict[str, Any]:
    """What a file defines; nothing is registered."""
    found: dict[str, Any] = {"__name__": file}
    exec(compile(files()[file], file, "exec"), found)
    return found


def write(folder: Path) -> list[Path]:
    """Write the files and return their paths."""
    for name, text in files().items():
        (folder / name).write_text(text, encoding="utf-8")
    return [folder / name for name in files()]


@contextmanager
def unregistered() -> Iterator[None]:
    """Forget afterwards what was registered meanwhile."""
    with ExitStack() as stack:
        for known in REGISTRIES:
            stack.enter_context(patch.dict(known))
        stack.enter_context(patch.object(sys, "path", [*sys.path]))
        yield
        for plugin in plugins._plugins.values():
            sys.modules.pop("" if plugin.path is None else plugin.path.stem, None)


@contextmanager
def registered(folder: Path) -> Iterator[None]:
    """All of them are registered meanwhile, from files in this folder."""
    with unregistered():
        for path in write(folder):
            plugins.load(path)
        yield
