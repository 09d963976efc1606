"""A lane's transactional producers under load: paced, killed and fenced, each in a thread of its own.

Each producer has a transactional id of its own and writes one transaction after the other. On an overloaded machine,
the end of a transaction takes 1 to 5 s, however few records it has: a producer that is behind its rate writes larger
transactions, of a multiple of the lane's `size`.

A transactional id has one incarnation after the other, each a client with a producer_id of its own: the next begins
after an error, or after a kill that the lane asks for (`restarts`). A killed incarnation is not closed. Once the next
has begun, it goes on like a process that was only frozen: it sends the rest of its transaction and asks for the commit,
which brokers must refuse.
"""

import itertools
import random
import threading
import time
from collections.abc import Callable, Sequence

from kafka_chaos.contract.command.errors import ClusterFailure
from kafka_chaos.contract.lane.transactions import Transactional, transactional_id
from kafka_chaos.harness.experiment.lane_specs import LaneSpec
from kafka_chaos.harness.workload.clients.following import RecordedConsumer
from kafka_chaos.harness.workload.clients.producers import LaneProducers
from kafka_chaos.harness.workload.clients.recorded_producer import LaneProducer
from kafka_chaos.harness.workload.settings import LoadSettings
from kafka_chaos.harness.workload.transactions.producer import ProducerLost, TransactionalProducer
from kafka_chaos.harness.workload.worker import Worker

_TICK_S = 0.01
_DELIVERY_TIMEOUT_S = 5.0
_DELIVERED_SHARE = 0.5  # Of aborted transactions: those whose records are all delivered before the abort.
_MAX_FAILED_STARTS = 3
_NEVER = float("inf")
_MAX_RECORDS = 10_000  # Of a transaction that is larger than the lane's `size`.


class TransactionalProducers(LaneProducers):
    """The producers of one transactional lane; the seed of the `load` decides which transactions are aborted.

    `connect(number, id)` makes an incarnation of a transactional id; numbers count from 0 in the lane. If the lane
    has `reads`, `connect_reader` makes the consumer that an id (`reads_for`) polls within its transactions.
    """

    def __init__(
        self,
        lane: LaneSpec,
        connect: Callable[[int, str], LaneProducer],
        load: LoadSettings,
        connect_reader: Callable[..., RecordedConsumer] | None = None,
    ) -> None:
        super().__init__()
        assert lane.transactional is not None
        self.lane, self.settings, self.load = lane, lane.transactional, load
        self.connect, self.connect_reader = connect, connect_reader
        self.numbers = itertools.count()
        self.sending = threading.Event()
        self._deadline = _NEVER
        self._cancelled = threading.Event()
        self._workers = [_TransactionalId(self, number) for number in range(self.settings.producers)]

    def gives_up(self) -> bool:
        """Whether the producers should stop waiting for answers."""
        return self._cancelled.is_set() or time.monotonic() > self._deadline

    @property
    def producers(self) -> Sequence[LaneProducer]:  # type: ignore[override]
        """The present incarnation of each transactional id, for faults to hit; after a kill, the next begins."""
        return [worker.sender for worker in self._workers if worker.sender is not None]

    def run(self, sending: threading.Event) -> None:
        """Let the producers write transactions until `sending` is cleared, or one of them raises an error."""
        self.sending = sending
        for worker in self._workers:
            worker.start()
        while sending.is_set() and not any(worker.error for worker in self._workers):
            time.sleep(_TICK_S)
        sending.clear()

    def finish(self, timeout: float, cancelled: threading.Event) -> None:
        """Let every producer end its transaction, at most `timeout` seconds, or `cancelled`; raises their errors."""
        self._cancelled = cancelled
        self._deadline = time.monotonic() + timeout
        for worker in self._workers:
            worker.join()
            worker.raise_error()


def restart_times(settings: Transactional, number: int, duration: float) -> list[float]:
    """When producer `number` is killed, in seconds of load: kills are spread evenly, and hit each producer in turn."""
    pause = duration / (settings.restarts + 1)
    return [pause * (turn + 1) for turn in range(settings.restarts) if turn % settings.producers == number]


class _TransactionalId(Worker):
    """A transactional id of the lane, whose incarnations write transactions one after the other, in one thread."""

    def __init__(self, producers: TransactionalProducers, number: int) -> None:
        lane, settings, load = producers.lane, producers.settings, producers.load
        self.id = transactional_id(lane.lane, number)
        super().__init__(self._write_transactions, name=f"producer-{self.id}")
        self.sender: LaneProducer | None = None
        self._producers, self._load, self._size = producers, load, settings.size
        self._rate = load.workload.rate / settings.producers
        self._turn = number / settings.producers
        self._restarts = restart_times(settings, number, load.workload.duration - (lane.created_at or 0.0))
        self._random = random.Random(f"{load.seed}/{lane.lane}-{number}")
        self._current: TransactionalProducer | None = None
        self._reader: RecordedConsumer | None = None

    def _write_transactions(self) -> None:
        try:
            if self._producers.connect_reader is not None:
                self._reader = self._producers.connect_reader(reads_for=self.id)
            self._current = self._begin_incarnation()
            start = time.monotonic()
            size, written = self._size, 0
            # The first transaction is due at once; after it, the producers take turns.
            paced_from = start - (1 + self._turn) * size / self._rate
            while self._producers.sending.is_set() and self._current is not None:
                due = int((time.monotonic() - paced_from) * self._rate) - written
                # The first transaction is not paced: all lanes wait until each has an acknowledgement.
                if written and due < size:
                    self._current.sender.poll(min((size - due) / self._rate, _TICK_S))
                    continue
                try:
                    if self._restarts and time.monotonic() - start >= self._restarts[0]:
                        self._restarts.pop(0)
                        written += size
                        self._write_fenced(self._current)
                    else:
                        count = max(size, min(due, _MAX_RECORDS) // size * size)
                        written += count
                        self._write_transaction(self._current, count)
                except ProducerLost as lost:
                    self._load.on_notice(f"{self.id}: producer {self._current.sender.producer_id} is lost: {lost}")
                    self._current.abandon()
                    self._current = self._begin_incarnation()
        finally:
            if self._current is not None:
                self._current.abandon()
            if self._reader is not None:
                self._reader.close()

    def _write_transaction(self, producer: TransactionalProducer, count: int) -> None:
        """Write a transaction of `count` records, with a read halfway if the lane has `reads`; commit or abort it.

        Half of the aborted transactions have all their records delivered before the abort. In the other half, the abort
        purges records that were not sent yet, and overtakes records on their way.
        """
        producer.begin()
        if self._reader is None:
            producer.send(count)
        else:
            producer.send(count - count // 2)
            self._reader.poll(0.02, transaction=(producer.sender.producer_id, producer.transactions.number))
            producer.send(count // 2)
        if self._random.random() < self._producers.settings.abort:
            if self._random.random() < _DELIVERED_SHARE:
                producer.deliver(_DELIVERY_TIMEOUT_S)
            producer.abort()
        else:
            producer.commit()

    def _write_fenced(self, producer: TransactionalProducer) -> None:
        """Let the next incarnation fence this producer amid a transaction, which the producer then tries to commit."""
        producer.begin()
        first = self._size // 2
        producer.send(first)
        producer.deliver(_DELIVERY_TIMEOUT_S)
        self._current = self._begin_incarnation()
        if self._current is not None:
            producer.send(self._size - first)
            try:
                producer.commit()
            except ProducerLost as lost:
                self._load.on_notice(
                    f"{self.id}: producer {producer.sender.producer_id} was killed and came back: {lost}"
                )
        producer.abandon()

    def _begin_incarnation(self) -> TransactionalProducer | None:
        """Make and initialise the next incarnation; returns None if the load gave up or the producer's process failed.

        Raises `ClusterFailure` if several incarnations in a row can't be initialised.
        """
        for _ in range(_MAX_FAILED_STARTS):
            self.sender = self._producers.connect(next(self._producers.numbers), self.id)
            self._producers.rows.append(self.sender.rows)
            producer = TransactionalProducer(self.sender, give_up=self._producers.gives_up, calls=self._load.calls)
            try:
                producer.init()
                return producer
            except ProducerLost as lost:
                producer.abandon()
                if self._producers.gives_up() or self.sender.failed_for_good:
                    return None
                error = lost.error
        raise ClusterFailure(f"the producer {self.id} can't begin its transactions: {error.str()}")
