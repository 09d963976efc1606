"""A transactional producer's requests to one chosen broker, each sent once.

The caller has to do what a client library would do with the answer. Where a producer `bumps` its epoch, as Java clients
of 4.0 and later do (KIP-890, part 2), the leader adds partitions to the transaction, and every end of a transaction
brings the next epoch.
"""

from dataclasses import dataclass, field
from typing import Any

from kafka_chaos.contract.wire.kafka_python import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    DescribeTransactionsRequest,
    EndTxnRequest,
    InitProducerIdRequest,
    OffsetFetchRequest,
    TxnOffsetCommitRequest,
)
from kafka_chaos.harness.cluster.broker.client import NONE, BrokerClient

_INIT_PRODUCER_ID = 5
_ADD_PARTITIONS = 3
"""The last version that clients send. By later ones, brokers ask whether a transaction is open (KIP-890)."""
_ADD_OFFSETS = 4
_PRODUCE, _PRODUCE_BUMPS = 11, 12
_END, _END_BUMPS = 4, 5
_COMMIT_OFFSETS, _COMMIT_OFFSETS_BUMPS = 4, 5
_OFFSET_FETCH = 7
_DESCRIBE = 0
_PRODUCE_TIMEOUT = 30.0


@dataclass(slots=True)
class Producer:
    """One incarnation of a producer: its transactional id, with the producer id and epoch from its coordinator.

    `sent`: the records sent in this epoch, by partition. `added`: the partitions that it has added to its transaction.
    `error`: Kafka's name of the last answer's error; `reply`: the meaning of that answer, in the model's words.
    """

    transactional_id: str
    bumps: bool = False
    id: int = -1
    epoch: int = -1
    sent: dict[int, int] = field(default_factory=dict)
    added: set[int] = field(default_factory=set)
    error: str = "NONE"
    reply: str = "OK"


class TransactionClient(BrokerClient):
    """A connection to a broker that coordinates transactions or a group, or leads a partition. Errors are codes."""

    def initialise(self, producer: Producer, *, timeout_ms: int) -> int:
        """InitProducerId of a new incarnation, which gets its id and epoch from the answer."""
        identity = {"transactional_id": producer.transactional_id, "producer_id": -1, "producer_epoch": -1}
        answer = self.ask(InitProducerIdRequest, _INIT_PRODUCER_ID, transaction_timeout_ms=timeout_ms, **identity)
        producer.id, producer.epoch = answer.producer_id, answer.producer_epoch
        return int(answer.error_code)

    def add_partition(self, producer: Producer, topic: str, partition: int) -> int:
        """AddPartitionsToTxn for one partition."""
        wanted = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(name=topic, partitions=[partition])
        identity = {f"v3_and_below_{name}": value for name, value in _identity(producer).items()}
        answer = self.ask(AddPartitionsToTxnRequest, _ADD_PARTITIONS, v3_and_below_topics=[wanted], **identity)
        return int(answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code)

    def add_offsets(self, producer: Producer, group: str) -> int:
        """AddOffsetsToTxn: the partition of a group's offsets joins the transaction."""
        return int(self.ask(AddOffsetsToTxnRequest, _ADD_OFFSETS, group_id=group, **_identity(producer)).error_code)

    def write(self, producer: Producer, topic: str, partition: int, record: str, *, sequence: int) -> int:
        """Produce one record of a transaction with acks=all."""
        request = self._produce_request(
            topic,
            partition,
            record.encode(),
            acks="all",
            timeout=_PRODUCE_TIMEOUT,
            version=_PRODUCE_BUMPS if producer.bumps else _PRODUCE,
            transactional_id=producer.transactional_id,
            batch={
                "transactional": True,
                "producer_id": producer.id,
                "producer_epoch": producer.epoch,
                "base_sequence": sequence,
            },
        )
        return int(self.request(request).responses[0].partition_responses[0].error_code)

    def commit_offset(self, producer: Producer, group: str, topic: str, partition: int, offset: int) -> int:
        """TxnOffsetCommit: a group's offset becomes part of the transaction."""
        topic_type = TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic
        wanted = topic_type.TxnOffsetCommitRequestPartition(
            partition_index=partition, committed_offset=offset, committed_leader_epoch=-1, committed_metadata=""
        )
        newest = _COMMIT_OFFSETS_BUMPS if producer.bumps else _COMMIT_OFFSETS
        answer = self.ask(
            TxnOffsetCommitRequest,
            newest,
            group_id=group,
            generation_id=-1,
            member_id="",
            group_instance_id=None,
            topics=[topic_type(name=topic, partitions=[wanted])],
            **_identity(producer),
        )
        return int(answer.topics[0].partitions[0].error_code)

    def end(self, producer: Producer, *, commit: bool) -> int:
        """EndTxn: a commit or an abort. A producer that `bumps` goes on with the epoch of the answer."""
        newest = _END_BUMPS if producer.bumps else _END
        answer = self.ask(EndTxnRequest, newest, committed=commit, **_identity(producer))
        if producer.bumps and answer.error_code == NONE:
            producer.id, producer.epoch = answer.producer_id, answer.producer_epoch
        return int(answer.error_code)

    def describe_transaction(self, transactional_id: str) -> Any:
        """This coordinator's description of a transactional id (KIP-664), as DescribeTransactions answers it."""
        request = DescribeTransactionsRequest(transactional_ids=[transactional_id], version=_DESCRIBE)
        return self.request(request).transaction_states[0]

    def group_offset(self, group: str, topic: str, *, stable: bool) -> tuple[int, int]:
        """The error, and a group's offset in partition 0 or −1. `stable`: an error if another is pending (KIP-447)."""
        wanted = OffsetFetchRequest.OffsetFetchRequestTopic(name=topic, partition_indexes=[0])
        answer = self.ask(OffsetFetchRequest, _OFFSET_FETCH, group_id=group, topics=[wanted], require_stable=stable)
        if answer.error_code != NONE:
            return int(answer.error_code), -1
        partition = answer.topics[0].partitions[0]
        return int(partition.error_code), int(partition.committed_offset)


def _identity(producer: Producer) -> dict[str, Any]:
    """The fields of a request that say which incarnation of a producer sends it."""
    return {"transactional_id": producer.transactional_id, "producer_id": producer.id, "producer_epoch": producer.epoch}
