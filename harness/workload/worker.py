"""Runs a function in a thread of its own, and raises its error again in the thread that asks for it."""

import threading
from collections.abc import Callable


class Worker:
    """Calls `work` once, in a thread that does not keep the process alive; `work` returns once `ending` is set."""

    def __init__(self, work: Callable[[], object], *, name: str) -> None:
        self.ending = threading.Event()
        self.error: BaseException | None = None
        self._work = work
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    @property
    def has_begun(self) -> bool:
        """Whether the thread was started."""
        return self._thread.ident is not None

    def is_alive(self) -> bool:
        """Whether the thread was started and has not ended."""
        return self._thread.is_alive()

    def join(self, timeout: float | None = None) -> bool:
        """Wait until the thread has ended, at most `timeout` seconds; returns whether it has, or was never started."""
        if self.has_begun:
            self._thread.join(timeout)
        return not self._thread.is_alive()

    def end(self, timeout: float | None = None) -> bool:
        """Tell the function to return, and wait for that as `join` does."""
        self.ending.set()
        return self.join(timeout)

    def raise_error(self) -> None:
        """Raise what the function raised, if it did."""
        if self.error is not None:
            raise self.error

    def _run(self) -> None:
        try:
            self._work()
        except BaseException as error:  # noqa: BLE001 - raised again by raise_error()
            self.error = error
