"""The command ``tutti``.

Read `commands` first: it has a class for each command, whose fields are its arguments, and which names the
module with the function that carries it out. `parser` makes arguments and help of these classes, and
`output` prints.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import signal
import sys
from collections.abc import Sequence
from enum import IntEnum

from tutti.experiments import plugins
from tutti.experiments.cli.parser import command_of
from tutti.experiments.printable import complaint, say
from tutti.topologies.errors import NoSchedule, TuttiError, Unsupported, VerificationError, raised
from tutti.topologies.interruption import stop

__all__ = ["main"]


class Exit(IntEnum):
    """Exit codes of a command.

    `NO`: a schedule or program is wrong, a row of a run failed, or a process that carries out a schedule did.
    `FAULT`: tutti itself is at fault, as in sysexits.h. `INTERRUPTED`: Ctrl-C or SIGTERM ended the command.
    """

    OK = 0
    NO = 1
    BAD_INPUT = 2
    NO_SCHEDULE = 3
    FAULT = 70
    INTERRUPTED = 130
    PIPE_CLOSED = 141


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code; whatever goes wrong is one line on standard error.

    Parameters
    ----------
    argv
        The command and its arguments; None: those of the process.
    """
    _prepare()
    try:
        code = _execute(sys.argv[1:] if argv is None else argv)
        sys.stdout.flush()
    except SystemExit as leave:  # argparse: help, version, or bad usage
        return leave.code if isinstance(leave.code, int) else Exit.BAD_INPUT
    except BrokenPipeError:
        # Who read our output has left; what is still buffered must not raise again at exit.
        _forget_output()
        return Exit.PIPE_CLOSED
    except KeyboardInterrupt:
        return _complain("stopped", Exit.INTERRUPTED)
    except MemoryError as error:
        why = f": {error}".rstrip(": .")  # numpy says how much it wanted
        return _complain(
            f"out of memory{why}; smaller networks, or other methods, need less", Exit.NO_SCHEDULE
        )
    except RecursionError:
        return _complain("the input is nested too deeply", Exit.BAD_INPUT)
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        with contextlib.suppress(OSError, ValueError):
            _forget_output()
        return _complain(f"{place}{error.strerror or error}", Exit.BAD_INPUT)
    except ModuleNotFoundError as error:
        remedy = "run `make setup` and use .venv/bin/python"
        return _complain(f"{sys.executable} lacks {error.name}, which tutti needs; {remedy}", Exit.BAD_INPUT)
    except Exception as error:
        if sys.flags.dev_mode:
            raise
        return _complain(f"a fault in tutti: {raised(error)}; python -X dev shows where", Exit.FAULT)
    return code


def _prepare() -> None:
    """Make closed streams, terminals of ASCII and SIGTERM harmless.

    A stream that was closed (``>&-``) gets somewhere to go, so that no file that is opened later has its
    number. SIGTERM, with which systems end what takes too long, stops a command as Ctrl-C does.
    """
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), "r" if name == "stdin" else "w"))
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal that knows ASCII only gets "?" for a rule
    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
            signal.signal(number, stop)


def _forget_output() -> None:
    """Let what is still buffered for standard output go nowhere: it must not raise again at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _execute(words: Sequence[str]) -> int:
    """Run a command; its module, with kernels and solvers, takes a second or two to import."""
    try:
        asked = command_of(words)
        plugins.load_installed()
        for file in asked.plugin:
            plugins.load(file)
        module = importlib.import_module(f"tutti.experiments.cli.{asked.module}")
        return int(getattr(module, f"do_{asked.name}")(asked) or Exit.OK)
    except (Unsupported, NoSchedule) as error:
        return _complain(str(error), Exit.NO_SCHEDULE)
    except TuttiError as error:
        from tutti.schedules.execution.transport import Failure
        from tutti.schedules.programs.interpreter import ProgramError

        wrong = isinstance(error, VerificationError | ProgramError | Failure)
        return _complain(str(error), Exit.NO if wrong else Exit.BAD_INPUT)
    except (Exception, SystemExit, KeyboardInterrupt) as error:
        # A signal, or a closed pipe of the system's, comes from outside, whatever was running.
        signalled = isinstance(error, KeyboardInterrupt) and not plugins.raised_it(error)
        closed = isinstance(error, BrokenPipeError) and error.errno is not None
        theirs = None if signalled or closed else plugins.blame(error)
        if theirs is None or sys.flags.dev_mode:
            raise
        return _complain(f"a fault in {theirs}; python -X dev shows where", Exit.BAD_INPUT)


def _complain(text: str, code: int) -> int:
    say(complaint(f"tutti: {text}"), sys.stderr)
    return code
