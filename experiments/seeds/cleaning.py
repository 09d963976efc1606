"""Document 001, what leaves a log: retention by time and by size, and compaction."""

from __future__ import annotations

import time

from confluent_kafka import Consumer

from kafka_chaos.harness.broker_client import error_name
from kafka_chaos.harness.scenario.house import House
from kafka_chaos.harness.scenario.play import Play
from kafka_chaos.harness.scenario.registry import scenario
from kafka_chaos.harness.scenario.stage import Stage
from kafka_chaos.harness.signals import new_client
from kafka_chaos.harness.waiting import wait_until
from kafka_chaos.reference_model.cluster_model import Step, step

# Retention and the cleaner look every few tenths of a second instead of every five minutes and fifteen seconds.
CHECK_SECONDS = 0.4
CLEANING = House(
    name="quick to clean",
    configs={
        "log.retention.check.interval.ms": int(CHECK_SECONDS * 1000),
        "log.cleaner.backoff.ms": 200,
        "log.segment.delete.delay.ms": 500,
    },
)
_EVERYONE = (1, 2, 3)
# A record of two letters is a batch of 70 bytes: two of them fill a segment.
TWO_RECORDS = 140


@scenario(
    "retention-delete", document="001", title="Retention deletes closed segments, and with retention.ms=0 all of them"
)
def retention_delete(play: Play) -> None:
    """Segments are named by their base offset. With `retention.ms=0`, set while the cluster runs, the log is emptied:
    the active segment has expired too and is rolled first. Taken away again, nothing is deleted any more.
    `retention.bytes` deletes the oldest segments only. The log start moves; offsets go on, and nothing else is
    lost.
    """
    with play.act("by time", house=CLEANING, configs={"segment.bytes": TWO_RECORDS}) as stage:
        _five_records(stage)
        stage.take(
            "retention.ms=0 is set.",
            lambda: stage.tenancy.admin.alter_topic(stage.topic, {"retention.ms": 0}),
            step("apply_retention"),
        )
        stage.expect("the log is empty on every broker", seen=[stage.log(b) for b in _EVERYONE], expected=[[]] * 3)
        stage.expect("it starts where it ended", seen=[stage.replica(b).log_start for b in _EVERYONE], expected=[5] * 3)
        stage.expect("one segment, named by its base offset", seen=stage.eyes.files(1).base_offsets, expected=(5,))
        stage.take(
            "retention.ms is taken away again.",
            lambda: stage.tenancy.admin.alter_topic(stage.topic, {"retention.ms": None}),
        )
        stage.produce("m6")
        _several_checks(stage)
        stage.expect("m6 has the next offset, and stays", seen=stage.replica(1).log, expected=((5, "m6", 0),))
        stage.expect("a consumer sees m6", seen=stage.read(), expected=["m6"])
    with play.act("by size", house=CLEANING, configs={"segment.bytes": TWO_RECORDS}) as stage:
        _five_records(stage)
        stage.take(
            "retention.bytes=200 is set: the first segment is too much.",
            lambda: stage.tenancy.admin.alter_topic(stage.topic, {"retention.bytes": 200}),
            step("apply_retention", expired_below=2),
        )
        stage.expect("the log starts at 2", seen=[stage.replica(b).log_start for b in _EVERYONE], expected=[2] * 3)
        _several_checks(stage)
        stage.expect("two segments are left", seen=stage.eyes.files(1).base_offsets, expected=(2, 4))
        stage.expect("nothing else is lost", seen=stage.read(), expected=["m3", "m4", "m5"])


def _five_records(stage: Stage) -> None:
    for number in range(1, 6):
        # Two records fill a segment; the next one is appended to a new one.
        rolls = _rolls() if number in (3, 5) else ()
        _produce_after(stage, f"m{number}", rolls)
    stage.await_seen("m5 is committed everywhere.", lambda seen: stage.high_watermarks(seen) == [5, 5, 5])
    bases = [stage.eyes.files(broker).base_offsets for broker in _EVERYONE]
    stage.expect("segments are named by their base offsets", seen=bases, expected=[(0, 2, 4)] * 3)


def _produce_after(stage: Stage, record: str, rolls: tuple[Step, ...]) -> None:
    if rolls:
        stage.take("The active segments are full: the next record will roll them.", lambda: None, *rolls)
    stage.produce(record)


def _rolls() -> tuple[Step, ...]:
    return tuple(step("roll", broker=broker) for broker in _EVERYONE)


def _several_checks(stage: Stage) -> None:
    """Wait for the retention thread's next turns, which leave no trace where nothing has expired."""
    until = time.monotonic() + 5 * CHECK_SECONDS
    stage.await_seen("Retention is checked several times.", lambda seen: time.monotonic() > until)


@scenario("compaction", document="001", title="Compaction keeps the last value of each key, and every offset")
def compaction(play: Play) -> None:
    """Closed segments are compacted: the last record of each key survives with its offset, the active segment is left
    alone. A tombstone removes its key, and goes itself in a later pass, once `delete.retention.ms` has passed.
    `min.compaction.lag.ms` holds compaction up, `min.cleanable.dirty.ratio` waits for enough to do,
    `max.compaction.lag.ms` does not wait. A record without a key is refused, and the consumer groups' own topic is
    compacted.
    """
    # A record with a key is a batch of 71 bytes, the tombstone of 86: one to a segment.
    each = {"cleanup.policy": "compact", "segment.bytes": 100}
    eager = {**each, "min.cleanable.dirty.ratio": 0.01, "delete.retention.ms": 0}
    with play.act("the last value per key", house=CLEANING, configs=eager) as stage:
        _keyed(stage, "m1", "a")
        _keyed(stage, "m2", "b")
        _keyed(stage, "m3", "a")
        _keyed(stage, "m4", "a", step("compact"))
        log = ((1, "m2", 0), (2, "m3", 0), (3, "m4", 0))
        stage.expect("m1 is gone, offsets are kept", seen=[stage.replica(b).log for b in _EVERYONE], expected=[log] * 3)
        stage.expect("a consumer sees the rest", seen=stage.read(), expected=["m2", "m3", "m4"])
        with stage.ask(1) as leader:
            error, _ = leader.produce(stage.topic, "no key")
        stage.expect("a record without a key is refused", seen=error_name(error), expected="INVALID_RECORD")
        _keyed(stage, "delete b", "b", step("compact"), tombstone=True)
        stage.expect("b is still there: its tombstone is active", seen=stage.log(1), expected=["m2", "m4", "delete b"])
        _keyed(stage, "m5", "c", step("compact"))
        stage.expect("the tombstone has removed b", seen=stage.log(1), expected=["m4", "delete b", "m5"])
        _keyed(stage, "m6", "c", step("compact", drop_tombstones=True))
        stage.expect("the next pass removes the tombstone", seen=stage.log(1), expected=["m4", "m5", "m6"])
    with play.act("when it is done", house=CLEANING, configs={**each, "min.compaction.lag.ms": 600_000}) as stage:
        for record in ("m1", "m2", "m3"):
            _keyed(stage, record, "a")
        _several_checks(stage)
        stage.expect("too young to be compacted", seen=stage.log(1), expected=["m1", "m2", "m3"])
        stage.take(
            "min.compaction.lag.ms=0 and min.cleanable.dirty.ratio=0.99 are set.",
            lambda: stage.tenancy.admin.alter_topic(
                stage.topic, {"min.compaction.lag.ms": 0, "min.cleanable.dirty.ratio": 0.99}
            ),
            step("compact"),
        )
        stage.expect("m1 is compacted away", seen=stage.log(1), expected=["m2", "m3"])
        _keyed(stage, "m4", "a")
        _several_checks(stage)
        stage.expect("half of it is clean: too little to do", seen=stage.log(1), expected=["m2", "m3", "m4"])
        stage.take(
            "max.compaction.lag.ms=1 is set: no waiting for enough to do.",
            lambda: stage.tenancy.admin.alter_topic(stage.topic, {"max.compaction.lag.ms": 1}),
            step("compact"),
        )
        stage.expect("m2 is compacted away", seen=stage.log(1), expected=["m3", "m4"])
        _commit_an_offset(stage)
        policy = stage.tenancy.admin.topic_config("__consumer_offsets", "cleanup.policy")
        stage.expect("the consumer groups' topic is compacted", seen=policy, expected="compact")


def _keyed(stage: Stage, record: str, key: str, *then: Step, tombstone: bool = False) -> None:
    """A record in a segment of its own."""
    stage.take("The active segments are full: the next record will roll them.", lambda: None, *_rolls())
    stage.produce(record, key=key, tombstone=tombstone, then=then)


def _commit_an_offset(stage: Stage) -> None:
    consumer = new_client(
        Consumer,
        {
            "bootstrap.servers": stage.tenancy.cluster.bootstrap_servers,
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
            consumer.commit(message, asynchronous=False)
            return True

        wait_until(committed, "a consumer group to commit an offset", timeout=60)
    finally:
        consumer.close()
