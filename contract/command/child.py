"""Processes that run a module of this package beside the harness, and import from where it does."""

import os
import subprocess
import sys
from pathlib import Path


def command_of(module: str, *arguments: str, packages: Path | None = None) -> list[str]:
    """The command that runs a module, which imports from where this process does, but first of all from `packages`."""
    paths = os.pathsep.join(str(path) for path in (packages, *sys.path) if path)
    return ["env", f"PYTHONPATH={paths}", sys.executable, "-m", module, *arguments]


def start_module(module: str, *arguments: str, own_session: bool = False) -> subprocess.Popen[str]:
    """Start `python -m module` with pipes as its standard input and output, for lines of text.

    `own_session`: the terminal's signals do not reach it.
    """
    return subprocess.Popen(
        command_of(module, *arguments),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        encoding="utf-8",
        start_new_session=own_session,
    )
