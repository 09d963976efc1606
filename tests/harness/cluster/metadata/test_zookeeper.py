"""Brokers that start again with ZooKeeper, on a machine where sessions expire."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from kafka_chaos.contract.command.errors import ClusterFailure
from kafka_chaos.harness.cluster.broker import client
from kafka_chaos.harness.cluster.broker.client import BrokerUnreachable, QuorumAnswer
from kafka_chaos.harness.cluster.metadata import kraft
from kafka_chaos.harness.cluster.metadata.kraft import Quorum
from kafka_chaos.harness.cluster.metadata.protocol import Members
from kafka_chaos.harness.cluster.metadata.zookeeper import ZooKeeperMode


class Broker:
    """A broker that is down. Each start ends with the next of `logs`; the last one serves if that is empty."""

    role, number, name = "broker", 1, "broker-1"

    def __init__(self, *logs: str) -> None:
        self._logs = list(logs)
        self._log = ""
        self.starts = 0

    def is_running(self) -> bool:
        return False

    def start(self) -> None:
        self.starts += 1
        self._log = self._logs.pop(0)

    def await_ready(self, timeout: float) -> None:
        if self._log:
            raise ClusterFailure(f"{self.name} ended before it served")

    def ended_with(self, text: str) -> bool:
        return text in self._log


def start(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    mode = ZooKeeperMode.__new__(ZooKeeperMode)
    monkeypatch.setattr(mode, "metadata", lambda _: SimpleNamespace(brokers=frozenset, close=lambda: None))
    mode.start_again(cast(Any, None), [cast(Any, broker)], timeout=1)


def test_a_broker_that_lost_its_session_while_it_started_starts_once_more_and_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for error in ("NodeExists", "Session expired"):
        broker = Broker(f"KeeperException: KeeperErrorCode = {error} for /brokers/ids", "")
        start(broker, monkeypatch)
        assert broker.starts == 2
    full = Broker("No space left on device", "")
    with pytest.raises(ClusterFailure):
        start(full, monkeypatch)
    assert full.starts == 1


ADDRESSES = {1: "one", 2: "two", 3: "three"}


def test_all_brokers_are_asked_until_one_knows_the_active_controller(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    answers: dict[str, QuorumAnswer | None] = {}

    class Broker:
        def __init__(self, address: str, **_: Any) -> None:
            self._address = address

        def __enter__(self) -> Any:
            return self

        def __exit__(self, *_: object) -> None:
            pass

        def quorum(self) -> QuorumAnswer | None:
            asked.append(self._address)
            if self._address not in answers:
                raise BrokerUnreachable("no answer in time")
            return answers[self._address]

    for module in (kraft, client):
        monkeypatch.setattr(module, "BrokerClient", Broker)
    monkeypatch.setattr(Members, "addresses", ADDRESSES)
    quorum = Quorum(Members())
    assert quorum.controller() is None
    assert sorted(asked) == ["one", "three", "two"]
    assert quorum.controller_epoch() == 0
    answers["two"] = QuorumAnswer(102, 7)
    assert quorum.controller() == 102
    assert quorum.controller_epoch() == 7
