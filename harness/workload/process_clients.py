"""Clients in processes of their own: the harness says which records to send, and a process says what became of each.

A record counts as sent from the moment when the process was told to send it, since the process may die before it says
anything. A record without an outcome becomes `info`. An outcome of a record that was not to be sent, or a second
outcome, breaks the protocol.

`workload/transactions/` drives transactional producers of every client by the same rules: a call that timed out is
repeated, a transaction whose commit fails is aborted, and a producer whose abort fails is lost.
"""

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from confluent_kafka import KafkaError, KafkaException

from kafka_chaos.harness.experiment.lane_specs import LaneSpec
from kafka_chaos.harness.workload.client_process import EventHandler, ProtocolBreach, Start, SupervisedProcess
from kafka_chaos.harness.workload.clients.defect_watch import Watch
from kafka_chaos.harness.workload.clients.following import Follower
from kafka_chaos.harness.workload.clients.produced import ProducedRows
from kafka_chaos.harness.workload.clients.recorded_producer import LaneProducer
from kafka_chaos.harness.workload.settings import LoadSettings

_TICK = 0.005
_COMMIT, _ABORT = "commit", "abort"
_MAX_UNANSWERED = 100_000
_LEAVE_TIMEOUT_S = 10.0


class ReportedError(KafkaError):
    """The error that a process reported for a call; its text begins with the error's name and a colon."""

    def name(self) -> str:
        """The error's name in the process's library."""
        return str(self.str()).partition(":")[0]


class ProcessClient(EventHandler):
    """A producer or a consumer that runs in a `process` of its own, and handles the events of that process."""

    process: SupervisedProcess

    def __init__(self) -> None:
        self._has_ended = threading.Event()

    def note_problem(self, problem: str) -> None:
        """Note a problem of the process."""
        self.process.note_problem(problem)

    def ends(self) -> None:
        """Learn that the process has ended."""
        self._has_ended.set()


class ProcessProducer(ProcessClient, LaneProducer):
    """A producer in a process of its own, which `start` starts.

    `watch` reads the log lines that the process tells; without a watch, a log line breaks the protocol.
    `flushed`: how often the process said that it has flushed.

    It has the methods that `confluent_kafka.Producer` has for transactions, and so can be its own `client`. One thread
    calls them, another passes the process's answers. They raise `KafkaException` with a `ReportedError`.
    """

    role = "a producer"

    def __init__(self, start: Start, rows: ProducedRows, *, watch: Watch | None = None) -> None:
        ProcessClient.__init__(self)
        LaneProducer.__init__(self, rows)
        self.flushed = 0
        self.handlers = {"outcome": rows.handle_outcome, "flushed": self._handle_flushed}
        self.handlers["transaction"] = self._handle_transaction
        if watch is not None:
            self.handlers["log"] = watch.reads
        self._awaited_end = ""  # The order that ends the transaction, from when it is given until its answer is taken.
        self._is_answered = False
        self._end_error: str | None = None
        self.process = start(self)
        self.client = self

    @property
    def unanswered(self) -> int:
        """The number of records without an outcome; 0 once the process has ended."""
        return 0 if self._has_ended.is_set() else len(self.rows.pending)

    @property
    def failed_for_good(self) -> str:
        """The problem of the process, because of which it gets no more records; empty if it has none."""
        return self.process.problem or ""

    def send(self, count: int) -> int:
        """Tell the process to send up to `count` records, fewer if many have no outcome yet; returns how many."""
        count = min(count, _MAX_UNANSWERED - self.unanswered)
        if count <= 0 or self._has_ended.is_set():
            return 0
        first = self.rows.hand_out(count)
        if not self.process.order("produce", first_seq=first, count=count):
            self.rows.take_back(first)
            return 0
        return count

    def poll(self, timeout: float) -> int:
        """Wait for `timeout` seconds, or until the process ends: another thread handles its outcomes."""
        self._has_ended.wait(timeout)
        return 0

    def _close_client(self, *, at_once: bool) -> None:
        """Let the process end. If it leaves records without an outcome, it has a problem."""
        unanswered = self.unanswered
        if unanswered and not at_once:
            self.note_problem(f"{unanswered} of {self.sent} records never got an outcome")
        self.process.end_in_order(0.0 if at_once else _LEAVE_TIMEOUT_S)

    def _kill_client(self, *, open_transaction: bool) -> None:
        self.process.end()

    def _handle_flushed(self, **_: Any) -> None:
        if left := len(self.rows.pending):
            raise ProtocolBreach(f"said that it has flushed while {left} records had no outcome")
        self.flushed += 1

    def init_transactions(self, timeout: float) -> None:
        """Wait until the process is ready, at most `timeout` seconds."""
        self._await(lambda: self.process.is_ready, timeout)

    def begin_transaction(self) -> None:
        """Begin a transaction. An error of the process is raised when the transaction ends."""
        self.process.order("begin_transaction")

    def commit_transaction(self, timeout: float) -> None:
        """Commit, or go on waiting for the answer, at most `timeout` seconds."""
        self._end(_COMMIT, timeout)

    def abort_transaction(self, timeout: float) -> None:
        """Abort, or go on waiting for the answer, at most `timeout` seconds."""
        self._end(_ABORT, timeout)

    def _handle_transaction(self, did: str, error: str | None = None) -> None:
        """Handle the event `transaction`: the answer to the order `did`, commit or abort."""
        if did != self._awaited_end or self._is_answered:
            raise ProtocolBreach(f"the end of a transaction, {did!r}, that nobody has asked for")
        if error is None and (left := self.unanswered):
            raise ProtocolBreach(f"said that a transaction has ended while {left} records had no outcome")
        self._end_error, self._is_answered = error, True

    def _end(self, order: str, timeout: float) -> None:
        # A call that timed out is repeated: the order was given already, and its answer may have come since.
        if not self._awaited_end:
            self._awaited_end = order
            if not self.process.order(order):
                self._awaited_end = ""
        self._await(lambda: self._is_answered, timeout)
        self._awaited_end, self._is_answered = "", False
        if self._end_error is not None:
            is_fatal, needs_abort = order == _ABORT, order == _COMMIT
            raise KafkaException(ReportedError(KafkaError._FAIL, self._end_error, is_fatal, False, needs_abort))

    def _await(self, condition: Callable[[], bool], timeout: float) -> None:
        deadline = time.monotonic() + timeout
        while not condition():
            if self._has_ended.is_set() or self.failed_for_good:
                problem = f"lost: {self.process.problem or 'its process has ended'}"
                raise KafkaException(ReportedError(KafkaError._FATAL, problem, True))
            if time.monotonic() > deadline:
                raise KafkaException(ReportedError(KafkaError._TIMED_OUT, "_TIMED_OUT: no answer yet", False, True))
            time.sleep(_TICK)


class ProcessConsumer(ProcessClient, Follower):
    """A consumer in a process of its own. With each event `assigned`, it reads anew from the start, under a new name.

    With an isolation level, the event `at_end` tells its positions, which are past records that no consumer is given.
    """

    role = "a consumer"

    def __init__(self, start: Start, lane: LaneSpec, load: LoadSettings, **options: Any) -> None:
        """`options`: further parameters of `Follower`."""
        ProcessClient.__init__(self)
        Follower.__init__(self, lane, load, partitions=lane.partitions, **options)
        self.handlers = {"read": self._handle_read, "assigned": lambda **_: self.begin_assignment()}
        if self._isolation is not None:
            self.handlers["at_end"] = self._handle_at_end
        self._start = start
        self.begin_assignment()
        self._start_process()

    def drain(self, end_offsets: Mapping[int, int], *, timeout: float, cancelled: threading.Event) -> None:
        """Wait until all is read up to the end offsets, then let the process leave. To be past them is a problem."""
        super().drain(end_offsets, timeout=timeout, cancelled=cancelled)
        for partition, end in end_offsets.items():
            if (at := self.position[partition]) > end:
                self.note_problem(f"says that it stands beyond the end of partition {partition}: at {at} of {end}")
                break
        self.process.end_in_order(_LEAVE_TIMEOUT_S)

    def may_read_more(self) -> bool:
        """Whether its process has not ended."""
        return not self._has_ended.is_set()

    def leave(self) -> None:
        """Let the process end in order, and write the last rows."""
        self.process.end_in_order(_LEAVE_TIMEOUT_S)
        self.end_assignment()

    def close(self) -> None:
        """Kill the process, if it has not ended, and write the last rows."""
        self.process.end()
        self.end_assignment()

    def processes(self) -> list[SupervisedProcess]:
        """The consumer's process, for faults to hit."""
        return [self.process]

    def _start_process(self) -> None:
        self.process = self._start(self)
        self.process.after_fault = self._replace_process

    def _replace_process(self) -> None:
        """Start another process, since a fault has killed this one: it reads from the start under a new name."""
        self.process.join()
        self.begin_assignment()
        self._has_ended.clear()
        self._start_process()

    def _handle_at_end(self, offsets: list[list[int]]) -> None:
        """Handle the event `at_end`: (partition, position) of the partitions whose position has changed."""
        position = self.position
        for partition, at in offsets:
            if position[partition] > at:
                raise ProtocolBreach(f"it stands at offset {at}, and has read up to {position[partition]}")
        self._rows.note_positions(offsets)

    def _handle_read(
        self,
        partition: list[int],
        offset: list[int],
        producer_id: list[int],
        seq: list[int],
        leader_epoch: list[int | None] | None = None,
    ) -> None:
        if unknown := set(partition) - self.position.keys():
            raise ProtocolBreach(f"there is no partition {min(unknown)}")
        read: dict[str, Any] = {"partition": partition, "offset": offset, "producer_id": producer_id, "seq": seq}
        self._rows.handle_read(self.name, leader_epoch=leader_epoch, **read)
        self._note_read(partition, offset)
