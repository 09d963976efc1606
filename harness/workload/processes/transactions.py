"""The transactions of a producer in a process of its own, with the calls of librdkafka's producer.

So the rules of `transactions/producer.py` hold for every client: what timed out is asked again, a commit that fails is
aborted, and a producer whose abort fails is lost.
"""

import time
from collections.abc import Callable

from confluent_kafka import KafkaError, KafkaException

from kafka_chaos.harness.workload.clients.produced import ProtocolBreach
from kafka_chaos.harness.workload.processes.supervisor import SupervisedProcess

_TICK = 0.005
_COMMIT, _ABORT = "commit", "abort"


class ReportedError(KafkaError):
    """A client's report of a call that did not succeed; its first word is the error's name."""

    def name(self) -> str:
        """The error's class in its library."""
        return str(self.str()).partition(":")[0]


class ProcessTransactions:
    """Orders a producer's process to begin and end transactions; one thread calls it, another one passes the answers.

    `unanswered`: how many records have no outcome yet, which `len` returns. `may_answer`: whether the process can still
    say anything. Calls raise `KafkaException` with a `ReportedError`.
    """

    def __init__(
        self, process: SupervisedProcess, unanswered: Callable[[], int], may_answer: Callable[[], bool]
    ) -> None:
        self._process = process
        self._unanswered = unanswered
        self._may_answer = may_answer
        self._asked = ""
        self._has_answered = False
        self._said: str | None = None

    def __len__(self) -> int:
        return self._unanswered()

    def init_transactions(self, timeout: float) -> None:
        """Wait until the process is ready, at most `timeout` seconds."""
        self._await(lambda: self._process.is_ready, timeout)

    def begin_transaction(self) -> None:
        """Begin a transaction. An error of that is raised when the transaction ends."""
        self._process.order("begin_transaction")

    def commit_transaction(self, timeout: float) -> None:
        """Commit, or go on waiting for the answer, at most `timeout` seconds."""
        self._end(_COMMIT, timeout)

    def abort_transaction(self, timeout: float) -> None:
        """Abort, or go on waiting for the answer, at most `timeout` seconds."""
        self._end(_ABORT, timeout)

    def answers(self, did: str, error: str | None = None) -> None:
        """Take the process's event `transaction`; `did` is what it says to have done. Raises `ProtocolBreach`."""
        if did != self._asked or self._has_answered:
            raise ProtocolBreach(f"the end of a transaction, {did!r}, that nobody has asked for")
        if error is None and (left := self._unanswered()):
            raise ProtocolBreach(f"said that a transaction has ended while {left} records had no outcome")
        self._said, self._has_answered = error, True

    def _end(self, what: str, timeout: float) -> None:
        if not self._asked:
            self._asked = what
            if not self._process.order(what):
                self._asked = ""
        # An earlier call may have timed out, and its answer come since.
        self._await(lambda: self._has_answered, timeout)
        self._asked, self._has_answered = "", False
        if self._said is not None:
            is_fatal, needs_abort = what == _ABORT, what == _COMMIT
            raise KafkaException(ReportedError(KafkaError._FAIL, self._said, is_fatal, False, needs_abort))

    def _await(self, holds: Callable[[], bool], timeout: float) -> None:
        deadline = time.monotonic() + timeout
        while not holds():
            if not self._may_answer():
                problem = f"lost: {self._process.problem or 'its process has ended'}"
                raise KafkaException(ReportedError(KafkaError._FATAL, problem, True))
            if time.monotonic() > deadline:
                raise KafkaException(ReportedError(KafkaError._TIMED_OUT, "_TIMED_OUT: no answer yet", False, True))
            time.sleep(_TICK)
