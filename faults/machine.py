"""What faults that act on this machine, and not through the Docker engine, need of it."""

from __future__ import annotations

import os
from pathlib import Path

CAP_SYS_ADMIN = 21
_LOCAL = ("unix://", "http+unix://")


def engine_elsewhere() -> str | None:
    """The address of a Docker engine on another machine; None where it is on this one."""
    engine = os.environ.get("DOCKER_HOST", _LOCAL[0])
    return None if engine.startswith(_LOCAL) else engine


def has_capability(number: int) -> bool:
    """Whether this process has a capability of Linux, by its number."""
    try:
        status = Path("/proc/self/status").read_text(encoding="utf-8")
    except OSError:
        return False
    (effective,) = (line.split()[1] for line in status.splitlines() if line.startswith("CapEff:"))
    return bool(int(effective, 16) >> number & 1)
