"""Reads of brokers' files that observers share: few, and none from before it was asked for."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest

from kafka_chaos.conformance.scenario import observe
from kafka_chaos.conformance.scenario.observe import BrokerReads
from kafka_chaos.harness.waiting import wait_until

NODE: Any = SimpleNamespace(number=1)


def test_whoever_asks_during_a_read_shares_the_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = itertools.count()
    asked: list[int] = []
    everyone = threading.Event()
    reads: list[list[tuple[str, int]]] = []

    def read(node: object, places: Iterable[tuple[str, int]], *, data: str) -> dict[tuple[str, int], int]:
        reads.append(list(places))
        if len(reads) == 1:
            everyone.wait(60)
        return {("a", 0): len(reads)}

    def now() -> int:
        asked.append(next(clock))
        if len(asked) == 6:
            # The first has asked and begun, the other four have asked.
            everyone.set()
        return asked[-1]

    monkeypatch.setattr(observe, "read_replicas", read)
    monkeypatch.setattr(observe, "time", SimpleNamespace(monotonic=now))
    shared = BrokerReads({"b", "a"})
    with ThreadPoolExecutor(5) as threads:
        first = threads.submit(shared.read, NODE, "/data")
        wait_until(lambda: reads, "the first read to begin", timeout=30)
        waiting = [threads.submit(shared.read, NODE, "/data") for _ in range(4)]
        assert first.result() == {("a", 0): 1}
        assert [one.result() for one in waiting] == [{("a", 0): 2}] * 4
    assert reads == [[("a", 0), ("b", 0)]] * 2
    assert shared.read(NODE, "/data") == {("a", 0): 3}
