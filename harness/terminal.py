"""What a run prints: a line for everything that happens while it works, and the table of its lanes at the end.

With a terminal a live view below shows phase, faults and lanes; without one only whole lines are printed, so that a
CI log stays readable.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

from rich.console import Console
from rich.live import Live
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from kafka_chaos.harness import events as happening
from kafka_chaos.harness.events import Event
from kafka_chaos.harness.terminal_live import LiveView
from kafka_chaos.reference_model.anomalies import Anomaly, Status, Verdict
from kafka_chaos.verification import LaneVerdict, RunVerdict

STYLES = {Verdict.CONFORMS: "green", Verdict.UNKNOWN: "yellow", Verdict.VIOLATION: "bold red"}


class TerminalListener:
    """Prints events as they happen; use as a context manager, so that the live view ends with the run."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._start = time.monotonic_ns()
        self._view = LiveView(console)
        self._live: Live | None = None

    def __enter__(self) -> TerminalListener:
        if self._console.is_terminal:
            self._live = Live(
                get_renderable=self._view.render, console=self._console, refresh_per_second=4, transient=True
            )
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def __call__(self, event: Event) -> None:
        """Print one event."""
        self._view.see(event)
        match event:
            case happening.Step():
                self._line(event, event.text)
            case happening.RunStarted():
                self._line(event, f"run [bold]{event.run_id}[/bold]: {len(event.lanes)} lanes")
            case happening.ClusterReady():
                self._line(event, f"cluster ready after {event.seconds:.1f} s")
            case happening.ClusterKept():
                self._line(event, "[yellow]the run failed; its cluster was left standing[/yellow]")
                for line in advice_on_kept(event):
                    self._console.print(f"          {escape(line)}", highlight=False)
            case happening.FaultRequested(kind="course"):
                self._line(event, f"[magenta]course[/magenta] at {escape(event.target)}: the steps below, in lock step")
            case happening.FaultProven() if event.fault_id.endswith("/course"):
                self._line(event, f"[magenta]{event.fault_id}[/magenta] kept its conditions")
            case happening.FaultRequested():
                hit = ", ".join(event.resolved) or "nobody"
                self._line(event, f"[magenta]{event.kind}[/magenta] {escape(event.target)} = {hit}")
            case happening.FaultProven():
                self._line(event, f"[magenta]{event.fault_id}[/magenta] bit: {escape(_evidence(event.evidence))}")
            case happening.FaultNotProven():
                self._line(event, f"[red]{event.fault_id} has no proof:[/red] {escape(event.reason)}")
            case happening.FaultHealed():
                self._line(event, f"[magenta]{event.fault_id}[/magenta] healed")
            case happening.ControllerChanged() if event.before is not None:
                self._line(event, f"controller: broker {event.before} → {event.controller}")
            case happening.LeaderChanged() if event.before is not None or event.leader is None:
                after = "nobody" if event.leader is None else f"broker {event.leader}"
                self._line(event, f"leader of {event.lane}-{event.partition}: {_broker(event.before)} → {after}")

    def _line(self, event: Event, text: str) -> None:
        seconds = (event.ts_ns - self._start) / 1e9
        self._console.print(f"[dim]{seconds:6.1f} s[/dim]  {text}", highlight=False)


def advice_on_kept(event: happening.ClusterKept) -> list[str]:
    """How to look into a cluster that was kept, and how to remove it."""
    return [
        f"containers: {', '.join(event.containers)}",
        f"a broker's log: docker logs {event.containers[-1]}",
        f"a shell beside its data (/var/lib/kafka): docker exec -it {event.containers[-1]} bash",
        f"as a client: bootstrap.servers={event.bootstrap_servers}",
        "remove it: kafka-chaos clean --kept",
    ]


def result_table(verdict: RunVerdict, gaps: Mapping[str, float]) -> Table:
    """The lanes of a run: what was produced, lost and duplicated, what was predicted and what came of it."""
    table = Table(title=f"{verdict.run_dir.name}: {verdict.verdict}", title_justify="left", title_style="bold")
    table.add_column("lane", no_wrap=True)
    for heading in ("produced", "acknowledged", "lost", "duplicated", "longest gap"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("predicted", max_width=32)
    table.add_column("observed", max_width=32)
    table.add_column("verdict", no_wrap=True)
    for lane in verdict.lanes:
        gap = gaps.get(lane.lane)
        table.add_row(
            lane.lane,
            f"{lane.produced:,}",
            f"{lane.acknowledged:,}",
            _count(lane, Anomaly.LOST_WRITE),
            _count(lane, Anomaly.DUPLICATE),
            f"{gap:.1f} s" if gap is not None else "",
            describe_prediction(lane),
            describe_observation(lane),
            Text(lane.verdict, style=STYLES[lane.verdict]),
        )
    return table


def describe_prediction(lane: LaneVerdict) -> str:
    """What a lane's prediction says of losses and duplicates, and what else it requires."""
    told = [Anomaly.LOST_WRITE, Anomaly.DUPLICATE]
    told += [anomaly for anomaly, status in lane.predicted.items() if anomaly not in told and status is Status.REQUIRED]
    words = {Anomaly.LOST_WRITE: "loss", Anomaly.DUPLICATE: "duplicates"}
    return "\n".join(f"{words.get(anomaly, anomaly)} {lane.predicted[anomaly]}" for anomaly in told)


def describe_observation(lane: LaneVerdict) -> str:
    """Every anomaly that was found in a lane, and what was required but is missing."""
    found = [f"{anomaly} {seen.count:,}" for anomaly, seen in lane.observed.items() if seen.count]
    missing = [
        f"no {anomaly}"
        for anomaly, status in lane.predicted.items()
        if status is Status.REQUIRED and not lane.count(anomaly)
    ]
    return "\n".join(found + missing) or "nothing"


def _count(lane: LaneVerdict, anomaly: Anomaly) -> str:
    count = lane.count(anomaly)
    return "not judged" if count is None else f"{count:,}"


def _broker(broker: int | None) -> str:
    return "nobody" if broker is None else f"broker {broker}"


def _evidence(evidence: Mapping[str, object]) -> str:
    return "; ".join(
        f"{name} {', '.join(f'{key} {value}' for key, value in shown.items())}"
        if isinstance(shown, dict)
        else f"{name} {shown}"
        for name, shown in evidence.items()
    )
