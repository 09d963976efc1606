"""A function in a thread of its own, whose error is raised again where somebody waits for it."""

import threading
from collections.abc import Callable


class Worker:
    """Calls `work` once, in a thread that does not keep the process alive."""

    def __init__(self, work: Callable[[], object], *, name: str) -> None:
        self.error: BaseException | None = None
        self._work = work
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Call it."""
        self._thread.start()

    @property
    def has_begun(self) -> bool:
        """Whether it has been called."""
        return self._thread.ident is not None

    def is_alive(self) -> bool:
        """Whether it has been called and has not returned."""
        return self._thread.is_alive()

    def join(self, timeout: float | None = None) -> bool:
        """Wait until it has returned, at most `timeout` seconds; returns whether it has, or was never called."""
        if self.has_begun:
            self._thread.join(timeout)
        return not self._thread.is_alive()

    def raise_error(self) -> None:
        """Raise what it raised."""
        if self.error is not None:
            raise self.error

    def _run(self) -> None:
        try:
            self._work()
        except BaseException as error:  # noqa: BLE001 - raised again by raise_error()
            self.error = error
