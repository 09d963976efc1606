"""Labels: everything that a run creates on the Docker engine names the run and the process that owns it.

A leftover may be removed when its owner is no longer alive. The owner is identified by machine, boot, process id and
start time, since the system reuses process ids.

A run's keys and passwords are outside of the run directory, in a folder that only this user can read. The folder's name
has the run's id, so that it is removed together with the run's containers.
"""

import glob
import os
import shutil
import tempfile
from collections.abc import Collection, Mapping
from pathlib import Path

LABEL_PREFIX = "kafka-chaos."
"""How the names of all labels begin."""
RUN = f"{LABEL_PREFIX}run"
OWNER = f"{LABEL_PREFIX}owner"
ROLE = f"{LABEL_PREFIX}role"
KEEP = f"{LABEL_PREFIX}keep"
"""Labels: the run's id, the process that owns it, what a container is for, and if its cluster is kept on purpose."""

STARTED_RUNS: set[str] = set()
"""The ids of the runs for which this process has started anything."""
_SECRETS_PREFIX = "kafka-chaos."
"""How the names of all folders with secrets begin. The run's id, a dot, and random letters follow."""
_OWNER_FILE = "owner"


def run_labels(run_id: str, *, keep: bool) -> dict[str, str]:
    """The labels that every container, network and volume of a run has."""
    STARTED_RUNS.add(run_id)
    labels = {RUN: run_id, OWNER: current_owner()}
    if keep:
        labels[KEEP] = "true"
    return labels


def current_owner() -> str:
    """This process as an owner: machine, boot id, process id, start time in clock ticks since boot."""
    return f"{_machine()}:{_boot_id()}:{os.getpid()}:{_start_time(os.getpid())}"


def owner_is_alive(labels: Mapping[str, str]) -> bool:
    """Whether the owner that the labels name still runs.

    An owner that is not named, or is on another machine or in another container, counts as alive: only there can it be
    known that the owner is dead, and machines and containers may share an engine.
    """
    try:
        machine, boot, pid, start = labels[OWNER].split(":")
    except (KeyError, ValueError):
        return True
    if machine != _machine():
        return True
    return boot == _boot_id() and _start_time(int(pid)) == start


def _machine() -> str:
    """The machine and its PID namespace: in another namespace, as of another container, a process id is another's."""
    namespace = Path("/proc/self/ns/pid")
    number = f"-{namespace.stat().st_ino}" if namespace.exists() else ""
    return (_first_line("/etc/machine-id") or os.uname().nodename) + number


def _boot_id() -> str:
    return _first_line("/proc/sys/kernel/random/boot_id") or "unknown"


def _first_line(path: str) -> str:
    try:
        return Path(path).read_text().strip().partition("\n")[0]
    except OSError:
        return ""


def _start_time(pid: int) -> str | None:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    # The second field, the command's name, may hold spaces and parentheses: fields are counted from the last `)`.
    state, *fields = stat.rpartition(")")[2].split()
    # A zombie has ended, though its parent has not asked for the exit code yet. The start time is field 22 of the file.
    return None if state in ("Z", "X") else fields[18]


class SecretFolder:
    """A new folder of mode 0700 in the system's temporary directory, for one run."""

    def __init__(self, run_id: str) -> None:
        self.path = Path(tempfile.mkdtemp(prefix=f"{_SECRETS_PREFIX}{run_id}."))
        self.write(_OWNER_FILE, current_owner())

    def write(self, name: str, content: str) -> str:
        """Write a file of mode 0600; returns its path."""
        path = self.path / name
        path.touch(mode=0o600)
        path.write_text(content, encoding="utf-8")
        return str(path)


def remove_secrets(run_id: str) -> None:
    """Remove the folders with a run's keys and passwords."""
    for folder in _secret_folders(glob.escape(run_id)):
        shutil.rmtree(folder, ignore_errors=True)


def remove_abandoned_secrets(*, in_use: Collection[str]) -> None:
    """Remove the secret folders of dead processes, except the folders of the runs that are `in_use`."""
    for folder in _secret_folders("*"):
        owner = folder / _OWNER_FILE
        dead = owner.is_file() and not owner_is_alive({OWNER: owner.read_text()})
        if dead and folder.name.split(".")[1] not in in_use:
            shutil.rmtree(folder, ignore_errors=True)


def _secret_folders(pattern: str) -> list[Path]:
    return list(Path(tempfile.gettempdir()).glob(f"{_SECRETS_PREFIX}{pattern}.*"))
