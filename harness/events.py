"""What happens in a run, as typed events on a bus; terminal, JSON lines and report only listen.

Times are nanoseconds of the machine's monotonic clock, the one that the histories use.
"""

from __future__ import annotations

import dataclasses
import json
import re
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Event:
    """Something that happened at `ts_ns`."""

    ts_ns: int = field(default_factory=time.monotonic_ns)

    def to_json(self) -> dict[str, Any]:
        """The line of events.jsonl: the fields, with `type` in snake case."""
        name = re.sub(r"(?<!^)(?=[A-Z])", "_", type(self).__name__).lower()
        return {"ts_ns": self.ts_ns, "type": name, **dataclasses.asdict(self)}


@dataclass(frozen=True, kw_only=True)
class RunStarted(Event):
    """A run was planned and predicted."""

    run_id: str
    experiment: str
    lanes: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Step(Event):
    """The run begins something that takes time; `text` completes "kafka-chaos is …"."""

    text: str


@dataclass(frozen=True, kw_only=True)
class ClusterReady(Event):
    """All servers serve."""

    seconds: float
    bootstrap_servers: str


@dataclass(frozen=True, kw_only=True)
class ClusterKept(Event):
    """The run failed and its cluster was left standing, as `--keep` asked."""

    run_id: str
    containers: tuple[str, ...]
    bootstrap_servers: str


@dataclass(frozen=True, kw_only=True)
class PhaseStarted(Event):
    """The load of a phase begins."""

    phase: str
    lanes: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class PhaseEnded(Event):
    """The load of a phase has ended and every record has an outcome."""

    phase: str


@dataclass(frozen=True, kw_only=True)
class Progress(Event):
    """Counts so far, per lane: sent, acknowledged, consumed."""

    counts: Mapping[str, tuple[int, int, int]]


@dataclass(frozen=True, kw_only=True)
class FaultRequested(Event):
    """A fault is about to be injected; `resolved` are the containers that held its target's role."""

    fault_id: str
    kind: str
    target: str
    resolved: tuple[str, ...]
    lanes: tuple[str, ...]
    parameters: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class FaultProven(Event):
    """The fault bit, as `evidence` shows."""

    fault_id: str
    evidence: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class FaultNotProven(Event):
    """Nothing showed that the fault bit."""

    fault_id: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class FaultHealed(Event):
    """The fault is mended."""

    fault_id: str


@dataclass(frozen=True, kw_only=True)
class LeaderChanged(Event):
    """Clients are told of another leader; None is nobody."""

    lane: str
    partition: int
    before: int | None
    leader: int | None


@dataclass(frozen=True, kw_only=True)
class IsrChanged(Event):
    """Clients are told of another ISR."""

    lane: str
    partition: int
    before: tuple[int, ...]
    isr: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class ControllerChanged(Event):
    """Clients are told of another controller."""

    before: int | None
    controller: int | None


@dataclass(frozen=True, kw_only=True)
class LogTruncated(Event):
    """A broker dropped the end of a replica's log, as its own log says."""

    broker: int
    lane: str
    partition: int
    offset: int
    reason: str


@dataclass(frozen=True, kw_only=True)
class LeaderElected(Event):
    """A broker became leader, as its own log says."""

    broker: int
    lane: str
    partition: int
    leader_epoch: int
    start_offset: int
    isr: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class ClientNotice(Event):
    """An error that a client reported and went on from."""

    text: str


@dataclass(frozen=True, kw_only=True)
class LaneJudged(Event):
    """The verdict of one lane; `found` counts the anomalies that were found."""

    lane: str
    verdict: str
    reasons: tuple[str, ...]
    produced: int
    acknowledged: int
    found: Mapping[str, int]


@dataclass(frozen=True, kw_only=True)
class RunEnded(Event):
    """The verdict is there, or the run failed."""

    verdict: str
    seconds: float


Listener = Callable[[Event], None]


class EventBus:
    """Hands each event to every listener, one at a time, from whichever thread emits it."""

    def __init__(self, *listeners: Listener) -> None:
        self._listeners = list(listeners)
        self._lock = threading.Lock()

    def add(self, listener: Listener) -> None:
        """Let another listener hear what comes from now on."""
        with self._lock:
            self._listeners.append(listener)

    def emit(self, event: Event) -> None:
        """Tell all listeners."""
        with self._lock:
            for listener in self._listeners:
                listener(event)


class EventFile:
    """Listener that writes events.jsonl, each line on disk as it happens."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("a", encoding="utf-8")

    def __call__(self, event: Event) -> None:
        """Append the event."""
        self._file.write(json.dumps(event.to_json()) + "\n")
        self._file.flush()

    def close(self) -> None:
        """Close the file."""
        self._file.close()
