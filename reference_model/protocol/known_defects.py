"""Defects of clients and brokers that are known by their tickets, as variants of a rule.

A prediction states what Kafka promises. Where a known defect of the software in use makes a forbidden anomaly
reachable all the same, the prediction names the defect beside the status, which it does not change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from kafka_chaos.contract.errors import UsageFailure, quoted
from kafka_chaos.contract.lanes import Lane
from kafka_chaos.contract.metadata import USUAL_VERSION, release


def in_idempotence(lane: Lane) -> bool:
    """Whether a lane's producers are idempotent."""
    return lane.idempotence


def taking_any_first_batch(lane: Lane) -> bool:
    """Whether a lane's producers are idempotent and use no transactions, and its brokers are as since 2.5 (KIP-360)."""
    return without_transactions(lane) and release(lane.kafka_version or USUAL_VERSION) >= (2, 5)


def without_transactions(lane: Lane) -> bool:
    """Whether a lane's producers are idempotent and use no transactions."""
    return lane.idempotence and lane.transactional is None


def in_transactions(lane: Lane) -> bool:
    """Whether a lane's producers use transactions."""
    return lane.transactional is not None


def before_verification(lane: Lane) -> bool:
    """Whether a lane's producers use transactions, and its leaders do not verify them (since 3.6, KIP-890)."""
    unverified = lane.verifies_transactions is False or release(lane.kafka_version or USUAL_VERSION) < (3, 6)
    return in_transactions(lane) and unverified


@dataclass(frozen=True, slots=True)
class KnownDefect:
    """A defect: the `rule` of the model that it changes, the `precondition` without which it does not occur, and its
    `effect`.

    `versions` says in which versions of the component it was seen, `concerns` whether a lane uses what it is in.
    """

    id: str
    ticket: str
    component: str
    versions: str
    rule: str
    precondition: str
    effect: str
    concerns: Callable[[Lane], bool] = in_idempotence

    def to_json(self) -> dict[str, str]:
        """The form of `predict --json`."""
        return {name: getattr(self, name) for name in self.__slots__ if name != "concerns"}


LIBRDKAFKA_4953 = KnownDefect(
    id="librdkafka-4953",
    ticket="https://github.com/confluentinc/librdkafka/issues/4953",
    component="librdkafka",
    versions="seen with 2.16.0; the ticket is open",
    rule="a producer renews its producer epoch only if a broker refuses a sequence number behind an acknowledged "
    "record (KIP-360), and sends nothing under the new epoch that may be in a log already",
    precondition="a message times out (message.timeout.ms) or a sequence number is skipped, in any partition, while "
    "the outcome of others is in doubt: the producer renews its epoch for all partitions and sends those again",
    effect="Brokers can't recognise a record that was stored before: it is in the log again.",
    concerns=without_transactions,
)

KAFKA_15591 = KnownDefect(
    id="KAFKA-15591",
    ticket="https://issues.apache.org/jira/browse/KAFKA-15591",
    component="broker",
    versions="2.5 (KIP-360) to 4.x, without pull request 23234 of August 2026; also reported as KAFKA-14312 and "
    "KAFKA-19880",
    rule="a broker that knows nothing of a producer takes its batch with sequence number 0 and no other",
    precondition="a producer is new to a partition and has more than one request in flight; the first one fails "
    "without an append (no leader yet, NOT_ENOUGH_REPLICAS) while the next arrives later and is taken",
    effect="The overtaken record is in no log, and refused with OUT_OF_ORDER_SEQUENCE_NUMBER from then on. librdkafka "
    "reports it as acknowledged, since a later one was (implicit acknowledgement).",
    concerns=taking_any_first_batch,
)

KAFKA_17754 = KnownDefect(
    id="KAFKA-17754",
    ticket="https://issues.apache.org/jira/browse/KAFKA-17754",
    component="transactions before KIP-890's second part",
    versions="clients before 4.0, and librdkafka up to 2.16 at least, whatever the brokers are; also reported as "
    "librdkafka #5423",
    rule="requests of a transaction arrive in the order they were sent in, and none once the producer has seen it end "
    "(what KIP-98 assumes)",
    precondition="an EndTxn request is late (the coordinator is frozen, or the network holds it), the producer sends "
    "it again, and its next transaction is open when the late one arrives",
    effect="The late request ends the next transaction in the middle: commits what is to be aborted, aborts what is to "
    "be committed.",
    concerns=in_transactions,
)

KAFKA_14402 = KnownDefect(
    id="KAFKA-14402",
    ticket="https://issues.apache.org/jira/browse/KAFKA-14402",
    component="broker",
    versions="0.11 to 3.5; since 3.6, leaders verify with the coordinator that a transaction is open, unless "
    "transaction.partition.verification.enable is false",
    rule="requests of a transaction arrive in the order they were sent in, and none once the producer has seen it end "
    "(what KIP-98 assumes)",
    precondition="a producer gives a record up and aborts, and the record arrives after the abort marker",
    effect="The record opens a transaction that the coordinator does not know, and that nobody ends.",
    concerns=before_verification,
)

KNOWN_DEFECTS: Mapping[str, KnownDefect] = {
    defect.id: defect for defect in (LIBRDKAFKA_4953, KAFKA_15591, KAFKA_17754, KAFKA_14402)
}


def require_known(ids: Iterable[str], option: str) -> None:
    """Raise `UsageFailure` for the first of the ids that no known defect has; `option` is where they were given."""
    for one in ids:
        if one not in KNOWN_DEFECTS:
            raise UsageFailure(f"{option}: {quoted(one)}: expected known defects out of {', '.join(KNOWN_DEFECTS)}")
