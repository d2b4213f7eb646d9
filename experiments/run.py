"""Run an experiment: ``python experiments/run.py CONFIG``, the same as ``tutti run CONFIG``."""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
OLDEST = (3, 11)


def main() -> int:
    """Call the command line, or say in one line that this Python is too old."""
    if sys.version_info < OLDEST:
        version = ".".join(map(str, sys.version_info[:2]))
        remedy = "run `make setup` and use .venv/bin/python"
        print(f"tutti: Python {version} is too old; {remedy}", file=sys.stderr)
        return 2  # bad input; the enumeration of exit codes needs a newer Python
    # Started as a script, Python looks for modules in this folder, whose names are not for the world.
    sys.path[:] = [str(HERE.parent), *(path for path in sys.path if Path(path or ".").resolve() != HERE)]
    from tutti.experiments.cli import main as command_line

    return command_line(["run", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
