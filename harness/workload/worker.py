"""Runs a function in a thread of its own, and raises its error again in the thread that asks for it."""

import threading
from collections.abc import Callable


class Worker(threading.Thread):
    """Calls `work` once, in a thread that does not keep the process alive; `work` returns once `ending` is set."""

    def __init__(self, work: Callable[[], object], *, name: str) -> None:
        super().__init__(name=name, daemon=True)
        self.ending = threading.Event()
        self.error: BaseException | None = None
        self._work = work

    def run(self) -> None:
        """Call the function, and keep its error."""
        try:
            self._work()
        except BaseException as error:  # noqa: BLE001 - raised again by raise_error()
            self.error = error

    def join(self, timeout: float | None = None) -> None:
        """Wait until the thread has ended, at most `timeout` seconds, unless it was never started."""
        if self.ident is not None:
            super().join(timeout)

    def end(self, timeout: float | None = None) -> None:
        """Tell the function to return, and wait for that as `join` does."""
        self.ending.set()
        self.join(timeout)

    def raise_error(self) -> None:
        """Raise what the function raised, if it did."""
        if self.error is not None:
            raise self.error
