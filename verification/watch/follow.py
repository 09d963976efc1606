"""Follows a run batch by batch until it has ended or the user ends the watch.

Each batch is a streaming query of its own that reads what is there. So a watch ends between two batches, never within
one, and what a batch has read is in the state.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING, Any

from kafka_chaos.contract.errors import UsageFailure
from kafka_chaos.verification.watch.running import RunningRun

if TYPE_CHECKING:
    from kafka_chaos.verification.watch.watch import Watch

_PAUSE = 0.5
_LOOK_INTERVAL = 1.0
_MOST_FAILURES = 5


class Announcer:
    """Says once a second what the run itself counts, from a thread, until `until` is set or the block has ended."""

    def __init__(self, run: RunningRun, say: Callable[[str], object], *, until: threading.Event) -> None:
        self._run = RunningRun(run.path)
        self._say = say
        self._until = until
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._announce, name="announcer", daemon=True)

    def __enter__(self) -> Announcer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _announce(self) -> None:
        while not self._until.is_set():
            if self._run.look().goes_on:
                sent, acknowledged, consumed = (
                    sum(counts[place] for counts in self._run.counts.values()) for place in range(3)
                )
                self._say(f"the run counts {sent:,} sent, {acknowledged:,} acknowledged, {consumed:,} consumed")
            if self._over.wait(_LOOK_INTERVAL):
                return


def await_cluster(run: RunningRun) -> str | None:
    """Where the cluster of a run that goes on is, once its servers serve; None for one that is over or has none.

    Raises `UsageFailure` for a run whose load goes on and that does not say where.
    """
    while run.look().goes_on:
        if run.bootstrap_servers is not None:
            return run.bootstrap_servers
        if run.is_loaded:
            raise UsageFailure(f"{run.path}: this run does not record where its cluster is: give --bootstrap-servers")
        time.sleep(_PAUSE)
    return None


class Ending:
    """Whether SIGINT or SIGTERM came, as a context manager; the second one raises `KeyboardInterrupt`.

    Installed after Spark's start, which sets a handler of its own that cancels jobs.
    """

    def __init__(self) -> None:
        self.was_asked = False
        self._asked = threading.Event()
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Ending:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                if signal.getsignal(number) is not signal.SIG_IGN:
                    self._before[number] = signal.signal(number, self._ask)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def wait(self, seconds: float) -> bool:
        """Wait for a signal, at most `seconds`: whether one has come."""
        return self._asked.wait(seconds)

    def _ask(self, number: int, frame: FrameType | None) -> None:
        if self.was_asked:
            raise KeyboardInterrupt
        self.was_asked = True
        self._asked.set()


class Follow:
    """Batches of `watch` over `run`; `news` is set by every batch that had something to read.

    `has_read_all`: a batch began when nothing was on its way any more. Each method returns what went wrong, in a line,
    or None.
    """

    def __init__(
        self, run: RunningRun, watch: Watch, ending: Ending, news: threading.Event, *, until_quiet: float | None
    ) -> None:
        self.has_read_all = False
        self._run = run
        self._watch = watch
        self._ending = ending
        self._news = news
        self._until_quiet = until_quiet

    @property
    def log_is_kept(self) -> bool:
        """Whether the load has ended and the run has read its topics back: it removes its cluster after that."""
        return self._run.is_settled and self._watch.bootstrap_servers is not None and self._watch.has_log

    def once(self) -> str | None:
        """One batch."""
        problem = self._batch()
        # A directory that nobody writes any more has nothing on its way.
        self.has_read_all = problem is None and (self.has_read_all or not self._run.goes_on)
        return problem

    def to_the_end(self) -> str | None:
        """Batch after batch until all has been read or the cluster is gone, a signal has come, or it is quiet."""
        failures = 0
        last_news = time.monotonic()
        while not self._ending.wait(_PAUSE):
            was_over = self._run.look().has_ended
            if was_over and self._watch.bootstrap_servers is not None:
                return None
            self._news.clear()
            problem = self._batch()
            if self.has_read_all or (problem and self.log_is_kept):
                return None
            failures = failures + 1 if problem else 0
            if failures and (failures >= _MOST_FAILURES or not self._run.look().goes_on):
                return None if self._run.has_ended else problem
            if self._news.is_set():
                last_news = time.monotonic()
            if self._until_quiet is not None and time.monotonic() - last_news > self._until_quiet:
                self.has_read_all = True
                return None
            if was_over:
                return None
        return None

    def _batch(self) -> str | None:
        from pyspark.errors import StreamingQueryException

        is_settled = self._run.look().is_settled
        query = self._watch.start(once=True)
        try:
            query.awaitTermination()
        except StreamingQueryException as error:
            return str(error).splitlines()[0]
        finally:
            query.stop()
        self.has_read_all = is_settled
        return None
