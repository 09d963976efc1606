"""The live view below a run's lines: phase, active faults, and per lane its leader, ISR and rates."""

from __future__ import annotations

import time
from collections.abc import Mapping

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from kafka_chaos.contract import events as event_types
from kafka_chaos.contract.events import Event

_RATE_OVER = 1.0
_OTHER_LINES = 10

Counts = Mapping[str, tuple[int, int, int]]


class LiveView:
    """The state of a run after the events so far; `render` draws it."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._step = "starting"
        self._step_began = time.monotonic_ns()
        self._phase: str | None = None
        self._lanes: tuple[str, ...] = ()
        self._leaders: dict[str, dict[int, int | None]] = {}
        self._isrs: dict[str, dict[int, tuple[int, ...]]] = {}
        self._faults: dict[str, str] = {}
        self._counts: Counts = {}
        self._before: tuple[int, Counts] | None = None
        self._rates: dict[str, tuple[float, float]] = {}

    def see(self, event: Event) -> None:
        """Take in one event."""
        match event:
            case event_types.Step():
                self._step, self._step_began = event.text, event.ts_ns
            case event_types.PhaseStarted():
                self._phase, self._lanes = event.phase, event.lanes
                self._counts, self._before, self._rates = {}, None, {}
            case event_types.PhaseEnded():
                self._phase, self._lanes = None, ()
            case event_types.LeaderChanged():
                self._leaders.setdefault(event.lane, {})[event.partition] = event.leader
            case event_types.IsrChanged():
                self._isrs.setdefault(event.lane, {})[event.partition] = event.isr
            case event_types.FaultRequested():
                hit = ", ".join(event.resolved)
                self._faults[event.fault_id] = f"{event.kind} {event.target}" + (f" = {hit}" if hit else "")
            case event_types.FaultHealed():
                self._faults.pop(event.fault_id, None)
            case event_types.FaultProven() | event_types.FaultNotProven() if event.fault_id.endswith("/lockstep"):
                self._faults.pop(event.fault_id, None)
            case event_types.Progress():
                self._count(event)

    def render(self) -> RenderableType:
        """The view as it is now."""
        seconds = (time.monotonic_ns() - self._step_began) / 1e9
        title = Text.assemble(("▸ ", "cyan"), f"{self._step} ", (f"({seconds:.0f} s)", "dim"))
        parts: list[RenderableType] = [title]
        if self._faults:
            parts.append(Text.assemble(("  active faults: ", "magenta"), "; ".join(self._faults.values())))
        if self._lanes:
            parts.append(self._table())
        return Group(*parts)

    def _table(self) -> Table:
        table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
        for heading, justify in (
            ("lane", "left"), ("leader", "left"), ("ISR", "left"), ("sent/s", "right"), ("acknowledged/s", "right"),
            ("waiting", "right"), ("consumed", "right"),
        ):  # fmt: skip
            table.add_column(heading, justify=justify, no_wrap=True)  # type: ignore[arg-type]
        most = max(1, self._console.height - _OTHER_LINES)
        for lane in self._lanes[:most]:
            sent, acknowledged, consumed = self._counts.get(lane, (0, 0, 0))
            rates = self._rates.get(lane, (0.0, 0.0))
            stalled = bool(sent) and rates[0] > 0 and rates[1] == 0
            table.add_row(
                lane,
                _leaders(self._leaders.get(lane, {})),
                _isrs(self._isrs.get(lane, {})),
                f"{rates[0]:,.0f}",
                Text(f"{rates[1]:,.0f}", style="bold red" if stalled else ""),
                f"{sent - acknowledged:,}",
                f"{consumed:,}",
            )
        if len(self._lanes) > most:
            table.add_row(Text(f"and {len(self._lanes) - most} more", style="dim"))
        return table

    def _count(self, event: event_types.Progress) -> None:
        if self._before is None:
            self._before = (event.ts_ns, event.counts)
        then, before = self._before
        elapsed = (event.ts_ns - then) / 1e9
        if elapsed >= _RATE_OVER:
            self._rates = {
                lane: (
                    max(0, counts[0] - before.get(lane, (0, 0, 0))[0]) / elapsed,
                    max(0, counts[1] - before.get(lane, (0, 0, 0))[1]) / elapsed,
                )
                for lane, counts in event.counts.items()
            }
            self._before = (event.ts_ns, event.counts)
        self._counts = event.counts


def _leaders(leaders: Mapping[int, int | None]) -> Text:
    """One leader for all partitions, or the partitions' leaders in their order; `–` is nobody."""
    if not leaders:
        return Text("?", style="dim")
    named = ["–" if leader is None else str(leader) for _, leader in sorted(leaders.items())]
    shown = named if len(set(named)) > 1 else named[:1]
    return Text(" ".join(shown[:8]), style="bold red" if "–" in named else "")


def _isrs(isrs: Mapping[int, tuple[int, ...]]) -> Text:
    """The smallest ISR of all partitions."""
    if not isrs:
        return Text("?", style="dim")
    smallest = min(isrs.values(), key=len)
    return Text(" ".join(str(broker) for broker in sorted(smallest)), style="yellow" if len(smallest) < 2 else "")
