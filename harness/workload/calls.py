"""Emits an event for each call of a client that takes long or fails for good: when the call began, and when it ended.

A client that hangs in a call sends no records, so no late record shows that it hangs. So callers say when each call
begins and ends. Once a call has taken a second, an event is emitted: events.jsonl has the call even if it never ends or
the harness dies. Its end emits another event. A shorter call emits an event only if it fails for good.
"""

import itertools
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from kafka_chaos.contract.events import CallNoted
from kafka_chaos.harness.workload.worker import Worker

_LONG_S = 1.0


class Calls:
    """The calls of all clients of a load; `emit` gets the events. Calls of `seconds` or more are long. Thread-safe."""

    def __init__(self, emit: Callable[[CallNoted], None] = lambda event: None, *, seconds: float = _LONG_S) -> None:
        self._emit = emit
        self._long_ns = seconds * 1e9
        self._numbers = itertools.count()
        self._unended: dict[int, CallNoted] = {}
        self._emitted: set[int] = set()
        self._worker = Worker(self._watch, name="long-calls")

    def start(self) -> None:
        """Watch for calls that take long."""
        self._worker.start()

    def close(self) -> None:
        """End the watch, after an event for each long call that has not ended by now."""
        self._worker.end()
        self._worker.raise_error()

    def note_begin(self, lane: str, client: str, call: str) -> int:
        """Note that a client begins a `call`, one of `contract.lane.recovery.CALLS`; returns its number, for `ends`."""
        number = next(self._numbers)
        self._unended[number] = CallNoted(lane=lane, client=client, call=call, began_ns=time.monotonic_ns())
        return number

    def note_end(self, number: int, error: str | None = None) -> None:
        """Note the end of the call: by an answer, the client's death, or an `error` after which the client gives up."""
        call, now = self._unended.pop(number), time.monotonic_ns()
        if now - call.began_ns >= self._long_ns or error is not None:
            self._emit(replace(call, ts_ns=now, ended_ns=now, error=error))

    @contextmanager
    def awaiting(self, lane: str, client: str, call: str) -> Iterator[None]:
        """A context manager whose block makes the call: whatever the block raises counts as an answer."""
        number = self.note_begin(lane, client, call)
        try:
            yield
        finally:
            self.note_end(number)

    def _watch(self) -> None:
        is_over = False
        while not is_over:
            is_over = self._worker.ending.wait(0.25)
            now = time.monotonic_ns()
            for number, call in list(self._unended.items()):
                if number not in self._emitted and now - call.began_ns >= self._long_ns:
                    self._emitted.add(number)
                    self._emit(replace(call, ts_ns=now))
