"""Document 001, replication: who serves, who is in sync, what is committed, and how each learns of it."""

from __future__ import annotations

import time

from kafka_chaos.experiments.seeds.leader_epoch import A_WITH
from kafka_chaos.harness.broker_client import (
    FETCH_FROM_ANY,
    FETCH_FROM_LEADER,
    NONE,
    BrokerUnreachable,
    error_name,
)
from kafka_chaos.harness.scenario.house import QUICK
from kafka_chaos.harness.scenario.play import Play
from kafka_chaos.harness.scenario.registry import scenario
from kafka_chaos.harness.scenario.stage import Stage
from kafka_chaos.harness.waiting import wait_until
from kafka_chaos.reference_model.cluster_model import step
from kafka_chaos.reference_model.cluster_observation import Observation


@scenario("leader-only", document="001", title="Produce and fetch are served by the leader alone")
def leader_only(play: Play) -> None:
    """A follower that is asked directly refuses to take a record and to name the latest offset, and up to Fetch 10
    also to let a consumer read. Since Fetch 11 (KIP-392) it answers a consumer, up to the high watermark that it
    knows. While a leader is elected, a producer sees broken connections and tries again until it is served.
    """
    with play.act("a follower is asked") as stage:
        stage.produce("m1")
        stage.await_seen("Everyone knows that m1 is committed.", lambda seen: stage.high_watermarks(seen) == [1, 1, 1])
        for broker in (2, 3):
            with stage.ask(broker) as follower:
                produced, _ = follower.produce(stage.topic, "astray")
                asked, _ = follower.latest_offset(stage.topic)
                old = follower.fetch(stage.topic, version=FETCH_FROM_LEADER)
                new = follower.fetch(stage.topic, version=FETCH_FROM_ANY)
            name = stage.name(broker)
            refused = "NOT_LEADER_OR_FOLLOWER"
            stage.expect(f"{name} refuses to take a record", seen=error_name(produced), expected=refused)
            stage.expect(f"{name} refuses ListOffsets", seen=error_name(asked), expected=refused)
            stage.expect(f"{name} refuses Fetch 10", seen=error_name(old.error), expected=refused)
            answer = (error_name(new.error), new.high_watermark)
            stage.expect(f"{name} answers Fetch 12 with its high watermark", seen=answer, expected=("NONE", 1))
        with stage.ask(1) as leader:
            stage.expect(
                "the leader names its latest offset", seen=leader.latest_offset(stage.topic), expected=(NONE, 1)
            )
        stage.settle("Nobody has taken the record that went astray.")
        stage.expect("the leader's log", seen=stage.log(1), expected=["m1"])
    with play.act("a client during an election") as stage:
        stage.produce("m1")
        answers: dict[str, int] = {}

        def kill_and_watch() -> None:
            stage.node(1).kill()
            stage.clients.send("m2", producer="p", acks="all", idempotent=False, key=None, configs={})
            wait_until(lambda: _somebody_leads(stage, answers), "another broker to serve the partition", timeout=40)

        sent = step("produce", record="m2")
        stage.take("The leader is killed; m2 is sent at once.", kill_and_watch, step("kill", broker=1), sent)
        stage.expect("m2 is acknowledged", seen=stage.seen.acknowledged, expected=(("m1", 0), ("m2", 1)))
        stage.expect("its producer was told of a broken connection", seen="_TRANSPORT" in stage.clients.errors())
        stage.expect("the others refused until one was elected", seen=set(answers) >= {"NOT_LEADER_OR_FOLLOWER"})
        stage.fact("answers of the other brokers during the election", answers)
        stage.fact("errors that the producer was told of meanwhile", sorted(set(stage.clients.errors())))


def _somebody_leads(stage: Stage, answers: dict[str, int]) -> bool:
    leads = False
    for broker in (2, 3):
        try:
            with stage.ask(broker) as client:
                error, _ = client.latest_offset(stage.topic)
        except BrokerUnreachable:
            continue
        name = "served" if error == NONE else error_name(error)
        answers[name] = answers.get(name, 0) + 1
        leads = leads or error == NONE
    return leads


@scenario("replication-describe", document="001", title="A topic as described, and the same records in every segment")
def replication_describe(play: Play) -> None:
    """A topic with replication factor 3 is described with its leader, its replicas and its ISR, and the segment of
    every broker holds the same records with the same offsets, timestamps and leader epochs.
    """
    with play.act("three replicas") as stage:
        described = stage.tenancy.admin.partitions(stage.topic)[0]
        stage.expect("leader", seen=described.leader, expected=1)
        stage.expect("replicas", seen=described.replicas, expected=(1, 2, 3))
        stage.expect("ISR", seen=tuple(sorted(described.isr)), expected=(1, 2, 3))
        for number in (1, 2, 3):
            stage.produce(f"test message{number}")
        files = [stage.eyes.files(broker) for broker in (1, 2, 3)]
        batches = [[(b.base_offset, b.last_offset, b.leader_epoch, b.size) for b in one.batches] for one in files]
        stage.expect("the batches of all three are the same", seen=batches[0] == batches[1] == batches[2])
        rows = [[(r.offset, r.leader_epoch, r.timestamp, r.value) for r in one.records] for one in files]
        data = [[batch.data for batch in one.batches] for one in files]
        stage.expect("they are the same to the last byte", seen=data[0] == data[1] == data[2])
        stage.expect("offsets and epochs", seen=[row[:2] for row in rows[0]], expected=[(0, 0), (1, 0), (2, 0)])
        stage.expect("one segment, named by its base offset", seen=files[0].base_offsets, expected=(0,))
        stage.fact(
            "the segment of every broker",
            [{"base offset": b[0], "last offset": b[1], "leader epoch": b[2], "bytes": b[3]} for b in batches[0]],
        )


@scenario("n-minus-1-failures", document="001", title="Three replicas outlive two broker failures")
def n_minus_1_failures(play: Play) -> None:
    """With three replicas, two brokers fail one after the other. Every committed record is still there and the last
    replica serves; when the others return they have everything, and serve again.
    """
    with play.act("two of three fail", controller=3) as stage:
        stage.produce("m1")
        stage.kill(1)
        stage.produce("m2")
        stage.kill(2)
        stage.produce("m3")
        everything = ["m1", "m2", "m3"]
        stage.expect("the last broker has everything", seen=stage.log(3), expected=everything)
        stage.expect("and serves it", seen=stage.read(), expected=everything)
        stage.start(1)
        stage.start(2)
        stage.produce("m4")
        stage.expect("all are in sync again", seen=stage.seen.isr, expected=(1, 2, 3))
        stage.expect("all logs", seen=[stage.log(b) for b in (1, 2, 3)], expected=[[*everything, "m4"]] * 3)


@scenario("isr-eviction", document="001", title="A follower that stops fetching leaves the ISR, and returns")
def isr_eviction(play: Play) -> None:
    """A follower that no longer fetches is dropped from the ISR after `replica.lag.time.max.ms`: until then a record
    with acks=all waits for it, then it is committed without it. When it has caught up, it is in sync again.
    """
    with play.act("a follower is cut off", house=QUICK) as stage:
        stage.produce("m1")
        stage.cut(3, 1)
        began = time.monotonic()
        stage.produce("m2")
        waited = stage.answered("m2") - began
        stage.expect("the ISR without it", seen=stage.seen.isr, expected=(1, 2))
        stage.expect("m2 is acknowledged", seen=stage.seen.acknowledged, expected=(("m1", 0), ("m2", 1)))
        stage.expect("it lacks m2", seen=stage.log(3), expected=["m1"])
        stage.fact("the leader's log", stage.await_line(1, "Shrinking ISR from", "brokerId: 3", stage.topic))
        stage.fact("seconds from sending m2 until it was acknowledged without broker 3", round(waited, 2))
        stage.heal(3, 1)
        stage.expect("it is back in the ISR", seen=stage.seen.isr, expected=(1, 2, 3))
        stage.expect("with m2", seen=stage.log(3), expected=["m1", "m2"])
        stage.fact("the leader's log, later", stage.await_line(1, "ISR updated to 1,2,3", stage.topic))
    with play.act("a follower that has everything", house=QUICK) as stage:
        stage.produce("m1")
        stage.await_seen("Everyone knows that m1 is committed.", lambda seen: stage.high_watermarks(seen) == [1, 1, 1])
        stage.cut(3, 1)
        # The leader looks at its ISR every half of the lag time: twice the time is four looks.
        limit = stage.tenancy.house.lag_seconds * 2
        until = time.monotonic() + limit
        stage.await_seen("Longer than the lag time passes; nothing is produced.", lambda seen: time.monotonic() > until)
        stage.expect("it stays in the ISR, since it lacks nothing", seen=stage.seen.isr, expected=(1, 2, 3))


@scenario("high-watermark-visibility", document="001", title="Consumers read only what is committed")
def high_watermark_visibility(play: Play) -> None:
    """The leader alone holds m2, acknowledged with acks=1: no consumer sees it until the followers have it, although
    it stands in the leader's log.
    """
    with play.act("a record that the leader alone holds") as stage:
        stage.produce("m1", acks="1")
        stage.cut(2, 1)
        stage.cut(3, 1)
        stage.produce("m2", acks="1")
        stage.expect("m2 is acknowledged", seen=stage.seen.acknowledged, expected=(("m1", 0), ("m2", 1)))
        stage.expect("the leader's log", seen=stage.log(1), expected=["m1", "m2"])
        stage.expect("its high watermark", seen=stage.replica(1).high_watermark, expected=1)
        stage.expect("a consumer sees m1 alone", seen=stage.read(), expected=["m1"])
        stage.heal(2, 1)
        stage.expect("one follower of two is not enough", seen=stage.read(), expected=["m1"])
        stage.heal(3, 1)
        stage.expect_eventually("a consumer sees both", stage.read, expected=["m1", "m2"])


@scenario(
    "offset-checkpoint", document="001", title="replication-offset-checkpoint tells a stuck replica from the others"
)
def offset_checkpoint(play: Play) -> None:
    """The checkpointed high watermark says 1 on every broker, then 2. A replica that is cut off stays at 2 while the
    others say 3: comparing the files finds it.
    """
    with play.act("three brokers compared", house=QUICK) as stage:
        for number in (1, 2):
            stage.produce(f"test message {number}")
            stage.await_seen(
                f"Every broker has checkpointed {number}.", lambda seen, n=number: _checkpoints(seen) == [n] * 3
            )
            stage.fact(f"the line on every broker after record {number}", _line(stage, 1))
            lines = {_line(stage, broker) for broker in (1, 2, 3)}
            stage.expect("the files agree", seen=lines, expected={f"{stage.topic} 0 {number}"})
        stage.cut(3, 1)
        stage.produce("test message 3")
        stage.await_seen("The two that replicate have checkpointed 3.", lambda seen: _checkpoints(seen)[:2] == [3, 3])
        stage.expect("broker 3 is found by comparing", seen=_checkpoints(stage.seen), expected=[3, 3, 2])
        stage.heal(3, 1)
        stage.await_seen("Every broker has checkpointed 3.", lambda seen: _checkpoints(seen) == [3] * 3)


def _checkpoints(seen: Observation) -> list[int | None]:
    return [seen.replicas[broker].checkpointed_high_watermark for broker in (1, 2, 3)]


def _line(stage: Stage, broker: int) -> str:
    text = stage.node(broker).read_file("/var/lib/kafka/replication-offset-checkpoint").decode()
    return next((line for line in text.splitlines() if line.startswith(f"{stage.topic} ")), "")


@scenario(
    "ackless-replication", document="001", title="A leader learns from the next fetch, a follower one answer later"
)
def ackless_replication(play: Play) -> None:
    """No follower acknowledges anything. The leader learns that a follower holds m1 from the offset of its next fetch;
    the follower learns that m1 is committed from the answer after that. Fetches wait 25 seconds here, so that every
    stage can be looked at. Then one fetch is held: the follower has m3 in its log, and the leader does not know.
    """
    with play.act("one follower, slow fetches", house=A_WITH, replicas=(1, 2, 3)) as stage:
        stage.produce("m1", acks="1")
        stage.await_seen("The followers have fetched m1.", lambda seen: seen.replicas[1].high_watermark == 1)
        stage.expect("the leader knows, the followers do not", seen=stage.high_watermarks(), expected=[1, 0, 0])
        stage.produce("m2", acks="1")
        stage.await_seen("The followers have fetched m2.", lambda seen: seen.replicas[1].high_watermark == 2)
        stage.expect("the followers are one answer behind", seen=stage.high_watermarks(), expected=[2, 1, 1])
        stage.hold_next_fetch(3, 1)
        stage.produce("m3", acks="1")
        stage.await_seen("Broker 3 has m3.", lambda seen: seen.replicas[3].log_end == 3)
        stage.expect("all logs are equal", seen=[stage.log(b) for b in (1, 2, 3)], expected=[["m1", "m2", "m3"]] * 3)
        stage.expect("the leader does not know", seen=stage.replica(1).high_watermark, expected=2)
        stage.heal(3, 1, channel="held")
        stage.await_seen("Its next fetch arrives.", lambda seen: seen.replicas[1].high_watermark == 3)
        stage.expect("now the leader knows", seen=stage.replica(1).high_watermark, expected=3)
