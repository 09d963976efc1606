"""Follows a run batch by batch, until it has ended or the user ends the watch, and an unfinished run by its
events.jsonl: the cluster's address, the progress of its load, and its end.

Each batch is a separate streaming query that reads what exists by then. So a watch ends between two batches, never
within one, and the state holds everything that a batch has read. Of events.jsonl, only what was appended since the last
call is read, and never an incomplete line.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from kafka_chaos.contract import events
from kafka_chaos.contract.command.errors import UsageFailure
from kafka_chaos.contract.event_lines import event_of
from kafka_chaos.contract.run_directory import EVENTS_FILE, LANES_FILE
from kafka_chaos.verification.inputs.documents.reading import parsed
from kafka_chaos.verification.inputs.file_systems.storage import RunPath, open_binary

if TYPE_CHECKING:
    from kafka_chaos.verification.watch.watch import Watch

_READ = (
    *(events.RunStarted, events.ClusterReady, events.PhaseStarted, events.Progress, events.PhaseEnded),
    events.RunEnded,
)


@dataclass(slots=True)
class RunningRun:
    """The run in `path`; `look` brings it up to date.

    `has_started`: its events report the start. `is_loaded`: a load has begun. `counts`: the run's own counts of sent,
    acknowledged and consumed records by lane. `client_config`: the file with the client settings of its cluster, or
    empty.
    """

    path: RunPath
    has_started: bool = False
    bootstrap_servers: str | None = None
    client_config: str = ""
    is_loaded: bool = False
    has_ended: bool = False
    counts: dict[str, tuple[int, int, int]] = field(default_factory=dict)
    _lanes: frozenset[str] = frozenset()
    _settled: set[str] = field(default_factory=set)
    _lanes_of: dict[str, set[str]] = field(default_factory=dict)
    _position: int = 0

    @property
    def is_settled(self) -> bool:
        """Whether every lane's load has ended and every record has an outcome."""
        return self.has_ended or (bool(self._lanes) and self._settled >= self._lanes)

    @property
    def goes_on(self) -> bool:
        """Whether it has started and not ended according to its events. A killed run writes no end."""
        return self.has_started and not self.has_ended

    def look(self) -> RunningRun:
        """Read the events that were added since."""
        path = self.path / EVENTS_FILE
        if not path.is_file():
            return self
        with open_binary(path) as file:
            file.seek(self._position)
            for line in file:
                if not line.endswith(b"\n"):
                    break
                self._position += len(line)
                self._take(line)
        return self

    def _take(self, line: bytes) -> None:
        try:
            match event := event_of(parsed(line), _READ):
                case events.RunStarted():
                    self.has_started, self._lanes = True, frozenset(event.lanes)
                case events.ClusterReady():
                    self.bootstrap_servers, self.client_config = event.bootstrap_servers, event.client_config
                case events.PhaseStarted():
                    self.is_loaded = True
                    self._lanes_of[event.phase] = set(event.lanes or self._lanes)
                case events.Progress():
                    self.counts.update(event.counts)
                case events.PhaseEnded():
                    self._settled |= self._lanes_of.get(event.phase, set())
                case events.RunEnded():
                    self.has_ended = True
        except (ValueError, AttributeError) as error:
            raise UsageFailure(f"{self.path / EVENTS_FILE}: not an event: {error!r}") from error


def find_run(given: RunPath) -> RunningRun:
    """The run directory `given`, or the newest unfinished run in a local folder of run directories."""
    if (given / LANES_FILE).exists() or (given / EVENTS_FILE).exists():
        # `latest` is a link: the stream that a watch goes on with knows its files by their paths.
        return RunningRun(given.resolve() if isinstance(given, Path) else given).look()
    local = given.glob("*") if isinstance(given, Path) else ()
    found = [path for path in local if (path / EVENTS_FILE).is_file() and not path.is_symlink()]
    for path in sorted(found, key=lambda path: (path / EVENTS_FILE).stat().st_mtime, reverse=True):
        run = RunningRun(path.resolve()).look()
        if run.goes_on:
            return run
    raise UsageFailure(
        f"{given}: it has no {LANES_FILE}, so it is not a run directory, and no unfinished run is in it: "
        "start a run, or name one"
    )


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
