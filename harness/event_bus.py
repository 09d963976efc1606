"""Passes a run's events to its listeners, such as the terminal, a JUnit XML file, and the `EventFile` below."""

import json
import threading
from collections.abc import Callable
from pathlib import Path

from kafka_chaos.contract.events import Event

Listener = Callable[[Event], None]


class EventBus:
    """Passes each event to every listener, one event at a time, in the thread that emits it."""

    def __init__(self, *listeners: Listener) -> None:
        self._listeners = list(listeners)
        self._lock = threading.Lock()

    def add(self, listener: Listener) -> None:
        """Add a listener for all later events."""
        with self._lock:
            self._listeners.append(listener)

    def emit(self, event: Event) -> None:
        """Pass the event to all listeners."""
        with self._lock:
            for listener in self._listeners:
                listener(event)


class EventFile:
    """A listener that appends each event to a file, such as events.jsonl, as one line of JSON, and flushes the file."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("a", encoding="utf-8")

    def __call__(self, event: Event) -> None:
        """Append the event."""
        self._file.write(json.dumps(event.to_json()) + "\n")
        self._file.flush()

    def close(self) -> None:
        """Close the file."""
        self._file.close()
