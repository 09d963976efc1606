"""Defects of clients and brokers that are known by their tickets, as variants of a rule.

A prediction states what Kafka promises. Where a known defect of the software in use makes a forbidden anomaly
reachable all the same, the prediction names the defect beside the status, which it does not change.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kafka_chaos.contract.lanes import Lane


@dataclass(frozen=True, slots=True)
class KnownDefect:
    """A defect: the `rule` of the model that it changes, and the `precondition` without which it does not occur.

    `versions` says in which versions of the component it was seen.
    """

    id: str
    ticket: str
    component: str
    versions: str
    rule: str
    precondition: str

    def concerns(self, lane: Lane) -> bool:
        """Whether a lane uses what the defect is in."""
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
)

KNOWN_DEFECTS: Mapping[str, KnownDefect] = {defect.id: defect for defect in (LIBRDKAFKA_4953,)}
