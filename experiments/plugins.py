"""Plug-ins: methods, families of networks, bounds and solvers from outside (docs/plugins.md).

A plug-in is a module that has, under public names, one or more of `Method`, `Family`, `BoundKind` and
`Backend`. It comes as a file (``--plugin FILE``, ``plugins = [...]`` in a config, `tutti.register`) or in an
installed package, by an entry point of a `PluginGroup`. A file is imported as an ordinary module named like
the file, and its folder is appended to ``sys.path``. So worker processes, which inherit that path, can import
the module of an object that they are sent. Entry points are looked up, and registries imported, only on
demand.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import inspect
import itertools
import json
import re
import signal
import sys
import traceback
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import is_dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path
from pkgutil import resolve_name
from types import ModuleType
from typing import Any, NamedTuple, get_args, get_type_hints

from tutti.topologies.errors import InputError, raised

WANTED = "a Method, Family, BoundKind or Backend"
"""Words of messages for the objects that can be registered."""
Loaded = tuple[tuple[str, str], ...]
"""The path and the digest of each file that is loaded."""


Entries = tuple[tuple["PluginGroup", str], ...]
"""The registered objects of a plug-in, as groups and names."""
Offers = Sequence[tuple[str, Any]]
"""Objects to register, each with the words by which messages name its origin."""


class PluginGroup(StrEnum):
    """A registry that plug-ins add to, as the group of its entry points."""

    METHODS = "tutti.methods"
    FAMILIES = "tutti.topologies"
    BOUNDS = "tutti.bounds"
    SOLVERS = "tutti.solvers"


class Registry(NamedTuple):
    """One of the registries that plug-ins add to.

    Parameters
    ----------
    word
        The word for one entry in messages.
    kind
        The type of entries, which has a ``name``.
    known
        All entries by name.
    add
        Adds an entry.
    names
        A pattern that a name must match.
    functions
        The attributes that are called, and the number of arguments of each call.
    """

    word: str
    kind: type
    known: Mapping[str, Any]
    add: Callable[[Any], None]
    names: str
    functions: Mapping[str, int]


@cache
def registries() -> dict[PluginGroup, Registry]:
    """Return the registries by group; this imports all modules with their entries."""
    word, calls = r"[A-Za-z][\w-]*", {"synthesize": 3, "check": 2, "size_dependent": 2}
    families, backends = _found("topologies.text:FAMILIES"), _found("models.solvers.registry:BACKENDS")

    def add_family(family: Any) -> None:
        families[family.name] = family

    def add_solver(backend: Any) -> None:
        backends[backend.name] = backend
        _found("models.solvers.solving:end_idle")()

    methods, add_method = _found("experiments.registry:METHODS"), _found("experiments.registry:add_method")
    proofs, add_bound = _found("models.bounds.check:PROOFS"), _found("models.bounds.report:add_kind")
    every: Iterable[Any] = (
        ("method", _found("schedules.method:Method"), methods, add_method, word, calls),
        ("family", _found("topologies.text:Family"), families, add_family, "[a-z][a-z0-9_]*", {}),
        ("bound", _found("models.bounds:BoundKind"), proofs, add_bound, word, {"find": 3, "prove": 3}),
        ("solver", _found("models.solvers:Backend"), backends, add_solver, word, {"run": 3}),
    )
    return dict(zip(PluginGroup, itertools.starmap(Registry, every), strict=True))


def _found(place: str) -> Any:
    """Return the object ``"module:NAME"`` of tutti, whose module is imported only now."""
    return resolve_name(f"tutti.{place}")


class Plugin(NamedTuple):
    """A plug-in that is loaded.

    Parameters
    ----------
    name
        The name of its file, or of its distribution.
    path
        Its file; None if it is installed.
    sources
        Its files: all of the package, or the one file and the modules beside it that it imports.
    digest
        A hash of the contents of its files.
    entries
        The groups and names of the objects that it added.
    """

    name: str
    path: Path | None
    sources: frozenset[str]
    digest: str
    entries: Entries

    def matters(self, said: str) -> bool:
        """Whether a row with this description depends on it: a name of it occurs there, or it has a bound."""
        named = (rf"\b{re.escape(name)}\b" for _, name in self.entries)
        has_bound = any(group is PluginGroup.BOUNDS for group, _ in self.entries)
        return has_bound or any(re.search(pattern, said) for pattern in named)


_plugins: dict[str, Plugin] = {}
"""The plug-ins that are loaded, by path or by distribution."""
_added: dict[tuple[PluginGroup, str], Any] = {}
"""The objects of plug-ins, by group and name."""


def load(file: Path | str, *, replace: bool = False) -> Plugin:
    """Load the plug-in in a Python file, unless it is loaded already; with `replace`, load it again.

    Raises
    ------
    InputError
        If there is no such file, it is no Python, raises, or has nothing to register; or if an object in it
        is incomplete or has a name that is taken.
    """
    path, who = Path(file).resolve(), f"plug-in {file}"
    if replace and str(path) in _plugins:
        del _plugins[str(path)]
        sys.modules.pop(path.stem, None)
    if str(path) not in _plugins:
        before = set(sys.modules)
        module = _imported(path, who)
        try:
            entries = _add(_offered(module, who), replace=replace)
        except InputError:
            del sys.modules[path.stem]  # so that it is read again once it is mended
            raise
        new = [module, *(sys.modules[name] for name in sys.modules.keys() - before)]
        sources = frozenset(f for f in map(_file, new) if f and Path(f).resolve().parent == path.parent)
        _plugins[str(path)] = Plugin(path.name, path, sources, _digest(sources), entries)
    return _plugins[str(path)]


@cache
def load_installed() -> None:
    """Load the plug-ins of installed packages.

    Raises
    ------
    InputError
        As `load`.
    """
    from importlib.metadata import entry_points  # takes 50 ms, of which no help needs any

    every, installed = entry_points(), dict[str, list[Any]]()
    for point in (point for group in PluginGroup for point in every.select(group=group)):
        installed.setdefault(point.dist.name if point.dist else point.module, []).append(point)
    for package, points in sorted(installed.items()):
        offers: list[tuple[str, Any]] = []
        sources: set[str] = set()
        for point in points:
            who = f"plug-in {package}, {point.group} {point.name} = {point.value}"
            with _faults(who):
                thing = point.load()
            wanted = registries()[PluginGroup(point.group)].kind
            if not isinstance(thing, (ModuleType, wanted)):
                raise InputError(f"{who}: it is a {type(thing).__name__}, not a {wanted.__name__}")
            offers += _offered(thing, who) if isinstance(thing, ModuleType) else [(who, thing)]
            # All files of the package belong to the plug-in, or the one file of a module without a package.
            top = sys.modules[point.module.partition(".")[0]]
            for place in getattr(top, "__path__", ()):
                sources.update(map(str, Path(place).rglob("*.py")))
            sources |= {_file(top)} - {""}
        _plugins[package] = Plugin(package, None, frozenset(sources), _digest(sources), _add(offers))


def register(thing: Any, *, replace: bool = False) -> None:
    """Register an object; with `replace`, it may replace another plug-in's object of the same name.

    Raises
    ------
    InputError
        If it has no type that can be registered, is incomplete, or its name is taken.
    """
    _add([("register", thing)], replace=replace)


def loaded() -> Loaded:
    """Return what another process needs to load the same files."""
    return tuple((str(plugin.path), plugin.digest) for plugin in _plugins.values() if plugin.path)


def load_same(files: Loaded) -> None:
    """Load the plug-ins that are loaded in another process.

    Raises
    ------
    InputError
        As `load`, or if a file has changed since then.
    """
    load_installed()
    for path, digest in files:
        if load(path).digest != digest:
            raise InputError(f"plug-in {path} was changed after the run began")


def digests(*said: Any) -> list[str]:
    """Return the digests of the plug-ins on which a row with this description depends."""
    text = json.dumps(said, default=str)
    return sorted(plugin.digest for plugin in _plugins.values() if plugin.matters(text))


def manifest() -> dict[str, str]:
    """Return the plug-ins' names with their digests."""
    return {plugin.name: plugin.digest for plugin in _plugins.values()}


def raised_it(error: BaseException, files: Collection[str] = ()) -> bool:
    """Return whether a line of a plug-in or of one of these files raised the error itself.

    Ctrl-C is no error of the plug-in that it stops. It is raised in the handler of the signal, if that is a
    function of tutti's as in the command line. With Python's own handler the answer is always no.
    """
    frames = traceback.extract_tb(error.__traceback__)
    theirs = {*files, *(source for plugin in _plugins.values() for source in plugin.sources)}
    handled = signal.getsignal(signal.SIGINT) is not signal.default_int_handler
    return handled and bool(frames) and frames[-1].filename in theirs


def blame(error: BaseException) -> str | None:
    """Return the plug-in that was running, with the error and its place; None if none was running.

    Examples
    --------
    >>> blame(ValueError("of nobody")) is None
    True
    """
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        for plugin in _plugins.values():
            if frame.filename in plugin.sources:
                return f"plug-in {plugin.name}: {raised(error, plugin.sources)}"
    return None


def _imported(path: Path, who: str) -> ModuleType:
    """Return the module in a file."""
    if path.suffix != ".py" or not path.stem.isidentifier():
        raise InputError(f"{who}: it must be a Python file with the name of a module, such as my_method.py")
    if not path.is_file():
        raise InputError(f"{who}: there is no such file")
    if str(path.parent) not in sys.path:
        sys.path.append(str(path.parent))
    importlib.invalidate_caches()
    with suppress(ValueError):  # a module without a spec, such as __main__
        spec = importlib.util.find_spec(path.stem)
        if spec and spec.origin and Path(spec.origin).resolve() == path:
            with _faults(who, {spec.origin}):
                return importlib.import_module(path.stem)
    raise InputError(f"{who}: there is another module '{path.stem}'; rename the file")


@contextmanager
def _faults(who: str, files: Collection[str] = ()) -> Iterator[None]:
    """Turn the errors that a plug-in raises while it is imported into `InputError`."""
    try:
        yield
    except SyntaxError as error:
        place = f" ({Path(error.filename).name}:{error.lineno})" if error.filename else ""
        raise InputError(f"{who}: {error.msg}{place}") from error
    except ModuleNotFoundError as error:
        top = str(error.name).partition(".")[0]
        hint = f"; import tutti.{top}" if top and importlib.util.find_spec(f"tutti.{top}") else ""
        raise InputError(f"{who}: {raised(error, files)}{hint}") from error
    except (Exception, SystemExit, KeyboardInterrupt) as error:
        if isinstance(error, KeyboardInterrupt) and not raised_it(error, files):
            raise
        raise InputError(f"{who}: {raised(error, files)}") from error


def _file(module: ModuleType) -> str:
    """Return the source of a module, empty if it has none."""
    path = getattr(module, "__file__", None) or ""
    return path if path.endswith(".py") else ""


def _digest(sources: Collection[str]) -> str:
    """Return a hash of the names and contents of files."""
    digest = hashlib.sha256()
    for path in sorted(map(Path, sources)):
        digest.update(f"{path.name}\0".encode() + path.read_bytes())
    return digest.hexdigest()


def _offered(module: ModuleType, who: str) -> Offers:
    """Return the objects of a module that can be registered: those of public names, in no registry yet."""
    every = registries().values()
    known = [thing for registry in every for thing in registry.known.values()]
    taken = {*map(id, known), *map(id, _added.values())}  # of a bound, the registry holds the proof
    named = [thing for name, thing in vars(module).items() if not name.startswith("_")]
    ours = [thing for thing in named if isinstance(thing, tuple(registry.kind for registry in every))]
    found = {id(thing): thing for thing in ours if id(thing) not in taken}
    if not found:
        raise InputError(f"{who}: it has nothing to register: {WANTED}, such as METHOD = Method(...)")
    return [(who, thing) for thing in found.values()]


def _add(offers: Offers, *, replace: bool = False) -> Entries:
    """Register objects if all of them are complete and their names free; return their groups and names."""
    entries: list[tuple[PluginGroup, str]] = []
    for who, thing in offers:
        group = next((group for group, one in registries().items() if isinstance(thing, one.kind)), None)
        if group is None:
            raise InputError(f"{who}: a {type(thing).__name__} can't be registered; it must be {WANTED}")
        entry, registry = (group, thing.name), registries()[group]
        if not (isinstance(thing.name, str) and re.fullmatch(registry.names, thing.name)):
            named = f"a {registry.word} has the name {thing.name!r}"
            raise InputError(f"{who}: {named}; it must match {registry.names}")
        if fault := next(_faults_of(group, thing), None):
            raise InputError(f"{who}: {registry.word} '{thing.name}': {fault}")
        taken = thing.name in registry.known and not (replace and entry in _added)
        if taken or entry in entries:
            known = f"there is a {registry.word} '{thing.name}' already"
            raise InputError(f"{who}: {known}; give it another name")
        entries.append(entry)
    for entry, (_, thing) in zip(entries, offers, strict=True):
        _added[entry] = thing
        registries()[entry[0]].add(thing)
    return tuple(entries)


def _faults_of(group: PluginGroup, thing: Any) -> Iterator[str]:
    """Yield the faults of an object, as the ends of messages."""
    for name, count in registries()[group].functions.items():
        yield from _refusals(name, getattr(thing, name), count)
    if group is PluginGroup.FAMILIES:
        if not (isinstance(thing.arguments, tuple) and len(thing.arguments) == 2):
            yield f"arguments is {thing.arguments!r}; it must be the least and the greatest number of them"
        yield from _refusals("build", thing.build, thing.arguments[0], ("bandwidth", "alpha", *thing.keys))
    has_options = group in (PluginGroup.METHODS, PluginGroup.SOLVERS)
    if has_options and not (isinstance(thing.options, type) and is_dataclass(thing.options)):
        yield f"options is {thing.options!r}; it must be a dataclass"
    if group is PluginGroup.METHODS:
        kinds = get_args(get_type_hints(type(thing))["kind"])
        if thing.kind not in kinds:
            yield f"kind is {thing.kind!r}; it must be one of {', '.join(kinds)}"
        if not isinstance(thing.exact_for, str):
            yield from _refusals("exact_for", thing.exact_for, 1)
        wanted = {"capabilities": _found("schedules.capabilities:Capabilities")}
        for name, kind in (wanted | {"fast": Mapping, "quick": Mapping, "summary": str}).items():
            if not isinstance(value := getattr(thing, name), kind):
                yield f"{name} is {value!r}; it must be a {kind.__name__}"


def _refusals(name: str, function: Any, count: int, keys: Collection[str] = ()) -> Iterator[str]:
    """Yield why an attribute can't be called with `count` arguments and these keys."""
    if not callable(function):
        yield f"{name} is {function!r}; it must be a function"
        return
    try:
        inspect.signature(function).bind(*[None] * count, **dict.fromkeys(keys))
    except TypeError as error:
        given = " and ".join(filter(None, [f"{count} arguments", ", ".join(f"{key}=" for key in keys)]))
        yield f"{name} can't be called with {given}: {error}"
    except ValueError:  # a builtin without a signature
        return
