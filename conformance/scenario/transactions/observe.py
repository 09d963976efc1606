"""Observes transactions from outside. The table in `docs/scenarios.md.jinja` says where each field comes from."""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from kafka_chaos.conformance.replica import read_replica
from kafka_chaos.conformance.scenario.clients import read_partitions
from kafka_chaos.conformance.scenario.transactions.producers import (
    Producers,
    TransactionClient,
    coordinator_of,
    leader_of,
)
from kafka_chaos.contract.command.errors import ClusterFailure
from kafka_chaos.harness.cluster.broker.client import NONE, CoordinatorKind, error_name
from kafka_chaos.harness.cluster.cluster import Cluster
from kafka_chaos.harness.cluster.storage.segments import Record
from kafka_chaos.reference_model.lockstep import observation

_MARKERS = {0: observation.ABORT, 1: observation.COMMIT}
"""The marker for each type of control record. The record's key has a version, and then this type."""
_UNKNOWN_ID = "TRANSACTIONAL_ID_NOT_FOUND"
_OFFSET_PENDING = "UNSTABLE_OFFSET_COMMIT"


@dataclass
class TransactionsObserver:
    """Observes partitions 0 to `partitions` - 1 of a topic, and transactional `ids`, by their names in the scenario."""

    cluster: Cluster
    topic: str
    partitions: int
    ids: Mapping[str, str]
    producers: Producers

    def observe(self) -> observation.Observation:
        """Observe all that is observable, not all at one moment: rely only on two equal observations in a row."""
        numbers = range(self.partitions)
        with ThreadPoolExecutor(max_workers=self.partitions + 2) as threads:
            reads = [threads.submit(self._read, committed) for committed in (True, False)]
            stored = list(threads.map(self._observe_partition, numbers))
            committed, uncommitted = (read.result() for read in reads)
        partitions = {
            number: observation.PartitionObservation(
                log=log,
                high_watermark=high_watermark,
                last_stable_offset=last_stable_offset,
                read_committed=committed[number],
                read_uncommitted=uncommitted[number],
            )
            for number, (log, high_watermark, last_stable_offset) in zip(numbers, stored, strict=True)
        }
        described = {name: self._transaction(id) for name, id in self.ids.items()}
        return observation.Observation(
            transactions=observation.TransactionsObservation(
                partitions=partitions,
                transactions={name: state for name, state in described.items() if state is not None},
                producers={
                    name: observation.ProducerObservation(epoch=producer.epoch, reply=producer.reply)
                    for name, producer in self.producers.by_name.items()
                },
                offsets=self._offsets() if self.producers.group else None,
            )
        )

    def _observe_partition(self, partition: int) -> tuple[tuple[tuple[int, str, int], ...], int, int]:
        """A partition's log, its high watermark and its last stable offset."""
        key, partitions = (self.topic, partition), {self.topic: [partition]}
        leader = leader_of(self.cluster, self.topic, partition)
        with TransactionClient(self.cluster.addresses[leader]) as client:
            answers = [client.latest_offsets(partitions, committed=committed)[key] for committed in (False, True)]
        for error, _ in answers:
            if error != NONE:
                raise ClusterFailure(f"broker {leader} answers ListOffsets with {error_name(error)}")
        records = read_replica(self.cluster.brokers[leader], self.topic, partition).records
        log = tuple((record.offset, _name_of(record), record.producer_epoch) for record in records)
        (_, high_watermark), (_, last_stable_offset) = answers
        return log, high_watermark, last_stable_offset

    def _read(self, committed: bool) -> dict[int, tuple[str, ...]]:
        isolation = "read_committed" if committed else "read_uncommitted"
        partitions = read_partitions(
            self.cluster.bootstrap_servers, self.topic, range(self.partitions), timeout=10, isolation=isolation
        )
        return {number: tuple(name for _, name in records) for number, records in partitions.items()}

    def _transaction(self, transactional_id: str) -> observation.TransactionObservation | None:
        coordinator = coordinator_of(self.cluster, transactional_id)
        with TransactionClient(self.cluster.addresses[coordinator]) as client:
            described = client.describe_transaction(transactional_id)
        error = error_name(described.error_code)
        if error == _UNKNOWN_ID:
            return None
        if error != "NONE":
            raise ClusterFailure(f"broker {coordinator} answers DescribeTransactions with {error}")
        # A partition of __consumer_offsets is reported as the number `partitions`, one past the topic's last partition.
        numbers = sorted(
            number if topic.topic == self.topic else self.partitions
            for topic in described.topics
            for number in topic.partitions
        )
        return observation.TransactionObservation(
            state=described.transaction_state, epoch=described.producer_epoch, partitions=tuple(numbers)
        )

    def _offsets(self) -> observation.OffsetsObservation:
        group, source = self.producers.group, self.producers.source
        coordinator = coordinator_of(self.cluster, group, CoordinatorKind.GROUP)
        with TransactionClient(self.cluster.addresses[coordinator]) as client:
            error, offset = client.group_offset(group, source, stable=False)
            pending_error, _ = client.group_offset(group, source, stable=True)
        if error != NONE or error_name(pending_error) not in ("NONE", _OFFSET_PENDING):
            answer = error_name(error or pending_error)
            raise ClusterFailure(f"broker {coordinator} answers OffsetFetch with {answer}")
        return observation.OffsetsObservation(committed=None if offset < 0 else offset, pending=pending_error != NONE)


def _name_of(record: Record) -> str:
    """The name of a record in the scenario: its value; `COMMIT` or `ABORT` for a marker."""
    if record.control:
        return _MARKERS.get(int.from_bytes((record.key or b"")[2:4], "big"), "another control record")
    return (record.value or b"").decode(errors="replace")
