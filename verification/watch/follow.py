"""Follows a run batch by batch, until it has ended or the user ends the watch.

Each batch is a separate streaming query that reads what exists by then. So a watch ends between two batches, never
within one, and the state holds everything that a batch has read.
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
    """Prints the run's own counts once a second, from a thread, until `until` is set or the block ends."""

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
    """The address of an unfinished run's cluster, once its servers are up; None if the run is over or has no cluster.

    Raises `UsageFailure` if the run is under load and does not record the address.
    """
    while run.look().goes_on:
        if run.bootstrap_servers is not None:
            return run.bootstrap_servers
        if run.is_loaded:
            raise UsageFailure(f"{run.path}: this run does not record where its cluster is: give --bootstrap-servers")
        time.sleep(_PAUSE)
    return None


class Ending:
    """Notes SIGINT or SIGTERM, as a context manager; the second signal raises `KeyboardInterrupt`.

    To be installed after Spark's start, which sets its own handler that cancels jobs.
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
        """Wait for a signal, at most `seconds`; returns whether there was one."""
        return self._asked.wait(seconds)

    def _ask(self, number: int, frame: FrameType | None) -> None:
        if self.was_asked:
            raise KeyboardInterrupt
        self.was_asked = True
        self._asked.set()


class Follow:
    """Batches of `watch` over `run`; `news` is set by every batch that had something to read.

    `has_read_all`: a batch began after everything had arrived. Each method returns a problem in one line, or None.
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
        """Whether the run's own cluster is watched, and the run has read its topics back: it removes the cluster then.

        Servers that the user named and that do not answer stay a problem.
        """
        servers = self._watch.bootstrap_servers
        is_own = servers is not None and servers == self._run.bootstrap_servers
        return is_own and self._run.is_settled and self._watch.has_log

    def once(self) -> str | None:
        """One batch."""
        problem = self._batch()
        # If nobody writes the directory any more, everything has arrived.
        self.has_read_all = problem is None and (self.has_read_all or not self._run.goes_on)
        return problem

    def to_the_end(self) -> str | None:
        """Run batches until everything was read, the cluster is gone, a signal came, or nothing new arrives."""
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
