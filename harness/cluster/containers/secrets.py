"""A folder for a run's keys and passwords: outside of the run directory, readable by this user only.

The folder is found again by the run's id, so that whatever removes the run's containers removes the folder too.
"""

from __future__ import annotations

import glob
import shutil
import tempfile
from collections.abc import Collection
from pathlib import Path

from kafka_chaos.harness.cluster.containers.labels import OWNER, current_owner, owner_is_alive

_PREFIX = "kafka-chaos."
_OWNER_FILE = "owner"


class SecretFolder:
    """A new folder of mode 0700 in the system's temporary directory, for one run."""

    def __init__(self, run_id: str) -> None:
        self.path = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{run_id}."))
        self.write(_OWNER_FILE, current_owner())

    def write(self, name: str, content: str) -> str:
        """Write a file of mode 0600; returns its path."""
        path = self.path / name
        path.touch(mode=0o600)
        path.write_text(content, encoding="utf-8")
        return str(path)


def remove_secrets(run_id: str) -> None:
    """Remove a run's folders."""
    for folder in _folders(glob.escape(run_id)):
        shutil.rmtree(folder, ignore_errors=True)


def remove_abandoned_secrets(*, kept: Collection[str]) -> None:
    """Remove the folders of dead processes, except those of the runs in `kept`."""
    for folder in _folders("*"):
        owner = folder / _OWNER_FILE
        dead = owner.is_file() and not owner_is_alive({OWNER: owner.read_text()})
        if dead and folder.name.split(".")[1] not in kept:
            shutil.rmtree(folder, ignore_errors=True)


def _folders(pattern: str) -> list[Path]:
    return list(Path(tempfile.gettempdir()).glob(f"{_PREFIX}{pattern}.*"))
