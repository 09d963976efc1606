"""Document 001, the controller: how it is replaced, how it elects, and what a controlled shutdown spares."""

from __future__ import annotations

import statistics
import time
from datetime import UTC, datetime

from confluent_kafka import Producer

from kafka_chaos.harness.scenario.availability import Availability
from kafka_chaos.harness.scenario.house import House
from kafka_chaos.harness.scenario.play import Play
from kafka_chaos.harness.scenario.registry import scenario
from kafka_chaos.harness.scenario.stage import Stage
from kafka_chaos.harness.signals import new_client
from kafka_chaos.harness.waiting import wait_until
from kafka_chaos.harness.wire.client import send_as_controller
from kafka_chaos.harness.wire.messages import LEADER_AND_ISR
from kafka_chaos.harness.wire.requests import (
    STALE_CONTROLLER_EPOCH,
    PartitionState,
    Sender,
    leader_and_isr,
)
from kafka_chaos.reference_model.cluster_model import step

NO_CONTROLLED_SHUTDOWN = House(name="without controlled shutdown", configs={"controlled.shutdown.enable": False})
# Clusters of their own: with hundreds of partitions nobody else should have to start them again.
MANY = House(name="many partitions")
MANY_AGAIN = House(name="many partitions, again")


@scenario(
    "controller-failover", document="001", title="Another broker becomes controller; the old one's requests are stale"
)
def controller_failover(play: Play) -> None:
    """The controller dies. Another broker takes the office in the next controller epoch and takes the dead one out of
    the ISR; the partition's leader serves on. A request in the old controller's epoch is refused, whatever it says.
    """
    with play.act("the controller is killed", controller=3) as stage:
        stage.produce("m1")
        before = stage.seen.controller_epoch or 0
        stage.kill(3)
        stage.expect("the controller epoch is one higher", seen=stage.seen.controller_epoch, expected=before + 1)
        controller = stage.tenancy.zookeeper.controller()
        stage.expect("another broker is controller", seen=controller in (1, 2))
        stage.expect("the dead broker has left the ISR", seen=stage.seen.isr, expected=(1, 2))
        answers: list[int] = []
        stage.take(
            "A LeaderAndIsr in the old controller epoch asks broker 1 to follow broker 2.",
            lambda: answers.append(_as_controller(stage, before)),
            step("send_leader_and_isr", broker=1, controller_epoch=before, leader_epoch=9),
        )
        stage.expect("it is refused", seen=answers, expected=[STALE_CONTROLLER_EPOCH])
        stage.expect("broker 1 still leads", seen=stage.replica(1).role, expected="leader")
        stage.produce("m2")
        stage.expect("and serves", seen=stage.log(1), expected=["m1", "m2"])


def _as_controller(stage: Stage, epoch: int) -> int:
    """Send broker 1 a LeaderAndIsr of broker 3 as controller of an epoch: the answer's error."""
    state = PartitionState(
        topic=stage.topic,
        partition=0,
        leader=2,
        leader_epoch=9,
        isr=(1, 2),
        replicas=(1, 2, 3),
        controller_epoch=epoch,
    )
    body = leader_and_isr(LEADER_AND_ISR.newest, Sender(controller=3, controller_epoch=epoch), [state], topic_ids={})
    address = stage.tenancy.cluster.client_address(1)
    return int(send_as_controller(address, LEADER_AND_ISR, LEADER_AND_ISR.newest, body)["error_code"])


@scenario("election-on-failure", document="001", title="From the end of a session to brokers that know the new leader")
def election_on_failure(play: Play) -> None:
    """The leader is killed. Its ZooKeeper session ends; the controller hears of it, picks a leader from the ISR,
    writes it to ZooKeeper, and tells the brokers, first with LeaderAndIsr, then with UpdateMetadata: in this order,
    by the clocks of the servers' own logs.
    """
    with play.act("the leader is killed", controller=3) as stage:
        stage.produce("m1")
        killed = time.time()
        stage.kill(1)
        stage.expect("elected from the ISR", seen=(stage.seen.leader, stage.seen.isr), expected=(2, (2, 3)))
        place = f"{stage.topic}-0"
        zookeeper = stage.tenancy.cluster.zookeepers[1]
        session = wait_until(
            lambda: next((li for li in zookeeper.log_since(killed).splitlines() if "Expiring session" in li), None),
            "ZooKeeper to log the end of the session",
            timeout=10,
        )
        written = stage.tenancy.zookeeper.partition(stage.topic)
        named = f"topicName='{stage.topic}'"
        moments = [
            ("broker 1 is killed", killed),
            ("its session ends (ZooKeeper)", _moment(session)),
            ("the controller hears of it (broker 3)", _moment(stage.await_line(3, "deleted brokers: 1"))),
            ("the new leader is in ZooKeeper", (written.written_ms if written else 0) / 1000),
            (
                "LeaderAndIsr reaches broker 2",
                _moment(stage.await_line(2, "Received LeaderAndIsr", named, "leaderEpoch=1")),
            ),
            ("broker 2 leads", _moment(stage.await_line(2, f"Leader {place}", "starts at leader epoch 1"))),
            ("broker 3 follows", _moment(stage.await_line(3, f"Follower {place}", "starts at leader epoch 1"))),
            (
                "clients of broker 2 are told",
                _moment(stage.await_line(2, "Cached leader info", named, "leaderEpoch=1")),
            ),
        ]
        order = [when for _, when in moments]
        stage.expect("session, controller, ZooKeeper, LeaderAndIsr: in this order", seen=order[:5] == sorted(order[:5]))
        stage.expect("a broker leads before its clients are told", seen=order[5] <= order[7])
        stage.expect("the session was the slow part", seen=order[1] - order[0] > (order[7] - order[1]))
        stage.fact(
            "the sequence",
            [{"what": what, "milliseconds after the kill": round((when - killed) * 1000)} for what, when in moments],
        )


def _moment(line: str) -> float:
    """The time of a log line, in seconds since the epoch."""
    return datetime.strptime(line[1:24], "%Y-%m-%d %H:%M:%S,%f").replace(tzinfo=UTC).timestamp()


PARTITIONS = (1, 10, 100)
_RECORDS = 20


@scenario(
    "controlled-shutdown", document="001", title="SIGTERM moves the leaders first: downtime and recovery, side by side"
)
def controlled_shutdown(play: Play) -> None:
    """A broker that leads 1, 10 and 100 partitions goes: shut down, killed, and shut down with
    `controlled.shutdown.enable=false`. With a controlled shutdown the leaders move while it still serves; otherwise
    nobody serves until its session has ended and the controller has elected. At the next start the killed one has to
    recover its logs, the others do not.
    """
    rows = []
    middle: dict[str, float] = {}
    for name, house in (
        ("SIGTERM", MANY),
        ("SIGKILL", MANY_AGAIN),
        ("SIGTERM, controlled.shutdown.enable=false", NO_CONTROLLED_SHUTDOWN),
    ):
        with play.act(name, house=house, controller=3) as stage:
            topics = _led_by_1(stage)
            stage.produce("m1")
            stage.await_seen("m1 is committed.", lambda seen: seen.replicas[1].high_watermark == 1)
            with Availability([stage.tenancy.cluster.client_address(b) for b in (1, 2, 3)], topics) as availability:
                if name == "SIGTERM":
                    stage.stop(1)
                elif name == "SIGKILL":
                    stage.kill(1)
                else:
                    stage.take("Broker 1 is shut down (SIGTERM).", stage.node(1).stop, step("kill", broker=1))
                for topic in topics:
                    _await_other_leaders(stage, topic)
            for topic, count in topics.items():
                gaps = availability.gaps(topic)
                rows.append(
                    {
                        "how": name,
                        "partitions": count,
                        "median seconds without a leader": round(statistics.median(gaps), 3),
                        "longest": round(gaps[-1], 3),
                        "exact to": round(availability.longest_round, 3),
                    }
                )
            middle[name] = statistics.median(gap for topic in topics for gap in availability.gaps(topic))
            restarted = time.time()
            stage.start(1)
            clean = "no clean shutdown file was found" not in stage.node(1).log_since(restarted)
            stage.expect("logs are recovered at the next start", seen=not clean, expected=name == "SIGKILL")
            stage.fact("at its next start", _loading(stage, restarted))
            stage.expect("m1 is on all", seen=[stage.log(b) for b in (1, 2, 3)], expected=[["m1"]] * 3)
            if len(middle) == 3:
                stage.fact("downtime", rows)
                stage.expect("a kill costs the session", seen=middle["SIGKILL"] > 2.0)
                stage.expect("a controlled shutdown costs less", seen=middle["SIGTERM"] < middle["SIGKILL"])
                without = middle["SIGTERM, controlled.shutdown.enable=false"]
                stage.expect("also than one without it", seen=middle["SIGTERM"] < without)


def _led_by_1(stage: Stage) -> dict[str, int]:
    """Topics with 1, 10 and 100 partitions that broker 1 leads, with some records in each."""
    topics = {f"{stage.topic}-of-{count}": count for count in PARTITIONS}
    for topic, count in topics.items():
        stage.tenancy.admin.create_topic(topic, replica_assignment=[[1, 2, 3]] * count, configs={})
    stage.tenancy.admin.await_full_isr(list(topics))
    producer = new_client(Producer, {"bootstrap.servers": stage.tenancy.cluster.bootstrap_servers, "log_level": 0})
    for topic, count in topics.items():
        for partition in range(count):
            for number in range(_RECORDS):
                producer.produce(topic, value=str(number), partition=partition)
    wait_until(lambda: producer.flush(1) == 0, "the topics to be filled", timeout=60)
    return topics


def _await_other_leaders(stage: Stage, topic: str) -> None:
    def moved() -> bool:
        states = stage.tenancy.admin.partitions(topic).values()
        return bool(states) and all(state.leader not in (None, 1) for state in states)

    wait_until(moved, f"{topic} to be led by others", timeout=60, interval=0.1)


def _loading(stage: Stage, since: float) -> list[str]:
    lines = stage.node(1).log_since(since).splitlines()
    return [line for line in lines if "clean shutdown file" in line or "Loaded " in line]
