"""``%%bash`` as the pages need it: what a reader would see, whole, and an error where a command fails."""

import os
import subprocess

from IPython.core.magic import register_cell_magic

COLOURS = ("FORCE_COLOR", "CLICOLOR_FORCE", "CLICOLOR", "TERM")
"""Set by the kernel, which shows colours; a page has none."""


@register_cell_magic
def bash(line: str, cell: str) -> None:
    """Run the lines of a cell."""
    env = {name: value for name, value in os.environ.items() if name not in COLOURS}
    ran = subprocess.run(
        ["bash", "-e", "-c", cell],
        env=env,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    print(ran.stdout, end="")  # noqa: T201 (the cell's output)
    ran.check_returncode()
