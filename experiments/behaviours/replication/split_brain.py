"""Split brain: one broker does not learn of the new leader."""

from __future__ import annotations

import time

from kafka_chaos.conformance.scenario.play import Play
from kafka_chaos.conformance.scenario.registry import scenario
from kafka_chaos.conformance.scenario.stage import Stage
from kafka_chaos.harness.cluster.broker.client import FETCH_FROM_LEADER
from kafka_chaos.harness.cluster.broker.error_codes import NONE, error_name
from kafka_chaos.harness.cluster.broker.leadership import elect_preferred, reassign
from kafka_chaos.harness.waiting import wait_until
from kafka_chaos.reference_model.lockstep.cluster_model import step

CONTROLLER, OLD_LEADER, NEW_LEADER = 3, 1, 2
BROKERS = (OLD_LEADER, NEW_LEADER, CONTROLLER)


@scenario(
    "split-brain",
    title="Two views of the leader, and no broker that serves",
    needs_zookeeper="it holds the controller's requests back; brokers in KRaft mode read the metadata log",
)
def split_brain(play: Play) -> None:
    """The controller moves the leadership to a broker that does not receive its LeaderAndIsr request. That broker still
    believes in the old leader, which knows that it no longer leads. Metadata responses name two different leaders.
    Until the request arrives, neither of them appends a record, and neither answers a consumer that sends its leader
    epoch.
    """
    with play.act("the new leader does not learn of its election", controller=CONTROLLER) as stage:
        stage.produce("m1")
        stage.await_committed("m1", 1)
        stage.cut(CONTROLLER, NEW_LEADER, channel="control", action="drop")

        def move() -> None:
            with stage.ask(CONTROLLER) as controller:
                refused = reassign(controller, {(stage.topic, 0): (NEW_LEADER, OLD_LEADER, CONTROLLER)})
                seen = refused.get((stage.topic, 0), NONE)
                stage.expect("The reassignment is accepted", seen, NONE)
                wait_until(
                    lambda: (
                        stage.lease.admin.partitions(stage.topic)[0].replicas == (NEW_LEADER, OLD_LEADER, CONTROLLER)
                    ),
                    "the reassignment to complete",
                    timeout=30,
                )
                elected = elect_preferred(controller, [(stage.topic, 0)])
                stage.expect("The preferred leader election reports success", elected, NONE)

        began = time.monotonic()
        stage.take(
            "The leadership moves to broker 2, which the controller can't reach.",
            move,
            step("reassign", replicas=(NEW_LEADER, OLD_LEADER, CONTROLLER)),
            step("elect_preferred"),
        )
        views = {broker: stage.replica(broker).leader for broker in BROKERS}
        expected = {OLD_LEADER: NEW_LEADER, NEW_LEADER: OLD_LEADER, CONTROLLER: NEW_LEADER}
        stage.expect("Broker 2 names broker 1 as leader, the others name broker 2", views, expected)
        roles = {broker: stage.replica(broker).role for broker in BROKERS}
        stage.expect("No broker leads", set(roles.values()), {"follower"})
        stage.produce("m2")
        stage.expect("m2 is not acknowledged", stage.seen.acknowledged, (("m1", 0),))
        _nobody_serves(stage)
        stage.heal(CONTROLLER, NEW_LEADER, channel="control")
        waited = round(stage.answered("m2") - began, 1)
        stage.fact("seconds from the move until m2 was acknowledged, mostly the time of the cut", waited)
        leaders = {stage.replica(broker).leader for broker in BROKERS}
        stage.expect("All brokers name broker 2 as leader", leaders, {NEW_LEADER})
        stage.expect("m2 is acknowledged", stage.seen.acknowledged, (("m1", 0), ("m2", 1)))
        stage.expect("All logs have both records", stage.logs(), [["m1", "m2"]] * 3)


def _nobody_serves(stage: Stage) -> None:
    """Send every broker a client's requests, and the leader that it names a consumer's fetch in its leader epoch."""
    refused = "NOT_LEADER_OR_FOLLOWER"
    answers: dict[int, tuple[str, str, str]] = {}
    views: dict[int, str] = {}
    for broker in BROKERS:
        with stage.ask(broker) as asked:
            answers[broker] = (
                error_name(asked.produce(stage.topic, "astray")[0]),
                error_name(asked.latest_offset(stage.topic)[0]),
                error_name(asked.fetch(stage.topic, version=FETCH_FROM_LEADER).error),
            )
            named = asked.metadata(stage.topic)
            unfenced = asked.fetch(stage.topic)
        stage.expect(f"Broker {broker} answers Fetch 12 without a leader epoch", error_name(unfenced.error), "NONE")
        with stage.ask(named.leader or broker) as believed:
            views[broker] = error_name(believed.fetch(stage.topic, leader_epoch=named.leader_epoch).error)
    stage.expect("Every broker refuses produce, ListOffsets and Fetch 10", set(answers.values()), {(refused,) * 3})
    stage.expect(
        "The error of a fetch in the leader epoch, sent to the leader, both as each broker names them",
        views,
        {
            OLD_LEADER: "UNKNOWN_LEADER_EPOCH",
            NEW_LEADER: "FENCED_LEADER_EPOCH",
            CONTROLLER: "UNKNOWN_LEADER_EPOCH",
        },
    )
