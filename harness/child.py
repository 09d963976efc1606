"""Processes that run a module of this package beside the harness, and import from where it does."""

from __future__ import annotations

import os
import subprocess
import sys


def start_module(module: str, *arguments: str, own_session: bool = False) -> subprocess.Popen[str]:
    """Start `python -m module` with pipes as its standard input and output, for lines of text.

    `own_session`: the terminal's signals do not reach it.
    """
    paths = os.pathsep.join(path for path in sys.path if path)
    return subprocess.Popen(
        [sys.executable, "-m", module, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": paths},
        encoding="utf-8",
        start_new_session=own_session,
    )
