"""A stand-in for confluent-kafka's transactional producer: a test says which call fails, how often and with what."""

import time
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

from confluent_kafka import KafkaError, KafkaException

TIMED_OUT = KafkaError(KafkaError._TIMED_OUT, "not yet", retriable=True)
ABORTABLE = KafkaError(KafkaError._MSG_TIMED_OUT, "a record timed out", txn_requires_abort=True)
FENCED = KafkaError(KafkaError._FENCED, "fenced", fatal=True)


class FakeProducer:
    """Acknowledges every record at once, at increasing offsets, unless `silent`.

    `failures` maps names of calls to the errors that they raise, one per call, before they succeed. `calls` lists what
    was called, and `log` the events of all producers that share it.
    """

    def __init__(
        self, configs: Mapping[str, object], failures: Mapping[str, list[KafkaError]], log: list[str], *, silent: bool
    ) -> None:
        self.id = configs.get("transactional.id")
        self.configs = dict(configs)
        self.failures = {name: list(errors) for name, errors in failures.items()}
        self.calls: list[str] = []
        self.waiting: list[tuple[Callable[..., None], Any]] = []
        self.silent = silent
        self.purged = False
        self._log = log
        self._next = 0

    def __len__(self) -> int:
        return len(self.waiting)

    def init_transactions(self, timeout: float) -> None:
        self._call("init_transactions")

    def begin_transaction(self) -> None:
        self._call("begin_transaction")

    def commit_transaction(self, timeout: float) -> None:
        if not self.silent:
            self._serve()
        self._call("commit_transaction")

    def abort_transaction(self, timeout: float) -> None:
        self.purge()
        self._serve()
        self._call("abort_transaction")

    def send_offsets_to_transaction(self, offsets: Any, group: Any, timeout: float) -> None:
        self._call("send_offsets_to_transaction")

    def produce(self, topic: str, value: bytes, key: object, partition: int, report: Callable[..., None]) -> None:
        self._call("produce")
        message = SimpleNamespace(value=lambda: value, offset=lambda number=self._next: number)
        self._next += 1
        self.waiting.append((report, message))

    def poll(self, timeout: float) -> int:
        time.sleep(min(timeout, 0.001))
        if self.failures.get("poll"):
            raise KafkaException(self.failures["poll"].pop(0))
        return self._serve()

    def _serve(self) -> int:
        if self.silent and not self.purged:
            return 0
        served, self.waiting = self.waiting, []
        for report, message in served:
            report(KafkaError(KafkaError._PURGE_QUEUE) if self.purged else None, message)
        self.purged = False
        return len(served)

    def purge(self) -> None:
        self.purged = bool(self.waiting)

    def close(self) -> None:
        self.calls.append("close")

    def _call(self, name: str) -> None:
        self.calls.append(name)
        if name != "produce":
            self._log.append(f"{self.id} {name}")
        if self.failures.get(name):
            raise KafkaException(self.failures[name].pop(0))
