"""KRaft mode: how the controller replaces a leader, and what that one does until it has heard of it."""

from __future__ import annotations

import time

from kafka_chaos.contract.metadata import KRAFT
from kafka_chaos.experiments.behaviours.controller import moment_of
from kafka_chaos.harness.scenario import in_model
from kafka_chaos.harness.scenario.clusters import ClusterProfile
from kafka_chaos.harness.scenario.lockstep import await_line
from kafka_chaos.harness.scenario.play import Play
from kafka_chaos.harness.scenario.registry import scenario
from kafka_chaos.reference_model.lockstep.cluster_model import step
from kafka_chaos.reference_model.lockstep.state import CLIENT, CLIENTS

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
            (
                "its session is over: it is fenced (controller)",
                moment_of(await_line(controller, "Fencing broker 1 ", since=killed)),
            ),
            (
                "the election is in the metadata log (controller)",
                moment_of(
                    await_line(controller, f"partition change for {place} ", "leaderEpoch: 0 -> 1", since=killed)
                ),
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


@scenario("kraft-zombie-leader", title="A fenced leader thaws, and acknowledges with acks=1 what it then loses")
def kraft_zombie_leader(play: Play) -> None:
    """The leader is frozen until the controller has fenced it and another broker leads. A producer that has not heard
    of that sends a record with acks=1. It waits in the frozen broker's socket. When the broker thaws, it may append and
    acknowledge the record before it has replayed the election from the metadata log. Then it follows, and truncates the
    record. If it replays the log first, the producer sends the record to the new leader.
    """
    with play.act("the leader is frozen", profile=QUORUM) as stage:
        stage.produce("m1", acks="1")
        stage.await_seen("All replicas have m1.", lambda seen: all(one.log_end == 1 for one in seen.replicas.values()))
        stage.pause(1)
        stage.expect("Broker 2 leads", seen=(stage.seen.leader, stage.seen.leader_epoch), expected=(2, 1))
        # The producer has a connection to broker 1, and a request there: it asks nobody else meanwhile.
        unknown = [(CLIENTS, CLIENT, broker) for broker in (2, 3)]
        stage.take(
            "The producer, which takes broker 1 for the leader, sends m2 with acks=1.",
            lambda: stage.clients.send("m2", acks="1"),
            *in_model.cut(*unknown),
            step("produce", record="m2", acks="1", producer="p", idempotent=False, key=None, tombstone=False),
        )
        stage.expect("m2 is not acknowledged", seen=len(stage.seen.acknowledged or ()), expected=1)
        stage.take(
            "Broker 1 continues.",
            stage.node(1).unpause,
            *in_model.thaw(1),
            *in_model.heal(*unknown),
        )
        stage.expect(
            "m2 is acknowledged", seen=[record for record, _ in stage.seen.acknowledged or ()][1:], expected=["m2"]
        )
        stage.expect("Broker 1 follows broker 2", seen=stage.replica(1).role, expected="follower")
        kept = "m2" in stage.log(2)
        stage.expect("All logs are equal", seen=stage.logs(), expected=[stage.log(2)] * 3)
        stage.fact("m2", "sent to broker 2 in the end" if kept else "acknowledged by broker 1, and truncated there")
