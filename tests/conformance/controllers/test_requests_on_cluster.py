"""Our requests to real brokers: what they answer."""

import logging
from collections.abc import Callable, Iterator

import pytest

from kafka_chaos.conformance.controllers.requests import errors_of, leader_and_isr, send_as_controller
from kafka_chaos.contract.wire.messages import LeaderAndIsrRequest
from kafka_chaos.harness.cluster.cluster import Cluster
from kafka_chaos.harness.cluster.metadata.zookeeper_client import ZooKeeper

pytestmark = [pytest.mark.cluster, pytest.mark.slow]


@pytest.fixture(scope="module", autouse=True)
def quiet_client() -> Iterator[None]:
    logger = logging.getLogger("kafka")
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    yield
    logger.setLevel(before)


def test_requests_with_old_epochs_are_refused(cluster: Cluster, make_topic: Callable[..., str]) -> None:
    topic = make_topic()
    with ZooKeeper(cluster.zookeeper_addresses) as zookeeper:
        now = zookeeper.partition(topic)
        assert now is not None
        controller_epoch, broker_epoch = zookeeper.controller_epoch(), zookeeper.broker_epoch(2)
    assert broker_epoch is not None

    def ask(version: int, *, of: int = controller_epoch, to: int = broker_epoch, leader_epoch: int) -> list[str]:
        request = leader_and_isr(
            version,
            controller=1,
            controller_epoch=of,
            broker_epoch=to,
            topic_name=topic,
            partition_index=0,
            leader=now.leader,
            leader_epoch=leader_epoch,
            isr=list(now.isr),
            replicas=[1, 2, 3],
        )
        return errors_of(send_as_controller(cluster.client_address(2), request))

    for version in range(LeaderAndIsrRequest.max_version + 1):
        newer = now.leader_epoch + 1
        assert ask(version, of=controller_epoch - 1, leader_epoch=newer) == ["STALE_CONTROLLER_EPOCH"]
        # A stale leader epoch has no error of its own in LeaderAndIsr.
        assert ask(version, leader_epoch=now.leader_epoch - 1) == ["NONE", "STALE_CONTROLLER_EPOCH"]
        if version >= 2:
            assert ask(version, to=broker_epoch - 1, leader_epoch=newer) == ["STALE_BROKER_EPOCH"]
