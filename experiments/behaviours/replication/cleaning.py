"""What leaves a log: retention by time and by size, and compaction."""

from __future__ import annotations

import time

from confluent_kafka import Consumer

from kafka_chaos.conformance.scenario.clusters import ClusterProfile
from kafka_chaos.conformance.scenario.play import Play
from kafka_chaos.conformance.scenario.registry import scenario
from kafka_chaos.conformance.scenario.stage import Stage
from kafka_chaos.harness.cluster.broker.error_codes import error_name
from kafka_chaos.harness.signals import new_client
from kafka_chaos.harness.waiting import wait_until
from kafka_chaos.reference_model.lockstep.cluster_model import Step, step

# Retention and the cleaner run every few tenths of a second instead of every five minutes and fifteen seconds.
CHECK_SECONDS = 0.4
CLEANING = ClusterProfile(
    name="quick cleaning",
    configs={
        "log.retention.check.interval.ms": int(CHECK_SECONDS * 1000),
        "log.cleaner.backoff.ms": 200,
        "log.segment.delete.delay.ms": 500,
    },
)
_EVERYONE = (1, 2, 3)
# A record of two letters is a batch of 70 bytes, so two of them fill a segment.
TWO_RECORDS = 140


@scenario("retention-delete", title="Retention deletes closed segments; retention.ms=0 deletes all of them")
def retention_delete(play: Play) -> None:
    """A segment is named after its base offset. Setting `retention.ms=0` while the cluster runs empties the log: the
    active segment has expired too, so the broker rolls it first. Once the setting is removed, nothing more is deleted.
    `retention.bytes` deletes only the oldest segments. The log start offset moves, offsets continue, and nothing else
    is lost.
    """
    with play.act("by time", profile=CLEANING, configs={"segment.bytes": TWO_RECORDS}) as stage:
        _five_records(stage)
        stage.take(
            "retention.ms=0 is set.",
            lambda: stage.lease.admin.alter_topic(stage.topic, {"retention.ms": 0}),
            step("apply_retention"),
        )
        stage.expect("The log is empty on every broker", stage.logs(), [[]] * 3)
        stage.expect("The log starts where it ended", _log_starts(stage), [5] * 3)
        stage.expect("One segment, named after its base offset", _segments(stage, 1), (5,))
        stage.take(
            "retention.ms is removed again.",
            lambda: stage.lease.admin.alter_topic(stage.topic, {"retention.ms": None}),
        )
        stage.produce("m6")
        _several_checks(stage)
        stage.expect("m6 has the next offset and stays", stage.replica(1).log, ((5, "m6", 0),))
        stage.expect("A consumer reads m6", stage.read(), ["m6"])
    with play.act("by size", profile=CLEANING, configs={"segment.bytes": TWO_RECORDS}) as stage:
        _five_records(stage)
        stage.take(
            "retention.bytes=200 is set, which the first segment exceeds.",
            lambda: stage.lease.admin.alter_topic(stage.topic, {"retention.bytes": 200}),
            step("apply_retention", expired_below=2),
        )
        stage.expect("The log starts at 2", _log_starts(stage), [2] * 3)
        _several_checks(stage)
        stage.expect("Two segments are left", _segments(stage, 1), (2, 4))
        stage.expect("Nothing else is lost", stage.read(), ["m3", "m4", "m5"])


def _five_records(stage: Stage) -> None:
    for number in range(1, 6):
        # Two records fill a segment; the next one goes to a new segment.
        if number in (3, 5):
            _roll(stage)
        stage.produce(f"m{number}")
    stage.await_committed("m5", 5)
    bases = [_segments(stage, broker) for broker in _EVERYONE]
    stage.expect("Segments are named after their base offsets", bases, [(0, 2, 4)] * 3)


def _segments(stage: Stage, broker: int) -> tuple[int, ...]:
    return tuple(stage.observer.files(broker).base_offsets)


def _log_starts(stage: Stage) -> list[int | None]:
    return [stage.replica(broker).log_start for broker in _EVERYONE]


def _roll(stage: Stage) -> None:
    steps = [step("roll", broker=broker) for broker in _EVERYONE]
    stage.take("The active segments are full; the next record will roll them.", lambda: None, *steps)


def _several_checks(stage: Stage) -> None:
    """Wait for several runs of the retention thread, which leave no trace if nothing has expired."""
    until = time.monotonic() + 5 * CHECK_SECONDS
    stage.await_seen("The retention check runs several times.", lambda seen: time.monotonic() > until)


@scenario("compaction", title="Compaction keeps the last value of each key, and every offset")
def compaction(play: Play) -> None:
    """Compaction keeps the last record of each key in closed segments, with its offset, and leaves the active segment
    alone. A tombstone removes its key. A later pass removes the tombstone itself once `delete.retention.ms` has passed.
    `min.compaction.lag.ms` delays compaction. `min.cleanable.dirty.ratio` waits until enough of the log is dirty;
    `max.compaction.lag.ms` ends that wait. The broker refuses a record without a key. The topic of consumer groups'
    offsets is compacted too.
    """
    # A record with a key is a batch of 71 bytes, the tombstone one of 86 bytes, so each gets its own segment.
    each = {"cleanup.policy": "compact", "segment.bytes": 100}
    eager = {**each, "min.cleanable.dirty.ratio": 0.01, "delete.retention.ms": 0}
    with play.act("the last value per key", profile=CLEANING, configs=eager) as stage:
        _keyed(stage, "m1", "a")
        _keyed(stage, "m2", "b")
        _keyed(stage, "m3", "a")
        _keyed(stage, "m4", "a", step("compact"))
        log = ((1, "m2", 0), (2, "m3", 0), (3, "m4", 0))
        stage.expect("m1 is gone, offsets stay", [stage.replica(b).log for b in _EVERYONE], [log] * 3)
        stage.expect("A consumer reads the rest", stage.read(), ["m2", "m3", "m4"])
        with stage.ask(1) as leader:
            error, _ = leader.produce(stage.topic, "no key")
        stage.expect("A record without a key is refused", error_name(error), "INVALID_RECORD")
        _keyed(stage, "delete b", "b", step("compact"), tombstone=True)
        stage.expect("m2 stays while the tombstone is in the active segment", stage.log(1), ["m2", "m4", "delete b"])
        _keyed(stage, "m5", "c", step("compact"))
        stage.expect("The tombstone has removed m2", stage.log(1), ["m4", "delete b", "m5"])
        _keyed(stage, "m6", "c", step("compact", drop_tombstones=True))
        stage.expect("The next pass removes the tombstone", stage.log(1), ["m4", "m5", "m6"])
    with play.act(
        "when compaction runs", profile=CLEANING, configs={**each, "min.compaction.lag.ms": 600_000}
    ) as stage:
        for record in ("m1", "m2", "m3"):
            _keyed(stage, record, "a")
        _several_checks(stage)
        stage.expect("All records are too young to be compacted", stage.log(1), ["m1", "m2", "m3"])
        stage.take(
            "min.compaction.lag.ms=0 and min.cleanable.dirty.ratio=0.99 are set.",
            lambda: stage.lease.admin.alter_topic(
                stage.topic, {"min.compaction.lag.ms": 0, "min.cleanable.dirty.ratio": 0.99}
            ),
            step("compact"),
        )
        stage.expect("m1 is compacted away", stage.log(1), ["m2", "m3"])
        _keyed(stage, "m4", "a")
        _several_checks(stage)
        stage.expect("Half of the log is clean, so compaction waits", stage.log(1), ["m2", "m3", "m4"])
        stage.take(
            "max.compaction.lag.ms=1 is set, which ends the wait.",
            lambda: stage.lease.admin.alter_topic(stage.topic, {"max.compaction.lag.ms": 1}),
            step("compact"),
        )
        stage.expect("m2 is compacted away", stage.log(1), ["m3", "m4"])
        _commit_an_offset(stage)
        policy = stage.lease.admin.topic_config("__consumer_offsets", "cleanup.policy")
        stage.expect("The cleanup policy of __consumer_offsets", policy, "compact")


def _keyed(stage: Stage, record: str, key: str, *then: Step, tombstone: bool = False) -> None:
    """Produce a record into its own segment."""
    _roll(stage)
    stage.produce(record, key=key, tombstone=tombstone, then=then)


def _commit_an_offset(stage: Stage) -> None:
    consumer = new_client(
        Consumer,
        {
            "bootstrap.servers": stage.lease.cluster.bootstrap_servers,
            "group.id": stage.topic,
            "auto.offset.reset": "earliest",
            "log_level": 0,
        },
    )
    try:
        consumer.subscribe([stage.topic])

        def committed() -> bool:
            message = consumer.poll(0.5)
            if message is None or message.error() is not None:
                return False
            consumer.commit(message=message, asynchronous=False)
            return True

        wait_until(committed, "a consumer group to commit an offset", timeout=60)
    finally:
        consumer.close()
