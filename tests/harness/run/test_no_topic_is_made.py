"""Nothing makes a topic by asking for one, on brokers that create a topic for whoever asks (Kafka's default)."""

import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, ResourceType  # type: ignore[attr-defined]

from kafka_chaos.contract.command.errors import ClusterFailure, EnvironmentFailure, UsageFailure
from kafka_chaos.contract.command.waiting import wait_until
from kafka_chaos.harness.cluster.admin import ClusterAdmin
from kafka_chaos.harness.cluster.cluster import Cluster, ClusterLayout
from kafka_chaos.harness.experiment.file import parse_experiment
from kafka_chaos.harness.run.attach import ClusterAccess, run_attached

# A cluster of its own, and by day no other test needs one that creates topics.
pytestmark = [pytest.mark.cluster, pytest.mark.slow]

EXPERIMENT = """\
name: staging
workload: {rate: 200, duration: 2}
lanes:
  - {lane: orders, topic: nowhere, acks: "1", replication_factor: 1}
"""


@pytest.fixture(scope="module")
def creating() -> Iterator[Cluster]:
    """One broker that creates topics as Kafka does by default."""
    layout = ClusterLayout(brokers=1, broker_configs={"auto.create.topics.enable": True})
    with Cluster(layout, run_id=f"test-{secrets.token_hex(4)}") as running:
        yield running


@pytest.fixture
def observer(creating: Cluster) -> AdminClient:
    """Lists all topics, which makes none."""
    return AdminClient({"bootstrap.servers": creating.bootstrap_servers})


def topics(observer: AdminClient) -> set[str]:
    """All topics but Kafka's own: the first consumer of a cluster makes the broker create its group coordinator's."""
    return set(observer.list_topics(timeout=10).topics) - {"__consumer_offsets"}


def test_the_broker_does_create_what_is_asked_for(creating: Cluster, observer: AdminClient) -> None:
    """Without this, the other tests here would prove nothing."""
    Producer({"bootstrap.servers": creating.bootstrap_servers}).list_topics("asked-for", timeout=10)
    wait_until(lambda: "asked-for" in topics(observer), "the topic to be created", timeout=10)


def test_attaching_to_a_missing_topic_refuses_and_makes_nothing(
    creating: Cluster, observer: AdminClient, tmp_path: Path
) -> None:
    before = topics(observer)
    with pytest.raises(UsageFailure, match="has no topic nowhere"):
        run_attached(parse_experiment(EXPERIMENT, "a.yaml"), ClusterAccess(creating.bootstrap_servers), root=tmp_path)
    assert topics(observer) == before


def test_administration_makes_nothing(creating: Cluster, observer: AdminClient) -> None:
    before = topics(observer)
    admin = ClusterAdmin(creating.bootstrap_servers)
    assert admin.partitions("missing") == {}
    with pytest.raises(ClusterFailure):
        admin.end_offsets("missing", [0], timeout=1)
    with pytest.raises(EnvironmentFailure):
        admin.configuration(ResourceType.TOPIC, "missing")
    assert topics(observer) == before
