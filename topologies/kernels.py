"""Kernels: functions that numba compiles when they are first called.

Importing numba and wrapping three hundred functions takes longer than most commands run, so `kernel` only
remembers a function. Its first call compiles it, or loads what an earlier process compiled. Most kernels are
called by other kernels only. For those numba compiles no wrapper that takes objects of Python apart.

Importing numba alone takes most of a second. *Light* kernels, which a first answer on a small network needs,
are therefore run by Python itself on small arrays: for half a second in total, until numba is loaded anyway.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.abc import MetaPathFinder
from importlib.machinery import ExtensionFileLoader, ModuleSpec, SourceFileLoader
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any, TypeVar, overload

import numpy as np
import numpy.typing as npt

from tutti.topologies.progress import tell

R = TypeVar("R")


@dataclass
class Compilation:
    """The time that first calls cost in this process: compiling, loading, imports, and starting solvers.

    Parameters
    ----------
    kernels
        The number of kernels that were compiled; those loaded from disk do not count.
    seconds
        The seconds spent on compiling and loading kernels, on imports (`counted`) and on starting solvers.
    watchers
        Pairs of functions that are called before and after each such stretch.
    """

    kernels: int = 0
    seconds: float = 0.0
    watchers: list[tuple[Callable[[], None], Callable[[], None]]] = field(default_factory=list)
    _began: list[float] = field(default_factory=list)
    _collects: bool = False

    def start(self) -> None:
        """Begin a stretch, perhaps within another."""
        self._began.append(time.perf_counter())  # first, so that a time limit leaves a consistent state
        if len(self._began) == 1:
            self._collects = gc.isenabled()
            gc.disable()  # it would search the compiler's objects again and again, an eighth of the time
            for before, _ in self.watchers:
                before()

    def __enter__(self) -> None:
        """Begin a stretch."""
        self.start()

    def __exit__(self, *error: object) -> None:
        """End the stretch."""
        self.end()

    @property
    def under_way(self) -> bool:
        """Whether a stretch has begun and not ended."""
        return bool(self._began)

    def end(self) -> None:
        """End the stretch."""
        try:
            if len(self._began) == 1:
                self.seconds += time.perf_counter() - self._began[0]
                if self._collects:
                    gc.enable()
                for _, after in self.watchers:
                    after()
        finally:
            self._began.pop()  # last, because it was noted first


COMPILATION = Compilation()


def now() -> float:
    """Return the time in seconds on the clock of time limits, which stands still during compilation."""
    return time.monotonic() - COMPILATION.seconds


@functools.cache
def _watched() -> None:
    """Let numba report what it compiles and loads to `COMPILATION`."""
    COMPILATION.start()
    from numba.core import event  # slow to import, as all of numba is

    from tutti.topologies.compiled_once import release_all

    class Lock(event.Listener):
        def on_start(self, event: Any) -> None:
            COMPILATION.start()

        def on_end(self, event: Any) -> None:
            COMPILATION.end()
            if not COMPILATION.under_way:
                release_all()

    class Compiled(event.Listener):
        def on_start(self, event: Any) -> None:
            COMPILATION.kernels += 1
            tell(f"compiling kernels, once: {COMPILATION.kernels}")

        def on_end(self, event: Any) -> None:
            pass

    event.register("numba:compiler_lock", Lock())  # numba holds it while it compiles or loads kernels
    event.register("numba:compile", Compiled())
    COMPILATION.end()


@dataclass
class Interpreter(threading.local):
    """The limits within which Python runs light kernels; each thread has its own.

    Parameters
    ----------
    seconds
        The seconds that it may still spend.
    most
        The largest number of entries that the arguments of a call may have in total.
    running
        Whether it is running a kernel. Then it also runs the kernels that this one calls.
    """

    seconds: float = 0.5
    most: int = 2**14
    running: bool = False

    def takes(self, args: tuple[Any, ...], weight: int = 1) -> bool:
        """Return whether Python should run a call with these arguments, of a kernel of this weight."""
        return self.seconds > 0 and "numba" not in sys.modules and weight * _entries(args) <= self.most

    def run(self, function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        """Call a function, and return what the compiled one would."""
        began = time.perf_counter()
        self.running = True
        try:
            with np.errstate(over="ignore"):  # 64-bit words wrap around, as they do when compiled
                return _plain(function(*args))
        finally:
            self.running = False
            self.seconds -= time.perf_counter() - began


INTERPRETER = Interpreter()


def _entries(value: Any) -> int:
    if isinstance(value, tuple):
        return sum(map(_entries, value))
    return value.size if isinstance(value, np.ndarray) else 1


def _plain(value: Any) -> Any:
    """Convert numpy's numbers to Python's, also in tuples, as compiled functions do."""
    if isinstance(value, np.generic):
        return value.item()
    if not isinstance(value, tuple):
        return value
    plain = map(_plain, value)
    return type(value)(*plain) if hasattr(value, "_fields") else tuple(plain)


class Kernel:
    """A function that is compiled when it is first called.

    Parameters
    ----------
    function
        The function to compile. It may call other kernels by their names in its module.
    decorate
        Returns numba's decorator, that of an intrinsic or that of a kernel.
    callee
        Returns the decorator of the function that other kernels call, if it differs.
    light
        See `kernel`.
    plain
        What Python calls in place of a function that only numba can call.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        decorate: Callable[[], Callable[..., Any]],
        *,
        callee: Callable[[], Callable[..., Any]] | None = None,
        light: int = 0,
        plain: Callable[..., Any] | None = None,
    ) -> None:
        self._function, self._decorate, self._callee, self._light = function, decorate, callee, light
        self._plain = plain or function
        functools.update_wrapper(self, function)

    def __call__(self, *args: Any) -> Any:
        """Call the compiled function, or the Python function if `INTERPRETER` takes the call."""
        if INTERPRETER.running:
            return self._plain(*args)
        if self._light and INTERPRETER.takes(args, self._light):
            return INTERPRETER.run(self._function, args)
        return self.compiled(*args)

    @functools.cached_property
    def compiled(self) -> Any:
        """The compiled function that Python calls."""
        _watched()
        with COMPILATION:
            return self._made(self._decorate)

    def _made(self, decorate: Callable[[], Callable[..., Any]]) -> Any:
        """Return a compiled function, after the intrinsics that it calls, which numba must know before."""
        for name in set(_names(self._function.__code__)):
            called = self._function.__globals__.get(name)
            if isinstance(called, Kernel) and called._callee is None:  # noqa: SLF001 (of this class)
                called.compiled  # noqa: B018 (for its effect)
        return decorate()(self._function)

    @functools.cached_property
    def _numba_type_(self) -> Any:
        """The type as which numba knows this object in a kernel that calls it: of a function to be called."""
        from numba.core.registry import cpu_target

        # Kept, as its type only refers to it.
        self._called = self._made(self._callee) if self._callee else self.compiled
        return cpu_target.typing_context.resolve_value_type(self._called)


def _names(code: CodeType) -> Iterator[str]:
    """Yield every global name that a function, or one inside it, may read."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


@overload
def kernel(function: Callable[..., R], /) -> Callable[..., R]: ...
@overload
def kernel(*, light: int = ..., **options: Any) -> Callable[[Callable[..., R]], Callable[..., R]]: ...
def kernel(function: Any = None, /, *, light: int = 0, **options: Any) -> Any:
    """Let numba compile a function when it is first called, and keep the result on disk.

    Parameters
    ----------
    function
        It takes arrays, numbers and tuples of them.
    light
        1 if its time is about proportional to the size of its arrays, larger if it looks at each entry more
        often. Python may run it on small arrays; with a larger value they must be smaller. 0: never.
    options
        Options of ``numba.njit``.
    """

    def decorate(*, callee: bool = False) -> Callable[..., Any]:
        from numba import njit

        made = njit(no_cfunc_wrapper=True, no_cpython_wrapper=callee, **options)
        return lambda function: _for_whole_numbers(_kept(made(function), "-callee" if callee else ""))

    callee = functools.partial(decorate, callee=True)
    wrap = functools.partial(Kernel, decorate=decorate, callee=callee, light=light)
    return wrap if function is None else wrap(function)


leaf = kernel(error_model="numpy", _nrt=False)
"""Compiles a function that allocates nothing, without reference counts. numba would count every array at
every call, atomically, which costs more than the work of a small function: TACOS then takes more than twice
as long on a 32x32 mesh. The option is internal to numba and undocumented; without it all works, slower."""

inlined = kernel(error_model="numpy", _nrt=False, forceinline=True)
"""The same, inlined into its callers, where passing many arrays would cost as much as the work itself."""

unlocked = kernel(nogil=True, error_model="numpy", _nrt=False)
"""The same, but other threads of the interpreter may run meanwhile."""


@leaf
def assign(target: npt.NDArray[Any], values: npt.NDArray[Any]) -> None:
    """Write values over the entries of an array of the same length.

    For ``target[:] = values`` numba would compile a message about shapes, of which each place takes longer
    than a small kernel.
    """
    for i in range(len(target)):
        target[i] = values[i]


def _for_whole_numbers(dispatcher: Any) -> Any:
    """Let numba compile a function for 64-bit integers, not again for each shorter one and each constant."""
    from numba import types

    def whole(given: Any) -> Any:
        kind = types.unliteral(given)
        return types.int64 if kind in types.signed_domain else kind

    def template(args: tuple[Any, ...], kws: dict[str, Any]) -> Any:
        return of_kinds(tuple(map(whole, args)), kws)

    of_kinds, dispatcher.get_call_template = dispatcher.get_call_template, template
    return dispatcher


def _kept(dispatcher: Any, variant: str) -> Any:
    """Let numba keep a compiled function on disk, if there is a folder that can be written to."""
    from tutti.topologies.compiled_once import CompiledOnce

    with contextlib.suppress(RuntimeError):  # numba raises it if there is none
        function = dispatcher.py_func
        dispatcher._cache = CompiledOnce(function, _made_from(function), variant)  # noqa: SLF001 (as `enable_caching` does)
    return dispatcher


def _made_from(function: Callable[..., Any]) -> tuple[Any, ...]:
    """Return what a kernel is compiled from: the files of it and its callees, their times, and constants.

    numba itself checks only the kernel's own file.
    """
    todo, seen, files, numbers = [function], {function}, set(), set()
    for one in todo:
        files.add(one.__code__.co_filename)
        for name in set(_names(one.__code__)):
            value = one.__globals__.get(name)
            callee = getattr(value, "__wrapped__", None)
            if isinstance(callee, FunctionType) and callee not in seen:
                seen.add(callee)
                todo.append(callee)
            elif isinstance(value, int | float | np.number):
                numbers.add((name, repr(value)))
    stats = [(path.name, path.stat()) for path in map(Path, files) if path.exists()]
    return (*sorted((file, at.st_mtime, at.st_size) for file, at in stats), *sorted(numbers))


def intrinsic(plain: Callable[..., Any]) -> Callable[[Callable[..., Any]], Any]:
    """Return a decorator: a function writes machine code into the kernels that call it.

    Parameters
    ----------
    plain
        What Python calls in its place.
    """

    def decorate() -> Callable[..., Any]:
        from numba.extending import intrinsic

        decorator: Callable[..., Any] = intrinsic
        return decorator

    return functools.partial(Kernel, decorate=decorate, plain=plain)


STEPS = ("create_module", "exec_module")
"""Methods of a loader. The first loads machine code, the second runs Python code."""


class _Finder(MetaPathFinder):
    """Finds what the finders after it find, and counts the time that loading takes."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        for finder in sys.meta_path[sys.meta_path.index(self) + 1 :]:
            spec = finder.find_spec(fullname, path, target)
            if spec is not None:
                if isinstance(spec.loader, SourceFileLoader | ExtensionFileLoader):
                    for step in STEPS:  # each module has its own loader
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
    """Let `COMPILATION` count the time of importing modules from files inside the block.

    Large libraries are imported where they are first needed, because most commands need few of them. So the
    first synthesis of a process imports modules that later ones find loaded.
    """
    finder = _Finder()
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
