"""The live view: phase, faults, and per lane leader, ISR and rates, out of events."""

import io
import time

import pytest
from rich.console import Console

from kafka_chaos.contract import events as event_types
from kafka_chaos.contract.events import Event
from kafka_chaos.harness.report.listeners.terminal_live import LiveView

SECOND = 1_000_000_000


def drawn(*events: Event, height: int = 40) -> str:
    console = Console(file=io.StringIO(), width=120, height=height)
    view = LiveView(console)
    for event in events:
        view.see(event)
    console.print(view.render())
    return console.file.getvalue()  # type: ignore[attr-defined, no-any-return]


STARTED = event_types.PhaseStarted(phase="main", lanes=("orders", "bills"))


def progress(seconds: float, **counts: tuple[int, int, int]) -> event_types.Progress:
    return event_types.Progress(ts_ns=round(seconds * SECOND), counts=counts)


def row(text: str, lane: str) -> list[str]:
    return next(line.split() for line in text.splitlines() if line.startswith(lane))


def test_a_lane_shows_leader_isr_rates_and_what_waits() -> None:
    text = drawn(
        STARTED,
        event_types.LeaderChanged(lane="orders", partition=0, before=None, leader=2),
        event_types.IsrChanged(lane="orders", partition=0, before=(), isr=(3, 2, 1)),
        progress(10, orders=(1000, 900, 800)),
        progress(12, orders=(5000, 3900, 3000)),
    )
    assert row(text, "orders") == ["orders", "2", "1", "2", "3", "2,000", "1,500", "1,100", "3,000"]
    assert row(text, "bills") == ["bills", "?", "?", "0", "0", "0", "0"]


def requested(number: int) -> event_types.FaultRequested:
    return event_types.FaultRequested(
        fault_id=f"main/pause-{number}", kind="pause", target="leader(orders)",
        resolved=(f"broker-{number}",), lanes=(), parameters={},
    )  # fmt: skip


@pytest.fixture
def _time_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.monotonic_ns()
    monkeypatch.setattr(time, "monotonic_ns", lambda: now)


@pytest.mark.usefixtures("_time_stands")
def test_faults_are_shown_as_they_come_take_effect_and_heal() -> None:
    comes, proven = requested(2), event_types.FaultProven(fault_id="main/pause-2", evidence={})
    unproven = event_types.FaultNotProven(fault_id="main/pause-2", reason="nothing showed it")
    healed = event_types.FaultHealed(fault_id="main/pause-2")
    what = "pause leader(orders) = broker-2"
    assert f"requested   {what} (for 0 s)" in drawn(comes)
    assert f"took effect {what} (for 0 s)" in drawn(comes, proven)
    assert f"no proof    {what} (for 0 s)" in drawn(comes, unproven)
    assert f"healed      {what} (0 s ago)" in drawn(comes, proven, healed)


@pytest.mark.usefixtures("_time_stands")
def test_what_the_run_does_for_how_long_and_how_far_it_is() -> None:
    step = event_types.Step(text="verifying with Spark")
    assert "▸ verifying with Spark (0 s)" in drawn(step)
    part = event_types.StepProgress(done=2, total=6, what="counting")
    assert "▸ verifying with Spark 3 of 6: counting (0 s)" in drawn(step, part)
    load = event_types.Step(text="loading 2 lanes", seconds=200.0, ts_ns=time.monotonic_ns() - 70 * SECOND)
    assert "▸ loading 2 lanes (1 min 10 s, 2 min 10 s left)" in drawn(load)
