"""The replicas of a breach, compared with the model: segments, high watermarks, roles, and ZooKeeper's record."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from kafka_chaos.conformance.reproduce.breaches.stories import BROKERS, BreachStep
from kafka_chaos.conformance.scenario.clusters import ClusterLease
from kafka_chaos.harness.cluster.broker.answers import NONE
from kafka_chaos.harness.cluster.broker.client import FETCH_FROM_ANY, BrokerClient
from kafka_chaos.harness.cluster.storage.replica import NoReplica, read_replica


@dataclass(frozen=True, slots=True)
class ObservedReplica:
    """A broker's replica: (record, leader epoch) of its segments, the epoch −1 before message format v2.

    `leads`: whether it takes itself for the leader.
    """

    log: tuple[tuple[str, int], ...]
    high_watermark: int
    leads: bool

    @property
    def records(self) -> tuple[str, ...]:
        """The names of its records."""
        return tuple(record for record, _ in self.log)


@dataclass(frozen=True, slots=True)
class Observed:
    """The replicas by broker, and what ZooKeeper holds of the partition."""

    replicas: dict[int, ObservedReplica]
    leader: int
    leader_epoch: int
    isr: tuple[int, ...]


def observe(lease: ClusterLease, topic: str) -> Observed:
    """The present state of the brokers. It is not one moment."""
    with ThreadPoolExecutor(len(BROKERS)) as threads:
        found = dict(zip(BROKERS, threads.map(lambda broker: _replica(lease, broker, topic), BROKERS), strict=True))
    record = lease.metadata.partition(topic)
    if record is None:
        return Observed(found, 0, -1, ())
    return Observed(found, record.leader, record.leader_epoch, record.isr)


def held_by(lease: ClusterLease, broker: int, topic: str) -> tuple[str, ...]:
    """The names of the records in a broker's segments."""
    return tuple(record for record, _ in _log(lease, broker, topic) or ())


def _log(lease: ClusterLease, broker: int, topic: str) -> tuple[tuple[str, int], ...] | None:
    """The records of a broker's segments with their leader epochs; None where it has no replica."""
    try:
        files = read_replica(lease.cluster.brokers[broker], topic, 0)
    except NoReplica:
        return None
    return tuple(((one.value or b"").decode(), one.leader_epoch) for one in files.records)


def _replica(lease: ClusterLease, broker: int, topic: str) -> ObservedReplica:
    log = _log(lease, broker, topic)
    if log is None:
        return ObservedReplica((), 0, leads=False)
    with BrokerClient(lease.cluster.client_address(broker)) as client:
        error, _ = client.latest_offset(topic)
        answer = client.fetch(topic, version=FETCH_FROM_ANY)
    # A broker that has not been told of its replica since it has started knows none.
    known = answer.error == NONE
    return ObservedReplica(log, answer.high_watermark if known else 0, leads=error == NONE)


def differs(seen: Observed, step: BreachStep, following: BreachStep | None) -> str | None:
    """The difference from the model's state after a step, if there is any; `following`: the next step, if there is one.

    What leaders do by themselves may have happened already. A leader's high watermark may be ahead of the model's,
    whose leaders advance it by a step of its own: it has to be the same after that step, and where the story ends. And
    a leader may have changed the ISR if the next step says so.
    """
    found = seen.leader, seen.leader_epoch, seen.isr
    told = [(one.leader, one.leader_epoch, one.isr) for one in (step, following) if one is not None]
    early = following is not None and following.name in ("shrink_isr", "expand_isr")
    if found != told[0] and not (early and found == told[1]):
        return f"leader, leader epoch and ISR are {found}, the model's {told[0]}"
    for broker, replica in seen.replicas.items():
        model = step.replica(broker)
        if replica.records != model.log:
            return f"broker {broker} holds {replica.records}, the model's {model.log}"
        if replica.leads != (model.leader == broker):
            return f"broker {broker} {'leads' if replica.leads else 'does not lead'}, the model's has {model.led_by}"
        advanced = (step.name, step.broker) == ("advance_high_watermark", broker)
        exact = following is None or model.leader != broker or advanced
        if exact and replica.high_watermark != model.high_watermark:
            return f"broker {broker} has high watermark {replica.high_watermark}, the model's {model.high_watermark}"
    return None
