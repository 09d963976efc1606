"""A helper process of the harness: it gets commands as JSON lines on its standard input, and answers each with a line.

Standard input ends when the harness ends, even if the harness is killed: then the process undoes what it did, and ends.
"""

import json
import os
import select
import signal
import subprocess
import threading
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from kafka_chaos.contract.command.child import command_of
from kafka_chaos.contract.command.errors import ClusterFailure, KafkaChaosError

STDIN, STDOUT = 0, 1


class Helper:
    """The harness's side: runs `module` as a process. Its argument is `start`, as JSON. Error messages call the
    process `name`."""

    def __init__(self, module: str, name: str, start: Mapping[str, Any]) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._last_number, self._received = 0, b""
        # In a session of its own: the terminal's signals are for the harness.
        command, pipe = command_of(module, json.dumps(dict(start))), subprocess.PIPE
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, encoding="utf-8", start_new_session=True)

    def ask(self, command: str, *, within: float | None = None, **values: Any) -> Any:
        """Send a command with these values, and return the answer; raises `ClusterFailure` if it failed.

        `within`: the time-out for the answer in seconds; None: no time-out.
        """
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        with self._lock:
            self._last_number += 1
            try:
                stdin.write(json.dumps({"number": self._last_number, "do": command, **values}) + "\n")
                stdin.flush()
                answer: dict[str, Any] = {"number": 0}
                # The answer to an earlier command that timed out may still come, together with this answer.
                while answer["number"] != self._last_number:
                    while b"\n" not in self._received:
                        if within is not None and not select.select([stdout], [], [], within)[0]:
                            late = f"the process of the {self._name} did not answer {command} within {within:.0f} s"
                            raise ClusterFailure(late)
                        if not (piece := os.read(stdout.fileno(), 1 << 16)):
                            raise ClusterFailure(f"the process of the {self._name} ended with {self._process.wait()}")
                        self._received += piece
                    line, _, self._received = self._received.partition(b"\n")
                    answer = json.loads(line)
            except (OSError, ValueError) as error:
                raise ClusterFailure(f"the process of the {self._name} is gone: {error}") from error
        if "error" in answer:
            raise ClusterFailure(f"{self._name}: {answer['error']}")
        return answer["ok"]

    def close(self) -> int:
        """Let the process undo what it did and end, and return its exit code."""
        if self._process.poll() is None:
            with self._lock, suppress(OSError):
                assert self._process.stdin is not None
                self._process.stdin.close()
            try:
                self._process.wait(30.0)
            except subprocess.TimeoutExpired:
                self._process.kill()
        return self._process.wait()


class Commands:
    """The process's side: calls `handle` with the name and the values of each command, and answers with the result."""

    def __init__(self, handle: Callable[[str, dict[str, Any]], Any]) -> None:
        # Ctrl-C reaches every process of the terminal; the harness decides when its helpers end.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        self._handle = handle
        self._received = b""

    def read(self) -> bool:
        """Serve the commands that have arrived, and return whether standard input has ended."""
        piece = os.read(STDIN, 1 << 16)
        if not piece:
            return True
        *lines, self._received = (self._received + piece).split(b"\n")
        for line in lines:
            command = json.loads(line)
            answer = {"number": command.pop("number"), **self._answer(command)}
            os.write(STDOUT, f"{json.dumps(answer, default=str)}\n".encode())
        return False

    def _answer(self, command: dict[str, Any]) -> dict[str, Any]:
        try:
            return {"ok": self._handle(command.pop("do"), command)}
        except (KafkaChaosError, OSError) as error:
            return {"error": str(error)}
        except Exception:  # noqa: BLE001 - the harness gets it as the answer, and raises it
            return {"error": traceback.format_exc()}
