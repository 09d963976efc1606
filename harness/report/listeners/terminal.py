"""Prints a run line by line, as its events happen.

On a terminal a live view below the lines shows phase, faults and lanes. Elsewhere only whole lines are printed, so that
a CI log stays readable.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Self

from rich.console import Console
from rich.live import Live
from rich.markup import escape

from kafka_chaos.contract import events as event_types
from kafka_chaos.contract.command.command_line import console
from kafka_chaos.contract.command.errors import counted
from kafka_chaos.contract.events import Event
from kafka_chaos.faults.registry import describe_evidence
from kafka_chaos.harness.cluster.configuration.server_properties import CONTROLLER_ID_BASE
from kafka_chaos.harness.event_bus import Listener
from kafka_chaos.harness.report.listeners.terminal_live import LiveView
from kafka_chaos.harness.report.pages import lateness

_MOST_MOVES = 8
"""When a broker dies, all its partitions get new leaders: this many changes are printed, the rest are counted."""


class TerminalListener:
    """Prints events as they happen; use as a context manager, so that the live view ends with the run.

    `above` returns a first line for the live view; with it, events are not printed, and the view is all that is shown.
    `first_step`: the step that the view names until the first `Step` event.
    """

    def __init__(self, console: Console, above: Callable[[], str] | None = None, first_step: str = "starting") -> None:
        self._console = console
        self._start = time.monotonic_ns()
        self._view = LiveView(console, above, first_step)
        self._prints = above is None
        self._live: Live | None = None
        self._kinds: dict[str, str] = {}
        self._defects_met: set[tuple[str, str]] = set()
        self._moves: list[str] = []

    def __enter__(self) -> Self:
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
        text, *more = self._lines(event) if self._prints else ("",)
        if text and isinstance(event, event_types.LeaderChanged):
            self._moves.append(f"{_broker(event.before)} → {_broker(event.leader)}")
            if len(self._moves) > _MOST_MOVES:
                return
        elif text or isinstance(event, event_types.Progress):
            # The burst of new leaders is over: the changes that were not printed are counted by their brokers.
            further = Counter(self._moves[_MOST_MOVES:])
            self._moves = []
            if further:
                moves = ", ".join(f"{move} ({count})" for move, count in further.items())
                self._print(event, f"leaders of {counted(further.total(), 'further partition')}: {moves}")
        if text:
            self._print(event, text)
        for line in more:
            self._console.print(f"          {escape(line)}", highlight=False)
        if text and self._live is not None:
            # A fault may be over before the view is drawn the next time.
            self._live.refresh()

    def _print(self, event: Event, text: str) -> None:
        self._console.print(f"[dim]{(event.ts_ns - self._start) / 1e9:6.1f} s[/dim]  {text}", highlight=False)

    def _is_first(self, event: event_types.DefectPrecondition) -> bool:
        """Note the defect; returns whether the lane had not met it before: a producer may meet it hundreds of times."""
        before = len(self._defects_met)
        self._defects_met.add((event.lane, event.defect))
        return len(self._defects_met) > before

    def _lines(self, event: Event) -> Sequence[str]:
        """The printed line of an event, and the lines below it; one empty line if nothing is printed."""
        match event:
            case event_types.Step():
                return (event.text,)
            case event_types.RunStarted():
                return (f"run [bold]{event.run_id}[/bold]: {counted(len(event.lanes), 'lane')}",)
            case event_types.ClusterReady():
                return (f"cluster ready after {event.seconds:.1f} s", *connection_lines(event))
            case event_types.ClusterKept():
                return ("[yellow]the cluster is left running[/yellow]", *advice_on_kept_cluster(event))
            case event_types.FaultRequested(kind="lockstep"):
                return (f"[magenta]lock-step phase[/magenta] at {escape(event.target)}",)
            case event_types.FaultProven() if event.fault_id.endswith("/lockstep"):
                return (f"[magenta]{event.fault_id}[/magenta] ended: every step took effect",)
            case event_types.FaultRequested():
                self._kinds[event.fault_id] = event.kind
                late = f", [yellow]{lateness(event.late)}[/yellow]" if lateness(event.late) else ""
                hit = ", ".join(event.resolved) or "nobody"
                return (f"[magenta]{event.kind}[/magenta] {escape(event.target)} = {hit}{late}",)
            case event_types.FaultProven():
                evidence = describe_evidence(self._kinds.get(event.fault_id, ""), event.evidence)
                return (f"[magenta]{event.fault_id}[/magenta] took effect: {escape(evidence)}",)
            case event_types.FaultNotProven():
                return (f"[red]{event.fault_id} has no proof:[/red] {escape(event.reason)}",)
            case event_types.FaultHealed():
                return (f"[magenta]{event.fault_id}[/magenta] healed",)
            case event_types.DefectPrecondition() if self._is_first(event):
                precondition = f"[yellow]precondition of {event.defect}[/yellow] in {escape(event.lane)}"
                return (f"{precondition}: {escape(event.evidence)}",)
            case event_types.ClientFailed():
                problem = f"[red]the {event.role} of {event.lane}[/red] {escape(event.problem)}"
                return (problem, *event.last_lines)
            case event_types.ControllerChanged() if event.before is not None:
                return (f"controller: {_node(event.before)} → {_node(event.controller).removeprefix('broker ')}",)
            case event_types.LeaderChanged() if event.before is not None or event.leader is None:
                partition = f"{event.lane}-{event.partition}"
                return (f"leader of {partition}: {_broker(event.before)} → {_broker(event.leader)}",)
        return ("",)


@contextmanager
def on_terminal(is_shown: bool, above: Callable[[], str] | None = None) -> Iterator[list[Listener]]:
    """Show runs on the terminal within the block, if `is_shown`. Yields the listeners to use: one, or none."""
    if not is_shown:
        yield []
        return
    with TerminalListener(console(), above) as listener:
        yield [listener]


def connection_lines(event: event_types.ClusterReady | event_types.ClusterKept) -> list[str]:
    """Lines that say how clients reach a cluster: on this machine, and in containers."""
    return [
        f"bootstrap.servers={event.bootstrap_servers}",
        f"in containers of the network {event.network}: bootstrap.servers={event.bootstrap_servers_in_network}",
    ]


def advice_on_kept_cluster(event: event_types.ClusterKept) -> list[str]:
    """Lines that say how to inspect a cluster that was kept, and how to remove it."""
    return [
        f"containers: {', '.join(event.containers)}",
        f"read a broker's log: docker logs {event.containers[-1]}",
        f"open a shell beside its data (/var/lib/kafka): docker exec -it {event.containers[-1]} bash",
        "connect clients:",
        *(f"  {line}" for line in connection_lines(event)),
        *([f"with the client settings in {event.client_config}"] if event.client_config else []),
        "remove it: kafka-chaos clean --kept",
    ]


def _node(node: int | None) -> str:
    return _broker(node) if node is None or node <= CONTROLLER_ID_BASE else f"controller-{node - CONTROLLER_ID_BASE}"


def _broker(broker: int | None) -> str:
    return "nobody" if broker is None else f"broker {broker}"
