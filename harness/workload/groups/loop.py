"""A member of a consume-transform-produce loop: sends one record for each record that it reads, and commits offsets.

The loop's key `offsets` says when the offsets are committed:

| offsets | order |
| --- | --- |
| transaction | begin, outputs, offsets to the transaction, commit; after an abort, the batch is read again |
| after | outputs, wait for their acknowledgements, commit; if one is missing, the batch is read again |
| before | commit, outputs: an output that a crash prevents is never sent |

Sources: KIP-98, KIP-447; Kafka's documentation of `sendOffsetsToTransaction`.
"""

import random
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from kafka_chaos.contract.lane.groups import IN_TRANSACTION
from kafka_chaos.contract.lane.transactions import COMMITTED
from kafka_chaos.harness.workload.clients.outcome import Outcome
from kafka_chaos.harness.workload.clients.partitions import RoundRobin
from kafka_chaos.harness.workload.clients.recorded_producer import RecordedProducer
from kafka_chaos.harness.workload.groups.commits import Tell, next_offsets
from kafka_chaos.harness.workload.groups.member import Member, Processing
from kafka_chaos.harness.workload.groups.settings import OutputSettings
from kafka_chaos.harness.workload.history.reservations import Reservations, ReservedSeqs
from kafka_chaos.harness.workload.transactions.producer import ProducerLost, TransactionalProducer

_TICK_S = 0.05
_BATCH_SIZE = 100


class OutputReporter:
    """Reports a loop's output records to the harness; stands in for `ProducedRows`, and makes no rows itself.

    `failed`: whether a record got another outcome than `ok`. `transaction`: the number of the last transaction.
    `ProducedRows` imports PyArrow and pydantic, which would make the start of members slow, and they come and go.
    """

    def __init__(self, settings: OutputSettings, tell: Tell) -> None:
        self.lane = settings["lane"]
        self.producer_id = settings["producer_id"]
        self.partitions = RoundRobin(settings["partitions"])
        self.sent = 0
        self.failed = False
        self.transaction: int | None = None
        self.keys = None  # A loop's records have none.
        self.transactional_id = settings["configs"].get("transactional.id")
        self._tell = tell
        self._reserved = ReservedSeqs(
            Reservations(Path(settings["run_directory"])),
            lane=settings["lane"],
            producer_id=settings["producer_id"],
            transactional_id=self.transactional_id,
        )
        # By outcome and error: the records' seq, offset and ns.
        self._outcomes: dict[tuple[Outcome, str | None], list[tuple[int, int | None, int]]] = defaultdict(list)

    def set_transaction(self, number: int) -> None:
        """Note that records sent from now on are in the transaction of this number."""
        self.transaction = number

    def announce(self, sources: Sequence[Sequence[int]]) -> None:
        """Tell that one record for each input is about to be sent; `sources`: (producer_id, seq) of each input."""
        end = self.sent + len(sources)
        self._reserved.reserve_up_to(end)
        partitions = [seq % self.partitions.count for seq in range(self.sent, end)]
        now = {"transaction": self.transaction, "ns": time.monotonic_ns()}
        self._tell("sent", first_seq=self.sent, partition=partitions, sources=sources, **now)

    def hand_out(self, count: int) -> int:
        """Count the next `count` records as sent; returns the seq of the first."""
        self.sent += count
        return self.sent - count

    def take_back(self, first: int) -> None:
        """Count the records from seq `first` on as not sent after all."""
        self.sent = first

    def add_transaction(self, row: dict[str, Any]) -> None:
        """Tell the row of a transaction."""
        self._tell("transaction", row=row)

    def acknowledge(self, seq: int, offset: int | None) -> None:
        """Note that a record is acknowledged."""
        self.note_outcome(seq, Outcome.OK, offset=offset)

    def note_outcome(self, seq: int, outcome: Outcome, error: str | None = None, *, offset: int | None = None) -> None:
        """Note the outcome of a record."""
        self.failed |= outcome is not Outcome.OK
        self._outcomes[outcome, error].append((seq, offset, time.monotonic_ns()))

    def write_rest(self) -> None:
        """Tell the outcomes learned since the last call: one event for each pair of outcome and error."""
        for (outcome, error), records in self._outcomes.items():
            seq, offset, ns = map(list, zip(*records, strict=True))
            self._tell("outcome", outcome=outcome, error=error, seq=seq, offset=offset, ns=ns)
        self._outcomes.clear()


class Outputs(RecordedProducer):
    """The producer of a loop's member, which tells the harness of its records."""

    def __init__(self, settings: OutputSettings, member: Member) -> None:
        self.reporter = OutputReporter(settings, member.tell)
        rows: Any = self.reporter  # It has all of `ProducedRows` that `RecordedProducer` uses.
        super().__init__(
            rows, topic=settings["topic"], record_size=settings["record_size"], configs=settings["configs"]
        )

    def poll(self, timeout: float) -> None:
        """Serve delivery reports, and tell the outcomes."""
        super().poll(timeout)
        self.reporter.write_rest()


class LoopProcessing(Processing):
    """How a loop's member processes a batch. Raises `ProducerLost`: then another member has to replace this one."""

    def __init__(self, settings: OutputSettings, member: Member) -> None:
        super().__init__(member, settings["offsets"])
        self._abort_probability = settings["abort"]
        self._outputs = Outputs(settings, member)
        self._random = random.Random(settings["seed"])
        self._transactions: TransactionalProducer | None = None
        self.batch_size = _BATCH_SIZE
        if settings["offsets"] == IN_TRANSACTION:
            self.batch_size = settings["size"]
            self._transactions = TransactionalProducer(self._outputs, give_up=member.orders.gives_up)
            self._transactions.init()

    def handle(self, messages: Sequence[Any], crash: Callable[[], None] | None) -> bool:
        """Make a batch's outputs, commit its offsets; returns whether to read it again. `crash`: as in `Processing`."""
        if (producer := self._transactions) is None:
            return super().handle(messages, crash)
        member = self._member
        producer.begin()
        # The result is not needed: a commit waits for all acknowledgements, and fails if one is missing.
        self._process(messages, crash)
        if self._random.random() < self._abort_probability:
            producer.abort()
            return True
        offsets = next_offsets(messages)
        transaction = {"producer_id": self._outputs.producer_id, "transaction": producer.transactions.number}
        try:
            with member.commits.committing(offsets, **transaction):
                producer.send_offsets(member.commits.partitions(offsets), member.client.consumer_group_metadata())
        except ProducerLost as lost:
            if not lost.error.txn_requires_abort():
                producer.abandon()
                raise
            producer.abort(lost.error)
            return True
        return producer.commit() != COMMITTED

    def _process_all(self, messages: Sequence[Any]) -> bool:
        """Send the outputs, and wait for their acknowledgements; returns whether all were acknowledged."""
        outputs, sources = self._outputs, self._member.tell_read(messages)
        outputs.reporter.announce(sources)
        remaining = len(sources)
        while remaining := remaining - outputs.send(remaining):
            outputs.poll(_TICK_S)
        while outputs.unanswered and not self._member.orders.gives_up():
            outputs.poll(_TICK_S)
        failed, outputs.reporter.failed = outputs.reporter.failed, False
        return not failed and not outputs.unanswered

    def serve(self) -> None:
        """Serve the producer's delivery reports."""
        self._outputs.poll(0)

    def close(self) -> None:
        """Close the producer, and tell the last outcomes; between batches, no transaction is open."""
        # Old versions of confluent-kafka have no `close`: their client ends with the process.
        if hasattr(self._outputs.client, "close"):
            self._outputs.client.close()
        self._outputs.reporter.write_rest()
