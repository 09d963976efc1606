"""Links see all requests of controllers, with the answers, in every version."""

import secrets

import pytest
from kafka import TopicPartition
from kafka.admin import KafkaAdminClient

from kafka_chaos.conformance.controllers.capture import captured
from kafka_chaos.conformance.controllers.requests import leader_and_isr, send_as_controller
from kafka_chaos.contract.command.waiting import wait_until
from kafka_chaos.harness.cluster.admin import ClusterAdmin
from kafka_chaos.harness.cluster.cluster import Cluster, ClusterLayout
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


def test_a_capture_has_every_request_in_its_order_and_only_those_of_its_time(cluster: Cluster) -> None:
    state = {"topic_name": "t", "partition_index": 0, "leader": 1, "leader_epoch": 0, "isr": [1], "replicas": [1]}
    stale = leader_and_isr(controller=1, controller_epoch=0, **state)
    names = [f"test-{number}" for number in range(20)]

    def send(some: list[str]) -> None:
        for name in some:
            send_as_controller(cluster.client_address(1), stale, client_id=name)

    def senders() -> list[str]:
        return [e.client_id for e in capture.exchanges() if e.errors("t") == ["STALE_CONTROLLER_EPOCH"]]

    with captured(cluster) as capture:
        send(names[:10])
        capture.await_answers()
        wait_until(lambda: senders() == names[:10], "the first ten to be seen", timeout=10)
        send(names[10:])
    send(["later"])
    assert senders() == names
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
        with captured(cluster) as capture:
            reassign(cluster, "t", [2])
            capture.await_exchange(lambda e: e.api == "StopReplica" and e.broker == 1, "the replica to be stopped")
            capture.await_answers()
        assert capture.unread == 0
        assert {(e.api, e.version) for e in capture.exchanges()} == versions
        assert {e.errors("t")[0] for e in capture.exchanges()} == {"NONE"}
    assert left_of(run_id) == []
