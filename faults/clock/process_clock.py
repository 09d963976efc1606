"""The wall clock of one container's Java process: moved by libfaketime, and read from the process itself.

Guarantee: the monotonic clock is left alone, so that what waits waits as long as before. What moves a clock is a file
of the container (`+12.5`, in seconds), which outlives a restart of the process, as a machine's clock does. The process
looks into it once a second.
"""

import os
import re
import signal
import socket
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from kafka_chaos.contract.command.errors import ClusterFailure, WaitTimeout
from kafka_chaos.contract.command.waiting import wait_until
from kafka_chaos.faults.parts import ClockControl

PRELOADED = {
    "LD_PRELOAD": "/opt/kafka/libfaketime.so",
    "FAKETIME_TIMESTAMP_FILE": "/etc/kafka-chaos/clock",
    "FAKETIME_CACHE_DURATION": "1",
    "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    # Otherwise a wait by the monotonic clock ends at once.
    "FAKETIME_FORCE_MONOTONIC_FIX": "0",
    "NO_FAKE_STAT": "1",
}
"""The environment of a Java process whose clock can be moved."""

_FILE = PRELOADED["FAKETIME_TIMESTAMP_FILE"]
_STAMPED = re.compile(rb"^(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)\.(\d{3})\d*Z (\[\d{4}-[^\]]*\])?", re.MULTILINE)
"""A line with the engine's time, and (where the server wrote it) the server's own."""
_DRIFT_INTERVAL = 0.25
_ATTACH_TIMEOUT = 5.0
_ENDING_TIMEOUT = 5.0


@dataclass(frozen=True, slots=True)
class _Shift:
    seconds: float
    per_second: float
    since: float

    def now(self) -> float:
        return self.seconds + self.per_second * (time.monotonic() - self.since)


def with_engine_time(lines: bytes) -> bytes:
    """Log lines, each of which the engine has given its time, with that in place of the server's own."""
    return _STAMPED.sub(lambda found: b"[%s %s,%s]" % found.groups()[:3] if found[4] else b"", lines)


class Clock(ClockControl):
    """The clock of a container. `pid` is that of its process now, 0: none; `write_file` writes a file of it, running or
    not."""

    def __init__(self, pid: Callable[[], int], write_file: Callable[[str, str], None]) -> None:
        self._pid = pid
        self._write_file = write_file
        self._shifts: dict[str, _Shift] = {}
        self._lock = threading.Lock()
        self._no_drift = threading.Event()
        self._drifting: threading.Thread | None = None
        self._failed: str | None = None

    def shift(self, name: str, *, seconds: float = 0.0, per_second: float = 0.0) -> None:
        with self._lock:
            if name in self._shifts:
                return
            self._shifts[name] = _Shift(seconds, per_second, time.monotonic())
            self._write()
            self._drift()

    def end(self, name: str) -> None:
        with self._lock:
            if self._shifts.pop(name, None) is not None:
                self._failed = None
                self._write()
                self._drift()

    def reading(self, name: str) -> Mapping[str, float] | None:
        if self._failed is not None:
            raise ClusterFailure(self._failed)
        pid = self._pid()
        with self._lock:
            moved = {one: shift.now() for one, shift in self._shifts.items()}
        if not pid or name not in moved:
            return None
        before = time.time()
        ahead = _told_by_java(pid) - (before + time.time()) / 2
        return {"ahead": ahead, "wanted": sum(moved.values()), "moved": moved[name]}

    def _drift(self) -> None:
        """Let a thread move the clock further, as long as a shift wants it."""
        wanted = any(one.per_second for one in self._shifts.values())
        if wanted and self._drifting is None:
            self._no_drift = threading.Event()
            self._drifting = threading.Thread(target=self._move_on, args=(self._no_drift,), daemon=True, name="clock")
            self._drifting.start()
        elif not wanted:
            self._no_drift.set()
            self._drifting = None

    def _move_on(self, ended: threading.Event) -> None:
        while not ended.wait(_DRIFT_INTERVAL):
            with self._lock:
                try:
                    if not ended.is_set():
                        self._write()
                except Exception as error:  # noqa: BLE001 - told to whoever asks for the clock
                    self._failed = f"its clock drifts no more: {error}"
                    return

    def _write(self) -> None:
        text = f"{sum(one.now() for one in self._shifts.values()):+.3f}\n"
        pid = self._pid()
        if not pid:
            self._write_file(_FILE, text)
            return
        # In one step: the process may look at any moment.
        file = Path(f"/proc/{pid}/root{_FILE}")
        try:
            file.with_suffix(".new").write_text(text, encoding="ascii")
            file.with_suffix(".new").replace(file)
        except OSError as error:
            # The files of a process that ends are gone before the engine says that it has ended.
            with suppress(WaitTimeout):
                wait_until(lambda: self._pid() != pid, "the process to have ended", timeout=_ENDING_TIMEOUT)
                self._write()
                return
            raise ClusterFailure(f"{file}: {error.strerror}") from error


def _told_by_java(pid: int) -> float:
    """A Java process's wall clock, in seconds since the epoch, by its attach mechanism (as `jcmd VM.uptime -date`)."""
    root = Path(f"/proc/{pid}/root/tmp")
    own = Path(f"/proc/{pid}/status").read_text(encoding="ascii").partition("NSpid:")[2].splitlines()[0].split()[-1]
    path, request = root / f".java_pid{own}", root / f".attach_pid{own}"
    try:
        if not path.exists():
            request.touch()
            os.kill(pid, signal.SIGQUIT)
            wait_until(path.exists, "the process to tell its clock", timeout=_ATTACH_TIMEOUT, interval=0.02)
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(_ATTACH_TIMEOUT)
            connection.connect(str(path))
            connection.sendall(b"1\0jcmd\0VM.uptime -date\0\0\0")
            pieces = iter(lambda: connection.recv(4096), b"")
            answer = b"".join(pieces).decode(errors="replace")
    except OSError as error:
        raise ClusterFailure(f"process {pid} does not tell its clock: {error}") from error
    finally:
        with suppress(OSError):
            request.unlink()
    stamp = answer.partition("\n")[2].split(" ")[0].rstrip(":\n")
    try:
        return datetime.fromisoformat(stamp).timestamp()
    except ValueError as error:
        raise ClusterFailure(f"process {pid} does not tell its clock: {answer!r}") from error
