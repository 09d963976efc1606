"""Requests to one broker: their versions are what this broker knows, and what is sent to an old one."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from kafka_chaos.contract.wire.kafka_python import AlterPartitionReassignmentsRequest
from kafka_chaos.faults.cluster import Leadership, PartitionId
from kafka_chaos.harness.cluster.broker.client import NONE, BrokerClient, BrokerUnreachable, log_in
from kafka_chaos.harness.cluster.broker.leadership import elect_preferred, reassign, transfer
from tests.harness.cluster.broker import served


def test_without_leader_epochs_in_answers_no_high_watermark_counts() -> None:
    with served.broker(served.OF_0_10_2, BrokerClient) as (client, asked):
        assert client.latest_offset("t") == (0, 7)
        assert client.high_watermarks({"t": [0]}) == {}
    assert [(key, version) for key, version, _ in asked] == [(served.LIST_OFFSETS, 1)] * 2


@pytest.mark.parametrize(
    ("known", "mode"), [(served.LEADER_AND_ISR, "zookeeper"), (served.DESCRIBE_QUORUM, "kraft"), (served.PRODUCE, None)]
)
def test_brokers_tell_their_mode_by_the_requests_that_they_know(known: int, mode: str | None) -> None:
    with served.broker({**served.OF_2_0, known: 1}, BrokerClient) as (client, _):
        assert client.metadata_mode() == mode


@pytest.mark.parametrize("configs", [{}, {"sasl.mechanism": "GSSAPI"}, {"sasl.mechanisms": "OAUTHBEARER"}])
def test_a_login_that_is_not_spoken_here_is_named(configs: Mapping[str, str]) -> None:
    with pytest.raises(BrokerUnreachable, match="expected PLAIN or SCRAM for single requests"):
        log_in(lambda _: None, "broker:9092", {"security.protocol": "SASL_SSL", **configs})


REFUSED = 41


class Controller:
    """A controller that does what it is asked, of as many topics as a request names."""

    def __init__(self, leadership: dict[PartitionId, Leadership], error: int = NONE) -> None:
        self.state = leadership
        self.error = error
        self.asked: list[tuple[str, list[PartitionId]]] = []

    @contextmanager
    def connect(self) -> Iterator[Any]:
        yield self

    def set_timeout(self, _seconds: float) -> None:
        pass

    def request(self, request: Any) -> Any:
        if isinstance(request, AlterPartitionReassignmentsRequest):
            orders = {
                (topic.name, one.partition_index): tuple(
                    one.replicas or self.state[topic.name, one.partition_index].replicas
                )
                for topic in request.topics
                for one in topic.partitions
            }
            self.asked.append(("reassign", list(orders)))
            for place, replicas in orders.items():
                self.state[place] = replace(self.state[place], replicas=replicas)
            answers = [
                SimpleNamespace(name=name, partitions=[SimpleNamespace(partition_index=number, error_code=self.error)])
                for name, number in orders
            ]
            return SimpleNamespace(error_code=NONE, responses=answers)
        places = [(topic.topic, number) for topic in request.topic_partitions for number in topic.partitions]
        self.asked.append(("elect", places))
        for place in places:
            was = self.state[place]
            self.state[place] = replace(was, leader=was.replicas[0], leader_epoch=was.leader_epoch + 1)
        parts = [SimpleNamespace(error_code=self.error) for _ in places]
        return SimpleNamespace(error_code=NONE, replica_election_results=[SimpleNamespace(partition_result=parts)])


PLACES: list[PartitionId] = [("a", 0), ("b", 0), ("a", 2), ("c", 1)]


def led_by_1() -> dict[PartitionId, Leadership]:
    return {place: Leadership(1, 4, (1, 2, 3), (1, 2, 3)) for place in PLACES}


def test_all_partitions_move_with_one_request_of_each_kind() -> None:
    controller = Controller(led_by_1())
    transfer(dict.fromkeys(PLACES, 2), lambda: controller.state, controller.connect)
    assert [(kind, sorted(places)) for kind, places in controller.asked] == [
        ("reassign", sorted(PLACES)),
        ("elect", sorted(PLACES)),
    ]
    assert {(state.leader, state.replicas) for state in controller.state.values()} == {(2, (2, 1, 3))}


def test_nobody_is_asked_for_what_is_so_already() -> None:
    controller = Controller(led_by_1())
    transfer(dict.fromkeys(PLACES, 1), lambda: controller.state, controller.connect)
    transfer({}, lambda: controller.state, controller.connect)
    assert controller.asked == []
    ordered = Controller({("a", 0): Leadership(1, 4, (2, 1, 3), (1, 2, 3))})
    transfer({("a", 0): 2}, lambda: ordered.state, ordered.connect)
    assert [kind for kind, _ in ordered.asked] == ["elect"]


def test_what_is_refused_is_named() -> None:
    client: Any = Controller(led_by_1(), error=REFUSED)
    assert reassign(client, {("a", 0): (2, 1, 3), ("c", 1): None}) == {("a", 0): REFUSED, ("c", 1): REFUSED}
    assert elect_preferred(client, [("a", 0), ("c", 1)]) == REFUSED
    client.error = NONE
    assert reassign(client, {("a", 0): (1, 2, 3)}) == {}
    assert elect_preferred(client, [("b", 0)]) == NONE
