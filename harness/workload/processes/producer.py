"""A producer in a process of its own: the harness hands out identities, and the process says what became of each.

A record counts as sent from the moment it is handed out: the process may die before it says anything. Then the record
is `info`, as is every one without an outcome. An outcome of a record that was never handed out, or a second one, breaks
the protocol.
"""

import threading
from collections.abc import Callable
from typing import Any

from kafka_chaos.harness.workload.clients.defect_watch import Watch
from kafka_chaos.harness.workload.clients.produced import ProducedRows, ProtocolBreach, take_outcome
from kafka_chaos.harness.workload.clients.producers import LaneProducer
from kafka_chaos.harness.workload.processes.supervisor import SupervisedProcess, Taker
from kafka_chaos.harness.workload.processes.transactions import ProcessTransactions

_MOST_UNANSWERED = 100_000
_LEAVES_WITHIN = 10.0

Start = Callable[[Taker], SupervisedProcess]
"""Starts a process whose events this taker gets."""


class ProcessProducer(LaneProducer):
    """A producer in a process of its own, which `start` starts.

    `failed_for_good`: why it is given no more records. `watch` reads the lines of its log that it tells of; without,
    telling of any breaks the protocol.
    """

    def __init__(self, start: Start, rows: ProducedRows, *, watch: Watch | None = None) -> None:
        super().__init__(rows)
        self.flushed = 0
        self._watch = watch
        self._has_ended = threading.Event()
        self.process = start(self)
        self.client = ProcessTransactions(self.process, lambda: self.unanswered, self._may_answer)

    @property
    def unanswered(self) -> int:
        """The same."""
        return 0 if self._has_ended.is_set() else self.rows.sent - self.rows.answered

    @property
    def failed_for_good(self) -> str:
        """The same."""
        return self.process.problem or ""

    def breaks(self, problem: str) -> None:
        """Something is wrong with it."""
        self.process.breaks(problem)

    def send(self, count: int) -> int:
        """Hand out up to `count` records, fewer if many are without an outcome. Returns how many."""
        count = min(count, _MOST_UNANSWERED - self.unanswered)
        if count <= 0 or self._has_ended.is_set():
            return 0
        first = self.rows.hand_out(count)
        if not self.process.order("produce", first_seq=first, count=count):
            self.rows.take_back(first)
            return 0
        return count

    def poll(self, timeout: float) -> int:
        """Wait for `timeout` seconds: outcomes come by themselves."""
        self._has_ended.wait(timeout)
        return 0

    def _leaves(self, *, at_once: bool) -> int:
        """The process ends. One that leaves records without an outcome has a problem."""
        silent = self.unanswered
        if silent and not at_once:
            self.breaks(f"{silent} of {self.sent} records never got an outcome")
        self.process.leaves(0.0 if at_once else _LEAVES_WITHIN)
        return 0

    def _dies(self, *, open_transaction: bool) -> int:
        self.process.kill()
        self.process.join()
        return 0

    def takes(self, kind: str, values: dict[str, Any]) -> None:
        """Take an event; see `Taker`."""
        if kind == "outcome":
            take_outcome(self.rows, **values)
        elif kind == "flushed":
            if left := self.rows.sent - self.rows.answered:
                raise ProtocolBreach(f"said that it has flushed while {left} records had no outcome")
            self.flushed += 1
        elif kind == "transaction":
            self.client.answers(**values)
        elif kind == "log" and self._watch is not None:
            self._watch.reads(**values)
        else:
            raise ProtocolBreach(f"a producer has no event {kind!r}")

    def _may_answer(self) -> bool:
        return not (self._has_ended.is_set() or self.failed_for_good)

    def ends(self) -> None:
        """The process has ended."""
        self._has_ended.set()
