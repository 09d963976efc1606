"""Looks after a client that runs as a process of its own and speaks the client protocol (docs/guides/own-client.md).

Guarantee: whatever the process does, every line of its output is taken or noted as a `problem`, and its `Taker` is told
of its end, once. A breach of the protocol is never passed over.
"""

from __future__ import annotations

import json
import os
import re
import select
import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from kafka_chaos.contract.command.errors import ClusterFailure, quoted
from kafka_chaos.contract.command.waiting import wait_until
from kafka_chaos.contract.lane.recovery import reported_timeouts

PROTOCOL = 1
MOST_OF_A_LINE = 4 * 2**20
_LAST_LINES = 5
_ENDS_WITHIN = 5.0
_OF_A_LINE, _OF_THE_LOG = 500, 4_096
_KILLED_WITHIN = 10.0
_STATE = re.compile(r"^State:\s*(\S.*)$", re.MULTILINE)


class ProtocolBreach(Exception):
    """A client's report can't be true; the message says why."""


class Taker:
    """Takes the events of one client. `takers`: a function for each kind of event, which takes the event's fields.

    `what` names the client in messages.
    """

    what = "a client"
    takers: Mapping[str, Callable[..., object]]

    def takes(self, kind: str, values: dict[str, Any]) -> None:
        """Take an event. Raises `ProtocolBreach`, or an error of Python where fields are missing or ill-typed."""
        if kind not in self.takers:
            raise ProtocolBreach(f"{self.what} has no event {kind!r}")
        self.takers[kind](**values)

    def ends(self) -> None:
        """The client has ended: nothing more comes."""


@dataclass(eq=False)
class SupervisedProcess:
    """A process of `command` that is given the order `begin` at once; a thread passes its events to `taker`.

    `on_ready` learns the name and the version of its library, and the time-outs that it has; then the process
    `is_ready`. `problem`: the first thing that went wrong; `on_problem` learns it, in that thread or in the thread that
    calls `breaks`. Standard error goes to the file `log`, or where the harness's own goes. `version`: the version that
    the library must have, or the beginning of it. `may_end`: it is no problem if the process ends before it is told to.

    For faults it is a `kafka_chaos.faults.cluster.NodeControl`. `has_fallen`: a fault has ended it. `is_down`: that
    fault goes on, so that nothing replaces it. `falls` is called before a fault ends it, and `rises` once that fault is
    over.
    """

    number = 0
    address = ""
    inside = None
    disk = None
    link = None
    clock = None

    command: Sequence[str]
    begin: Mapping[str, Any]
    taker: Taker
    _: KW_ONLY
    name: str
    on_notice: Callable[[str], None]
    on_ready: Callable[[str, str, Mapping[str, int]], None] = lambda client, version, timeouts: None
    on_problem: Callable[[SupervisedProcess, str], None] = lambda process, problem: None
    version: str = ""
    may_end: bool = False
    log: Path | None = None
    problem: str | None = field(default=None, init=False)
    is_ready: bool = field(default=False, init=False)
    has_fallen: bool = field(default=False, init=False)
    is_down: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        self.falls: Callable[[], None] = lambda: None
        self.rises: Callable[[], None] = lambda: None
        self._said: deque[str] = deque(maxlen=_LAST_LINES)
        self._writing = threading.Lock()
        errors = None if self.log is None else self.log.open("ab")
        try:
            self._process = subprocess.Popen(
                self.command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                encoding="utf-8",
                errors="replace",
                # A command may be a script that starts the client: signals are for both, and none come from a terminal.
                start_new_session=True,
            )
        finally:
            if errors is not None:
                errors.close()
        self._thread = threading.Thread(target=self._listen, name=f"client-{self.name}", daemon=True)
        self._thread.start()
        self.order("begin", protocol=PROTOCOL, **self.begin)

    @property
    def exit_code(self) -> int | None:
        """The exit code of the process; None while it runs."""
        return self._process.poll()

    def order(self, what: str, **values: Any) -> bool:
        """Give the process an order, unless it has ended or reads no more; returns whether the order was given."""
        line = json.dumps({"order": what, **values}) + "\n"
        with suppress(OSError, ValueError), self._writing:
            stdin = self._process.stdin
            assert stdin is not None
            # A pipe that can be written to takes a short line whole: the harness never waits for a client that hangs.
            if select.select([], [stdin], [], 0)[1]:
                stdin.write(line)
                stdin.flush()
                return True
        return False

    def signal(self, number: int) -> None:
        """Send a signal to the process and its children, unless it has ended."""
        if self.exit_code is None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)

    def end(self, timeout: float | None = None) -> None:
        """End the process at once, which is no problem of it, and wait as `join` does."""
        self.may_end = True
        self.signal(signal.SIGKILL)
        self.join(timeout)

    def state(self) -> dict[str, Any]:
        """The state of the process as the kernel tells it: Running, Paused, Pid, ExitCode, and State as in /proc."""
        pid, code = self._process.pid, self.exit_code
        if code is not None:
            return {"Status": "exited", "Running": False, "Paused": False, "Pid": pid, "ExitCode": code}
        shown = ""
        with suppress(OSError):
            state = _STATE.search(Path(f"/proc/{pid}/status").read_text())
            shown = "" if state is None else state[1]
        stopped = shown.startswith("T")
        status = {"Status": "paused" if stopped else "running", "Running": True, "Paused": stopped}
        return {**status, "Pid": pid, "ExitCode": 0, "State": shown}

    def is_running(self) -> bool:
        """Whether the process has not ended."""
        return self.exit_code is None

    def kill(self) -> None:
        """Send SIGKILL for a fault, and wait for the end; no other client replaces this one until `start`."""
        if self.is_running():
            self.has_fallen = self.is_down = self.may_end = True
            self.falls()
            self.signal(signal.SIGKILL)
            wait_until(lambda: not self.is_running(), f"{self.name} to end after SIGKILL", timeout=_KILLED_WITHIN)

    def pause(self) -> None:
        """Send SIGSTOP: all threads of the process stop, those of its client library, too."""
        self.signal(signal.SIGSTOP)

    def unpause(self) -> None:
        """Send SIGCONT."""
        self.signal(signal.SIGCONT)

    def start(self) -> None:
        """Let a new client take the place of this one, if a fault has killed it."""
        if self.is_down:
            self.is_down = False
            self.rises()

    def stop(self) -> None:
        """Raise `ClusterFailure`: no fault of clients asks for this."""
        raise ClusterFailure(f"{self.name} is a process of a client: it has no controlled shutdown of its own")

    def join(self, timeout: float | None = None) -> bool:
        """Wait for the end, at most `timeout` seconds; returns whether it has come and all events are taken."""
        deadline = None if timeout is None else time.monotonic() + timeout
        self._thread.join(timeout)
        if self._thread.is_alive():
            return False
        try:
            self._process.wait(None if deadline is None else max(_ENDS_WITHIN, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            return False
        for pipe in (self._process.stdin, self._process.stdout):
            # The last order may still wait to be written, to a process that is gone.
            with suppress(OSError):
                assert pipe is not None
                pipe.close()
        return True

    def leaves(self, timeout: float) -> None:
        """Let the process end in order within `timeout` seconds, else kill it."""
        self.may_end = True
        self.order("leave")
        if not self.join(timeout):
            self.end(_ENDS_WITHIN)
            if timeout:
                self.breaks(f"did not leave within {timeout:g} s")
        elif self.exit_code:
            self.breaks(f"left with exit code {self.exit_code}")

    def breaks(self, problem: str) -> None:
        """Note a problem of the process; only the first is kept."""
        if self.problem is None:
            self.problem = problem
            self.on_problem(self, problem)

    @property
    def last_lines(self) -> tuple[str, ...]:
        """The last lines of its output, and of its log."""
        written: list[str] = []
        if self.log is not None and self.log.exists():
            with self.log.open("rb") as log:
                log.seek(max(0, self.log.stat().st_size - _OF_THE_LOG))
                written = log.read().decode(errors="replace").splitlines()[-_LAST_LINES:]
        return tuple(line[:_OF_A_LINE] for line in (*self._said, *written))

    def _listen(self) -> None:
        stdout = self._process.stdout
        assert stdout is not None
        try:
            while line := stdout.readline(MOST_OF_A_LINE):
                # A line that the death of the process cut short is no event.
                if line.endswith("\n"):
                    self._hear(line)
                elif len(line) == MOST_OF_A_LINE:
                    self.breaks(f"said a line of more than {MOST_OF_A_LINE:,} characters")
        finally:
            if not self.may_end:
                try:
                    how = f"with exit code {self._process.wait(_ENDS_WITHIN)}"
                except subprocess.TimeoutExpired:
                    how = "or closed its standard output"
                self.breaks(f"ended unexpectedly, {how}")
            self.taker.ends()

    def _hear(self, line: str) -> None:
        self._said.append(line.rstrip("\n"))
        try:
            self._take(json.loads(line))
        except ProtocolBreach as breach:
            self.breaks(f"{breach}: it said {quoted(line.strip())}")
        except (LookupError, TypeError, ValueError, OverflowError, AttributeError) as error:
            self.breaks(f"said {quoted(line.strip())}, which is no event of the client protocol: {error}")

    def _take(self, event: dict[str, Any]) -> None:
        kind = event.pop("event")
        if kind == "notice":
            self.on_notice(f"{self.name}: {event['text']}")
        elif kind == "error":
            self.breaks(str(event["text"]))
        elif kind == "ready":
            self.is_ready = True
            client, version = str(event["client"]), str(event["version"])
            self.on_ready(client, version, reported_timeouts(event.get("timeouts", {})))
            if self.version and not f"{version}.".startswith(f"{self.version}."):
                raise ProtocolBreach(f"its library is {client} {version}, not {self.version}")
        elif not self.is_ready:
            raise ProtocolBreach(f"the event {kind!r} came before the event 'ready'")
        else:
            self.taker.takes(kind, event)


Start = Callable[[Taker], SupervisedProcess]
"""Starts a process whose events this taker gets."""


def whole_numbers(name: str, values: object) -> list[int]:
    """Check that the field `name` of an event is a list of whole numbers, and return it. Raises `ProtocolBreach`."""
    column = np.array(values if isinstance(values, list) else None)
    if not isinstance(values, list) or column.ndim != 1 or (column.size and column.dtype.kind != "i"):
        raise ProtocolBreach(f"{name}: a list of whole numbers was expected")
    return values
