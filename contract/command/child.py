"""The command line of processes that run a module of this package beside the harness, with the same import path."""

import os
import sys
from pathlib import Path


def command_of(module: str, *arguments: str, packages: Path | None = None) -> list[str]:
    """The command that runs a module. Its import path: the folder `packages`, and then this process's import path."""
    paths = os.pathsep.join(str(path) for path in (packages, *sys.path) if path)
    return ["env", f"PYTHONPATH={paths}", sys.executable, "-m", module, *arguments]
