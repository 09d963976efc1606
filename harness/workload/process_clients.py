"""Clients in processes of their own: the harness says which records to send, and a process says what became of each.

A record counts as sent from the moment when the process was told to send it: the process may die before it says
anything. Every record without an outcome is `info`. An outcome of a record that was not to be sent, or a second
outcome, breaks the protocol.

The rules of `workload/transactions/` hold for the producers of every client: a call that timed out is repeated, a
transaction whose commit fails is aborted, and a producer whose abort fails is lost.
"""

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from confluent_kafka import KafkaError, KafkaException

from kafka_chaos.harness.experiment.lane_specs import LaneSpec
from kafka_chaos.harness.workload.client_process import ProtocolBreach, Start, SupervisedProcess, Taker
from kafka_chaos.harness.workload.clients.defect_watch import Watch
from kafka_chaos.harness.workload.clients.following import Follower
from kafka_chaos.harness.workload.clients.produced import ProducedRows
from kafka_chaos.harness.workload.clients.recorded_producer import LaneProducer
from kafka_chaos.harness.workload.settings import LoadSettings

_TICK = 0.005
_COMMIT, _ABORT = "commit", "abort"
_MOST_UNANSWERED = 100_000
_LEAVES_WITHIN = 10.0


class ReportedError(KafkaError):
    """What a process said of a call that did not succeed; the first word is the error's name."""

    def name(self) -> str:
        """The error's class in its library."""
        return str(self.str()).partition(":")[0]


class ProcessClient(Taker):
    """What a producer and a consumer have in common that run in a `process` of their own."""

    process: SupervisedProcess

    def __init__(self) -> None:
        self._has_ended = threading.Event()

    def breaks(self, problem: str) -> None:
        """Give the process this problem."""
        self.process.breaks(problem)

    def ends(self) -> None:
        """The process has ended."""
        self._has_ended.set()


class ProcessProducer(ProcessClient, LaneProducer):
    """A producer in a process of its own, which `start` starts.

    `watch` reads the lines of its log that the process tells; without a watch, a line of a log breaks the protocol.
    `flushed`: how often the process said that it has flushed.

    As its own `client`, it has the methods that `confluent_kafka.Producer` has for transactions. One thread calls them,
    another passes the process's answers. They raise `KafkaException` with a `ReportedError`.
    """

    what = "a producer"

    def __init__(self, start: Start, rows: ProducedRows, *, watch: Watch | None = None) -> None:
        ProcessClient.__init__(self)
        LaneProducer.__init__(self, rows)
        self.flushed = 0
        self.takers = {"outcome": rows.takes_outcomes, "flushed": self._flushes, "transaction": self._answers}
        if watch is not None:
            self.takers["log"] = watch.reads
        self._asked = ""
        self._has_answered = False
        self._said: str | None = None
        self.process = start(self)
        self.client = self

    @property
    def unanswered(self) -> int:
        """The number of records without an outcome; 0 once the process has ended."""
        return 0 if self._has_ended.is_set() else len(self.rows.pending)

    @property
    def failed_for_good(self) -> str:
        """The problem of the process, with which it is given no more records; empty without."""
        return self.process.problem or ""

    def send(self, count: int) -> int:
        """Tell the process to send up to `count` records, fewer if many have no outcome yet; returns how many."""
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

    def _leaves(self, *, at_once: bool) -> None:
        """Let the process end. If it leaves records without an outcome, it has a problem."""
        silent = self.unanswered
        if silent and not at_once:
            self.breaks(f"{silent} of {self.sent} records never got an outcome")
        self.process.leaves(0.0 if at_once else _LEAVES_WITHIN)

    def _dies(self, *, open_transaction: bool) -> None:
        self.process.end()

    def _flushes(self, **_: Any) -> None:
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

    def _answers(self, did: str, error: str | None = None) -> None:
        """Take the process's event `transaction`: it `did` commit or abort."""
        if did != self._asked or self._has_answered:
            raise ProtocolBreach(f"the end of a transaction, {did!r}, that nobody has asked for")
        if error is None and (left := self.unanswered):
            raise ProtocolBreach(f"said that a transaction has ended while {left} records had no outcome")
        self._said, self._has_answered = error, True

    def _end(self, what: str, timeout: float) -> None:
        if not self._asked:
            self._asked = what
            if not self.process.order(what):
                self._asked = ""
        # An earlier call may have timed out, and its answer may have come since.
        self._await(lambda: self._has_answered, timeout)
        self._asked, self._has_answered = "", False
        if self._said is not None:
            is_fatal, needs_abort = what == _ABORT, what == _COMMIT
            raise KafkaException(ReportedError(KafkaError._FAIL, self._said, is_fatal, False, needs_abort))

    def _await(self, holds: Callable[[], bool], timeout: float) -> None:
        deadline = time.monotonic() + timeout
        while not holds():
            if self._has_ended.is_set() or self.failed_for_good:
                problem = f"lost: {self.process.problem or 'its process has ended'}"
                raise KafkaException(ReportedError(KafkaError._FATAL, problem, True))
            if time.monotonic() > deadline:
                raise KafkaException(ReportedError(KafkaError._TIMED_OUT, "_TIMED_OUT: no answer yet", False, True))
            time.sleep(_TICK)


class ProcessConsumer(ProcessClient, Follower):
    """A consumer in a process of its own. With each event `assigned`, it reads from the start, under a new name.

    With an isolation level, the event `at_end` says how far the process has come, past records that it is not given.
    """

    what = "a consumer"

    def __init__(self, start: Start, lane: LaneSpec, load: LoadSettings, **options: Any) -> None:
        """`options`: the further ones of a `Follower`."""
        ProcessClient.__init__(self)
        Follower.__init__(self, lane, load, partitions=lane.partitions, **options)
        self.takers = {"read": self._read, "assigned": lambda **_: self.begins()}
        if self._isolation is not None:
            self.takers["at_end"] = self._stands
        self._start = start
        self.begins()
        self._start_process()

    def drain(self, end_offsets: Mapping[int, int], *, timeout: float, cancelled: threading.Event) -> None:
        """Wait for the end as other readers do; then the process leaves. A position beyond the end is a problem."""
        super().drain(end_offsets, timeout=timeout, cancelled=cancelled)
        for number, end in end_offsets.items():
            if (at := self.position[number]) > end:
                self.process.breaks(f"says that it stands beyond the end of partition {number}: at {at} of {end}")
                break
        self.process.leaves(_LEAVES_WITHIN)

    def goes_on(self) -> bool:
        """Whether its process has not ended."""
        return not self._has_ended.is_set()

    def leave(self) -> None:
        """Let the process end in order, and write the last rows."""
        self.process.leaves(_LEAVES_WITHIN)
        self.ended()

    def close(self) -> None:
        """Kill the process, if it has not ended, and write the last rows."""
        self.process.end()
        self.ended()

    def processes(self) -> list[SupervisedProcess]:
        """The consumer's process, for faults to hit."""
        return [self.process]

    def _start_process(self) -> None:
        self.process = self._start(self)
        self.process.rises = self._rises

    def _rises(self) -> None:
        """Start another process in place of one that a fault has ended: it reads from the start under a new name."""
        self.process.join()
        self.begins()
        self._has_ended.clear()
        self._start_process()

    def _stands(self, offsets: list[list[int]]) -> None:
        position = self.position
        for number, at in offsets:
            if not position[number] <= at:
                raise ProtocolBreach(f"it stands at offset {at}, and has read up to {position[number]}")
        self._rows.reaches(offsets)

    def _read(
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
        self._rows.takes_reads(self.name, leader_epoch=leader_epoch, **read)
        self._have_read(partition, offset)
