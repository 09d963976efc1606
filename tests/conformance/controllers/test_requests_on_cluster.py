"""Our requests to real brokers: what they read of them, and what they answer."""

import base64
import json
import logging
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, seed, settings
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient

from kafka_chaos.conformance.controllers.requests import (
    NONE,
    STALE_BROKER_EPOCH,
    STALE_CONTROLLER_EPOCH,
    PartitionState,
    Sender,
    leader_and_isr,
    leader_and_isr_errors,
    send_as_controller,
)
from kafka_chaos.contract.command.waiting import wait_until
from kafka_chaos.contract.wire.messages import LeaderAndIsrRequest
from kafka_chaos.harness.cluster.cluster import Cluster
from kafka_chaos.harness.cluster.metadata.zookeeper_client import ZooKeeper
from tests.contract.wire.bodies import PRINTABLE_TEXT, REQUESTS, bodies

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module", autouse=True)
def quiet_client() -> Iterator[None]:
    logger = logging.getLogger("kafka")
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    yield
    logger.setLevel(before)


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


@pytest.mark.slow
@pytest.mark.parametrize("message", REQUESTS, ids=[message.name for message in REQUESTS])
def test_a_broker_reads_every_version_as_we_wrote_it(message: Any, cluster: Cluster, logging_broker: int) -> None:
    sent: dict[str, tuple[int, dict[str, Any]]] = {}

    def send_some(version: int) -> None:
        @seed(version)
        @settings(max_examples=5, database=None, suppress_health_check=list(HealthCheck))
        @given(request=bodies(message, version, text=PRINTABLE_TEXT))
        def send(request: Any) -> None:
            # A controller of long ago: the broker reads it all and does nothing.
            request.controller_epoch, request.broker_epoch = 0, -1
            name = f"test-{uuid.uuid4()}"
            answer = send_as_controller(cluster.client_address(logging_broker), request, client_id=name)
            assert answer["error_code"] == STALE_CONTROLLER_EPOCH
            sent[name] = (version, request.to_dict(json=False))

        send()

    for version in range(message.max_version + 1):
        send_some(version)
    assert {version for version, _ in sent.values()} == set(range(message.max_version + 1))
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
        assert reported[name]["request"] == as_kafka_tells(body, message)


def as_kafka_tells(value: Any, message: Any) -> Any:
    """A body in the form of Kafka's own JSON."""
    if isinstance(value, dict):
        named = {camel_case(name): as_kafka_tells(v, message) for name, v in value.items()}
        if message.name == "UpdateMetadataRequest" and value.get("type") == 0:
            del named["type"]
        return named
    if isinstance(value, list):
        return [as_kafka_tells(element, message) for element in value]
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
        request = leader_and_isr(version, sender, [state], topic_ids={})
        answer = send_as_controller(cluster.client_address(2), request)
        error, partitions = leader_and_isr_errors(version, answer, topic_ids=topic_id)
        return error, next(iter(partitions.values()))

    for version in range(LeaderAndIsrRequest.max_version + 1):
        newer = now.leader_epoch + 1
        assert ask(version, of=controller_epoch - 1, leader_epoch=newer)[0] == STALE_CONTROLLER_EPOCH
        # A stale leader epoch has no error of its own in LeaderAndIsr.
        assert ask(version, leader_epoch=now.leader_epoch - 1) == (NONE, STALE_CONTROLLER_EPOCH)
        if version >= 2:
            assert ask(version, to=broker_epoch - 1, leader_epoch=newer)[0] == STALE_BROKER_EPOCH
