"""Document 000, split brain: one broker does not hear of the new leader."""

from __future__ import annotations

import time

from kafka_chaos.harness.broker_client import FETCH_FROM_LEADER, NONE, error_name
from kafka_chaos.harness.scenario.play import Play
from kafka_chaos.harness.scenario.registry import scenario
from kafka_chaos.harness.scenario.stage import Stage
from kafka_chaos.harness.waiting import wait_until
from kafka_chaos.reference_model.cluster_model import step

CONTROLLER, LEADER, DEAF = 3, 1, 2


@scenario("split-brain", document="000", title="Two views of the leader, and nobody who serves")
def split_brain(play: Play) -> None:
    """The leader is moved to a broker that doesn't get its LeaderAndIsr: it goes on believing in the old leader, who
    knows that it no longer leads. Clients are told of two leaders: neither takes a record, and neither answers a
    consumer that says in which leader epoch it believes it to lead, until the request arrives.
    """
    with play.act("the new leader does not hear of it", controller=CONTROLLER) as stage:
        stage.produce("m1")
        stage.await_seen("Everyone knows that m1 is committed.", lambda seen: stage.high_watermarks(seen) == [1, 1, 1])
        stage.cut(CONTROLLER, DEAF, channel="control", action="drop")

        def move() -> None:
            with stage.ask(CONTROLLER) as controller:
                error = controller.reassign(stage.topic, (DEAF, LEADER, CONTROLLER))
                stage.expect("the reassignment is accepted", seen=error, expected=NONE)
                wait_until(
                    lambda: stage.tenancy.admin.partitions(stage.topic)[0].replicas == (DEAF, LEADER, CONTROLLER),
                    "the reassignment to be done",
                    timeout=30,
                )
                elected = controller.elect_preferred(stage.topic)
                stage.expect("the preferred leader election reports success", seen=elected, expected=NONE)

        began = time.monotonic()
        stage.take(
            "The leader is moved to broker 2, which the controller can't reach.",
            move,
            step("reassign", replicas=(DEAF, LEADER, CONTROLLER)),
            step("elect_preferred"),
        )
        views = {broker: stage.replica(broker).leader for broker in (LEADER, DEAF, CONTROLLER)}
        stage.expect(
            "broker 2 says 1, the others say 2", seen=views, expected={LEADER: DEAF, DEAF: LEADER, CONTROLLER: DEAF}
        )
        roles = {broker: stage.replica(broker).role for broker in (LEADER, DEAF, CONTROLLER)}
        stage.expect("and nobody leads", seen=set(roles.values()), expected={"follower"})
        stage.produce("m2")
        stage.expect("m2 is not served", seen=stage.seen.acknowledged, expected=(("m1", 0),))
        _nobody_serves(stage)
        stage.heal(CONTROLLER, DEAF, channel="control")
        waited = round(stage.answered("m2") - began, 1)
        stage.fact("seconds from the move until m2 was acknowledged, most of them the cut's own", waited)
        leaders = {stage.replica(broker).leader for broker in (LEADER, DEAF, CONTROLLER)}
        stage.expect("all agree", seen=leaders, expected={DEAF})
        stage.expect("m2 is served", seen=stage.seen.acknowledged, expected=(("m1", 0), ("m2", 1)))
        stage.expect("everywhere", seen=[stage.log(b) for b in (1, 2, 3)], expected=[["m1", "m2"]] * 3)


def _nobody_serves(stage: Stage) -> None:
    """Ask every broker what a client would ask it, believing what each of them says of the leader."""
    refused = "NOT_LEADER_OR_FOLLOWER"
    answers: dict[int, tuple[str, str, str]] = {}
    views: dict[int, str] = {}
    for broker in (LEADER, DEAF, CONTROLLER):
        with stage.ask(broker) as asked:
            answers[broker] = (
                error_name(asked.produce(stage.topic, "astray")[0]),
                error_name(asked.latest_offset(stage.topic)[0]),
                error_name(asked.fetch(stage.topic, version=FETCH_FROM_LEADER).error),
            )
            told = asked.metadata(stage.topic)
            unfenced = asked.fetch(stage.topic)
        stage.expect("Fetch 12 without a leader epoch", seen=error_name(unfenced.error), expected="NONE")
        with stage.ask(told.leader or broker) as believed:
            views[broker] = error_name(believed.fetch(stage.topic, leader_epoch=told.leader_epoch).error)
    stage.expect("produce, ListOffsets and Fetch 10 are refused", seen=set(answers.values()), expected={(refused,) * 3})
    stage.expect(
        "a consumer that asks the leader it was told of, in the epoch it was told of",
        seen=views,
        expected={LEADER: "UNKNOWN_LEADER_EPOCH", DEAF: "FENCED_LEADER_EPOCH", CONTROLLER: "UNKNOWN_LEADER_EPOCH"},
    )
