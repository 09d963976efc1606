"""Requirements of faults that act on this machine, and not through the Docker engine."""

import os
import sys
from pathlib import Path

CAP_SYS_ADMIN = 21
_LOCAL = ("unix://", "http+unix://")


def engine_elsewhere() -> str | None:
    """The address of a Docker engine on another machine; None where it is on this one."""
    engine = os.environ.get("DOCKER_HOST", _LOCAL[0])
    return None if engine.startswith(_LOCAL) else engine


def why_not_inside(what: str, *, of: str = "network namespaces") -> str | None:
    """Why this machine can't do things inside the containers' network namespaces (or what else they have: `of`), and
    what would be needed; None where it can. `what`: in the plural, such as `links`."""
    if not sys.platform.startswith("linux"):
        return f"{what} are in the containers' {of}: it needs Linux, with the Docker engine on this machine"
    if (engine := engine_elsewhere()) is not None:
        return f"{what} are in {of} of this machine, and DOCKER_HOST={engine} is another: unset it"
    if not has_capability(CAP_SYS_ADMIN):
        return f"{what} enter the containers' {of}: it needs root (with CAP_SYS_ADMIN and CAP_NET_ADMIN)"
    return None


def has_capability(number: int) -> bool:
    """Whether this process has a capability of Linux, by its number."""
    try:
        status = Path("/proc/self/status").read_text(encoding="utf-8")
    except OSError:
        return False
    (effective,) = (line.split()[1] for line in status.splitlines() if line.startswith("CapEff:"))
    return bool(int(effective, 16) >> number & 1)
