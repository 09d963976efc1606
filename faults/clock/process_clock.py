"""The wall clock of one container's Java process: moved by libfaketime, and read from the process itself.

Guarantee: the monotonic clock is left alone, so that time-outs last as long as before. A file in the container moves
the wall clock: it contains the shift in seconds, such as `+12.5`, and the process reads it once a second. The file
outlives the process, so that the clock stays moved after a restart, as a machine's clock would.
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
from kafka_chaos.faults.cluster import ClockControl

CLOCK_ENVIRONMENT = {
    "LD_PRELOAD": "/opt/kafka/libfaketime.so",
    "FAKETIME_TIMESTAMP_FILE": "/etc/kafka-chaos/clock",
    "FAKETIME_CACHE_DURATION": "1",
    "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    # Without this, a wait by the monotonic clock would end at once.
    "FAKETIME_FORCE_MONOTONIC_FIX": "0",
    "NO_FAKE_STAT": "1",
}
"""The environment of a Java process whose clock can be moved."""

_FILE = CLOCK_ENVIRONMENT["FAKETIME_TIMESTAMP_FILE"]
_LINE_START = re.compile(rb"^(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)\.(\d{3})\d*Z (\[\d{4}-[^\]]*\])?", re.MULTILINE)
"""The beginning of a log line: the engine's time, and the server's own time if the server wrote the line."""
_DRIFT_INTERVAL = 0.25  # seconds between two writes of a clock that drifts
_ATTACH_TIMEOUT = 5.0  # seconds within which the JVM must tell its time
_ENDING_TIMEOUT = 5.0  # seconds within which the engine must notice that a process has ended


@dataclass(frozen=True, slots=True)
class _Shift:
    """A step of `seconds`, and a drift of `per_second` since the moment `since` of the monotonic clock."""

    seconds: float
    per_second: float
    since: float

    def seconds_by_now(self) -> float:
        return self.seconds + self.per_second * (time.monotonic() - self.since)


def with_engine_time(lines: bytes) -> bytes:
    """Put the engine's time where log lines have the server's, which faults may move; remove it from other lines."""
    return _LINE_START.sub(lambda stamp: b"[%s %s,%s]" % stamp.groups()[:3] if stamp[4] else b"", lines)


class Clock(ClockControl):
    """The clock of a container. `pid` returns the id of its process, 0 while there is none; `write_file` takes a path
    and a text, and writes a file of the container, running or not."""

    def __init__(self, pid: Callable[[], int], write_file: Callable[[str, str], None]) -> None:
        self._pid = pid
        self._write_file = write_file
        self._shifts: dict[str, _Shift] = {}
        self._lock = threading.Lock()
        self._drift_is_over = threading.Event()
        self._drift_thread: threading.Thread | None = None
        self._failure: str | None = None

    def shift(self, name: str, *, seconds: float = 0.0, per_second: float = 0.0) -> None:
        with self._lock:
            if name in self._shifts:
                return
            self._shifts[name] = _Shift(seconds, per_second, time.monotonic())
            self._write()
            self._start_or_end_drift()

    def end(self, name: str) -> None:
        with self._lock:
            if self._shifts.pop(name, None) is not None:
                self._failure = None
                self._write()
                self._start_or_end_drift()

    def reading(self, name: str) -> Mapping[str, float] | None:
        if self._failure is not None:
            raise ClusterFailure(self._failure)
        pid = self._pid()
        with self._lock:
            shifts = {shift_name: shift.seconds_by_now() for shift_name, shift in self._shifts.items()}
        if not pid or name not in shifts:
            return None
        before = time.time()
        ahead = _time_of_java(pid) - (before + time.time()) / 2  # the process told its time about midway
        return {"ahead": ahead, "by_all_shifts": sum(shifts.values()), "by_this_shift": shifts[name]}

    def _start_or_end_drift(self) -> None:
        """Start a thread that keeps the clock drifting as soon as a shift drifts, and end it once none drifts."""
        drifts = any(shift.per_second for shift in self._shifts.values())
        if drifts and self._drift_thread is None:
            is_over = self._drift_is_over = threading.Event()
            self._drift_thread = threading.Thread(target=self._drift, args=(is_over,), daemon=True, name="clock")
            self._drift_thread.start()
        elif not drifts:
            self._drift_is_over.set()
            self._drift_thread = None

    def _drift(self, is_over: threading.Event) -> None:
        while not is_over.wait(_DRIFT_INTERVAL):
            with self._lock:
                try:
                    if not is_over.is_set():
                        self._write()
                except Exception as error:  # noqa: BLE001 - raised by the next `reading`
                    self._failure = f"its clock drifts no more: {error}"
                    return

    def _write(self) -> None:
        text = f"{sum(shift.seconds_by_now() for shift in self._shifts.values()):+.3f}\n"
        pid = self._pid()
        if not pid:
            self._write_file(_FILE, text)
            return
        # Replaced in one step: the process may read the file at any moment.
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


def _time_of_java(pid: int) -> float:
    """A Java process's wall clock, in seconds since the epoch, as `jcmd VM.uptime -date` asks for it."""
    root = Path(f"/proc/{pid}/root/tmp")
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    # The last of the ids in this line is the one that the process has inside its container.
    inner_pid = status.partition("NSpid:")[2].splitlines()[0].split()[-1]
    socket_path, request = root / f".java_pid{inner_pid}", root / f".attach_pid{inner_pid}"
    try:
        if not socket_path.exists():
            request.touch()
            os.kill(pid, signal.SIGQUIT)
            wait_until(socket_path.exists, "the process to tell its time", timeout=_ATTACH_TIMEOUT, interval=0.02)
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(_ATTACH_TIMEOUT)
            connection.connect(str(socket_path))
            # The version of the protocol, a command, and its three arguments, two of which are empty.
            connection.sendall(b"1\0jcmd\0VM.uptime -date\0\0\0")
            pieces = iter(lambda: connection.recv(4096), b"")
            answer = b"".join(pieces).decode(errors="replace")
    except OSError as error:
        raise ClusterFailure(f"process {pid} does not tell its time: {error}") from error
    finally:
        with suppress(OSError):
            request.unlink()
    _, _, output = answer.partition("\n")  # the first line is the command's exit status
    stamp = output.split(" ")[0].rstrip(":\n")
    try:
        return datetime.fromisoformat(stamp).timestamp()
    except ValueError as error:
        raise ClusterFailure(f"process {pid} does not tell its time: {answer!r}") from error
