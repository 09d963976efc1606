"""The live view below a run's lines: step and progress, faults, and per lane leader, ISR and rates."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from kafka_chaos.contract import events as event_types
from kafka_chaos.contract.events import Event
from kafka_chaos.harness.report.listeners.waiting import TimedStep, in_minutes

_RATE_OVER_S = 1.0  # the shortest time, in seconds, over which a rate is taken
_OTHER_LINES = 10  # lines of the terminal that are left to the events above the view
_HEALED_SHOWN = 3  # the most healed faults that are shown: the last ones
_STATES: Mapping[type[Event], str] = {
    event_types.FaultProven: "took effect",
    event_types.FaultNotProven: "no proof",
    event_types.FaultHealed: "healed",
}

Counts = Mapping[str, tuple[int, int, int]]
"""By lane, how many records were sent, acknowledged and consumed."""


@dataclass
class _Fault:
    """A fault that was requested, in words, and its state since `since_ns`."""

    text: str
    state: str = "requested"
    since_ns: int = field(default_factory=time.monotonic_ns)

    def render(self) -> Text:
        style = {"took effect": "magenta", "healed": "green", "no proof": "red"}.get(self.state, "yellow")
        seconds = (time.monotonic_ns() - self.since_ns) / 1e9
        when = f"{in_minutes(seconds)} ago" if self.state == "healed" else f"for {in_minutes(seconds)}"
        return Text.assemble("  ", (f"{self.state:11}", style), f" {self.text} ", (f"({when})", "dim"))


class LiveView:
    """A run's state after the events so far. `render` draws it, below the line that `above` returns."""

    def __init__(self, console: Console, above: Callable[[], str] | None = None, first_step: str = "starting") -> None:
        self._console = console
        self._above = above
        self._step = TimedStep(first_step)
        self._phase: str | None = None
        self._lanes: tuple[str, ...] = ()
        self._leaders: dict[str, dict[int, int | None]] = {}
        self._isrs: dict[str, dict[int, tuple[int, ...]]] = {}
        self._faults: dict[str, _Fault] = {}
        self._counts: Counts = {}
        self._counted_before: tuple[int, Counts] | None = None
        self._rates: dict[str, tuple[float, float]] = {}

    def see(self, event: Event) -> None:
        """Take in one event."""
        match event:
            case event_types.Step():
                self._step = TimedStep(event.text, event.seconds, event.ts_ns)
            case event_types.StepProgress():
                self._step.reach(event.done, event.total, event.what)
            case event_types.RunStarted():
                self._faults = {}
            case event_types.PhaseStarted():
                self._phase, self._lanes = event.phase, event.lanes or ()
                self._counts, self._counted_before, self._rates = {}, None, {}
            case event_types.PhaseEnded():
                self._phase, self._lanes = None, ()
            case event_types.LeaderChanged():
                self._leaders.setdefault(event.lane, {})[event.partition] = event.leader
            case event_types.IsrChanged():
                self._isrs.setdefault(event.lane, {})[event.partition] = event.isr
            case event_types.FaultRequested():
                hit = ", ".join(event.resolved)
                text = f"{event.kind} {event.target}" + (f" = {hit}" if hit else "")
                self._faults[event.fault_id] = _Fault(text, since_ns=event.ts_ns)
            case event_types.FaultProven() | event_types.FaultNotProven() if event.fault_id.endswith("/lockstep"):
                self._faults.pop(event.fault_id, None)
            case event_types.FaultProven() | event_types.FaultNotProven() | event_types.FaultHealed():
                if fault := self._faults.get(event.fault_id):
                    self._faults[event.fault_id] = _Fault(fault.text, _STATES[type(event)], event.ts_ns)
            case event_types.Progress():
                self._count(event)

    def render(self) -> RenderableType:
        """The view as it is now."""
        rows: list[RenderableType] = [] if self._above is None else [Text(self._above(), "dim")]
        rows.append(self._step.render())
        healed = [fault for fault in self._faults.values() if fault.state == "healed"]
        rows += [fault.render() for fault in self._faults.values() if fault not in healed[:-_HEALED_SHOWN]]
        if self._lanes:
            rows.append(self._table(self._console.height - _OTHER_LINES - len(rows) + 1))
        return Group(*rows)

    def _table(self, most: int) -> Table:
        table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
        for heading in ("lane", "leader", "ISR"):
            table.add_column(heading, no_wrap=True)
        for heading in ("sent/s", "acknowledged/s", "waiting", "consumed"):
            table.add_column(heading, justify="right", no_wrap=True)
        most = max(1, most)
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
        if self._counted_before is None:
            self._counted_before = (event.ts_ns, event.counts)
        before_ns, before = self._counted_before
        elapsed = (event.ts_ns - before_ns) / 1e9
        if elapsed >= _RATE_OVER_S:
            for lane, (sent, acknowledged, _) in event.counts.items():
                sent_before, acknowledged_before, _ = before.get(lane, (0, 0, 0))
                newly = max(0, sent - sent_before), max(0, acknowledged - acknowledged_before)
                self._rates[lane] = newly[0] / elapsed, newly[1] / elapsed
            self._counted_before = (event.ts_ns, event.counts)
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
