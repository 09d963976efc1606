"""Replication: which broker serves, which replicas are in sync, what is committed, and how each broker learns of it."""

from __future__ import annotations

from kafka_chaos.conformance.scenario.play import Play
from kafka_chaos.conformance.scenario.registry import scenario
from kafka_chaos.conformance.scenario.stage import Stage
from kafka_chaos.harness.cluster.broker.client import FETCH_FROM_ANY, FETCH_FROM_LEADER
from kafka_chaos.harness.cluster.broker.error_codes import NONE, error_name
from kafka_chaos.harness.cluster.broker.login import BrokerUnreachable
from kafka_chaos.harness.waiting import wait_until
from kafka_chaos.reference_model.lockstep.cluster_model import step


@scenario("leader-only", title="Only the leader serves produce and fetch requests")
def leader_only(play: Play) -> None:
    """A follower that gets a request directly refuses to append a record and to return the latest offset. Up to Fetch
    10 it also refuses to let a consumer read. Since Fetch 11 (KIP-392) it answers a consumer, up to the high watermark
    that it knows. During an election, a producer sees broken connections and retries until a leader answers.
    """
    with play.act("requests to a follower") as stage:
        stage.produce("m1")
        stage.await_committed("m1", 1)
        for broker in (2, 3):
            with stage.ask(broker) as follower:
                produced, _ = follower.produce(stage.topic, "astray")
                asked, _ = follower.latest_offset(stage.topic)
                old = follower.fetch(stage.topic, version=FETCH_FROM_LEADER)
                new = follower.fetch(stage.topic, version=FETCH_FROM_ANY)
            name, refused = f"Broker {broker}", "NOT_LEADER_OR_FOLLOWER"
            stage.expect(f"{name} refuses a produce request", error_name(produced), refused)
            stage.expect(f"{name} refuses ListOffsets", error_name(asked), refused)
            stage.expect(f"{name} refuses Fetch 10", error_name(old.error), refused)
            answer = (error_name(new.error), new.high_watermark)
            stage.expect(f"{name} answers Fetch 12 with its high watermark", answer, ("NONE", 1))
        with stage.ask(1) as leader:
            latest = leader.latest_offset(stage.topic)
            stage.expect("The leader returns its latest offset", latest, (NONE, 1))
        stage.settle("No broker has appended the record that was sent to the followers.")
        stage.expect("The leader's log", stage.log(1), ["m1"])
    with play.act("a producer during an election") as stage:
        stage.produce("m1")
        answers: dict[str, int] = {}

        def kill_and_watch() -> None:
            stage.node(1).kill()
            stage.clients.send("m2")
            wait_until(lambda: _is_served(stage, answers), "another broker to serve the partition", timeout=40)

        sent = step("produce", record="m2")
        stage.take("The leader is killed; m2 is sent at once.", kill_and_watch, step("kill", broker=1), sent)
        stage.expect("m2 is acknowledged", stage.seen.acknowledged, (("m1", 0), ("m2", 1)))
        stage.expect("The producer noticed a broken connection", "_TRANSPORT" in stage.clients.errors())
        stage.expect("The followers refuse until one is elected", set(answers) >= {"NOT_LEADER_OR_FOLLOWER"})
        stage.fact("answers of the followers during the election", answers)
        stage.fact("errors that the producer reported meanwhile", sorted(set(stage.clients.errors())))


def _is_served(stage: Stage, answers: dict[str, int]) -> bool:
    """Ask both followers for the latest offset, count their answers, and return whether one of them leads."""
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


@scenario("replication-describe", title="A described topic, and the same records in every segment")
def replication_describe(play: Play) -> None:
    """Describing a topic with replication factor 3 returns its leader, its replicas and its ISR. The segment of every
    broker holds the same records with the same offsets, timestamps and leader epochs.
    """
    with play.act("three replicas") as stage:
        described = stage.lease.admin.partitions(stage.topic)[0]
        stage.expect("Leader", described.leader, 1)
        stage.expect("Replicas", described.replicas, (1, 2, 3))
        stage.expect("ISR", tuple(sorted(described.isr)), (1, 2, 3))
        for number in (1, 2, 3):
            stage.produce(f"test message{number}")
        files = [stage.observer.files(broker) for broker in (1, 2, 3)]
        batches = [[(b.base_offset, b.last_offset, b.leader_epoch, b.size) for b in one.batches] for one in files]
        stage.expect("All three have the same batches", batches[0] == batches[1] == batches[2])
        data = [[batch.data for batch in one.batches] for one in files]
        stage.expect("The batches are the same to the last byte", data[0] == data[1] == data[2])
        rows = [(record.offset, record.leader_epoch) for record in files[0].records]
        stage.expect("Offsets and leader epochs", rows, [(0, 0), (1, 0), (2, 0)])
        stage.expect("There is one segment, named after its base offset", files[0].base_offsets, (0,))
        stage.fact(
            "the segment of every broker",
            [{"base offset": b[0], "last offset": b[1], "leader epoch": b[2], "bytes": b[3]} for b in batches[0]],
        )
