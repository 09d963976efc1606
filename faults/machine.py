"""Requirements of faults that act on this machine, and not through the Docker engine."""

import os
import sys
from pathlib import Path

_CAP_SYS_ADMIN = 21  # the number of the Linux capability to mount file systems and to enter namespaces
_LOCAL = ("unix://", "http+unix://")


def engine_elsewhere() -> str | None:
    """The address of a Docker engine on another machine; None if the engine is on this machine."""
    engine = os.environ.get("DOCKER_HOST") or _LOCAL[0]
    return None if engine.startswith(_LOCAL) else engine


def why_not_here(mechanism: str, *, capabilities: str) -> str | None:
    """Why faults that bypass the Docker engine are impossible on this machine, and what they need; None if possible.

    `mechanism` begins the message, such as `disks are loop mounts`. A container also needs the `capabilities`.
    """
    if not sys.platform.startswith("linux"):
        return f"{mechanism}: this needs Linux, with the Docker engine on this machine"
    if (engine := engine_elsewhere()) is not None:
        return f"{mechanism} of this machine, but DOCKER_HOST={engine} names another machine: unset DOCKER_HOST"
    if not may_administer():
        return f"{mechanism}: this needs root (in a container, with {capabilities})"
    return None


def may_administer() -> bool:
    """Whether this process has CAP_SYS_ADMIN."""
    try:
        status = Path("/proc/self/status").read_text(encoding="utf-8")
    except OSError:
        return False
    (effective,) = (line.split()[1] for line in status.splitlines() if line.startswith("CapEff:"))
    return bool(int(effective, 16) >> _CAP_SYS_ADMIN & 1)
