"""Eligible leader replicas (KIP-966): who may lead once the last member of the ISR is gone."""

from __future__ import annotations

import json

from kafka_chaos.conformance.scenario.clusters import ClusterProfile
from kafka_chaos.conformance.scenario.play import Play
from kafka_chaos.conformance.scenario.power_loss import clean_shutdown_file, cut_last_batch
from kafka_chaos.conformance.scenario.registry import scenario
from kafka_chaos.conformance.scenario.stage import Stage
from kafka_chaos.contract.metadata import KRAFT
from kafka_chaos.reference_model.lockstep.cluster_model import step

VERSION = "4.3.1"
WITH = ClusterProfile(name=f"Kafka {VERSION} in KRaft mode", kafka_version=VERSION, metadata_mode=KRAFT)
WITHOUT = ClusterProfile(
    name=f"Kafka {VERSION} in KRaft mode, no eligible leader replicas",
    kafka_version=VERSION,
    metadata_mode=KRAFT,
    elr=False,
)


@scenario(
    "elr-last-replica-standing",
    title="The last member of the ISR loses power: with eligible leader replicas, nothing is lost",
)
def elr_last_replica_standing(play: Play) -> None:
    """Two replicas hold an acknowledged record, with min.insync.replicas=2. One is shut down, so that the ISR has one
    member. Then that one loses power, and with it the record, which it had not flushed. Without eligible leader
    replicas it leads again when it is back, because it is the last member of the ISR, and the other replica truncates
    the record. With them, the replica that was shut down is eligible, since nothing was committed without it. The one
    that lost power is not: it waits until the other is back and leads.
    """
    with play.act("without eligible leader replicas", profile=WITHOUT, replicas=(1, 2), min_insync_replicas=2) as stage:
        _power_is_lost_at_the_last_member(stage)
        stage.expect("Broker 1 leads again", (stage.seen.leader, stage.seen.isr), (1, (1,)))
        stage.start(2)
        stage.expect("Broker 2 has truncated m2", stage.log(2), ["m1"])
        stage.expect("m2, which was acknowledged, is gone", stage.read(), ["m1"])
    with play.act("with eligible leader replicas", profile=WITH, replicas=(1, 2), min_insync_replicas=2) as stage:
        _power_is_lost_at_the_last_member(stage)
        stage.expect("No broker leads", (stage.seen.leader, stage.seen.isr), (0, ()))
        stage.start(2)
        stage.expect("Broker 2 leads", stage.seen.leader, 2)
        stage.expect("Nothing is lost", stage.read(), ["m1", "m2"])
        stage.expect("Broker 1 has fetched m2 again", stage.log(1), ["m1", "m2"])


def _power_is_lost_at_the_last_member(stage: Stage) -> None:
    stage.produce("m1")
    stage.produce("m2")
    stage.expect("Both records are acknowledged", len(stage.seen.acknowledged or ()), 2)
    stage.stop(2)
    stage.expect("Only broker 1 is in the ISR", stage.seen.isr, (1,))
    stage.kill(1)
    stage.take(
        "Power loss at broker 1: m2, which it had not flushed, is gone.",
        lambda: cut_last_batch(stage.node(1), stage.topic, 0),
        step("power_loss", broker=1, kept=1),
    )
    stage.start(1)


@scenario(
    "unclean-shutdown",
    title="After an unclean shutdown, a broker is no longer eligible",
)
def unclean_shutdown(play: Play) -> None:
    """A broker that shuts down cleanly writes its broker epoch to a file. It names that epoch when it registers again,
    and the controller compares it with the last one that it gave out. Both replicas of a partition are down. After a
    clean shutdown, the first one that is back is eligible and leads. After an unclean one it is not: it may have lost
    the end of its log, and nobody leads until the other replica is back.
    """
    with play.act("two clean shutdowns", profile=WITH, replicas=(1, 2), min_insync_replicas=2) as stage:
        stage.produce("m1")
        stage.stop(2)
        stage.stop(1)
        stage.expect("The ISR is empty", stage.seen.isr, ())
        epoch = _epoch_of_clean_shutdown(stage, 2)
        stage.expect("Broker 2's file has the epoch of its clean shutdown", (epoch or 0) > 0)
        stage.start(2)
        stage.expect("Broker 2 was eligible, and leads", (stage.seen.leader, stage.seen.isr), (2, (2,)))
        stage.start(1)
        stage.expect("All replicas are in sync", stage.seen.isr, (1, 2))
    with play.act("an unclean shutdown", profile=WITH, replicas=(1, 2), min_insync_replicas=2) as stage:
        stage.produce("m1")
        stage.kill(2)
        stage.stop(1)
        stage.expect("The ISR is empty", stage.seen.isr, ())
        stage.expect("Broker 2 has no such file", _epoch_of_clean_shutdown(stage, 2), None)
        stage.start(2)
        stage.expect("Broker 2 is not eligible: nobody leads", stage.seen.leader, 0)
        stage.start(1)
        stage.expect("Broker 1 was eligible, and leads", stage.seen.leader, 1)
        stage.expect("Nothing is lost", stage.read(), ["m1"])


def _epoch_of_clean_shutdown(stage: Stage, broker: int) -> int | None:
    """The broker epoch in the file that a clean shutdown leaves behind; None without the file."""
    text = clean_shutdown_file(stage.node(broker))
    return None if text is None else int(json.loads(text)["brokerEpoch"])
