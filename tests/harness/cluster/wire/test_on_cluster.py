"""The codec against real brokers: what they read of our requests, what they answer, what their controller sends."""

from __future__ import annotations

import base64
import json
import logging
import os
import secrets
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, seed, settings
from kafka import TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient

from kafka_chaos.conformance.capture.capture import Capture
from kafka_chaos.conformance.capture.packets import Exchange
from kafka_chaos.harness.cluster.admin import ClusterAdmin
from kafka_chaos.harness.cluster.cluster import Cluster, ClusterLayout
from kafka_chaos.harness.cluster.configuration.server_properties import BROKER_DATA, CLIENT_PORT, SECOND_BROKER_DATA
from kafka_chaos.harness.cluster.metadata.zookeeper_client import ZooKeeper
from kafka_chaos.harness.cluster.refusals import (
    AUTHORIZER_CONFIGS,
    allow_cluster_action_to_brokers_only,
    bring_log_directory_back,
    take_log_directory_away,
)
from kafka_chaos.harness.cluster.wire.client import send_as_controller
from kafka_chaos.harness.cluster.wire.codec import UNKNOWN_TAGS
from kafka_chaos.harness.cluster.wire.messages import APIS, LEADER_AND_ISR
from kafka_chaos.harness.cluster.wire.requests import (
    CLUSTER_AUTHORIZATION_FAILED,
    KAFKA_STORAGE_ERROR,
    NONE,
    STALE_BROKER_EPOCH,
    STALE_CONTROLLER_EPOCH,
    PartitionState,
    Sender,
    leader_and_isr,
    leader_and_isr_errors,
)
from kafka_chaos.harness.cluster.wire.schema import Api
from kafka_chaos.harness.errors import ClusterFailure
from kafka_chaos.harness.waiting import wait_until
from tests.harness.cluster.wire.bodies import PRINTABLE_TEXT, bodies
from tests.harness.leftovers import left_of

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module", autouse=True)
def quiet_client() -> Iterator[None]:
    logger = logging.getLogger("kafka")
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    yield
    logger.setLevel(before)


def reassign(cluster: Cluster, topic: str, replicas: list[int]) -> None:
    client = KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers.split(","))
    try:
        assert client.alter_partition_reassignments({TopicPartition(topic, 0): replicas}) == {
            TopicPartition(topic, 0): None
        }
        admin = ClusterAdmin(cluster.bootstrap_servers)
        wait_until(
            lambda: (
                admin.partitions(topic)[0].replicas == tuple(replicas) and not client.list_partition_reassignments()
            ),
            f"{topic} to be on {replicas}",
            timeout=30,
        )
    finally:
        client.close()


def states(exchange: Exchange, topic: str) -> list[dict[str, Any]]:
    """What a LeaderAndIsr or StopReplica request says of a topic's partitions."""
    topics = exchange.request.get("topic_states")
    if topics is None:
        flat = exchange.request.get("ungrouped_partition_states") or exchange.request["ungrouped_partitions"]
        return [state for state in flat if state["topic_name"] == topic]
    return [state for entry in topics if entry["topic_name"] == topic for state in entry["partition_states"]]


def test_a_reassignment_as_the_controller_sends_it(
    cluster: Cluster, admin: ClusterAdmin, make_topic: Callable[..., str]
) -> None:
    # The capture also has to meet open connections, and then carry a leader's AlterPartition alone.
    reassign(cluster, make_topic(replicas=(1, 2)), [2, 3])
    topic = make_topic(replicas=(1, 2))
    with Capture(cluster.brokers.values()) as capture:
        reassign(cluster, topic, [2, 3])
        stop = capture.await_exchange(
            lambda e: e.api == "StopReplica" and any(state["delete_partition"] for state in states(e, topic)),
            "the replica on broker 1 to be deleted",
        )
        capture.await_answers()
    assert capture.lost == ""
    about = [e for e in capture.exchanges() if e.api == "UpdateMetadata" or states(e, topic)]
    assert {(e.api, e.version) for e in about} == {("LeaderAndIsr", 7), ("UpdateMetadata", 8), ("StopReplica", 4)}
    assert all(e.response is not None and e.response["error_code"] == NONE for e in about)
    assert stop.broker == 1
    assert stop.response is not None
    assert [error["error_code"] for error in stop.response["partition_errors"]] == [NONE]
    said = {broker: [s for e in about for s in states(e, topic) if e.broker == broker and e.api == "LeaderAndIsr"]
            for broker in cluster.brokers}  # fmt: skip
    assert (said[3][0]["adding_replicas"], said[3][0]["removing_replicas"], said[3][0]["is_new"]) == ((3,), (1,), True)
    assert set(said[2][-1]["replicas"]) == {2, 3}
    epochs = [state["leader_epoch"] for state in said[2]]
    assert epochs == sorted(epochs)
    assert len(set(epochs)) > 1
    assert {e.broker for e in about if e.api == "UpdateMetadata"} == {1, 2, 3}
    controller = admin.controller()
    assert controller is not None
    assert {e.peer for e in about} == {cluster.brokers[controller].address}
    assert all(e.answered_ns is not None and e.answered_ns >= e.sent_ns for e in about)
    for node in cluster.brokers.values():
        assert node.execute("pgrep", "tcpdump")[0] == 1


def test_a_capture_holds_every_packet_until_its_end(cluster: Cluster) -> None:
    stale = leader_and_isr(7, Sender(controller=1, controller_epoch=0), [], topic_ids={})
    names = [f"test-{number}" for number in range(20)]

    def send(some: list[str]) -> None:
        for name in some:
            send_as_controller(cluster.client_address(1), LEADER_AND_ISR, 7, stale, client_id=name)

    def captured() -> list[str | None]:
        return [exchange.client_id for exchange in capture.exchanges() if exchange.response is not None]

    with Capture([cluster.brokers[1]], port=CLIENT_PORT) as capture:
        send(names[:10])
        capture.await_answers()
        assert captured() == names[:10]
        send(names[10:])
    assert captured() == names
    assert capture.lost == ""


CAPTURE_AND_WAIT = """
import sys
from kafka_chaos.harness.cluster.containers.engine import docker_client
from kafka_chaos.conformance.capture.capture import Capture
class Broker:
    name, number, address = "broker-1", 1, "127.0.0.1"
    container = docker_client().containers.get(sys.argv[1])
with Capture([Broker()]):
    print("ready", flush=True)
    sys.stdin.read()
"""


def test_a_capture_ends_with_the_process_that_began_it(cluster: Cluster) -> None:
    node = cluster.brokers[1]
    with subprocess.Popen(
        [sys.executable, "-c", CAPTURE_AND_WAIT, node.container_name],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        assert node.execute("pgrep", "tcpdump")[0] == 0
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    wait_until(lambda: node.execute("pgrep", "tcpdump")[0] == 1, "the process in the container to end", timeout=20)


def test_a_capture_that_can_not_be_is_told(cluster: Cluster) -> None:
    node = cluster.zookeepers[1]
    node.pause()
    try:
        with pytest.raises(ClusterFailure, match=r"zookeeper-1: no capture on it: .* is paused"), Capture([node]):
            pytest.fail("the capture began")
    finally:
        node.unpause()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("protocol", "versions"),
    [
        ("0.11.0", {("LeaderAndIsr", 0), ("UpdateMetadata", 3), ("StopReplica", 0)}),
        *(
            pytest.param(protocol, set(zip(APIS_BY_NAME, versions, strict=True)), marks=pytest.mark.slow)
            for APIS_BY_NAME in (("LeaderAndIsr", "UpdateMetadata", "StopReplica"),)
            for protocol, versions in (
                ("1.0", (1, 4, 0)),
                ("2.2", (2, 5, 1)),
                ("2.4-IV0", (3, 5, 1)),
                ("2.4-IV1", (4, 6, 2)),
                ("2.8-IV1", (5, 7, 3)),
                ("3.2-IV0", (6, 7, 3)),
            )
        ),
    ],
)
def test_old_protocols_bring_the_old_versions(protocol: str, versions: set[tuple[str, int]]) -> None:
    run_id = f"test-wire-{secrets.token_hex(4)}"
    spec = ClusterLayout(brokers=2, controller=1, broker_configs={"inter.broker.protocol.version": protocol})
    with Cluster(spec, run_id=run_id) as cluster:
        admin = ClusterAdmin(cluster.bootstrap_servers)
        admin.create_topic("t", replica_assignment=[[1]], configs={})
        admin.await_full_isr(["t"])
        with Capture(cluster.brokers.values()) as capture:
            reassign(cluster, "t", [2])
            capture.await_exchange(lambda e: e.api == "StopReplica" and e.broker == 1, "the replica to be stopped")
            capture.await_answers()
        assert capture.lost == ""
        assert {(e.api, e.version) for e in capture.exchanges()} == versions
        assert {e.response and e.response["error_code"] for e in capture.exchanges()} == {NONE}
    assert left_of(run_id) == []


@pytest.fixture(scope="module")
def logging_broker(cluster: Cluster) -> Iterator[int]:
    """A broker that logs every request as it read it."""
    client = KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers.split(","))
    logger = ConfigResource(ConfigResourceType.BROKER_LOGGER, "1", {"kafka.request.logger": "DEBUG"})
    back = ConfigResource(ConfigResourceType.BROKER_LOGGER, "1", {"kafka.request.logger": "INFO"})
    client.alter_configs([logger], raise_on_unknown=False, incremental=True)
    yield 1
    client.alter_configs([back], raise_on_unknown=False, incremental=True)
    client.close()


@pytest.mark.parametrize("api", APIS.values(), ids=[api.name for api in APIS.values()])
def test_a_broker_reads_every_version_as_we_wrote_it(api: Api, cluster: Cluster, logging_broker: int) -> None:
    sent: dict[str, tuple[int, dict[str, Any]]] = {}

    def send_some(version: int) -> None:
        @seed(version)
        @settings(max_examples=5, database=None, suppress_health_check=list(HealthCheck))
        @given(body=bodies(api.request, version, text=PRINTABLE_TEXT))
        def send(body: dict[str, Any]) -> None:
            # A controller of long ago: the broker reads it all and does nothing.
            body = {**body, "controller_epoch": 0} | ({"broker_epoch": -1} if "broker_epoch" in body else {})
            name = f"test-{uuid.uuid4()}"
            answer = send_as_controller(cluster.client_address(logging_broker), api, version, body, client_id=name)
            assert answer["error_code"] == STALE_CONTROLLER_EPOCH
            sent[name] = (version, body)

        send()

    for version in range(api.newest + 1):
        send_some(version)
    assert {version for version, _ in sent.values()} == set(range(api.newest + 1))
    reported: dict[str, dict[str, Any]] = {}

    def all_told() -> bool:
        for line in cluster.brokers[logging_broker].log(tail=3000).splitlines():
            if "Completed request:" in line and '"clientId":"test-' in line:
                found = json.loads(line.split("Completed request:", 1)[1].rpartition("}")[0] + "}")
                reported[found["requestHeader"]["clientId"]] = found
        return reported.keys() >= sent.keys()

    wait_until(all_told, "the broker to tell what it read", timeout=20)
    for name, (version, body) in sent.items():
        assert reported[name]["requestHeader"]["requestApiVersion"] == version
        assert reported[name]["request"] == as_kafka_tells(body, version, api)


def as_kafka_tells(value: Any, version: int, api: Api) -> Any:
    """A body in the form of Kafka's own JSON."""
    if isinstance(value, dict):
        named = {camel_case(name): as_kafka_tells(v, version, api) for name, v in value.items() if name != UNKNOWN_TAGS}
        if api.name == "UpdateMetadata" and value.get("type") == 0:
            del named["type"]
        return named
    if isinstance(value, tuple):
        return [as_kafka_tells(element, version, api) for element in value]
    if isinstance(value, uuid.UUID):
        return base64.urlsafe_b64encode(value.bytes).decode().rstrip("=")
    return value


def camel_case(name: str) -> str:
    first, *rest = name.split("_")
    return "isKRaftController" if name == "is_kraft_controller" else first + "".join(map(str.capitalize, rest))


def test_requests_with_old_epochs_are_refused(cluster: Cluster, make_topic: Callable[..., str]) -> None:
    topic = make_topic()
    with ZooKeeper(cluster.zookeeper_addresses) as zookeeper:
        now = zookeeper.partition(topic)
        assert now is not None
        controller_epoch, broker_epoch = zookeeper.controller_epoch(), zookeeper.broker_epoch(2)
    assert broker_epoch is not None
    topic_id = {topic: uuid.UUID(int=1)}

    def ask(version: int, *, of: int = controller_epoch, to: int = broker_epoch, leader_epoch: int) -> tuple[int, int]:
        sender = Sender(controller=1, controller_epoch=of, broker_epoch=to)
        state = PartitionState(
            topic=topic,
            partition=0,
            leader=now.leader,
            leader_epoch=leader_epoch,
            isr=now.isr,
            replicas=(1, 2, 3),
            controller_epoch=controller_epoch,
        )
        body = leader_and_isr(version, sender, [state], topic_ids={})
        answer = send_as_controller(cluster.client_address(2), LEADER_AND_ISR, version, body)
        error, partitions = leader_and_isr_errors(version, answer, topic_ids=topic_id)
        return error, next(iter(partitions.values()))

    for version in range(LEADER_AND_ISR.newest + 1):
        newer = now.leader_epoch + 1
        assert ask(version, of=controller_epoch - 1, leader_epoch=newer)[0] == STALE_CONTROLLER_EPOCH
        # A stale leader epoch has no error of its own in LeaderAndIsr.
        assert ask(version, leader_epoch=now.leader_epoch - 1) == (NONE, STALE_CONTROLLER_EPOCH)
        if version >= 2:
            assert ask(version, to=broker_epoch - 1, leader_epoch=newer)[0] == STALE_BROKER_EPOCH


@pytest.mark.slow
def test_an_authorizer_and_an_offline_log_directory_refuse() -> None:
    run_id = f"test-wire-{secrets.token_hex(4)}"
    configs = {**AUTHORIZER_CONFIGS, "replica.high.watermark.checkpoint.interval.ms": 300}
    spec = ClusterLayout(brokers=2, controller=1, log_directories=2, broker_configs=configs)
    with Cluster(spec, run_id=run_id) as cluster:
        admin = ClusterAdmin(cluster.bootstrap_servers)
        for topic in ("one", "two"):
            admin.create_topic(topic, replica_assignment=[[2, 1]], configs={})
        admin.await_full_isr(["one", "two"])
        allow_cluster_action_to_brokers_only(cluster)
        stale = leader_and_isr(7, Sender(controller=1, controller_epoch=0), [], topic_ids={})
        for broker in cluster.brokers:
            answer = send_as_controller(cluster.client_address(broker), LEADER_AND_ISR, 7, stale)
            assert answer == {"error_code": CLUSTER_AUTHORIZATION_FAILED, "topics": ()}
        node = cluster.brokers[2]
        folders = {folder: node.must_execute("ls", folder).split() for folder in (BROKER_DATA, SECOND_BROKER_DATA)}
        lost = next(topic for topic in ("one", "two") if f"{topic}-0" in folders[SECOND_BROKER_DATA])
        assert any("-0" in name for name in folders[BROKER_DATA])
        with Capture(cluster.brokers.values()) as capture:
            take_log_directory_away(node, SECOND_BROKER_DATA)
            refusal = capture.await_exchange(
                lambda e: e.broker == 2 and e.api == "LeaderAndIsr" and bool(states(e, lost)), "the controller to ask"
            )
            assert admin.await_leader(lost, 0, other_than=2) == 1
        assert refusal.response is not None
        names = {entry["topic_name"]: entry["topic_id"] for entry in refusal.request["topic_states"]}
        error, partitions = leader_and_isr_errors(7, refusal.response, topic_ids=names)
        assert (error, partitions[lost, 0]) == (NONE, KAFKA_STORAGE_ERROR)
        # Still the controller's requests are served: only ours are not authorized.
        assert all(e.response is None or e.response["error_code"] == NONE for e in capture.exchanges())
        node.kill()
        cluster.start_again([node])
        with pytest.raises(ClusterFailure, match="rm -rf"):
            bring_log_directory_back(node, SECOND_BROKER_DATA + "/absent")
    assert left_of(run_id) == []
