"""The quorum as brokers tell it: who is asked, and whom it believes."""

from __future__ import annotations

from typing import Any

import pytest

from kafka_chaos.harness.cluster.broker.answers import QuorumAnswer
from kafka_chaos.harness.cluster.broker.login import BrokerUnreachable
from kafka_chaos.harness.cluster.metadata import kraft
from kafka_chaos.harness.cluster.metadata.kraft import Quorum
from kafka_chaos.harness.cluster.metadata.protocol import Members

ADDRESSES = {1: "one", 2: "two", 3: "three"}


def test_all_brokers_are_asked_until_one_knows_the_active_controller(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    answers: dict[str, QuorumAnswer | None] = {}

    class Broker:
        def __init__(self, address: str, **_: Any) -> None:
            self._address = address

        def __enter__(self) -> Broker:
            return self

        def __exit__(self, *_: object) -> None:
            pass

        def quorum(self) -> QuorumAnswer | None:
            asked.append(self._address)
            if self._address not in answers:
                raise BrokerUnreachable("no answer in time")
            return answers[self._address]

    monkeypatch.setattr(kraft, "BrokerClient", Broker)
    quorum = Quorum(Members(), ADDRESSES)
    assert quorum.controller() is None
    assert sorted(asked) == ["one", "three", "two"]
    assert quorum.controller_epoch() == 0
    answers["two"] = QuorumAnswer(102, 7)
    assert quorum.controller() == 102
    assert quorum.controller_epoch() == 7
