"""Leader epochs on brokers of their time: before KIP-101, with it alone, and with KIP-279."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from kafka_chaos.conformance.scenario.clusters import ClusterProfile
from kafka_chaos.conformance.scenario.play import Play
from kafka_chaos.conformance.scenario.registry import scenario
from kafka_chaos.conformance.scenario.stage import Stage
from kafka_chaos.experiments.behaviours.replication.leader_epoch import (
    SLOW_FETCHES,
    TRUNCATE_TO_HIGH_WATERMARK,
    both_down_and_the_follower_first,
    only_3_is_left,
)

PROTOCOLS_BY_VERSION = {
    "0.10.2.2": TRUNCATE_TO_HIGH_WATERMARK,
    "0.11.0.3": "kip101",
    "1.1.1": "kip101",
    "2.0.0": "kip279",
}


@scenario(
    "leader-epoch-A-by-version",
    title="0.10.2 loses a committed record that 0.11 and later keep",
    needs_zookeeper="its versions have no KRaft mode",
)
def leader_epoch_a_by_version(play: Play) -> None:
    """Scenario A on brokers of their time, instead of later ones that speak an old protocol. A fourth broker is the
    controller: these versions have no port of their own for its requests, and so a cut of broker 3's fetches from
    broker 2 would also cut off the requests of a controller on broker 3. 0.10.2 truncates to the high watermark and
    loses m2. 0.11 and 1.1 (KIP-101) and 2.0 (KIP-279) keep it.
    """
    for version in PROTOCOLS_BY_VERSION:
        with _act(play, version, replicas=(1, 2, 3), slow=True) as stage:
            only_3_is_left(stage)
            left = ["m1"] if _truncates_to_high_watermark(version) else ["m1", "m2"]
            stage.expect("Broker 3 holds", stage.log(3), left)
            stage.expect("A consumer reads", stage.read(), left)


@scenario(
    "leader-epoch-B-by-version",
    title="0.10.2 lets two logs diverge that 0.11 and later keep equal",
    needs_zookeeper="its versions have no KRaft mode",
)
def leader_epoch_b_by_version(play: Play) -> None:
    """Scenario B on brokers of their time. A third broker is the controller: where a controller itself fails, its
    successor starts one leader epoch in 0.10.2 and two in later versions. In 0.10.2, broker 1 keeps m2 where broker 2
    holds m3, with equal high watermarks. In 0.11 and 1.1 (KIP-101) and 2.0 (KIP-279), broker 1 asks broker 2, truncates
    m2 and fetches m3.
    """
    for version in PROTOCOLS_BY_VERSION:
        with _act(play, version, replicas=(1, 2), slow=False) as stage:
            both_down_and_the_follower_first(stage)
            kept = "m2" if _truncates_to_high_watermark(version) else "m3"
            stage.expect("Broker 1's log", stage.log(1), ["m1", kept, "m4"])
            stage.expect("Broker 2's log", stage.log(2), ["m1", "m3", "m4"])
            stage.await_committed("m4", 3)
            stage.expect("Both high watermarks are equal", stage.high_watermarks(), [3, 3])


def _truncates_to_high_watermark(version: str) -> bool:
    return PROTOCOLS_BY_VERSION[version] == TRUNCATE_TO_HIGH_WATERMARK


@contextmanager
def _act(play: Play, version: str, *, replicas: tuple[int, ...], slow: bool) -> Iterator[Stage]:
    """An act on a new cluster of this version, with one more broker than replicas, which is the controller.

    `slow`: followers learn of the high watermark one record late.
    """
    controller = len(replicas) + 1
    profile = ClusterProfile(
        name=f"Kafka {version}, {controller} brokers{', slow fetches' if slow else ''}",
        kafka_version=version,
        brokers=controller,
        protocol=PROTOCOLS_BY_VERSION[version],
        fresh=True,
        configs=SLOW_FETCHES if slow else {},
    )
    with play.act(f"Kafka {version}", profile=profile, replicas=replicas, controller=controller) as stage:
        yield stage
