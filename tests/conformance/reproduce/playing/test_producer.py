"""The producer of stories: what it sends, what it learns, and which rows it leaves."""

from __future__ import annotations

from typing import Any

import pytest

from kafka_chaos.conformance.reproduce.playing import producer as module
from kafka_chaos.conformance.reproduce.playing.producer import StepProducer
from kafka_chaos.contract.command.errors import ClusterFailure
from kafka_chaos.contract.identity import decode_identity, lane_checksum
from kafka_chaos.contract.lane.lanes import Lane

LANE = Lane(lane="story", acks="1")


class Connection:
    """Stands in for a connection to a broker: what was sent on it, and what it answers."""

    made: list[Connection]
    answers: dict[int, tuple[int, int]]

    def __init__(self, address: str) -> None:
        self.address, self.sent, self.is_open = address, list[tuple[tuple[int, int], str, dict[str, int]]](), True
        self.made.append(self)

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self.is_open = False

    def send(self, topic: str, value: bytes, *, acks: str, sequence: dict[str, int]) -> int:
        assert self.is_open
        self.sent.append((decode_identity(value, lane_checksum("story")), acks, sequence))
        return len(self.sent)

    def answer(self, number: int) -> tuple[int, int]:
        return self.answers.get(number, (0, number - 1))

    def producer_id(self) -> tuple[int, int]:
        return 7, 0


@pytest.fixture(autouse=True)
def connections(monkeypatch: pytest.MonkeyPatch) -> list[Connection]:
    Connection.made, Connection.answers = [], {}
    monkeypatch.setattr(module, "ProduceConnection", Connection)
    return Connection.made


def made(lane: Lane = LANE) -> StepProducer:
    producer = StepProducer(lane, "topic", lambda broker: f"broker-{broker}")
    producer.begin(1)
    return producer


def rows(producer: StepProducer) -> list[tuple[Any, ...]]:
    return [(row["producer_id"], row["seq"], row["outcome"], row["offset"]) for row in producer.rows()]


def test_a_record_is_ok_once_its_answer_was_taken() -> None:
    producer = made()
    producer.send(0, 1)
    producer.send(1, 1)
    assert rows(producer) == [(0, 0, "info", None), (0, 1, "info", None)]
    assert producer.answer(1) == ("NONE", 1)
    assert rows(producer) == [(0, 0, "info", None), (0, 1, "ok", 1)]


def test_an_error_leaves_the_record_in_doubt() -> None:
    Connection.answers = {1: (19, -1)}
    producer = made()
    producer.send(0, 1)
    assert producer.answer(0) == ("NOT_ENOUGH_REPLICAS", -1)
    assert rows(producer) == [(0, 0, "info", None)]


def test_with_acks_0_a_record_is_ok_when_it_is_sent() -> None:
    producer = made(Lane(lane="story", acks="0"))
    producer.send(0, 1)
    assert rows(producer) == [(0, 0, "ok", None)]
    assert producer.awaits(1) == []


def test_a_connection_that_is_given_up_takes_its_answers_along(connections: list[Connection]) -> None:
    producer = made()
    producer.send(0, 1)
    producer.send(1, 2)
    producer.give_up(1)
    assert (producer.awaits(1), producer.awaits(2)) == ([], [1])
    producer.send(0, 1)
    assert [(one.address, one.is_open) for one in connections] == [
        ("broker-1", False),
        ("broker-2", True),
        ("broker-1", True),
    ]
    producer.close()
    assert not any(one.is_open for one in connections)


@pytest.mark.parametrize(("acks", "expected"), [("1", 1), ("all", 2)])
def test_with_acks_all_a_record_that_comes_before_an_answer_takes_another_connection(
    connections: list[Connection], acks: str, expected: int
) -> None:
    producer = made(Lane(lane="story", acks=acks))
    producer.send(0, 1)
    producer.send(1, 1)
    assert len(connections) == expected
    assert producer.awaits(1) == [0, 1]
    assert producer.answer(0)[0] == producer.answer(1)[0] == "NONE"
    producer.give_up(1)
    assert not any(one.is_open for one in connections)


def test_an_idempotent_producer_numbers_its_records(connections: list[Connection]) -> None:
    producer = made(Lane(lane="story", idempotence=True))
    producer.send(0, 1)
    producer.send(1, 1)
    sequences = [sequence for connection in connections for _, _, sequence in connection.sent]
    assert [(one["producer_epoch"], one["base_sequence"]) for one in sequences] == [(0, 0), (0, 1)]
    assert {one["producer_id"] for one in sequences} == {7}


def test_records_of_others_are_another_producer_s(connections: list[Connection]) -> None:
    producer = made()
    producer.send_other(1)
    producer.send_last(2)
    assert rows(producer) == [(1, 0, "info", None), (1, 1, "ok", 0)]
    assert [one.sent[0][:2] for one in connections[1:]] == [((1, 0), "1"), ((1, 1), "all")]
    Connection.answers = {1: (6, -1)}
    with pytest.raises(ClusterFailure, match="NOT_LEADER_OR_FOLLOWER"):
        producer.send_last(2)
