"""A member of a consume-transform-produce loop: one record out for every record in, and the offsets as it was told.

| offsets | order |
| --- | --- |
| transaction | begin, outputs, offsets to the transaction, commit; an abort reads the batch again |
| after | outputs, wait for their acknowledgements, commit; without them, the batch is read again |
| before | commit, outputs: what a crash prevents is never made up for |

Sources: KIP-98, KIP-447; Kafka's documentation of `sendOffsetsToTransaction`.
"""

import logging
import random
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer

from kafka_chaos.contract.lane.groups import BEFORE, IN_TRANSACTION
from kafka_chaos.contract.lane.transactions import COMMITTED
from kafka_chaos.harness.identity import IdentityCodec
from kafka_chaos.harness.workload.clients.outcome import Outcome, outcome_of
from kafka_chaos.harness.workload.groups.commits import Tell, next_offsets
from kafka_chaos.harness.workload.groups.member import Identities, Member, done_before_crash
from kafka_chaos.harness.workload.groups.settings import OutputSettings
from kafka_chaos.harness.workload.history.reservations import Reservations, ReservedSeqs
from kafka_chaos.harness.workload.transactions.producer import ProducerLost, TransactionalProducer

_TICK = 0.05
_MOST_PER_BATCH = 100
_PURGED_WITHIN = 1.0


class Outputs:
    """The loop's producer: what it sends, of what it was made, and what became of it."""

    def __init__(
        self, settings: OutputSettings, *, tell: Tell, give_up: Callable[[], bool], logger: logging.Logger
    ) -> None:
        self.lane = settings.lane
        self.producer_id = settings.producer_id
        self.client: Producer = Producer({**settings.configs}, logger=logger)
        self.failed = 0
        self._settings = settings
        self._tell = tell
        self._give_up = give_up
        self._codec = IdentityCodec(settings.lane, settings.record_size)
        self._reserved = ReservedSeqs(
            Reservations(Path(settings.run_directory)),
            lane=settings.lane,
            producer_id=settings.producer_id,
            transactional_id=settings.configs.get("transactional.id"),
        )
        self._sent = 0
        self._transactions = -1
        self._known: list[tuple[int, int | None, int, str, str | None]] = []

    @property
    def transaction(self) -> int | None:
        """The number of the transaction that began last."""
        return self._transactions if self._transactions >= 0 else None

    def transaction_begins(self) -> int:
        """From the next record on, a new transaction holds what is sent. Returns its number, counted from 0."""
        self._transactions += 1
        return self._transactions

    def make(self, sources: Identities) -> None:
        """Send one record for each of these inputs."""
        first, settings = self._sent, self._settings
        self._reserved.up_to(first + len(sources))
        self._sent += len(sources)
        partitions = [seq % settings.partitions for seq in range(first, self._sent)]
        self._tell(
            "sent",
            first_seq=first,
            partition=partitions,
            sources=sources,
            transaction=self.transaction,
            ns=time.monotonic_ns(),
        )
        for step, value in enumerate(self._codec.encode_many(self.producer_id, first, len(sources))):
            seq = first + step
            try:
                self._produce(value, partitions[step], seq)
            except KafkaException as failure:
                self._settle(seq, None, Outcome.FAIL, failure.args[0].name())

    def deliver(self) -> bool:
        """Wait until all has an outcome; returns whether all was acknowledged since the last call."""
        while len(self.client) and not self._give_up():
            self.poll(_TICK)
        failed, self.failed = self.failed, 0
        return not failed and not len(self.client)

    def poll(self, timeout: float) -> int:
        """Serve delivery reports for up to `timeout` seconds, and tell of them."""
        try:
            served = int(self.client.poll(timeout))
        except KafkaException:
            # The next call to the transactional API raises it, too.
            served = 0
        self._tell_known()
        return served

    def abandon(self, *, open_transaction: bool) -> None:
        """Send nothing more; an open transaction stays open. The process ends next."""
        self.client.purge()
        deadline = time.monotonic() + _PURGED_WITHIN
        while len(self.client) and time.monotonic() < deadline:
            self.poll(_TICK)
        self._tell_known()

    def close(self) -> None:
        """Close the client in order."""
        self.poll(0)
        # Old versions lack this: there the client ends with the process.
        if hasattr(self.client, "close"):
            self.client.close()
        self._tell_known()

    def _produce(self, value: bytes, partition: int, seq: int) -> None:
        delivered = partial(self._delivered, seq)
        while True:
            try:
                self.client.produce(self._settings.topic, value, None, partition, delivered)
                return
            except BufferError:
                self.poll(_TICK)

    def _delivered(self, seq: int, error: KafkaError | None, message: Any) -> None:
        if error is None:
            self._settle(seq, message.offset(), Outcome.OK, None)
        else:
            self._settle(seq, None, *outcome_of(error, retries=True))

    def _settle(self, seq: int, offset: int | None, outcome: Outcome, error: str | None) -> None:
        self.failed += error is not None
        self._known.append((seq, offset, time.monotonic_ns(), outcome, error))

    def _tell_known(self) -> None:
        if self._known:
            known, self._known = self._known, []
            for outcome, error in dict.fromkeys((outcome, error) for *_, outcome, error in known):
                alike = [row[:3] for row in known if row[3:] == (outcome, error)]
                seq, offset, ns = map(list, zip(*alike, strict=True))
                self._tell("outcome", outcome=outcome, error=error, seq=seq, offset=offset, ns=ns)


class LoopProcessing:
    """A loop member's processing of a batch. Raises `ProducerLost`: then another member has to take its place."""

    def __init__(
        self,
        settings: OutputSettings,
        member: Member,
        *,
        tell: Tell,
        give_up: Callable[[], bool],
        logger: logging.Logger,
    ) -> None:
        self._settings = settings
        self._member = member
        self._outputs = Outputs(settings, tell=tell, give_up=give_up, logger=logger)
        self._chance = random.Random(settings.seed)
        self._transactions: TransactionalProducer[Outputs] | None = None
        self.most = _MOST_PER_BATCH
        if settings.offsets == IN_TRANSACTION:
            self.most = settings.size
            self._transactions = TransactionalProducer(
                self._outputs,
                transactional_id=str(settings.configs["transactional.id"]),
                rows=lambda row: tell("transaction", row=row),
                give_up=give_up,
            )
            self._transactions.init()

    def handle(self, messages: Sequence[Any], identities: Identities, crash: Callable[[], None] | None) -> bool:
        """Make the outputs of a batch and commit its offsets; returns whether it must be read again."""
        if self._transactions is not None:
            return self._in_transaction(self._transactions, messages, identities, crash)
        offsets = next_offsets(messages)
        if self._settings.offsets == BEFORE and not self._member.commits.commit(offsets):
            return True
        if not self._make(messages, identities, crash):
            # What was committed before is gone.
            return self._settings.offsets != BEFORE
        if self._settings.offsets != BEFORE:
            self._member.commits.commit(offsets)
        return False

    def serve(self) -> None:
        """Serve the producer's reports."""
        self._outputs.poll(0)

    def close(self) -> None:
        """Close the producer; nothing is open between batches."""
        self._outputs.close()

    def _make(self, messages: Sequence[Any], identities: Identities, crash: Callable[[], None] | None) -> bool:
        if crash is not None:
            done = done_before_crash(len(messages), is_committed=self._settings.offsets == BEFORE)
            self._member.read(messages[:done], identities[:done])
            self._outputs.make(identities[:done])
            self._outputs.deliver()
            crash()
        self._member.read(messages, identities)
        self._outputs.make(identities)
        return self._outputs.deliver()

    def _in_transaction(
        self,
        producer: TransactionalProducer[Outputs],
        messages: Sequence[Any],
        identities: Identities,
        crash: Callable[[], None] | None,
    ) -> bool:
        member, outputs = self._member, self._outputs
        producer.begin()
        self._make(messages, identities, crash)
        if self._chance.random() < self._settings.abort:
            producer.abort()
            return True
        offsets = next_offsets(messages)
        sends = member.commits.in_transaction(offsets, producer_id=outputs.producer_id, transaction=outputs.transaction)
        try:
            with sends:
                producer.send_offsets(member.commits.partitions(offsets), member.client.consumer_group_metadata())
        except ProducerLost as lost:
            if not lost.error.txn_requires_abort():
                producer.abandon()
                raise
            producer.abort(lost.error)
            return True
        return producer.commit() != COMMITTED
