"""Clients in processes of their own: the harness says which records to send, and a process says what became of each.

A record counts as sent from the moment when the process was told to send it, since the process may die before it says
anything. A record that never gets an outcome becomes `info`. A second outcome, or an outcome of a record that the
process was not told to send, breaks the protocol.

`workload/transactions/` drives transactional producers of every client by the same rules: a call that timed out is
repeated, a transaction whose commit fails is aborted, and another producer replaces one whose abort fails.
"""

import time
from collections.abc import Callable, Mapping
from typing import Any

from confluent_kafka import KafkaError, KafkaException

from kafka_chaos.harness.experiment.lane_specs import LaneSpec
from kafka_chaos.harness.workload.client_process import EventHandler, ProcessStarter, ProtocolBreach, SupervisedProcess
from kafka_chaos.harness.workload.clients.defect_watch import ReadLine
from kafka_chaos.harness.workload.clients.following import Follower
from kafka_chaos.harness.workload.clients.produced import ProducedRows
from kafka_chaos.harness.workload.clients.recorded_producer import LaneProducer
from kafka_chaos.harness.workload.settings import LoadSettings

_COMMIT, _ABORT = "commit", "abort"
_MAX_UNANSWERED = 100_000
_LEAVE_TIMEOUT_S = 30.0


class ReportedError(KafkaError):
    """The error that a call to a `ProcessProducer` raises; its text begins with the error's name and a colon."""

    def name(self) -> str:
        """The error's name in the process's library."""
        return str(self.str()).partition(":")[0]


class ProcessProducer(LaneProducer, EventHandler):
    """A producer in a process of its own, which `start` starts.

    `read_line` takes the lines of its library's log that the process reports; without it, such a line is a breach.
    `flushes`: how often the process said that it has flushed.

    The producer is its own `client`: it has `confluent_kafka.Producer`'s methods for transactions, which raise
    `KafkaException` with a `ReportedError`. One thread calls these methods, another handles the process's answers.
    """

    role = "a producer"
    process: SupervisedProcess

    def __init__(self, start: ProcessStarter, rows: ProducedRows, *, read_line: ReadLine | None = None) -> None:
        super().__init__(rows)
        self.flushes = 0
        self._handle_outcome = rows.handle_outcome
        if read_line is not None:
            self._handle_log = read_line
        self._unfinished_order = ""  # Commit or abort, from when it is ordered until a call has returned.
        self._is_answered = False
        self._end_error: str | None = None
        self.process = start(self)
        self.client = self

    @property
    def unanswered(self) -> int:
        """The number of records without an outcome; 0 once the process has ended."""
        return 0 if self.process.has_ended.is_set() else len(self.rows.pending)

    @property
    def failed_for_good(self) -> str:
        """The problem of the process, because of which it gets no more records; empty if it has none."""
        return self.process.problem or ""

    def send(self, count: int) -> int:
        """Tell the process to send `count` records, or fewer if many have no outcome yet; returns how many."""
        count = min(count, _MAX_UNANSWERED - self.unanswered)
        if count <= 0 or self.process.has_ended.is_set():
            return 0
        first = self.rows.hand_out(count)
        if not self.process.order("produce", first_seq=first, count=count):
            self.rows.take_back(first)
            return 0
        return count

    def poll(self, timeout: float) -> None:
        """Wait for `timeout` seconds, or until the process ends; another thread handles the outcomes."""
        self.process.has_ended.wait(timeout)

    def _leave(self) -> None:
        """Let the process leave; a record left without an outcome is a problem."""
        if unanswered := self.unanswered:
            self.process.note_problem(f"{unanswered} of {self.sent} records never got an outcome")
        self.process.let_leave(_LEAVE_TIMEOUT_S)

    def abandon(self, *, open_transaction: bool) -> None:
        """Kill the process. This leaves an open transaction behind, so `open_transaction` is not used."""
        self.process.kill_quietly(_LEAVE_TIMEOUT_S)
        self.rows.write_rest()

    def _handle_flushed(self, **_: Any) -> None:
        if left := len(self.rows.pending):
            raise ProtocolBreach(f"said that it has flushed while {left} records had no outcome")
        self.flushes += 1

    def init_transactions(self, timeout: float) -> None:
        """Wait until the process is ready, at most `timeout` seconds."""
        self._await(lambda: self.process.is_ready, timeout)

    def begin_transaction(self) -> None:
        """Begin a transaction. An error of the process is raised when the transaction ends."""
        self.process.order("begin_transaction")

    def commit_transaction(self, timeout: float) -> None:
        """Commit, or go on waiting for the answer, at most `timeout` seconds."""
        self._end_transaction(_COMMIT, timeout)

    def abort_transaction(self, timeout: float) -> None:
        """Abort, or go on waiting for the answer, at most `timeout` seconds."""
        self._end_transaction(_ABORT, timeout)

    def _handle_transaction(self, did: str, error: str | None = None) -> None:
        """Handle the event `transaction`: the answer to the order `did`, commit or abort."""
        if did != self._unfinished_order or self._is_answered:
            raise ProtocolBreach(f"the end of a transaction, {did!r}, that nobody has asked for")
        if error is None and (left := self.unanswered):
            raise ProtocolBreach(f"said that a transaction has ended while {left} records had no outcome")
        self._end_error, self._is_answered = error, True

    def _end_transaction(self, order: str, timeout: float) -> None:
        # A call that repeats a timed-out call gives no second order: the first may have been answered since.
        if not self._unfinished_order:
            self._unfinished_order = order
            if not self.process.order(order):
                self._unfinished_order = ""
        self._await(lambda: self._is_answered, timeout)
        self._unfinished_order, self._is_answered = "", False
        if (problem := self._end_error) is not None:
            error = ReportedError(KafkaError._FAIL, problem, fatal=order == _ABORT, txn_requires_abort=order == _COMMIT)
            raise KafkaException(error)

    def _await(self, condition: Callable[[], bool], timeout: float) -> None:
        deadline = time.monotonic() + timeout
        while not condition():
            if self.process.has_ended.is_set() or self.failed_for_good:
                problem = f"lost: {self.process.problem or 'its process has ended'}"
                raise KafkaException(ReportedError(KafkaError._FATAL, problem, fatal=True))
            if time.monotonic() > deadline:
                raise KafkaException(ReportedError(KafkaError._TIMED_OUT, "_TIMED_OUT: no answer yet", retriable=True))
            time.sleep(0.005)


class ProcessConsumer(Follower, EventHandler):
    """A consumer in a process of its own. After each event `assigned`, it reads from the start, under a new `name`.

    With an isolation level, the event `at_end` reports positions: they are past markers and aborted records, too.
    """

    role = "a consumer"
    process: SupervisedProcess

    def __init__(self, start: ProcessStarter, lane: LaneSpec, load: LoadSettings, **options: Any) -> None:
        """`options`: further parameters of `Follower`."""
        super().__init__(lane, load, partitions=lane.partitions, **options)
        self._start = start
        self._start_process()

    def drain(self, end_offsets: Mapping[int, int], *, timeout: float) -> None:
        """Wait until all is read up to the end offsets, then let the process leave. To read past them is a problem."""
        super().drain(end_offsets, timeout=timeout)
        for partition, end in end_offsets.items():
            if (at := self.position[partition]) > end:
                self.note_problem(f"says that it stands beyond the end of partition {partition}: at {at} of {end}")
                break
        self.process.let_leave(_LEAVE_TIMEOUT_S)

    def may_read_more(self) -> bool:
        """Whether the consumer's process has not ended."""
        return not self.process.has_ended.is_set()

    def note_problem(self, problem: str) -> None:
        """Note a problem of the process; it is a problem of the lane, too."""
        self.process.note_problem(problem)

    def leave(self) -> None:
        """Let the process leave, and write the last rows."""
        self.process.let_leave(_LEAVE_TIMEOUT_S)
        self.close()

    def close(self) -> None:
        """Kill the process, if it has not ended, and write the last rows."""
        self.process.kill_quietly()
        self.end_assignment()

    def _start_process(self) -> None:
        """Start a process or, after a fault has killed one, the next, which reads from the start under a new `name`."""
        if self.process is not None:
            self.process.join()
        self.begin_assignment()
        self.process = self._start(self)
        self.process.after_fault = self._start_process

    def _handle_assigned(self, **_: Any) -> None:
        self.begin_assignment()

    def _handle_at_end(self, offsets: list[list[int]]) -> None:
        """Handle the event `at_end`: (partition, position) of the partitions whose position has changed."""
        if self._isolation is None:
            raise ProtocolBreach(f"{self.role} without an isolation level has no event 'at_end'")
        former = self.position
        for partition, at in offsets:
            if at < (before := former[partition]):
                raise ProtocolBreach(f"it stands at offset {at} of partition {partition}, and was at {before} before")
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
        columns: dict[str, Any] = {"partition": partition, "offset": offset, "producer_id": producer_id, "seq": seq}
        self._rows.handle_read(self.name, leader_epoch=leader_epoch, **columns)
        self._note_read(partition, offset)
