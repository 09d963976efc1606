"""The live view: phase, faults, and per lane leader, ISR and rates, out of events."""

from __future__ import annotations

import io

from rich.console import Console

from kafka_chaos.contract import events as event_types
from kafka_chaos.contract.events import Event
from kafka_chaos.harness.report.listeners.terminal import TerminalListener
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


def test_partitions_with_different_leaders_show_each_and_the_smallest_isr() -> None:
    text = drawn(
        STARTED,
        event_types.LeaderChanged(lane="orders", partition=0, before=None, leader=2),
        event_types.LeaderChanged(lane="orders", partition=1, before=3, leader=None),
        event_types.IsrChanged(lane="orders", partition=0, before=(), isr=(1, 2, 3)),
        event_types.IsrChanged(lane="orders", partition=1, before=(), isr=(3,)),
    )
    assert row(text, "orders")[:4] == ["orders", "2", "–", "3"]


def test_faults_are_shown_while_they_last() -> None:
    requested = event_types.FaultRequested(
        fault_id="main/pause-1", kind="pause", target="leader(orders)", resolved=("broker-2",), lanes=(), parameters={}
    )
    assert "active faults: pause leader(orders) = broker-2" in drawn(requested)
    assert "active faults" not in drawn(requested, event_types.FaultHealed(fault_id="main/pause-1"))


def test_what_the_run_does_and_for_how_long() -> None:
    step = event_types.Step(text="verifying with Spark")
    assert "▸ verifying with Spark (0 s)" in drawn(step)


def test_more_lanes_than_lines_are_counted() -> None:
    lanes = tuple(f"lane-{number}" for number in range(30))
    text = drawn(event_types.PhaseStarted(phase="main", lanes=lanes), height=20)
    assert "and 20 more" in text
    assert len(text.splitlines()) < 20


def test_a_terminal_gets_lines_and_view_and_is_left_clean() -> None:
    console = Console(file=io.StringIO(), width=120, force_terminal=True)
    with TerminalListener(console) as listener:
        listener(STARTED)
        listener(progress(1, orders=(10, 10, 10)))
        listener(event_types.Step(text="verifying"))
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "orders" in text
    assert text.count("\x1b[?25l") == text.count("\x1b[?25h") == 1, "the cursor is hidden and shown again"
