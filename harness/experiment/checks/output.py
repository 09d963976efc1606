"""Checks before a run starts that its directory can be created and has room for everything that the run will write.

Guarantee: a failed check leaves nothing behind.
"""

import os
import shutil
import tempfile
from pathlib import Path

from kafka_chaos.contract.command.errors import EnvironmentFailure, UsageFailure
from kafka_chaos.harness.experiment.specs import Experiment

MIN_FREE_BYTES = 256 * 2**20
"""The space that every run needs: logs of all containers, events and the report, with room to spare."""


def check_output(root: Path, experiment: Experiment, *, option: str = "--out") -> None:
    """Raise unless run directories can be created below `root`, with room for this experiment.

    Messages name the path by `option`. Raises `UsageFailure` for an unusable path, and `EnvironmentFailure` for a disk
    that is read-only or too full.
    """
    folder = check_writable(root, option)
    needed, free = MIN_FREE_BYTES + experiment.planned_bytes, shutil.disk_usage(folder).free
    if free < needed:
        raise EnvironmentFailure(
            f"{option} {root}: the run may write {_size(needed)}, and {_size(free)} are free: "
            "free some space, choose another disk, or plan less load"
        )


def check_writable(path: Path, option: str) -> Path:
    """The deepest existing folder of a path; raises as `check_output` does unless this folder is writable."""
    folder = path.absolute()
    while not os.path.lexists(folder):
        folder = folder.parent
    if not folder.is_dir():
        raise UsageFailure(f"{option} {path}: {folder} is not a folder: choose another path")
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except PermissionError:
        raise UsageFailure(f"{option} {path}: this user may not write to {folder}: choose another path") from None
    except OSError as error:
        raise EnvironmentFailure(
            f"{option} {path}: {folder} can't be written ({error.strerror}): choose another path"
        ) from None
    return folder


def _size(number: int) -> str:
    return f"{number / 2**30:,.1f} GiB" if number >= 2**30 else f"{number / 2**20:,.0f} MiB"
