"""Notes the calls of clients that take long: when each began, and when its answer came.

A client that hangs in a call sends no records, so no late record shows that it hangs. Whoever calls a client says when
a call begins and ends. Once a call takes a second, an event is emitted, so that a call without an answer is in
events.jsonl even if the harness dies. Another event follows when the call ends. Short calls leave no trace.
"""

import itertools
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from kafka_chaos.contract.events import CallNoted
from kafka_chaos.harness.workload.worker import Worker

_LONG_S = 1.0
_CHECK_INTERVAL_S = 0.25


class Calls:
    """The calls of all clients of a load; `note` gets an event for each that takes `seconds`. Threads may share it."""

    def __init__(self, note: Callable[[CallNoted], None] = lambda event: None, *, seconds: float = _LONG_S) -> None:
        self._note = note
        self._long_ns = seconds * 1e9
        self._numbers = itertools.count()
        self._open: dict[int, CallNoted] = {}
        self._told: set[int] = set()
        self._worker = Worker(self._watch, name="long-calls")

    def start(self) -> None:
        """Watch for calls without an answer."""
        self._worker.start()

    def close(self) -> None:
        """End the watch, after an event for each long call that has no answer by now."""
        self._worker.end()
        self._tell_open()
        self._worker.raise_error()

    def begins(self, lane: str, client: str, call: str) -> int:
        """Note that a client of the lane makes a `call`, one of `CALLS`; returns the call's number, for `ends`."""
        number = next(self._numbers)
        self._open[number] = CallNoted(lane=lane, client=client, call=call, began_ns=time.monotonic_ns())
        return number

    def ends(self, number: int, error: str | None = None) -> None:
        """Note that the call has an answer, an `error` or not; the death of the client is an answer, too."""
        call, now = self._open.pop(number), time.monotonic_ns()
        if now - call.began_ns >= self._long_ns or error is not None:
            self._note(replace(call, ts_ns=now, ended_ns=now, error=error))

    @contextmanager
    def awaiting(self, lane: str, client: str, call: str) -> Iterator[None]:
        """A context manager whose block makes the call: an error that it raises is an answer, too."""
        number = self.begins(lane, client, call)
        try:
            yield
        finally:
            self.ends(number)

    def _watch(self) -> None:
        while not self._worker.ending.wait(_CHECK_INTERVAL_S):
            self._tell_open()

    def _tell_open(self) -> None:
        now = time.monotonic_ns()
        for number, call in list(self._open.items()):
            if number not in self._told and now - call.began_ns >= self._long_ns:
                self._told.add(number)
                self._note(replace(call, ts_ns=now))
