"""Requirements of faults that act on this machine, and not through the Docker engine."""

import os
import sys
from pathlib import Path

_CAP_SYS_ADMIN = 21  # the number of the Linux capability to mount file systems and to enter namespaces
_LOCAL = ("unix://", "http+unix://")


def engine_elsewhere() -> str | None:
    """The address of a Docker engine on another machine; None if the engine is on this machine."""
    engine = os.environ.get("DOCKER_HOST", _LOCAL[0])
    return None if engine.startswith(_LOCAL) else engine


def why_not_here(obstacle: str, *, capabilities: str) -> str | None:
    """Why this machine can't have a fault that bypasses the Docker engine, and what that needs; None if it can.

    `obstacle` begins the message, such as `disks are loop mounts`; a container would need the `capabilities`.
    """
    if not sys.platform.startswith("linux"):
        return f"{obstacle}: it needs Linux, with the Docker engine on this machine"
    if (engine := engine_elsewhere()) is not None:
        return f"{obstacle} of this machine, but DOCKER_HOST={engine} names another machine: unset it"
    if not may_administer():
        return f"{obstacle}: it needs root (in a container, with {capabilities})"
    return None


def may_administer() -> bool:
    """Whether this process has CAP_SYS_ADMIN."""
    try:
        status = Path("/proc/self/status").read_text(encoding="utf-8")
    except OSError:
        return False
    (effective,) = (line.split()[1] for line in status.splitlines() if line.startswith("CapEff:"))
    return bool(int(effective, 16) >> _CAP_SYS_ADMIN & 1)
