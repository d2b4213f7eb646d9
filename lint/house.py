"""The size of the project's code beside its ceilings, which are ``[tool.house]`` in ``pyproject.toml``.

``make lint`` runs this. It fails where a number is above its ceiling, and says which ceilings can be lowered.
``python lint/house.py --list constants`` prints what a number counts, one line each.

Tests and documentation are not counted. A file that is reached through several links counts once.
"""

from __future__ import annotations

import argparse
import ast
import math
import re
import sys
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDERS = ("topologies", "schedules", "models", "heuristics", "expansions", "experiments", "tutti")
PACKAGE = "tutti."
"""The prefix of the names that users import. The files themselves stand in the folders beside it."""
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Module:
    """A Python file: its dotted name without the prefix `PACKAGE`, where it is, its lines, and its syntax."""

    name: str
    place: str
    lines: Sequence[str]
    tree: ast.Module

    @classmethod
    def read(cls, path: Path, root: Path) -> Module:
        """Return the module in a file below `root`."""
        place, source = path.relative_to(root), path.read_text()
        name = ".".join(place.with_suffix("").parts).removesuffix(".__init__").removeprefix(PACKAGE)
        return cls(name, place.as_posix(), source.splitlines(), ast.parse(source))

    @cached_property
    def nodes(self) -> Sequence[ast.AST]:
        """All of the syntax."""
        return tuple(ast.walk(self.tree))

    @property
    def functions(self) -> Iterator[Function]:
        """All functions and methods, at any depth."""
        return (node for node in self.nodes if isinstance(node, Function))

    @property
    def classes(self) -> Iterator[ast.ClassDef]:
        """All classes, at any depth."""
        return (node for node in self.nodes if isinstance(node, ast.ClassDef))

    def at(self, node: ast.stmt, what: str) -> str:
        """Return the place of a statement and what stands there."""
        return f"{self.place}:{node.lineno} {what}"


def read_modules(root: Path) -> list[Module]:
    """Return all modules of the project: those of `FOLDERS` and ``tutti.py``."""
    found = [root / "tutti.py", *(path for folder in FOLDERS for path in (root / folder).rglob("*.py"))]
    real = {path.resolve() for path in found if path.exists()}
    return [Module.read(path, root.resolve()) for path in sorted(real)]


def files(modules: Sequence[Module]) -> Iterator[str]:
    """Return the files."""
    return (module.place for module in modules)


def code_lines(modules: Sequence[Module]) -> Iterator[str]:
    """Return the lines that are not blank and belong to no docstring and no import at a file's top level."""
    for module in modules:
        imports = [node for node in module.tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
        left_out = _numbers([*imports, *_docstrings(module)])
        for number, line in enumerate(module.lines, start=1):
            if line.strip() and number not in left_out:
                yield f"{module.place}:{number} {line}"


def _docstrings(module: Module) -> Iterator[ast.Expr]:
    """Return the docstrings, also those under constants and fields."""
    for node in module.nodes:
        body = getattr(node, "body", None)
        yield from (entry for entry in body if _is_text(entry)) if isinstance(body, list) else ()


def _is_text(node: ast.stmt) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def _numbers(nodes: Iterable[ast.stmt]) -> set[int]:
    return {number for node in nodes for number in range(node.lineno, (node.end_lineno or node.lineno) + 1)}


def import_chain(modules: Sequence[Module]) -> list[str]:
    """Return the longest chain of modules in which each one imports the next."""
    known = {module.name: module for module in modules}
    longest: dict[str, list[str]] = {}

    def chain(name: str, above: tuple[str, ...] = ()) -> list[str]:
        if name not in longest:
            below = (chain(other, (*above, name)) for other in imports[name] if other not in above)
            longest[name] = [name, *max(below, key=len, default=[])]
        return longest[name]

    imports = {name: sorted(_imported(module, known) - {name}) for name, module in known.items()}
    return max(map(chain, known), key=len)


def _imported(module: Module, known: Mapping[str, Module]) -> set[str]:
    """Return which of the known modules a module imports, also inside functions."""
    names: list[str] = []
    for node in module.nodes:
        if isinstance(node, ast.Import):
            names += [alias.name.removeprefix(PACKAGE) for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            source = node.module.removeprefix(PACKAGE)
            inside = [f"{source}.{alias.name}" for alias in node.names]
            names += [name if name in known else source for name in inside]
    return known.keys() & set(names)


def kernels(modules: Sequence[Module]) -> Iterator[str]:
    """Return the functions that numba compiles."""
    for module in modules:
        for function in module.functions:
            if re.search("kernel|njit", " ".join(map(ast.unparse, function.decorator_list))):
                yield module.at(function, function.name)


def constants(modules: Sequence[Module]) -> Iterator[str]:
    """Return the names that a file binds to numbers at its top level."""
    for module in modules:
        for node in module.tree.body:
            if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
                values = node.value.elts if isinstance(node.value, ast.Tuple) else [node.value]
                if all(map(_is_arithmetic, values)):
                    yield from (module.at(node, name) for name in _bound_names(node))


def _is_arithmetic(node: ast.expr) -> bool:
    """Whether an expression is a number, or is computed from literals alone."""
    parts = (ast.Constant, ast.BinOp, ast.UnaryOp, ast.operator, ast.unaryop)
    computed = isinstance(node, ast.BinOp | ast.UnaryOp)
    return _is_number(node) or (computed and all(isinstance(part, parts) for part in ast.walk(node)))


def _is_number(node: ast.expr | None) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) in (int, float)


def _bound_names(node: ast.Assign | ast.AnnAssign) -> list[str]:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    each = [
        part for target in targets for part in (target.elts if isinstance(target, ast.Tuple) else [target])
    ]
    return [part.id for part in each if isinstance(part, ast.Name)]


def numeric_defaults(modules: Sequence[Module]) -> Iterator[str]:
    """Return the annotated fields of classes whose default is a number."""
    for module in modules:
        for owner in module.classes:
            for node in owner.body:
                if isinstance(node, ast.AnnAssign) and _is_number(node.value):
                    yield module.at(node, f"{owner.name}.{ast.unparse(node.target)}")


def called_once(modules: Sequence[Module]) -> Iterator[str]:
    """Return the private functions that their file uses exactly once."""
    for module in modules:
        uses = Counter(filter(None, map(_used_name, module.nodes)))
        for function in module.functions:
            if re.match("_(?!_)", function.name) and uses[function.name] == 1:
                yield module.at(function, function.name)


def _used_name(node: ast.AST) -> str | None:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) else None


def classes_named_twice(modules: Sequence[Module]) -> Iterator[str]:
    """Return the names that more than one class has."""
    uses = Counter(owner.name for module in modules for owner in module.classes)
    return (name for name, count in uses.items() if count > 1)


def longest_tenth(modules: Sequence[Module]) -> int:
    """Return the 90th percentile of the lines of function bodies, their docstrings left out."""
    bodies = sorted(
        1 + (body[-1].end_lineno or 0) - body[0].lineno if body else 0
        for module in modules
        for function in module.functions
        for body in [function.body[_is_text(function.body[0]) :]]
    )
    return bodies[math.ceil(0.9 * len(bodies)) - 1]


COUNTED: Mapping[str, tuple[str, Callable[[Sequence[Module]], Iterable[str]]]] = {
    "files": ("Python files", files),
    "code": ("lines of code", code_lines),
    "chain": ("modules in the longest chain of imports", import_chain),
    "kernels": ("kernels", kernels),
    "constants": ("numeric constants of modules", constants),
    "defaults": ("numeric defaults of fields", numeric_defaults),
    "once": ("private functions that are called once", called_once),
    "classes": ("class names that are used twice", classes_named_twice),
}
"""The description of each count and the function that lists it, by its name in ``[tool.house]``."""
BODIES = "bodies"
"""The name there of the one number that is no count (`longest_tenth`)."""
WORDS = {name: words for name, (words, _) in COUNTED.items()} | {
    BODIES: "lines of a function's body at the 90th percentile"
}


def measure(modules: Sequence[Module]) -> dict[str, int]:
    """Return all numbers, by name."""
    counts = {name: sum(1 for _ in listed(modules)) for name, (_, listed) in COUNTED.items()}
    return counts | {BODIES: longest_tenth(modules)}


def verdict(numbers: Mapping[str, int], ceilings: Mapping[str, int]) -> tuple[list[str], list[str]]:
    """Return a line for each number that is above its ceiling, and one for each that is below."""
    above = [f"[tool.house] has no ceiling '{name}'" for name in numbers if name not in ceilings]
    above += [f"[tool.house] {name}: there is no such number" for name in ceilings if name not in numbers]
    both = {name: (number, ceilings[name]) for name, number in numbers.items() if name in ceilings}
    above += [
        f"{name}: {number} {WORDS[name]}, allowed {most}"
        for name, (number, most) in both.items()
        if number > most
    ]
    below = [
        f"{name}: {number} {WORDS[name]}; the ceiling {most} can be lowered"
        for name, (number, most) in both.items()
        if number < most
    ]
    return above, below


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare the project with its ceilings; 1 if a number is above."""
    parser = argparse.ArgumentParser(description="Compare the size of the code with its ceilings.")
    parser.add_argument("--list", choices=COUNTED, help="print what is counted instead")
    chosen, modules = parser.parse_args(arguments).list, read_modules(ROOT)
    if chosen:
        print(*COUNTED[chosen][1](modules), sep="\n")
        return 0
    ceilings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["house"]
    above, below = verdict(measure(modules), ceilings)
    print(*above, *below, sep="\n", end="\n" * bool(above or below))
    return int(bool(above))


if __name__ == "__main__":
    sys.exit(main())
