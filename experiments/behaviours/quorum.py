"""The metadata quorum of KRaft mode: how it replaces a leader."""

from __future__ import annotations

import time

from kafka_chaos.contract.metadata import KRAFT
from kafka_chaos.experiments.behaviours.controller import moment_of
from kafka_chaos.harness.cluster.node import Node
from kafka_chaos.harness.scenario.clusters import ClusterProfile
from kafka_chaos.harness.scenario.play import Play
from kafka_chaos.harness.scenario.registry import scenario
from kafka_chaos.harness.waiting import wait_until

QUORUM = ClusterProfile(name="steady, in KRaft mode", metadata_mode=KRAFT)


@scenario("kraft-election", title="From missing heartbeats to brokers that have replayed the election")
def kraft_election(play: Play) -> None:
    """The leader is killed, and its heartbeats end. When its session is over, the active controller fences it, and
    writes a change of the partition to the metadata log: a leader from the ISR, in the next leader epoch. The brokers
    replay the log: one leads, the other follows. The timestamps in the nodes' own logs show this order. A follower that
    is killed leaves the ISR in the same leader epoch.
    """
    with play.act("the leader is killed", profile=QUORUM) as stage:
        stage.produce("m1")
        killed = time.time()
        stage.kill(1)
        stage.expect(
            "The new leader comes from the ISR", seen=(stage.seen.leader, stage.seen.isr), expected=(2, (2, 3))
        )
        place = f"{stage.topic}-0"
        (controller,) = stage.lease.cluster.controllers.values()
        moments = [
            ("broker 1 is killed", killed),
            ("its session is over: it is fenced (controller)", _when(controller, killed, "Fencing broker 1 ")),
            (
                "the election is in the metadata log (controller)",
                _when(controller, killed, f"partition change for {place} ", "leaderEpoch: 0 -> 1"),
            ),
            ("broker 2 leads", moment_of(stage.await_line(2, f"Leader {place}", "starts at leader epoch 1"))),
            ("broker 3 follows", moment_of(stage.await_line(3, f"Follower {place}", "starts at leader epoch 1"))),
        ]
        order = [when for _, when in moments]
        stage.expect("The order is session, fencing, log", seen=order[:3] == sorted(order[:3]))
        stage.expect("The brokers come last", seen=order[2] <= min(order[3:]))
        stage.expect(
            "Most of the time passes until the session is over", seen=order[1] - killed > max(order) - order[1]
        )
        stage.fact(
            "the sequence",
            [{"what": what, "milliseconds after the kill": round((when - killed) * 1000)} for what, when in moments],
        )
        stage.produce("m2")
        stage.kill(3)
        stage.expect("Broker 3 has left the ISR", seen=stage.seen.isr, expected=(2,))
        stage.expect("The leader epoch is the same", seen=stage.seen.leader_epoch, expected=1)
        stage.produce("m3")
        stage.expect("Broker 2 serves alone", seen=stage.log(2), expected=["m1", "m2", "m3"])


def _when(node: Node, since: float, *texts: str) -> float:
    """When the node first logged a line with these texts."""

    def logged() -> str | None:
        lines = node.log_since(since).splitlines()
        return next((line for line in lines if all(text in line for text in texts)), None)

    return moment_of(wait_until(logged, f"{node.name} to log {' … '.join(texts)}", timeout=15))
