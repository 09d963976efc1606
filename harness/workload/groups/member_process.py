"""The harness's side of a member: its process, the orders that it is given, and a thread that takes what it tells."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from contextlib import suppress

from kafka_chaos.harness.child import start_module
from kafka_chaos.harness.workload.groups.rows import MemberRows
from kafka_chaos.harness.workload.groups.settings import MemberSettings

_MODULE = "kafka_chaos.harness.workload.groups.process"


class MemberProcess:
    """A member that runs in a process of its own. `rows` takes what it tells, `on_notice` what people should know.

    `on_change` learns when it freezes and thaws.
    """

    def __init__(
        self,
        settings: MemberSettings,
        rows: MemberRows,
        *,
        on_notice: Callable[[str], None],
        on_change: Callable[[str], None],
    ) -> None:
        self.name = settings.name
        self.error: str | None = None
        self._rows = rows
        self._on_notice = on_notice
        self._on_change = on_change
        self._process = start_module(_MODULE)
        self._thread = threading.Thread(target=self._listen, name=f"member-{self.name}", daemon=True)
        self._thread.start()
        self._tell(settings.to_line())

    @property
    def exit_code(self) -> int | None:
        """How it ended; None while it runs."""
        return self._process.poll()

    def order(self, what: str) -> None:
        """Give it one of `ORDERS`."""
        self._tell(what + "\n")

    @property
    def pid(self) -> int:
        """Its process."""
        return self._process.pid

    def signal(self, number: int) -> None:
        """Send it a signal; nothing where it has ended."""
        self._process.send_signal(number)

    def kill(self) -> None:
        """End it at once."""
        self._process.kill()

    def join(self, timeout: float | None = None) -> bool:
        """Wait for its end, at most `timeout` seconds; returns whether it has ended and all its rows are taken."""
        self._thread.join(timeout)
        if self._thread.is_alive():
            return False
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            # What it was told last may find nobody any more.
            with suppress(OSError):
                assert pipe is not None
                pipe.close()
        return True

    def _tell(self, line: str) -> None:
        # A member that has just ended takes no orders.
        with suppress(OSError, ValueError):
            assert self._process.stdin is not None
            self._process.stdin.write(line)
            self._process.stdin.flush()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        try:
            for line in self._process.stdout:
                # A line that its death cut short tells nothing.
                if line.endswith("\n"):
                    self._take(*json.loads(line))
        except Exception as error:  # noqa: BLE001 - raised by who looks after the group
            self.error = f"{type(error).__name__}: {error}"
        finally:
            self._rows.ends()

    def _take(self, kind: str, values: dict[str, object]) -> None:
        if kind == "notice":
            self._on_notice(f"{self.name}: {values['text']}")
        elif kind == "changes":
            self._on_change(str(values["change"]))
        elif kind == "error":
            self.error = str(values["text"])
        else:
            self._rows.takes(kind, values)
