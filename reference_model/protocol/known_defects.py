"""Defects of clients and brokers that are known by their tickets, as variants of a rule.

A prediction states what Kafka promises. Where a known defect of the software in use makes a forbidden anomaly
reachable all the same, the prediction names the defect beside the status, which it does not change.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kafka_chaos.contract.errors import UsageFailure, quoted
from kafka_chaos.contract.lanes import Lane


@dataclass(frozen=True, slots=True)
class KnownDefect:
    """A defect: the `rule` of the model that it changes, the `precondition` without which it does not occur, and its
    `effect`.

    `versions` says in which versions of the component it was seen.
    """

    id: str
    ticket: str
    component: str
    versions: str
    rule: str
    precondition: str
    effect: str

    def concerns(self, lane: Lane) -> bool:
        """Whether a lane uses what the defect is in: so far, all are in idempotence."""
        return lane.idempotence

    def to_json(self) -> dict[str, str]:
        """The form of `predict --json`."""
        return {name: getattr(self, name) for name in self.__slots__}


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
)

KAFKA_15591 = KnownDefect(
    id="KAFKA-15591",
    ticket="https://issues.apache.org/jira/browse/KAFKA-15591",
    component="broker",
    versions="2.5 (KIP-360) to 4.x, without pull request 23234 of August 2026; also reported as KAFKA-14312 and "
    "KAFKA-19880",
    rule="a broker that knows nothing of a producer takes its batch with sequence number 0 and no other",
    precondition="more than one request in flight, and the first one fails without an append (no leader yet, "
    "NOT_ENOUGH_REPLICAS) while the next arrives later and is taken",
    effect="The overtaken record is refused with OUT_OF_ORDER_SEQUENCE_NUMBER from then on, until it ends as `info`.",
)

KNOWN_DEFECTS: Mapping[str, KnownDefect] = {defect.id: defect for defect in (LIBRDKAFKA_4953, KAFKA_15591)}


def require_known(ids: Iterable[str], option: str) -> None:
    """Raise `UsageFailure` for the first of the ids that no known defect has; `option` is where they were given."""
    for one in ids:
        if one not in KNOWN_DEFECTS:
            raise UsageFailure(f"{option}: {quoted(one)}: expected known defects out of {', '.join(KNOWN_DEFECTS)}")
