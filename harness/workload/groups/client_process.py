"""A member of a group as faults see it: a process that can be killed, frozen, and replaced."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kafka_chaos.harness.errors import ClusterFailure
from kafka_chaos.harness.waiting import wait_until
from kafka_chaos.harness.workload.processes.supervisor import SupervisedProcess

_ENDS_WITHIN = 10.0
_STATE = re.compile(r"^State:\s*(\S.*)$", re.MULTILINE)


class ClientProcess:
    """Implements `kafka_chaos.faults.cluster.NodeControl` for a member in a place of its group.

    `is_down`: told before a fault ends it, so that nobody else replaces it; `replace` does.
    """

    address = ""
    inside = None
    disk = None
    link = None
    packets = None
    clock = None

    def __init__(
        self,
        member: SupervisedProcess,
        place: int,
        *,
        is_down: Callable[[SupervisedProcess], None],
        replace: Callable[[SupervisedProcess], None],
    ) -> None:
        self._member = member
        self._is_down = is_down
        self._replace = replace
        self.name = member.name
        self.number = place

    def state(self) -> dict[str, Any]:
        """As the kernel tells: Running, Paused, Pid, ExitCode, and State as in /proc."""
        code = self._member.exit_code
        if code is not None:
            return {"Status": "exited", "Running": False, "Paused": False, "Pid": self._member.pid, "ExitCode": code}
        shown = self._in_proc()
        stopped = shown.startswith("T")
        return {
            "Status": "paused" if stopped else "running",
            "Running": True,
            "Paused": stopped,
            "Pid": self._member.pid,
            "ExitCode": 0,
            "State": shown,
        }

    def _in_proc(self) -> str:
        try:
            found = _STATE.search(Path(f"/proc/{self._member.pid}/status").read_text())
        except OSError:
            return ""
        return "" if found is None else found[1]

    def is_running(self) -> bool:
        """Whether it has not ended."""
        return self._member.exit_code is None

    def kill(self) -> None:
        """SIGKILL, and wait for its end; nobody replaces it until `start`."""
        if self.is_running():
            self._is_down(self._member)
            self._member.kill()
            wait_until(lambda: not self.is_running(), f"{self.name} to end after SIGKILL", timeout=_ENDS_WITHIN)

    def pause(self) -> None:
        """SIGSTOP: all its threads stop, those of its client too."""
        self._member.signal(signal.SIGSTOP)

    def unpause(self) -> None:
        """SIGCONT."""
        self._member.signal(signal.SIGCONT)

    def start(self) -> None:
        """Let a new member take its place, if it was killed by a fault."""
        self._replace(self._member)

    def stop(self) -> None:
        """Refused: no fault asks for it."""
        raise ClusterFailure(f"{self.name} is a process of a client: it has no controlled shutdown of its own")
