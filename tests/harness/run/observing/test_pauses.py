"""Whoever has work and no processor says so, and for how long."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from kafka_chaos.contract.events import Event, HarnessPaused
from kafka_chaos.harness.event_bus import EventBus
from kafka_chaos.harness.run.observing import pauses
from kafka_chaos.harness.run.observing.pauses import PauseWatch, scheduled, share_waited


def told_of(monkeypatch: pytest.MonkeyPatch, moments: list[float], shares: list[float]) -> list[float]:
    """The waits that a watch tells of, which finds these moments and shares, one for each interval of a second."""
    told: list[Event] = []
    left, over = iter(moments), threading.Event()
    of_intervals = iter(shares)

    def now() -> float:
        moment = next(left, None)
        if moment is None:
            over.set()
            return moments[-1] + 1
        return moment

    clock: Any = SimpleNamespace(monotonic=now)
    monkeypatch.setattr(pauses, "time", clock)
    monkeypatch.setattr(pauses, "share_waited", lambda *_: next(of_intervals, 0.0))
    watch = PauseWatch(EventBus(told.append))
    waits: Any = SimpleNamespace(wait=lambda _: over.is_set(), set=over.set)
    monkeypatch.setattr(watch, "_stop", waits)
    with watch:
        assert over.wait(timeout=30)
    return [event.seconds for event in told if isinstance(event, HarnessPaused)]


def test_a_watch_that_wakes_up_late_tells_by_how_much(monkeypatch: pytest.MonkeyPatch) -> None:
    assert told_of(monkeypatch, [0.0, 1.0, 2.05, 8.05, 9.05], []) == [5.0]


def test_waits_for_a_processor_count_by_their_share(monkeypatch: pytest.MonkeyPatch) -> None:
    assert told_of(monkeypatch, [0.0, 1.0, 2.0, 3.0], [0.05, 0.5, 0.8]) == [0.5, 0.8]


def test_the_share_is_of_the_time_in_which_threads_had_work() -> None:
    before = {"1": (1.0, 1.0), "2": (0.0, 0.0), "gone": (5.0, 5.0)}
    after = {"1": (1.5, 2.5), "2": (0.5, 0.5), "new": (9.0, 0.0)}
    assert share_waited(before, after) == pytest.approx(2 / 3)
    assert share_waited({"1": (1.0, 1.0)}, {"1": (1.0, 1.005)}) == 0.0
    assert share_waited({}, {}) == 0.0


def test_this_process_is_scheduled() -> None:
    before = scheduled()
    sum(range(3_000_000))
    ran = [scheduled()[task][0] - at[0] for task, at in before.items() if task in scheduled()]
    assert max(ran) > 0
