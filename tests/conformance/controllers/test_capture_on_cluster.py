"""Links see all requests of controllers, with the answers, in every version."""

import pytest

from kafka_chaos.conformance.controllers.capture import captured
from kafka_chaos.conformance.controllers.requests import leader_and_isr, send_as_controller
from kafka_chaos.contract.command.waiting import wait_until
from kafka_chaos.harness.cluster.cluster import Cluster, ClusterLayout
from tests.clusters import EQUIPPED

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def layout() -> ClusterLayout:
    return EQUIPPED


@pytest.mark.slow
def test_a_capture_has_every_request_in_its_order_and_only_those_of_its_time(cluster: Cluster) -> None:
    state = {"topic_name": "t", "partition_index": 0, "leader": 1, "leader_epoch": 0, "isr": [1], "replicas": [1]}
    stale = leader_and_isr(controller=1, controller_epoch=0, **state)
    names = [f"test-{number}" for number in range(20)]

    def send(some: list[str]) -> None:
        for name in some:
            send_as_controller(cluster.addresses[1], stale, client_id=name)

    def senders() -> list[str]:
        return [e.client_id for e in capture.exchanges() if e.errors("t") == ["STALE_CONTROLLER_EPOCH"]]

    with captured(cluster) as capture:
        send(names[:10])
        capture.await_answers()
        wait_until(lambda: senders() == names[:10], "the first ten to be seen", timeout=10)
        send(names[10:])
    send(["later"])
    assert senders() == names
    assert capture.unreadable == 0
