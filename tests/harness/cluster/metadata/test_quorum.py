"""The quorum as brokers tell it: who is asked, and for how long nobody is."""

from __future__ import annotations

from typing import Any

import pytest

from kafka_chaos.harness.cluster.broker_client import BrokerUnreachable, QuorumAnswer
from kafka_chaos.harness.cluster.metadata import kraft
from kafka_chaos.harness.cluster.metadata.kraft import Quorum
from kafka_chaos.harness.cluster.metadata.protocol import Members

ADDRESSES = {1: "one", 2: "two", 3: "three"}


def test_without_an_active_controller_nobody_is_asked_again_for_a_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    answers: dict[str, QuorumAnswer | None] = {}
    now = 0.0

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
    monkeypatch.setattr(kraft.time, "monotonic", lambda: now)
    quorum = Quorum(Members(), ADDRESSES)
    assert quorum.controller() is None
    assert quorum.controller_epoch() == 0
    assert sorted(asked) == ["one", "three", "two"]
    now = 1.5
    answers["two"] = QuorumAnswer(102, 7)
    assert quorum.controller() == 102
    assert quorum.controller_epoch() == 7
