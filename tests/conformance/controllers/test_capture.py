"""A capture reads the trace of links: what counts as read, when, and what is told of the rest."""

import json
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kafka_chaos.conformance.controllers.capture import Capture
from kafka_chaos.contract.command.errors import WaitTimeout


class FakeLinks:
    """Stands in for links: what tests let pass goes to the trace, as long as there is one."""

    def __init__(self) -> None:
        self.trace: Path | None = None
        self.known = {"unknown_connections": 1, "unknown_answers": 0, "unanswered": 0}

    def trace_to(self, path: Path | None, *, controllers: bool = False) -> None:
        assert path is None or controllers
        self.trace = path

    def counts(self) -> dict[str, int]:
        return dict(self.known)

    def passes(self, api: str, ns: int, text: str = "\n", **values: Any) -> None:
        line = {"api": api, "ns": ns, "node": "broker-2", "sender": "broker-3", "version": 7, "client_id": "c"}
        line |= {"answered_ns": ns + 1} | values
        assert self.trace is not None
        with self.trace.open("a") as file:
            file.write(json.dumps(line) + text)


@pytest.fixture
def links() -> FakeLinks:
    return FakeLinks()


def capture_of(links: FakeLinks) -> Capture:
    cluster: Any = SimpleNamespace(links=links, brokers={2: SimpleNamespace(name="broker-2")})
    return Capture(cluster)


BODIES = {"request": {"controller_id": 3}, "answer": {"error_code": 0}}


def test_what_controllers_ask_comes_in_the_order_of_its_arrival_with_the_answers(links: FakeLinks) -> None:
    with capture_of(links) as capture:
        assert capture.exchanges() == ()
        links.passes("UpdateMetadata", 8, **BODIES)
        links.passes("Fetch", 6)
        links.passes("LeaderAndIsr", 7, **BODIES)
        links.passes("StopReplica", 9, "", **BODIES)
        assert [(one.api, one.broker, one.peer) for one in capture.exchanges()] == [
            ("LeaderAndIsr", 2, "broker-3"),
            ("UpdateMetadata", 2, "broker-3"),
        ], "a line counts once all of it is there"
        assert capture.await_exchange(lambda one: one.sent_ns == 8, "it", timeout=1).response == {"error_code": 0}
        with pytest.raises(WaitTimeout, match="LeaderAndIsr v7 to broker 2, UpdateMetadata v7 to broker 2"):
            capture.await_exchange(lambda one: one.sent_ns == 9, "the third", timeout=0.1)
        assert links.trace is not None
        links.trace.write_text(links.trace.read_text() + "\n")
    assert links.trace is None
    assert [one.sent_ns for one in capture.exchanges()] == [7, 8, 9]
    assert capture.unread == 0


def test_answers_are_awaited(links: FakeLinks) -> None:
    with capture_of(links) as capture:
        capture.await_answers(timeout=1)
        links.known["unanswered"] = 1
        began = time.monotonic()
        with pytest.raises(WaitTimeout, match="'unanswered': 1"):
            capture.await_answers(timeout=0.2)
        assert time.monotonic() - began >= 0.2


@pytest.mark.parametrize("what", ["unknown_connections", "unknown_answers", "a body"])
def test_what_could_not_be_read_is_counted(links: FakeLinks, what: str) -> None:
    with capture_of(links) as capture:
        if what == "a body":
            links.passes("LeaderAndIsr", 7)
        else:
            links.known[what] += 1
    assert capture.unread == 1
    assert capture.exchanges() == ()
