"""Defects of clients and brokers that are known by their tickets, as variants of a rule: known_defects.toml has them.

A prediction states what Kafka promises. Where a known defect of the software in use makes a forbidden anomaly
reachable all the same, the prediction names the defect beside the status, which it does not change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from kafka_chaos.contract.command.errors import UsageFailure, quoted
from kafka_chaos.contract.command.files import toml_of
from kafka_chaos.contract.lane.lanes import Lane
from kafka_chaos.contract.lane.metadata import USUAL_VERSION, release
from kafka_chaos.reference_model.clients.rules import (
    AIOKAFKA,
    KAFKA_PYTHON,
    KAFKAJS,
    SARAMA,
    checks_epochs,
    has_epoch_per_transaction,
    rules_of_client,
)


def taking_any_first_batch(lane: Lane) -> bool:
    """Whether a lane's producers are idempotent and use no transactions, and its brokers are as since 2.5 (KIP-360)."""
    return without_transactions(lane) and release(lane.kafka_version or USUAL_VERSION) >= (2, 5)


def without_transactions(lane: Lane) -> bool:
    """Whether a lane's producers are idempotent and use no transactions."""
    return lane.idempotence and lane.transactional is None


def renewing_for_all(lane: Lane) -> bool:
    """The same of a client whose producer renews its epoch for all partitions at once."""
    return without_transactions(lane) and rules_of_client(lane).renews_for_all


def numbering_anew(lane: Lane) -> bool:
    """The same of a client that numbers each attempt, with several requests in flight."""
    return without_transactions(lane) and lane.max_in_flight > 1 and rules_of_client(lane).numbers_anew


def leaving_unnumbered(lane: Lane) -> bool:
    """The same of a client that leaves messages without a number while it sends others again."""
    return without_transactions(lane) and rules_of_client(lane).leaves_unnumbered


def returning_late(lane: Lane) -> bool:
    """Whether a lane's client lets messages that are sent again change their order, where the promise is to keep it."""
    in_order = lane.idempotence or lane.max_in_flight == 1
    return lane.acks != "0" and lane.transactional is None and in_order and rules_of_client(lane).returns_late


def repeating_unanswered(lane: Lane) -> bool:
    """Whether a lane's client sends again what no broker answers for (acks=0), with several requests in flight."""
    return lane.acks == "0" and lane.max_in_flight > 1 and rules_of_client(lane).repeats_unanswered


def sharing_epochs(lane: Lane) -> bool:
    """Whether transactions of a lane's producers may follow each other in one producer epoch."""
    return lane.transactional is not None and not has_epoch_per_transaction(lane)


def committing_without(lane: Lane) -> bool:
    """Whether a lane's client may commit a transaction of which it has given records up."""
    return lane.transactional is not None and rules_of_client(lane).commits_without


def before_verification(lane: Lane) -> bool:
    """Whether a lane's producers use transactions, and its leaders do not verify them (since 3.6, KIP-890)."""
    unverified = lane.verifies_transactions is False or release(lane.kafka_version or USUAL_VERSION) < (3, 6)
    return lane.transactional is not None and unverified


def renewing_after_error(lane: Lane) -> bool:
    """Whether a lane's idempotent producers renew their epoch for a partition with batches in flight to it."""
    return without_transactions(lane) and rules_of_client(lane).renews_after_error


def blocking_by_clock(lane: Lane) -> bool:
    """Whether a lane's transactions have a coordinator that compares times of its wall clock (before 2.5)."""
    return lane.transactional is not None and release(lane.kafka_version or USUAL_VERSION) < (2, 5)


def reading_on(kind: str) -> Callable[[Lane], bool]:
    """Whether a lane's consumers are of this kind and don't notice that the log below their position was replaced."""
    return lambda lane: (lane.client or "").partition(" ")[0] == kind and not checks_epochs(lane)


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownDefect:
    """A defect: the `rule` that it breaks, the `precondition` without which it does not occur, and its `effect`.

    `versions` says in which versions of the component it was seen, `shown` which experiment or scenario shows it, or
    why none does. `error`: part of the error with which it ends a client.
    """

    id: str
    ticket: str
    component: str
    versions: str
    rule: str
    precondition: str
    effect: str
    shown: str
    error: str = ""

    def concerns(self, lane: Lane) -> bool:
        """Whether a lane uses what the defect is in, and the model knows the rule that it breaks."""
        return self.id in CONCERNED and CONCERNED[self.id](lane)

    def to_json(self) -> dict[str, str]:
        """The form of `predict --json`."""
        return {name: getattr(self, name) for name in self.__slots__ if name not in ("shown", "error")}


def _given() -> Mapping[str, KnownDefect]:
    given: Mapping[str, Mapping[str, Any]] = toml_of(__package__, "known_defects.toml")
    return {id: KnownDefect(id=id, **values) for id, values in given.items()}


ALL_DEFECTS = _given()
READ_ON: Mapping[str, str] = {
    "sarama-2365": SARAMA,
    "aiokafka-kip-320": AIOKAFKA,
    "kafka-python-2978": KAFKA_PYTHON,
    "kafkajs-818": KAFKAJS,
}
"""The defects of consumers that compare no leader epochs (KIP-320), with their clients."""
CONCERNED: Mapping[str, Callable[[Lane], bool]] = {
    "librdkafka-4953": renewing_for_all,
    "KAFKA-15591": taking_any_first_batch,
    "kafkajs-1005": numbering_anew,
    "kafkajs-822": repeating_unanswered,
    "sarama-2619": returning_late,
    "sarama-3354": leaving_unnumbered,
    "KAFKA-17754": sharing_epochs,
    "KAFKA-14402": before_verification,
    "KAFKA-5385": committing_without,
    "KAFKA-14397": renewing_after_error,
    "KAFKA-8803": blocking_by_clock,
    **{id: reading_on(kind) for id, kind in READ_ON.items()},
}
KNOWN_DEFECTS: Mapping[str, KnownDefect] = {id: ALL_DEFECTS[id] for id in CONCERNED}
"""Those of which the model knows the rule. Only these are named by predictions and verdicts."""


def require_known(ids: Iterable[str], option: str) -> None:
    """Raise `UsageFailure` for the first of the ids that no known defect has; `option` is where they were given."""
    for one in ids:
        if one not in KNOWN_DEFECTS:
            raise UsageFailure(f"{option}: {quoted(one)}: expected known defects out of {', '.join(KNOWN_DEFECTS)}")
