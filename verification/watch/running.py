"""Follows an unfinished run by its events.jsonl: the cluster's address, the progress of its load, and its end.

Guarantee: reads only what was appended since the last call, and never an incomplete line.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from kafka_chaos.contract import events
from kafka_chaos.contract.errors import UsageFailure
from kafka_chaos.contract.event_lines import event_of
from kafka_chaos.contract.run_directory import EVENTS_FILE, LANES_FILE
from kafka_chaos.verification.inputs.documents.reading import parsed
from kafka_chaos.verification.inputs.file_systems.storage import RunPath, open_binary

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
