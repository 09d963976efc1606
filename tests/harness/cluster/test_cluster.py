"""A cluster on a real engine: what it is made of, what outlives what, and that nothing is left of it."""

import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Callable

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from kafka_chaos.conformance.replica import read_replica
from kafka_chaos.contract.command.errors import ClusterFailure
from kafka_chaos.contract.lane.metadata import KRAFT
from kafka_chaos.harness.cluster.admin import ClusterAdmin
from kafka_chaos.harness.cluster.cluster import Cluster, ClusterLayout, Keep
from kafka_chaos.harness.cluster.containers.cleanup import clean, leftovers, remove_run
from kafka_chaos.harness.cluster.containers.engine import docker_client
from kafka_chaos.harness.cluster.containers.image import ensure_image
from kafka_chaos.harness.cluster.containers.labels import OWNER, RUN
from tests.clusters import EQUIPPED, IN_KRAFT, PLAIN, SharedClusters, needs_disks, needs_links, produced_in_network
from tests.harness.leftovers import left_of

pytestmark = pytest.mark.cluster


def fresh_id(name: str) -> str:
    return f"test-{name}-{secrets.token_hex(4)}"


def test_every_part_carries_the_run_s_labels_and_is_served_on_the_loopback_address_only(cluster: Cluster) -> None:
    for node in cluster.nodes:
        node.container.reload()
        assert node.container.labels[RUN] == cluster.run_id
        assert node.container.labels[OWNER]
        bound = [entry for entries in node.container.ports.values() if entries for entry in entries]
        assert [(entry["HostIp"], int(entry["HostPort"])) for entry in bound] == [("127.0.0.1", node.host_port)]
    networks = docker_client().networks.list(filters={"label": f"{RUN}={cluster.run_id}"})
    assert [network.name for network in networks] == [f"kafka-chaos-{cluster.run_id}"]


def test_data_and_address_outlive_a_kill(cluster: Cluster, make_topic: Callable[..., str], admin: ClusterAdmin) -> None:
    topic = make_topic(replicas=(1,))
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
    producer.produce(topic, b"before the kill")
    assert producer.flush(30) == 0
    before = cluster.addresses[1], cluster.brokers[1].address
    cluster.brokers[1].kill()
    assert [record.value for record in read_replica(cluster.brokers[1], topic, 0).records] == [b"before the kill"]
    cluster.start_again([cluster.brokers[1]])
    admin.await_full_isr([topic])
    assert (cluster.addresses[1], cluster.brokers[1].address) == before
    consumer = Consumer({"bootstrap.servers": before[0], "group.id": topic})
    consumer.assign([TopicPartition(topic, 0, 0)])
    message = consumer.poll(30)
    assert message is not None
    assert message.value() == b"before the kill"
    consumer.close()


def test_a_broker_that_can_not_start_is_told_with_its_log_and_nothing_is_left() -> None:
    run_id = fresh_id("broken")
    spec = ClusterLayout(brokers=2, broker_configs={"log.segment.bytes": 1})
    with pytest.raises(ClusterFailure) as failure, Cluster(spec, run_id=run_id):
        pytest.fail("the cluster started")
    assert "broker-" in str(failure.value)
    assert "status exited, exit code 1" in str(failure.value)
    assert "Invalid value 1 for configuration log.segment.bytes" in str(failure.value)
    assert left_of(run_id) == []


@pytest.mark.slow
def test_a_failed_run_can_leave_its_cluster_standing() -> None:
    run_id = fresh_id("kept")
    try:
        kept = Cluster(ClusterLayout(brokers=1), run_id=run_id, keep=Keep.FAILED)
        with pytest.raises(ZeroDivisionError), kept:
            _ = 1 / 0
        assert kept.kept
        assert len(ClusterAdmin(kept.bootstrap_servers).live_brokers()) == 1
        assert [left.kept for left in leftovers(docker_client()) if left.run_id == run_id] == [True]
    finally:
        remove_run(docker_client(), run_id)
    assert left_of(run_id) == []


START_AND_WAIT = """
import sys
from kafka_chaos.harness.cluster.cluster import Cluster, ClusterLayout
with Cluster(ClusterLayout(brokers=1), run_id=sys.argv[1]):
    print("ready", flush=True)
    sys.stdin.read()
"""


def test_clean_removes_what_a_killed_run_left_and_nothing_else(cluster: Cluster) -> None:
    """Not even a container of somebody else's that has joined the network."""
    run_id = fresh_id("dead")
    with subprocess.Popen(
        [sys.executable, "-c", START_AND_WAIT, run_id], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        alive = [left.run_id for left in clean(docker_client())]
        assert run_id not in alive
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    assert left_of(run_id)
    service = docker_client().containers.run(
        ensure_image(), "infinity", entrypoint="sleep", network=f"kafka-chaos-{run_id}", detach=True
    )
    try:
        assert run_id in [left.run_id for left in clean(docker_client())]
        assert left_of(run_id) == []
        service.reload()
        assert service.status == "running"
    finally:
        service.remove(force=True)
    assert len(left_of(cluster.run_id)) >= len(cluster.nodes)


# Last, since so many layouts make room for each other.
@pytest.mark.parametrize(
    "layout",
    [
        PLAIN,
        IN_KRAFT,
        pytest.param(EQUIPPED, marks=[needs_links, needs_disks]),
        *(pytest.param(ClusterLayout(kafka_version=each), marks=pytest.mark.slow) for each in ("0.10.2.2", "2.0.0")),
        pytest.param(ClusterLayout(kafka_version="4.4.0", metadata_mode=KRAFT), marks=pytest.mark.slow),
    ],
    ids=lambda layout: layout.described,
)
def test_a_container_on_the_network_reaches_the_brokers(clusters: SharedClusters, layout: ClusterLayout) -> None:
    cluster = clusters.of(layout)
    # The first broker names the others, by the addresses that they advertise on the network.
    topic = fresh_id("inside")
    cluster.admin().create_topic(topic, replica_assignment=[[3]], configs={})
    assert produced_in_network(cluster, topic) == [0, 1, 2]
