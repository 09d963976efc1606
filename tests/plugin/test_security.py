"""A test's own functions as producer and consumer on clusters whose clients need a password or a certificate."""

import pytest
from confluent_kafka.admin import AdminClient  # type: ignore[attr-defined]

from kafka_chaos import kill, lane, load
from kafka_chaos.harness.cluster.cluster import Cluster
from kafka_chaos.harness.pytest_plugin.clusters import TopicMaker
from kafka_chaos.harness.pytest_plugin.runs import Runs
from kafka_chaos.harness.workload.application.handles import ConsumerHandle, ProducerHandle

pytestmark = [pytest.mark.cluster, pytest.mark.spark]


def place_orders(app: ProducerHandle) -> None:
    own_client = AdminClient({"bootstrap.servers": app.bootstrap_servers, **app.client_configs})
    assert len(own_client.list_topics(timeout=10).brokers) == 1
    producer = app.producer()
    while app.wait(0.01):
        producer.produce(app.topic, value=b"an order")
        producer.poll(0)
    producer.flush(30)


def bill_orders(app: ConsumerHandle) -> None:
    consumer = app.consumer()
    consumer.subscribe([app.topic])
    while app.running():
        consumer.poll(0.1)
    consumer.close()


def check(cluster: Cluster, topic: TopicMaker, run: Runs) -> None:
    assert topic("orders").startswith("orders-")
    result = run(
        lanes=[lane("orders", acks="all")],
        faults=[kill("leader(orders)").at(1).lasting(1)],
        load=load(seconds=4),
        producer=place_orders,
        consumer=bill_orders,
    )
    result.assert_conforms()
    assert result.lane("orders").consumed > 50
    assert cluster.client_configs["security.protocol"] != "PLAINTEXT"


@pytest.mark.slow
@pytest.mark.kafka_chaos(brokers=1, security="sasl_ssl")
def test_with_a_password(kafka_chaos_cluster: Cluster, kafka_chaos_topic: TopicMaker, kafka_chaos_run: Runs) -> None:
    check(kafka_chaos_cluster, kafka_chaos_topic, kafka_chaos_run)


@pytest.mark.slow
@pytest.mark.kafka_chaos(brokers=1, security="mtls")
def test_with_a_certificate(kafka_chaos_cluster: Cluster, kafka_chaos_topic: TopicMaker, kafka_chaos_run: Runs) -> None:
    check(kafka_chaos_cluster, kafka_chaos_topic, kafka_chaos_run)
