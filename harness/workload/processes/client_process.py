"""A client as faults see it: a process that can be killed, frozen, and replaced."""

import re
import signal
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any

from kafka_chaos.contract.command.errors import ClusterFailure
from kafka_chaos.contract.command.waiting import wait_until
from kafka_chaos.harness.workload.processes.supervisor import SupervisedProcess

_ENDS_WITHIN = 10.0
_STATE = re.compile(r"^State:\s*(\S.*)$", re.MULTILINE)


@dataclass(eq=False)
class ClientProcess:
    """Implements `kafka_chaos.faults.cluster.NodeControl` for a client in a place: of its group, or of its lane.

    `falls`: told before a fault ends it, so that nobody else replaces it until `rises` is.
    """

    address = ""
    inside = None
    disk = None
    link = None
    clock = None

    process: SupervisedProcess
    number: int
    _: KW_ONLY
    falls: Callable[[], None] = lambda: None
    rises: Callable[[], None] = lambda: None

    def __post_init__(self) -> None:
        self.name = self.process.name

    def state(self) -> dict[str, Any]:
        """As the kernel tells: Running, Paused, Pid, ExitCode, and State as in /proc."""
        code = self.process.exit_code
        if code is not None:
            return {"Status": "exited", "Running": False, "Paused": False, "Pid": self.process.pid, "ExitCode": code}
        shown = self._in_proc()
        stopped = shown.startswith("T")
        return {
            "Status": "paused" if stopped else "running",
            "Running": True,
            "Paused": stopped,
            "Pid": self.process.pid,
            "ExitCode": 0,
            "State": shown,
        }

    def _in_proc(self) -> str:
        try:
            found = _STATE.search(Path(f"/proc/{self.process.pid}/status").read_text())
        except OSError:
            return ""
        return "" if found is None else found[1]

    def is_running(self) -> bool:
        """Whether it has not ended."""
        return self.process.exit_code is None

    def kill(self) -> None:
        """SIGKILL, and wait for its end; nobody replaces it until `start`."""
        if self.is_running():
            self.falls()
            self.process.kill()
            wait_until(lambda: not self.is_running(), f"{self.name} to end after SIGKILL", timeout=_ENDS_WITHIN)

    def pause(self) -> None:
        """SIGSTOP: all its threads stop, those of its client too."""
        self.process.signal(signal.SIGSTOP)

    def unpause(self) -> None:
        """SIGCONT."""
        self.process.signal(signal.SIGCONT)

    def start(self) -> None:
        """Let a new one take its place, if it was killed by a fault."""
        self.rises()

    def stop(self) -> None:
        """Refused: no fault asks for it."""
        raise ClusterFailure(f"{self.name} is a process of a client: it has no controlled shutdown of its own")
