"""A rolling upgrade in KRaft mode, under load."""

import time
from dataclasses import replace

from kafka_chaos.conformance.scenario.clusters import ClusterProfile
from kafka_chaos.conformance.scenario.play import Play, Topic
from kafka_chaos.conformance.scenario.stage import Stage
from kafka_chaos.contract.anomalies import Anomaly, Verdict
from kafka_chaos.contract.command.waiting import wait_until
from kafka_chaos.contract.lane.metadata import KRAFT
from kafka_chaos.experiments.behaviours.upgrading.load import LoadBeside, count
from kafka_chaos.harness.cluster.configuration.server_properties import REPLICATION_PORT, node_name
from kafka_chaos.harness.cluster.node import Node
from kafka_chaos.harness.experiment.lane_specs import LaneSpec
from kafka_chaos.reference_model.lockstep.cluster_model import step

FROM, TO = "3.9.2", "4.4.0"
RELEASE = "4.4"
BROKERS = (1, 2, 3)
SAFE = Topic(BROKERS, min_insync_replicas=2)
LANES = (
    LaneSpec(lane="idempotent", partitions=3, min_insync_replicas=2, acks="all", idempotence=True),
    LaneSpec(lane="not-idempotent", partitions=3, min_insync_replicas=2, acks="all"),
)
ROLLING = ClusterProfile(
    name=f"Kafka {FROM} in KRaft mode, three controllers",
    fresh=True,
    metadata_mode=KRAFT,
    kafka_version=FROM,
    controllers=3,
)


def rolling_upgrade(play: Play) -> None:
    """The nodes of a cluster one after the other, then the feature levels."""
    faults = ("stop",) * (len(BROKERS) + 2) + ("kill",)
    with play.pool.leased(ROLLING) as lease, LoadBeside(lease, LANES, faults) as load:
        cluster = lease.cluster
        with play.stage(lease, "one node after the other", SAFE, controller=lease.settled_controller()) as stage:
            # The controllers' own restarts are no steps of the model: which of them is active is not compared.
            stage.observer.sees_controller = False
            before = _levels(stage)
            stage.produce("m1")
            for node in active_last(stage):

                def upgrade(node: Node = node) -> None:
                    node.stop()
                    cluster.change_version(node, TO)
                    cluster.start_again([node])

                stage.take(f"Controller {node.number} is shut down, and comes back with Kafka {TO}.", upgrade)
            stage.produce("m2")
            for broker in BROKERS:
                stage.stop(broker)
                cluster.change_version(stage.node(broker), TO)
                stage.start(broker, how=f"with Kafka {TO}")
                stage.await_line(broker, f"Kafka version: {TO}")
                stage.expect(f"The feature levels stay, with {broker} of 3 brokers", _levels(stage), before)
                stage.produce(f"m{broker + 2}")
            stage.take("The feature levels rise to those of the release.", lambda: _raise_features(stage))
            after = _levels(stage)
            stage.expect("metadata.version has risen", after["metadata.version"] > before["metadata.version"])
            _expect_eligible_leader(stage, after)
            expect_nothing_lost(stage, load, records=6)
            stage.fact(
                "feature levels",
                [
                    {"feature": name, FROM: before.get(name, 0), f"{TO}, raised": after.get(name, 0)}
                    for name in sorted(before | after)
                ],
            )


def _expect_eligible_leader(stage: Stage, levels: dict[str, int]) -> None:
    """The release's levels have eligible leader replicas: the last member of the ISR is not the only one to lead."""
    stage.expect("Eligible leader replicas are on", levels["eligible.leader.replicas.version"], 1)
    stage.model.config = replace(stage.model.config, elects_eligible=True)
    leader = stage.seen.leader or 0
    first, second = (broker for broker in BROKERS if broker != leader)
    stage.stop(first)
    stage.stop(second)
    stage.expect("One replica is in the ISR", stage.seen.isr, (leader,))
    began = time.time()

    def kill() -> None:
        stage.node(leader).kill()
        # No broker is left to ask who leads.
        await_controller(stage, f"Fencing broker {leader} ", began)

    stage.take(f"Broker {leader} is killed (SIGKILL), and fenced.", kill, step("kill", broker=leader))
    stage.start(second)
    stage.expect("An eligible replica leads", stage.seen.leader, second)
    stage.start(first)
    stage.start(leader)
    stage.expect("All replicas are in sync", stage.seen.isr, BROKERS)
    stage.produce("m6")


def _levels(stage: Stage) -> dict[str, int]:
    """The feature levels in force, once all brokers name the same."""

    def agreed() -> dict[str, int] | None:
        named = []
        for broker in BROKERS:
            with stage.ask(broker) as client:
                named.append(client.features())
        return named[0] if all(one == named[0] for one in named) else None

    return wait_until(agreed, "all brokers to name the same feature levels", timeout=20)


def _raise_features(stage: Stage) -> None:
    stage.node(1).must_execute(
        *("java", "-cp", "/opt/kafka/jars/*", "org.apache.kafka.tools.FeatureCommand"),
        *(
            "--bootstrap-server",
            f"{node_name('broker', 1)}:{REPLICATION_PORT}",
            "upgrade",
            "--release-version",
            RELEASE,
        ),
    )


def active_last(stage: Stage) -> list[Node]:
    """The controllers, the active one last."""
    active = wait_until(stage.lease.metadata.controller, "a controller to be active", timeout=30)
    return sorted(stage.lease.cluster.controllers.values(), key=lambda node: node.number == active)


def await_controller(stage: Stage, text: str, since: float) -> None:
    """Wait until a controller has logged this since then."""
    nodes = stage.lease.cluster.controllers.values()
    what = f"a controller to log {text!r}"
    wait_until(lambda: any(text in node.log(since=since) for node in nodes), what, timeout=60, interval=0.2)


def expect_nothing_lost(stage: Stage, load: LoadBeside, *, records: int) -> None:
    """All records are there that brokers acknowledged to the act's own producer and to the load."""
    stage.expect("A consumer reads every record", stage.read(), [f"m{n + 1}" for n in range(records)])
    verdict = load.verify()
    stage.fact("the load", load.table(verdict))
    reasons = [reason for lane in verdict.lanes for reason in lane.reasons]
    stage.expect("The load conforms to its prediction", (verdict.verdict, reasons), (Verdict.CONFORMS, []))
    lost = [count(verdict, lane.lane, Anomaly.LOST_WRITE) for lane in verdict.lanes]
    stage.expect("It has lost nothing", lost, [0] * len(LANES))
