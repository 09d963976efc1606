"""What controllers send, as links see it: complete, with the answers, in every version."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Any

import pytest
from kafka import TopicPartition
from kafka.admin import KafkaAdminClient

from kafka_chaos.conformance.controllers.capture import Capture, Exchange
from kafka_chaos.conformance.controllers.refusals import bring_log_directory_back, take_log_directory_away
from kafka_chaos.conformance.controllers.requests import (
    KAFKA_STORAGE_ERROR,
    NONE,
    STALE_CONTROLLER_EPOCH,
    Sender,
    leader_and_isr,
    leader_and_isr_errors,
    send_as_controller,
)
from kafka_chaos.harness.cluster.admin import ClusterAdmin
from kafka_chaos.harness.cluster.cluster import Cluster, ClusterLayout
from kafka_chaos.harness.cluster.configuration.server_properties import BROKER_DATA, SECOND_BROKER_DATA
from kafka_chaos.harness.errors import ClusterFailure
from kafka_chaos.harness.waiting import wait_until
from tests.clusters import EQUIPPED
from tests.harness.leftovers import left_of

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def layout() -> ClusterLayout:
    return EQUIPPED


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
    # The capture also has to meet open connections.
    reassign(cluster, make_topic(replicas=(1, 2)), [2, 3])
    topic = make_topic(replicas=(1, 2))
    with Capture(cluster) as capture:
        reassign(cluster, topic, [2, 3])
        stop = capture.await_exchange(
            lambda e: e.api == "StopReplica" and any(state["delete_partition"] for state in states(e, topic)),
            "the replica on broker 1 to be deleted",
        )
        capture.await_answers()
    assert capture.unread == 0
    about = [e for e in capture.exchanges() if e.api == "UpdateMetadata" or states(e, topic)]
    assert {(e.api, e.version) for e in about} == {("LeaderAndIsr", 7), ("UpdateMetadata", 8), ("StopReplica", 4)}
    assert all(e.response is not None and e.response["error_code"] == NONE for e in about)
    assert stop.broker == 1
    assert stop.response is not None
    assert [error["error_code"] for error in stop.response["partition_errors"]] == [NONE]
    said = {broker: [s for e in about for s in states(e, topic) if e.broker == broker and e.api == "LeaderAndIsr"]
            for broker in cluster.brokers}  # fmt: skip
    assert (said[3][0]["adding_replicas"], said[3][0]["removing_replicas"], said[3][0]["is_new"]) == ([3], [1], True)
    assert set(said[2][-1]["replicas"]) == {2, 3}
    epochs = [state["leader_epoch"] for state in said[2]]
    assert epochs == sorted(epochs)
    assert len(set(epochs)) > 1
    assert {e.broker for e in about if e.api == "UpdateMetadata"} == {1, 2, 3}
    controller = admin.controller()
    assert controller is not None
    assert {e.peer for e in about} == {cluster.brokers[controller].name}
    assert all(e.answered_ns is not None and e.answered_ns >= e.sent_ns for e in about)


def test_a_capture_has_every_request_in_its_order_and_only_those_of_its_time(cluster: Cluster) -> None:
    stale = leader_and_isr(7, Sender(controller=1, controller_epoch=0), [], topic_ids={})
    names = [f"test-{number}" for number in range(20)]

    def send(some: list[str]) -> None:
        for name in some:
            send_as_controller(cluster.client_address(1), stale, client_id=name)

    def captured() -> list[str]:
        return [
            e.client_id
            for e in capture.exchanges()
            if e.response == {"error_code": STALE_CONTROLLER_EPOCH, "topics": []}
        ]

    with Capture(cluster) as capture:
        send(names[:10])
        capture.await_answers()
        wait_until(lambda: captured() == names[:10], "the first ten to be seen", timeout=10)
        send(names[10:])
    send(["later"])
    assert captured() == names
    assert capture.unread == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("protocol", "versions"),
    [
        ("0.11.0", {("LeaderAndIsr", 0), ("UpdateMetadata", 3), ("StopReplica", 0)}),
        *(
            (protocol, set(zip(APIS_BY_NAME, versions, strict=True)))
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
    run_id = f"test-capture-{secrets.token_hex(4)}"
    spec = ClusterLayout(
        brokers=2, controller=1, links=True, broker_configs={"inter.broker.protocol.version": protocol}
    )
    with Cluster(spec, run_id=run_id) as cluster:
        admin = ClusterAdmin(cluster.bootstrap_servers)
        admin.create_topic("t", replica_assignment=[[1]], configs={})
        admin.await_full_isr(["t"])
        with Capture(cluster) as capture:
            reassign(cluster, "t", [2])
            capture.await_exchange(lambda e: e.api == "StopReplica" and e.broker == 1, "the replica to be stopped")
            capture.await_answers()
        assert capture.unread == 0
        assert {(e.api, e.version) for e in capture.exchanges()} == versions
        assert {e.response and e.response["error_code"] for e in capture.exchanges()} == {NONE}
    assert left_of(run_id) == []


@pytest.mark.slow
def test_a_broker_refuses_a_partition_whose_log_directory_is_gone() -> None:
    run_id = f"test-capture-{secrets.token_hex(4)}"
    configs = {"replica.high.watermark.checkpoint.interval.ms": 300}
    spec = ClusterLayout(brokers=2, controller=1, links=True, log_directories=2, broker_configs=configs)
    with Cluster(spec, run_id=run_id) as cluster:
        admin = ClusterAdmin(cluster.bootstrap_servers)
        for topic in ("one", "two"):
            admin.create_topic(topic, replica_assignment=[[2, 1]], configs={})
        admin.await_full_isr(["one", "two"])
        node = cluster.brokers[2]
        folders = {folder: node.must_execute("ls", folder).split() for folder in (BROKER_DATA, SECOND_BROKER_DATA)}
        lost = next(topic for topic in ("one", "two") if f"{topic}-0" in folders[SECOND_BROKER_DATA])
        assert any("-0" in name for name in folders[BROKER_DATA])
        with Capture(cluster) as capture:
            take_log_directory_away(node, SECOND_BROKER_DATA)
            refusal = capture.await_exchange(
                lambda e: e.broker == 2 and e.api == "LeaderAndIsr" and bool(states(e, lost)), "the controller to ask"
            )
            assert admin.await_leader(lost, 0, other_than=2) == 1
        assert refusal.response is not None
        names = {entry["topic_name"]: entry["topic_id"] for entry in refusal.request["topic_states"]}
        error, partitions = leader_and_isr_errors(7, refusal.response, topic_ids=names)
        assert (error, partitions[lost, 0]) == (NONE, KAFKA_STORAGE_ERROR)
        assert all(e.response is None or e.response["error_code"] == NONE for e in capture.exchanges())
        node.kill()
        cluster.start_again([node])
        with pytest.raises(ClusterFailure, match="rm -rf"):
            bring_log_directory_back(node, SECOND_BROKER_DATA + "/absent")
    assert left_of(run_id) == []
