"""Looks after a client that runs as a process of its own and speaks the client protocol (docs/guides/own-client.md).

Guarantee: whatever the process writes, every line is handled as an event or noted as a `problem`, and the
`EventHandler` is told of the process's end, once. A breach of the protocol is never passed over.
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
from contextlib import nullcontext, suppress
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from kafka_chaos.contract.command.errors import ClusterFailure, quoted
from kafka_chaos.contract.command.waiting import wait_until
from kafka_chaos.contract.events import ClientFailed, ClientStarted
from kafka_chaos.contract.lane.recovery import reported_timeouts
from kafka_chaos.harness.signals import yield_to_brokers

PROTOCOL = 1  # the version of the client protocol
MAX_LINE_CHARACTERS = 4 * 2**20
# What messages show of a process that failed: its last lines, each cut short.
_LAST_LINES, _SHOWN_CHARACTERS, _LOG_TAIL_BYTES = 5, 500, 4_096
_EXIT_TIMEOUT_S = 5.0
_PROC_STATE = re.compile(r"^State:\s*(\S.*)$", re.MULTILINE)


class ProtocolBreach(Exception):
    """A client's report can't be true; the message says why."""


class EventHandler:
    """Handles the events of one client: the event `read`, say, by a method `_handle_read` that takes its fields.

    `role` names the client in messages.
    """

    role = "a client"

    def handle(self, kind: str, values: dict[str, Any]) -> None:
        """Handle an event. Raises `ProtocolBreach`, or an error of Python where fields are missing or ill-typed."""
        handler = getattr(self, f"_handle_{kind}", None)
        if handler is None:
            raise ProtocolBreach(f"{self.role} has no event {kind!r}")
        handler(**values)

    def note_end(self) -> None:
        """Learn that the client has ended: no event follows. Here this does nothing."""


@dataclass(eq=False)
class SupervisedProcess:
    """A process that runs `command` and gets the order `begin` at once; a thread passes its events to `handler`.

    `begin` has the values of that order, among them the lane and the role. Once the process `is_ready`, `emit` gets the
    event `ClientStarted`; once it `has_ended`, no event of the protocol follows. `problem`: the first thing that went
    wrong; `emit` gets the event `ClientFailed` for it, in the thread that notes it. Standard error goes to the file
    `log` or, without it, to the harness's standard error. `version`: what the library's version must be or begin with;
    empty for any. `may_end`: the process may end early.

    Faults of clients handle the process as a `kafka_chaos.faults.cluster.NodeControl`. `ended_by_fault`: a fault has
    killed it. `is_down`: that fault goes on, so that no other process replaces this one. `before_kill` is called before
    a fault kills it, and `after_fault` once that fault is over.
    """

    # `NodeControl` has these attributes, but the process of a client has nothing to put there.
    number = 0
    address = ""
    shell = disk = link = clock = None

    command: Sequence[str]
    begin: Mapping[str, Any]
    handler: EventHandler
    _: KW_ONLY
    name: str
    on_notice: Callable[[str], None]
    emit: Callable[[ClientStarted | ClientFailed], None] = lambda event: None
    version: str = ""
    may_end: bool = False
    log: Path | None = None
    problem: str | None = field(default=None, init=False)
    is_ready: bool = field(default=False, init=False)
    ended_by_fault: bool = field(default=False, init=False)
    is_down: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        self.before_kill: Callable[[], None] = lambda: None
        self.after_fault: Callable[[], None] = lambda: None
        self.has_ended = threading.Event()
        self._stdout_tail: deque[str] = deque(maxlen=_LAST_LINES)
        self._stdin_lock = threading.Lock()
        self._lane_and_role: dict[str, Any] = {name: self.begin[name] for name in ("lane", "role")}
        with nullcontext() if self.log is None else self.log.open("ab") as stderr:
            self._process = subprocess.Popen(
                self.command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                encoding="utf-8",
                errors="replace",
                # A group: our signals also reach the client that a script starts, and Ctrl-C reaches neither. In our
                # session: if we are killed while the group is stopped, the kernel ends it.
                process_group=0,
            )
        yield_to_brokers(self._process.pid)
        self._thread = threading.Thread(target=self._listen, name=f"client-{self.name}", daemon=True)
        self._thread.start()
        self.order("begin", protocol=PROTOCOL, **self.begin)

    @property
    def exit_code(self) -> int | None:
        """The exit code of the process; None while it runs."""
        return self._process.poll()

    def order(self, order: str, **values: Any) -> bool:
        """Give the process an order, unless it has ended or its pipe is full; returns whether the order was given."""
        line = json.dumps({"order": order, **values}) + "\n"
        with suppress(OSError, ValueError), self._stdin_lock:
            stdin = self._process.stdin
            assert stdin is not None
            # Nothing is written to a pipe without room: the harness never waits for a client that hangs.
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

    def kill_quietly(self, timeout: float | None = None) -> None:
        """Kill the process, whose end is then no problem, and wait as `join` does."""
        self._allow_end()
        self.signal(signal.SIGKILL)
        self.join(timeout)

    def state(self) -> dict[str, Any]:
        """The state of the process, by Docker's keys for a container; while it runs, also `State` as in /proc."""
        pid, code = self._process.pid, self.exit_code
        if code is not None:
            return {"Status": "exited", "Running": False, "Paused": False, "Pid": pid, "ExitCode": code}
        state = ""
        with suppress(OSError):
            line = _PROC_STATE.search(Path(f"/proc/{pid}/status").read_text())
            state = "" if line is None else line[1]
        is_stopped = state.startswith("T")
        status = {"Status": "paused" if is_stopped else "running", "Running": True, "Paused": is_stopped}
        return {**status, "Pid": pid, "ExitCode": 0, "State": state}

    def is_running(self) -> bool:
        """Whether the process has not ended."""
        return self.exit_code is None

    def kill(self) -> None:
        """Kill the process as a fault does, and wait for its end; no client replaces it until `start` is called."""
        if self.is_running():
            self.ended_by_fault = self.is_down = self.may_end = True
            self.before_kill()
            self.signal(signal.SIGKILL)
            wait_until(lambda: not self.is_running(), f"{self.name} to end after SIGKILL", timeout=10.0)

    def pause(self) -> None:
        """Send SIGSTOP: all threads of the process stop, also those of its client library."""
        self.signal(signal.SIGSTOP)

    def unpause(self) -> None:
        """Send SIGCONT: the process goes on."""
        self.signal(signal.SIGCONT)

    def start(self) -> None:
        """End the fault that has killed this client, if one has: another client takes its place."""
        if self.is_down:
            self.is_down = False
            self.after_fault()

    def stop(self) -> None:
        """Raise `ClusterFailure`: `NodeControl` has this method, and no fault of clients calls it."""
        raise ClusterFailure(f"{self.name} is a process of a client: it has no controlled shutdown of its own")

    def join(self, timeout: float | None = None) -> bool:
        """Wait `timeout` seconds for the last event, and `_EXIT_TIMEOUT_S` or more for the exit; tells if both came."""
        deadline = None if timeout is None else time.monotonic() + timeout
        self._thread.join(timeout)
        if self._thread.is_alive():
            return False
        try:
            self._process.wait(None if deadline is None else max(_EXIT_TIMEOUT_S, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            return False
        for pipe in (self._process.stdin, self._process.stdout):
            # Closing writes what is buffered, and fails if that is an order to a process that is gone.
            with suppress(OSError):
                assert pipe is not None
                pipe.close()
        return True

    def let_leave(self, timeout: float) -> None:
        """Order the process to leave; kill it if it has not ended in `timeout` seconds, which is a problem."""
        self._allow_end()
        self.order("leave")
        if not self.join(timeout):
            self.kill_quietly(_EXIT_TIMEOUT_S)
            self.note_problem(f"did not leave within {timeout:g} s")
        elif self.exit_code:
            self.note_problem(f"left with exit code {self.exit_code}")

    def _allow_end(self) -> None:
        """From now on, the process may end, and no other process replaces it after a fault."""
        self.may_end = True
        self.after_fault = lambda: None

    def note_problem(self, problem: str) -> None:
        """Note a problem of the process; only the first is kept."""
        if self.problem is None:
            self.problem = problem
            self.emit(ClientFailed(**self._lane_and_role, problem=problem, last_lines=self.last_lines))

    @property
    def last_lines(self) -> tuple[str, ...]:
        """The last lines of the process's standard output, and of its log."""
        log_tail: list[str] = []
        if self.log is not None and self.log.exists():
            with self.log.open("rb") as log:
                log.seek(max(0, self.log.stat().st_size - _LOG_TAIL_BYTES))
                log_tail = log.read().decode(errors="replace").splitlines()[-_LAST_LINES:]
        return tuple(line[:_SHOWN_CHARACTERS] for line in (*self._stdout_tail, *log_tail))

    def _listen(self) -> None:
        stdout = self._process.stdout
        assert stdout is not None
        try:
            while line := stdout.readline(MAX_LINE_CHARACTERS):
                # A shorter line without a line end was cut short by the death of the process: it is not an event.
                if line.endswith("\n"):
                    self._handle_line(line)
                elif len(line) == MAX_LINE_CHARACTERS:
                    self.note_problem(f"wrote a line of more than {MAX_LINE_CHARACTERS:,} characters")
        finally:
            if not self.may_end:
                try:
                    how = f"with exit code {self._process.wait(_EXIT_TIMEOUT_S)}"
                except subprocess.TimeoutExpired:
                    how = "or closed its standard output"
                self.note_problem(f"ended unexpectedly, {how}")
            self.has_ended.set()
            self.handler.note_end()

    def _handle_line(self, line: str) -> None:
        self._stdout_tail.append(line.rstrip("\n"))
        try:
            self._handle_event(json.loads(line))
        except ProtocolBreach as breach:
            self.note_problem(f"{breach}: it said {quoted(line.strip())}")
        except (LookupError, TypeError, ValueError, OverflowError, AttributeError) as error:
            self.note_problem(f"said {quoted(line.strip())}, which is not an event of the client protocol: {error}")

    def _handle_event(self, event: dict[str, Any]) -> None:
        kind = event.pop("event")
        if kind == "notice":
            self.on_notice(f"{self.name}: {event['text']}")
        elif kind == "error":
            self.note_problem(str(event["text"]))
        elif kind == "ready":
            self.is_ready = True
            client, version = str(event["client"]), str(event["version"])
            timeouts = reported_timeouts(event.get("timeouts", {}))
            self.emit(ClientStarted(**self._lane_and_role, client=client, version=version, timeouts=timeouts))
            if self.version and not f"{version}.".startswith(f"{self.version}."):
                raise ProtocolBreach(f"its library is {client} {version}, not {self.version}")
        elif not self.is_ready:
            raise ProtocolBreach(f"the event {kind!r} came before the event 'ready'")
        else:
            self.handler.handle(kind, event)


ProcessStarter = Callable[[EventHandler], SupervisedProcess]
"""Starts a process of a client, and passes its events to the handler."""


def whole_numbers(name: str, values: object) -> list[int]:
    """Check that the field `name` of an event is a list of whole numbers, and return it. Raises `ProtocolBreach`."""
    array = np.array(values if isinstance(values, list) else None)
    if not isinstance(values, list) or array.ndim != 1 or (array.size and array.dtype.kind != "i"):
        raise ProtocolBreach(f"{name}: a list of whole numbers was expected")
    return values
