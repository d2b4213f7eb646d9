"""The arguments and the help of every command, made of the classes in `commands`.

With typer or cyclopts the help of two commands takes 0.26 s of a core; this one of twenty takes 0.1 s. The
functions that carry commands out would take seconds more, as they stand beside kernels and solvers.
"""

from __future__ import annotations

import argparse
import re
import sys
import textwrap
from collections.abc import Collection, Iterable, Sequence
from inspect import cleandoc, get_annotations
from pathlib import Path
from types import NoneType
from typing import Any, ClassVar, Literal, NoReturn, get_args, get_origin, get_type_hints

from tutti.experiments import installed_version
from tutti.experiments.cli.commands import COLLECTIVES, COMMANDS, Command, CompletionCommand, HelpCommand
from tutti.experiments.printable import complaint
from tutti.topologies.errors import InputError, suggestion

DESCRIPTION = """Make schedules for collective communication, and prove how far each is from optimal.

Examples
--------
$ tutti synth torus:4x4 --method bfb --size 1MB
$ tutti bound dgx_a100:2 --collective allreduce --size 1GB
"""
SHORT = {"output": ["-o"]}
"""Options with one letter."""
REQUIRED = object()
"""The default of a field that has none."""


class _Formatter(argparse.HelpFormatter):
    """Leaves the lines of examples as they are, and breaks no line at a hyphen: names have some."""

    def _split_lines(self, text: str, width: int) -> list[str]:
        return textwrap.wrap(text, width, break_on_hyphens=False)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return text if text.startswith("examples:") else super()._fill_text(text, width, indent)


class OneLineParser(argparse.ArgumentParser):
    """A parser whose errors are one line, and which takes no abbreviated option.

    Parameters
    ----------
    doc
        A docstring: what it says first, and its examples.
    """

    def __init__(self, doc: str = "", **how: Any) -> None:
        summary, _, examples = cleandoc(doc).partition("\n\nExamples\n--------\n")
        shown = "".join(f"\n  {line.removeprefix('$ ')}" for line in examples.splitlines())
        super().__init__(
            **how,
            allow_abbrev=False,
            description=summary.partition("\n")[0],
            epilog=f"examples:{shown}\n" if shown else None,
            formatter_class=_Formatter,
        )
        self.commands: dict[str, OneLineParser] = {}

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Refuse what is not known here: a command's own help has what is."""
        self._check_options(sys.argv[1:] if args is None else args)
        found, rest = super().parse_known_args(args, namespace)
        if rest:
            self.error(f"unrecognized arguments: {' '.join(rest)}")
        return found, rest

    def _check_options(self, words: Sequence[str]) -> None:
        """Propose a name for the first unknown option, before argparse complains about anything else."""
        for word in words:
            name = word.partition("=")[0]
            if word == "--" or (self.commands and not word.startswith("-")):
                return  # what follows are values, or the words of a command
            if re.fullmatch("--[^ ]+", name) and name not in self._option_string_actions:
                known = [option for option in self._option_string_actions if option.startswith("--")]
                self.error(f"no option '{name}'{suggestion(name, known)}")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Refuse a word that is none of an argument's choices, such as a command that does not exist."""
        if action.choices is not None and value not in action.choices:
            known = suggestion(str(value), map(str, action.choices))
            raise argparse.ArgumentError(action, f"invalid choice: {value!r}{known}")

    def error(self, message: str) -> NoReturn:
        """Print one line and exit with 2."""
        more = "" if message.endswith("?") else f"; see {self.prog} --help"
        self.exit(2, complaint(f"{self.prog}: {message}{more}") + "\n")


class _Version(argparse.Action):
    """Print the version, which takes a while to find out, only when asked."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> NoReturn:
        sys.stdout.write(f"tutti {installed_version()}\n")
        parser.exit()


def make_parser(named: Collection[str] = COMMANDS.keys()) -> OneLineParser:
    """Return the parser of all commands, of which those `named` have their arguments."""
    parser = OneLineParser(DESCRIPTION, prog="tutti")
    parser.add_argument("--version", action=_Version, nargs=0, help="show the version and exit")
    parser.set_defaults(of=HelpCommand, command=None, plugin=[])
    every: Any = parser.add_subparsers(title="commands", metavar="COMMAND", parser_class=OneLineParser)
    parser._action_groups.pop()  # noqa: SLF001 (argparse lists all commands in one group)
    purposes = {command.purpose: parser.add_argument_group(command.purpose) for command in COMMANDS.values()}
    for name, command in COMMANDS.items():
        doc = cleandoc(command.__doc__ or "")
        parser.commands[name] = every.add_parser(name, help=doc.partition(".")[0], doc=doc)
        parser.commands[name].set_defaults(of=command)
        purposes[command.purpose]._group_actions.append(every._choices_actions[-1])  # noqa: SLF001
        if name in named:
            _add_arguments(parser.commands[name], command)
    return parser


def command_of(words: Sequence[str]) -> Command:
    """Return the command that a command line asks for."""
    given = vars(make_parser(named=words).parse_args(with_negatives(words)))
    command: type[Command] = given.pop("of")
    return command(**given)


def with_negatives(words: Sequence[str]) -> list[str]:
    """Return the words of a command line with a negative value joined to its option.

    A word that begins with a minus and a digit is no option of ours, though argparse takes ``-1MB`` for one.

    Examples
    --------
    >>> with_negatives(["bound", "ring:4", "--size", "-1MB", "--json"])
    ['bound', 'ring:4', '--size=-1MB', '--json']
    """
    joined: list[str] = []
    for word in words:
        if joined and re.fullmatch("--[a-z][a-z-]*", joined[-1]) and re.match(r"-[.]?[0-9]", word):
            joined[-1] += f"={word}"
        else:
            joined.append(word)
    return joined


def _add_arguments(parser: OneLineParser, command: type[Command]) -> None:
    """Add an argument for each field. Those of a class that commands share stand under its summary."""
    said = _said(command)
    required = all(getattr(command, name) is None for name in command.either)
    either = parser.add_mutually_exclusive_group(required=required) if command.either else None
    groups: dict[str, Any] = dict.fromkeys(command.either, either)
    for name, kind in get_type_hints(command).items():
        if get_origin(kind) is ClassVar:
            continue
        owner = next(cls for cls in reversed(command.__mro__) if name in get_annotations(cls))
        title = "" if owner is command else (owner.__doc__ or "").partition(".")[0].strip().lower()
        if title not in groups:
            groups[title] = parser.add_argument_group(title) if title not in ("", "options") else parser
        words, text = said[name]
        option, default = name not in command.positional, getattr(command, name, REQUIRED)
        how = _how(kind, default, option=option) | ({"metavar": words} if words else {})
        if isinstance(how.get("default"), str | int) and "default: " not in text:
            text = f"{text}; default: {default}"
        names = [*SHORT.get(name, ()), f"--{name.replace('_', '-')}"] if option else [name]
        (groups.get(name) or groups[title]).add_argument(*names, help=text.replace("%", "%%"), **how)


def _said(command: type[Command]) -> dict[str, tuple[str, str]]:
    """Return for each field what the docstrings call its value, and say of it."""
    entry = re.compile(r"^(\w+)(?: : (.+))?\n((?:    .+\n)+)", re.MULTILINE)
    found = {}
    for cls in reversed(command.__mro__):
        for name, words, text in entry.findall(f"{cleandoc(cls.__doc__ or '')}\n"):
            found[name] = words, " ".join(text.split()).removesuffix(".")
    return found


def _how(kind: Any, default: object, *, option: bool) -> dict[str, Any]:
    """Return how argparse reads the value of a field of a type."""
    if kind is bool:
        return {"action": "store_true"}
    needed, how = default is REQUIRED, dict[str, Any]()
    if option:
        how["required"] = needed
    if NoneType in get_args(kind):
        how |= {} if option else {"nargs": "?"}
        kind = get_args(kind)[0]
    if get_origin(kind) is Sequence:
        how |= {"action": "append"} if option else {"nargs": "+" if needed else "*"}
        kind, default = get_args(kind)[0], []
    if not needed:
        how["default"] = default
    if get_origin(kind) is Literal:
        return how | {"choices": get_args(kind)}
    return how | {"type": _path if kind is Path else kind}


def _path(text: str) -> Path:
    if "\0" in text:
        raise argparse.ArgumentTypeError(f"no file has a null character in its name: {text!r}")
    return Path(text)


def do_help(asked: HelpCommand) -> None:
    """Print the help of a command, or of all.

    Raises
    ------
    InputError
        If there is no such command.
    """
    name = asked.command
    parser = make_parser([] if name is None else [name])
    if name is not None and name not in parser.commands:
        raise InputError(f"no command '{name}'{suggestion(name, parser.commands)}")
    (parser if name is None else parser.commands[name]).print_help()


def do_completion(asked: CompletionCommand) -> None:
    """Print the script that a shell reads."""
    import shtab

    from tutti.experiments.registry import METHODS
    from tutti.schedules.programs.formats import FORMATS
    from tutti.topologies.text import FAMILIES

    parser = make_parser()
    words: dict[str, Iterable[str]] = {
        "command": parser.commands,
        "method": METHODS,
        "collective": COLLECTIVES,
        "format": FORMATS,
        "topology": [family.example for family in FAMILIES.values()],
    }  # by an argument's name: what may stand for it, where the parser itself does not say
    words["network"] = words["topology"]
    for command in parser.commands.values():
        for action in command._actions:  # noqa: SLF001 (argparse has no public way to its arguments)
            if action.dest in words:
                action.choices = list(words[action.dest])
    sys.stdout.write(f"{shtab.complete(parser, asked.shell)}\n")
