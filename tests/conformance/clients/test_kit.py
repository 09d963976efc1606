"""The conformance kit against librdkafka's mock of a cluster: a client passes, and broken ones are told what is wrong.

The mock neither fences producers nor hides what is aborted, which the check of transactions says of it.
"""

import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from kafka_chaos.harness.clients.fetching import ADAPTERS
from kafka_chaos.harness.signals import new_client
from tests.conformance.clients.checks import CHECKS, TRANSACTIONS, checked
from tests.conformance.clients.kit import Kit

LEADER_FREEZES = "errors that leave the outcome open"
WRITES = "identities and offsets of a producer"


class MockAdmin:
    """Topics of the mock: it makes those that it is asked for."""

    def __init__(self, client: Any, servers: str) -> None:
        self._client = client
        self._servers = servers

    def create_topic(self, name: str, **_: Any) -> None:
        self._client.list_topics(name, timeout=20)

    def await_full_isr(self, names: list[str]) -> None:
        pass

    def end_offsets(self, topic: str, partitions: range) -> dict[int, int]:
        consumer = new_client(Consumer, {"bootstrap.servers": self._servers, "group.id": "kit", "log_level": 0})
        places = {number: TopicPartition(topic, number) for number in partitions}
        ends = {number: consumer.get_watermark_offsets(place, timeout=20)[1] for number, place in places.items()}
        consumer.close()
        return ends


@pytest.fixture
def kit(tmp_path: Path) -> Iterator[Callable[..., Kit]]:
    owner = new_client(Producer, {"bootstrap.servers": "127.0.0.1:1", "test.mock.num.brokers": 1, "log_level": 0})
    servers = ",".join(f"{one.host}:{one.port}" for one in owner.list_topics(timeout=20).brokers.values())

    class Broker:
        number = 1

    def of(before: str = "", after: str = "") -> Kit:
        text = (ADAPTERS / "client.py").read_text()
        assert before in text
        (tmp_path / "client.py").write_text(text.replace(before, after, 1) if before else text)
        command = (sys.executable, str(tmp_path / "client.py"), "librdkafka")
        admin, broker = cast("Any", MockAdmin(owner, servers)), cast("Any", Broker())
        return Kit(
            command, servers, admin, broker, tmp_path, answered_within=10.0, gone_within=5.0, is_transactional=True
        )

    yield of
    owner.close()


@pytest.mark.parametrize("name", [check for check in CHECKS if check not in (LEADER_FREEZES, TRANSACTIONS)])
def test_a_client_passes(kit: Callable[..., Kit], name: str) -> None:
    assert dict(checked(kit(), [name])) == {name: ""}


def test_one_that_commits_once_it_is_fenced_is_told_so(kit: Callable[..., Kit]) -> None:
    (found,) = checked(kit(), [TRANSACTIONS])
    assert found[1] == "it said that it had ended a transaction after another one had begun under its id"


def test_transactions_are_checked_only_where_there_are_some(
    kit: Callable[..., Kit], monkeypatch: pytest.MonkeyPatch
) -> None:
    played: list[str] = []
    noted = {name: (lambda kit, name=name: played.append(name)) for name in CHECKS}
    monkeypatch.setattr("tests.conformance.clients.checks.CHECKS", noted)
    plain = replace(kit(), is_transactional=False)
    assert dict(checked(plain)).keys() == CHECKS.keys() - {TRANSACTIONS}
    assert played == [name for name in CHECKS if name != TRANSACTIONS]


@pytest.mark.parametrize(
    ("before", "after", "check", "problem"),
    [
        ("offset=[offset for _, offset in done]", "offset=[offset + 1 for _, offset in done]", WRITES, "it is at 0"),
        ("first + seq % partitions", "first", WRITES, "is in partition 0: expected 1"),
        (
            "            library.flush()\n",
            "            tell('flushed')\n            library.flush()\n",
            "flush",
            "while",
        ),
        ("did=what, error", "did='abort', error", TRANSACTIONS, "'abort', that nobody has asked for"),
    ],
)
def test_a_broken_client_is_told_what_is_wrong(
    kit: Callable[..., Kit], before: str, after: str, check: str, problem: str
) -> None:
    (found,) = checked(kit(before, after), [check])
    assert problem in found[1]
