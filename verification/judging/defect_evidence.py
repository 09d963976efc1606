"""The evidence of each known defect: whether its precondition explains a record of a finding, or an outage.

Guarantee: what a run did not record explains nothing. Pure Python, no Spark.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

from kafka_chaos.contract.anomalies import Anomaly
from kafka_chaos.contract.events import DefectPrecondition
from kafka_chaos.contract.lane.families import AnyAnomaly
from kafka_chaos.contract.lane.transactions import ABORT, ABORTED, COMMIT, COMMITTED, TransactionAnomaly
from kafka_chaos.reference_model.protocol.known_defects import READ_ON
from kafka_chaos.verification.inputs.documents.faults import FaultRecord
from kafka_chaos.verification.judging.result import Identity
from kafka_chaos.verification.recovery.outages import Outage

_MISPLACED = frozenset({Anomaly.LOST_WRITE, Anomaly.INCONSISTENT_OFFSET, Anomaly.OFFSET_MISMATCH})
"""The anomalies of a record that was acknowledged at the offset of another."""
Lists = dict[Any, list[tuple[Any, ...]]]


class Sent(NamedTuple):
    """A row of produced/ about a record."""

    invoke_ns: int
    complete_ns: int | None
    transaction: int | None
    outcome: str
    partition: int
    offset: int | None


def _lists() -> Lists:
    return defaultdict(list)


@dataclass(frozen=True, slots=True)
class Recorded:
    """A run's rows about some records.

    By record: `sent`, its rows of produced/; `stored`, its partitions and offsets in the log. `holders`: by partition
    and offset at which one of them was acknowledged, the records there in the log. `claimants`: by partition and offset
    at which one of them is stored, the records that were acknowledged there. `copies`: by record, broker and
    partition its offsets there, with producer epochs. `markers`: by broker and partition their offsets, producers and
    kinds. `transactions`: by producer and number, the rest of `_ENDED`. `unplaced`: by producer and partition, the seqs
    of the records that were acknowledged without an offset, and before any with one. `reads`: by partition and offset
    at which one of them is stored, who read there, and when. `reached`: by partition, how far each consumer has read.
    `first_ns`: by partition, when somebody first read at one of those offsets.
    """

    unplaced: Mapping[tuple[int, int], list[int]] = field(default_factory=lambda: defaultdict(list))
    sent: Mapping[Identity, list[Sent]] = field(default_factory=lambda: defaultdict(list))
    stored: Lists = field(default_factory=_lists)
    holders: Lists = field(default_factory=_lists)
    claimants: Lists = field(default_factory=_lists)
    copies: Mapping[Identity, Lists] = field(default_factory=lambda: defaultdict(_lists))
    markers: Lists = field(default_factory=_lists)
    transactions: Lists = field(default_factory=_lists)
    reads: Lists = field(default_factory=_lists)
    first_ns: dict[int, int] = field(default_factory=dict)
    reached: Mapping[int, dict[str, int]] = field(default_factory=lambda: defaultdict(dict))


def renewed_epoch(met: DefectPrecondition, anomaly: AnyAnomaly, record: Identity, recorded: Recorded) -> bool:
    """librdkafka-4953: the outcome of the record was in doubt when its producer renewed its epoch, and each copy on a
    broker stands in a later producer epoch than the copy before it."""
    sent = recorded.sent[record]
    if anomaly != Anomaly.DUPLICATE or met.producer_id != record[0] or len(sent) != 1:
        return False
    if not _is_open_at(met, sent[0]):
        return False
    stored = set(recorded.stored[record])
    copied = {place: sorted(copies) for place, copies in recorded.copies[record].items()}
    if not any(stored <= {(place[1], offset) for offset, _ in copies} for place, copies in copied.items()):
        return False
    epochs = [[epoch for _, epoch in copies] for copies in copied.values()]
    return len(stored) > 1 and all(
        None not in one and one[0] >= 0 and all(before < after for before, after in pairwise(one)) for one in epochs
    )


def renewed_for_partition(met: DefectPrecondition, anomaly: AnyAnomaly, record: Identity, recorded: Recorded) -> bool:
    """KAFKA-14397: as librdkafka-4953, and a record that failed is of the same partition."""
    return met.partition == recorded.sent[record][0].partition and renewed_epoch(met, anomaly, record, recorded)


def read_on(met: DefectPrecondition, anomaly: AnyAnomaly, record: Identity, recorded: Recorded) -> bool:
    """No KIP-320: whoever got past the offset of the record had read another record there and never came back, and
    began to read what is gone before a leader was elected.

    The last ones may be given out after the election: a consumer that was away had fetched them before.
    """
    places = recorded.stored[record]
    if anomaly != Anomaly.UNSEEN or len(places) != 1 or met.partition != places[0][0]:
        return False
    partition, offset = places[0]
    passed = {consumer for consumer, last in recorded.reached[partition].items() if last >= offset}
    misread = {consumer for consumer, _ in recorded.reads[partition, offset]}
    return bool(passed) and passed == misread and recorded.first_ns[partition] < met.ts_ns


def is_blocked(met: DefectPrecondition, outage: Outage, moved: Collection[FaultRecord]) -> bool:
    """KAFKA-8803: before the outage ended, the coordinator refused its own next state for a transactional id, by its
    log, and its clock had been moved."""
    broker = f"broker-{met.broker}"
    return met.ts_ns <= outage.end_ns and any(
        broker in fault.brokers and min(fault.applied) <= outage.end_ns for fault in moved
    )


def ended_late(met: DefectPrecondition, anomaly: AnyAnomaly, record: Identity, recorded: Recorded) -> bool:
    """KAFKA-17754: the record's transaction was open when an EndTxn of its transactional id came late, and on every
    broker the next marker of that id after the record is of the kind that this EndTxn asked for.

    Such a commit shows what is to be aborted; such an abort takes what is to be committed.
    """
    sent = recorded.sent[record]
    if len(sent) != 1 or met.producer_id != record[0] or met.commits is None:
        return False
    known = recorded.transactions[record[0], sent[0].transaction]
    if len(known) != 1:
        return False
    ((writer, begin_ns, end_ns, outcome),) = known
    is_open = end_ns is not None and begin_ns <= met.ts_ns <= end_ns
    if writer != met.transactional_id or not is_open or met.commits != (outcome == ABORTED):
        return False
    own = {producer for (producer, _), rows in recorded.transactions.items() if any(row[0] == writer for row in rows)}
    nexts = {
        min((marker for marker in recorded.markers[place] if marker[0] > offset and marker[1] in own), default=None)
        for place, copies in recorded.copies[record].items()
        for offset, _ in copies
    }
    kinds = {None if marker is None else marker[2] for marker in nexts}
    shows = anomaly == TransactionAnomaly.ABORTED_READ
    return met.commits == shows and kinds == {COMMIT if shows else ABORT}


def committed_without(met: DefectPrecondition, anomaly: AnyAnomaly, record: Identity, recorded: Recorded) -> bool:
    """KAFKA-5385: the record is in no log, and its transaction, which was committed without it, was open when records
    of its producer expired."""
    sent = recorded.sent[record]
    if len(sent) != 1 or met.producer_id != record[0] or recorded.stored[record]:
        return False
    known = recorded.transactions[record[0], sent[0].transaction]
    if len(known) != 1 or sent[0].outcome != "info":
        return False
    ((_, begin_ns, end_ns, outcome),) = known
    return outcome == COMMITTED and end_ns is not None and begin_ns <= met.ts_ns <= end_ns


def acknowledged_implicitly(met: DefectPrecondition, anomaly: AnyAnomaly, record: Identity, recorded: Recorded) -> bool:
    """KAFKA-15591: the lost record is one of those first messages of its producer to a partition that the client
    reported as acknowledged because a later one was.

    No broker answered for them, so they have no offset. None that was acknowledged with an offset comes before them.
    """
    if anomaly != Anomaly.LOST_WRITE or met.producer_id != record[0] or len(recorded.sent[record]) != 1:
        return False
    if met.producer_id is None or met.partition is None or met.messages is None or met.messages < 1:
        return False
    return record[1] in recorded.unplaced.get((met.producer_id, met.partition), [])[: met.messages]


def repeated(met: DefectPrecondition, anomaly: AnyAnomaly, record: Identity, recorded: Recorded) -> bool:
    """kafkajs-822 and kafkajs-1005: a send() of the record's producer had to be repeated while that of the record was
    open. One that counts as acknowledged at a wrong offset has that of another record of its producer. With
    idempotence, one that was written twice has lent its number: another record was acknowledged where it is.

    The record after a descent is the one that was overtaken: its own send() was repeated.
    """
    sent = recorded.sent[record]
    if met.producer_id != record[0] or len(sent) != 1 or not _is_open_at(met, sent[0]):
        return False
    if anomaly in _MISPLACED and not _has_offset_of_another(record, recorded):
        return False
    others = (one for place in recorded.stored[record] for one in recorded.claimants[place] if one != record)
    return anomaly != Anomaly.DUPLICATE or met.defect != "kafkajs-1005" or any(one[0] == record[0] for one in others)


def returned_late(met: DefectPrecondition, anomaly: AnyAnomaly, record: Identity, recorded: Recorded) -> bool:
    """sarama-2619: the overtaken record had no outcome yet when messages to its partition had to be sent again."""
    if anomaly != Anomaly.REORDERED or not repeated(met, anomaly, record, recorded):
        return False
    return met.partition == recorded.sent[record][0].partition


def sent_unnumbered(met: DefectPrecondition, anomaly: AnyAnomaly, record: Identity, recorded: Recorded) -> bool:
    """sarama-3354: the record was acknowledged at the offset of another of its producer, and it
    was among the messages to its partition that waited behind repetitions."""
    sent = recorded.sent[record]
    if met.producer_id != record[0] or len(sent) != 1 or met.partition != sent[0].partition:
        return False
    return _is_open_at(met, sent[0]) and anomaly in _MISPLACED and _has_offset_of_another(record, recorded)


def _is_open_at(met: DefectPrecondition, sent: Sent) -> bool:
    """Whether the record had been sent and had no outcome yet when the precondition occurred."""
    is_open = sent.outcome == "info" if sent.complete_ns is None else sent.complete_ns >= met.ts_ns
    return is_open and sent.invoke_ns <= met.ts_ns


def _has_offset_of_another(record: Identity, recorded: Recorded) -> bool:
    """Whether the log has one record of the same producer, and not this one, where this one was acknowledged."""
    sent = recorded.sent[record][0]
    holders = recorded.holders[sent.partition, sent.offset]
    return len(holders) == 1 and holders[0] != record and holders[0][0] == record[0]


EXPLAINS: Mapping[str, Callable[[DefectPrecondition, AnyAnomaly, Identity, Recorded], bool]] = {
    "librdkafka-4953": renewed_epoch,
    "KAFKA-14397": renewed_for_partition,
    "KAFKA-15591": acknowledged_implicitly,
    "KAFKA-17754": ended_late,
    "KAFKA-5385": committed_without,
    "kafkajs-822": repeated,
    "kafkajs-1005": repeated,
    "sarama-2619": returned_late,
    "sarama-3354": sent_unnumbered,
    **dict.fromkeys(READ_ON, read_on),
}
"""By defect, whether a precondition explains a record of a finding. A defect that is not here explains nothing."""
