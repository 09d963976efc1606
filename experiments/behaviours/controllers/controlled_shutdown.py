"""The benefit of a controlled shutdown."""

import statistics
import time

from confluent_kafka import Producer

from kafka_chaos.conformance.scenario.clusters import ClusterProfile
from kafka_chaos.conformance.scenario.play import Play
from kafka_chaos.conformance.scenario.stage import Stage
from kafka_chaos.contract.command.waiting import wait_until
from kafka_chaos.experiments.behaviours.controllers.availability import poll_leaders
from kafka_chaos.harness.signals import new_client
from kafka_chaos.reference_model.lockstep.cluster_model import step

NO_CONTROLLED_SHUTDOWN = ClusterProfile(
    name="without controlled shutdown", configs={"controlled.shutdown.enable": False}
)
# Separate clusters: no other scenario should have to restart brokers with hundreds of partitions.
MANY = ClusterProfile(name="many partitions")
MANY_AGAIN = ClusterProfile(name="many partitions, again")


PARTITIONS = (1, 10, 100)
_RECORDS = 20


def controlled_shutdown(play: Play) -> None:
    """Three brokers go, in three ways; how long no broker served their partitions is measured."""
    rows = []
    middle: dict[str, float] = {}
    for name, profile in (
        ("SIGTERM", MANY),
        ("SIGKILL", MANY_AGAIN),
        ("SIGTERM, controlled.shutdown.enable=false", NO_CONTROLLED_SHUTDOWN),
    ):
        with play.act(name, profile=profile, controller=3) as stage:
            topics = _led_by_1(stage)
            stage.produce("m1")
            stage.await_seen(
                "The leader knows that m1 is committed.", lambda seen: seen.replicas[1].high_watermark == 1
            )
            with poll_leaders([stage.lease.cluster.client_address(b) for b in (1, 2, 3)], topics) as availability:
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
                        "resolution": round(availability.longest_round, 3),
                    }
                )
            middle[name] = statistics.median(gap for topic in topics for gap in availability.gaps(topic))
            restarted = time.time()
            stage.start(1)
            clean = "no clean shutdown file was found" not in stage.node(1).log(since=restarted)
            stage.expect("Logs are recovered at the next start", not clean, name == "SIGKILL")
            stage.fact("broker 1's log at its next start", _loading(stage, restarted))
            stage.expect("All replicas have m1", stage.logs(), [["m1"]] * 3)
            if len(middle) == 3:
                stage.fact("downtime", rows)
                stage.expect("After a kill, downtime includes the session time-out", middle["SIGKILL"] > 2.0)
                stage.expect(
                    "A controlled shutdown has less downtime than a kill", middle["SIGTERM"] < middle["SIGKILL"]
                )
                without = middle["SIGTERM, controlled.shutdown.enable=false"]
                stage.expect("A controlled shutdown has less downtime than one without it", middle["SIGTERM"] < without)


def _led_by_1(stage: Stage) -> dict[str, int]:
    """Topics with 1, 10 and 100 partitions that broker 1 leads, with some records in each."""
    topics = {f"{stage.topic}-of-{count}": count for count in PARTITIONS}
    for topic, count in topics.items():
        stage.lease.admin.create_topic(topic, replica_assignment=[[1, 2, 3]] * count, configs={})
    stage.lease.admin.await_full_isr(list(topics))
    producer = new_client(Producer, {"bootstrap.servers": stage.lease.cluster.bootstrap_servers, "log_level": 0})
    for topic, count in topics.items():
        for partition in range(count):
            for number in range(_RECORDS):
                producer.produce(topic, value=str(number), partition=partition)
    wait_until(lambda: producer.flush(1) == 0, "the topics to be filled", timeout=60)
    return topics


def _await_other_leaders(stage: Stage, topic: str) -> None:
    def moved() -> bool:
        states = stage.lease.admin.partitions(topic).values()
        return bool(states) and all(state.leader not in (None, 1) for state in states)

    wait_until(moved, f"{topic} to be led by others", timeout=60, interval=0.1)


def _loading(stage: Stage, since: float) -> list[str]:
    lines = stage.node(1).log(since=since).splitlines()
    return [line for line in lines if "clean shutdown file" in line or "Loaded " in line]
