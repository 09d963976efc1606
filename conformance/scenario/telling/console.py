"""The story of scenarios on a terminal: a sentence per step, what it changed, and what must hold.

Without a terminal, only whole lines are printed, so that a CI log stays readable. A scenario's first run is printed in
full. A later run is printed in full only if it does not conform, and otherwise as one line.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Self

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from kafka_chaos.conformance.scenario.record import TRANSACTIONS_ACT, ActRecord, ScenarioRecord, StepRecord, json_value
from kafka_chaos.conformance.scenario.runner import tallies
from kafka_chaos.conformance.scenario.telling.words import group_lines, tell_change, tell_difference
from kafka_chaos.contract.command.command_line import plain_table
from kafka_chaos.contract.command.errors import counted
from kafka_chaos.harness.report.listeners.waiting import Waiting

_DIFFERENCE_STYLE = "bold red"
_STYLES = {"conforms": "green", "unknown": "yellow", "violation": _DIFFERENCE_STYLE}
_INDENT = 5  # columns
_LONGEST_VALUE = 1200  # characters


class ConsoleReporter:
    """A listener that prints the events of scenarios. Its `with` block shows a status line until all runs are over."""

    def __init__(self, out: Console, *, runs: int = 1, repeat: int = 1) -> None:
        self._out = out
        self._total_runs, self._runs_begun, self._act = runs, 0, ""
        self._repeat = repeat
        self._waiting = Waiting("starting", console=out)
        self._run = 0
        self._scenario: str | None = None
        self._held_events: list[tuple[str, Any]] = []

    def __enter__(self) -> Self:
        self._waiting.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._waiting.__exit__()

    def __call__(self, kind: str, event: Any) -> None:
        """Print an event. The events of a scenario's later runs are held back until the run's verdict is known."""
        if kind == "scenario":
            self._run = self._run + 1 if event.id == self._scenario else 1
            self._scenario = event.id
        self._show_status(kind, event)
        if self._run > 1:
            self._held_events.append((kind, event))
            if kind == "verdict":
                held, self._held_events = self._held_events, []
                if event.verdict == "conforms":
                    self._print(Text.assemble(f"{event.scenario}, {self._run_of_scenario()}: ", _verdict(event)))
                    held = []
                for held_kind, held_event in held:
                    self._print_event(held_kind, held_event)
        else:
            self._print_event(kind, event)

    def _print_event(self, kind: str, event: Any) -> None:
        match kind:
            case "scenario":
                run = f" ({self._run_of_scenario()})" if self._repeat > 1 else ""
                source = f"Documented in: {event.source.document.title}, “{event.source.section}”"
                self._print(Text.assemble((event.id, "bold"), run))
                self._print(Text(event.title, "bold"), indent=2)
                self._print(Text(event.story), indent=2)
                self._print(Text(source, "dim"), indent=2)
            case "act":
                compared = "transactions" if event.kind == TRANSACTIONS_ACT else "truncation"
                title = f"{event.name}  (cluster: {event.profile}; {compared}: {event.protocol})"
                self._print("")
                self._print(Rule(Text(title, "bold"), align="left", style="dim"))
            case "step":
                self._print_step(*event)
            case "expectation":
                seen = "" if event.seen is True else f": {_compact(event.seen)}"
                if event.holds:
                    self._print(Text.assemble(("✓ ", "green"), event.text, (seen, "dim")), indent=_INDENT - 2)
                else:
                    differs = f"expected {_compact(event.expected)}, observed {_compact(event.seen)}"
                    self._print(Text(f"✗ {event.text}: {differs}", _DIFFERENCE_STYLE), indent=_INDENT - 2)
            case "fact":
                self._print_fact(*event)
            case "verdict":
                self._print(Text.assemble(f"{event.scenario}: ", _verdict(event)))
                if event.reason and not _was_printed(event):
                    self._print(Text(event.reason, _STYLES[event.verdict]), indent=2)
                self._print("")

    def _print_step(self, act: ActRecord, step: StepRecord) -> None:
        before = next((earlier.observation for earlier in reversed(act.steps) if earlier.number < step.number), None)
        timing = f"  {step.seconds:.1f} s, {counted(step.allowed_states, 'state')} allowed"
        self._print("")
        self._print(Text.assemble((f"{step.number:3}. ", "dim"), (step.sentence, "bold"), (timing, "dim")))
        seen = step.observation
        group_changed = before is None or (before.group, before.shares) != (seen.group, seen.shares)
        changes = [*tell_change(act, before, seen), *(group_lines(step) if group_changed else ())]
        for change in changes:
            self._print(Text(change), indent=_INDENT)
        for difference in step.differences:
            self._print(Text(f"✗ {tell_difference(act, difference)}", _DIFFERENCE_STYLE), indent=_INDENT)
        if not changes and not step.differences:
            self._print(Text("nothing changed", "dim"), indent=_INDENT)

    def _print_fact(self, name: str, value: Any) -> None:
        rows, lines = table_rows(json_value(value)) or (), text_lines(json_value(value)) or ()
        inline = "" if rows or lines else f" {_compact(value)}"
        self._print(Text.assemble(("• ", "cyan"), f"{name}:", (inline, "cyan")), indent=_INDENT - 2)
        for line in lines or ["  ".join(f"{key}: {_compact(cell)}" for key, cell in row.items()) for row in rows]:
            self._print(Text(_compact(line), "cyan"), indent=_INDENT)

    def _show_status(self, kind: str, event: Any) -> None:
        """Show on the status line which part of a run begins, and count its seconds from here."""
        if kind == "scenario":
            self._runs_begun, self._act, step = self._runs_begun + 1, "its cluster", ""
        elif kind == "act":
            self._act, step = event.name, ""
        elif kind == "step":
            step = f", after step {event[1].number}"
        else:
            return
        progress = f"{self._runs_begun} of {self._total_runs}: " if self._total_runs > 1 else ""
        self._waiting.begin(f"{progress}{self._scenario}: {self._act}{step}")

    def _run_of_scenario(self) -> str:
        return f"run {self._run} of {self._repeat}"

    def _print(self, text: RenderableType, *, indent: int = 0) -> None:
        self._out.print(Padding(text, (0, 0, 0, indent), expand=False) if indent else text)


def summary(records: Sequence[ScenarioRecord]) -> Table:
    """A row per scenario: the verdicts of its runs, and the least, median and most seconds."""
    numbers = ("conforms", "violation", "unknown", "min s", "median s", "max s")
    table = plain_table("scenario", "verdict", *numbers, right=numbers, wrapped="scenario")
    for name, tally in tallies(records).items():
        by_verdict = (tally.conforms, tally.violation, tally.unknown)
        counts = [f"{count}/{tally.runs}" if count else "" for count in by_verdict]
        times = [f"{seconds:.1f}" for seconds in tally.to_json()["seconds"].values()]
        table.add_row(name, Text(tally.verdict.value, _STYLES[tally.verdict.value]), *counts, *times)
    return table


def _was_printed(record: ScenarioRecord) -> bool:
    """Whether the reason of a violation was printed already, as differences or as an expectation."""
    act = record.acts[-1] if record.acts else None
    if act is None or record.verdict != "violation":
        return False
    differs = bool(act.steps) and bool(act.steps[-1].differences)
    return differs or (bool(act.expectations) and not act.expectations[-1].holds)


def _verdict(record: ScenarioRecord) -> Text:
    return Text.assemble((record.verdict, _STYLES[record.verdict]), f" in {record.seconds:.1f} s")


def _compact(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(json_value(value), ensure_ascii=False)
    return text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}… (in full with --json and --out)"


def table_rows(value: Any) -> Sequence[Mapping[str, Any]] | None:
    """A JSON value as rows of one table if it is a list of objects with equal keys, else None."""
    if not isinstance(value, list) or not value or not all(isinstance(row, dict) and row for row in value):
        return None
    return value if all(list(row) == list(value[0]) for row in value) else None


def text_lines(value: Any) -> list[str] | None:
    """A JSON value as quoted lines if it is a text of several lines or a list of sentences, else None."""
    if isinstance(value, str):
        lines = value.strip("\n").splitlines()
        return lines if len(lines) > 1 else None
    if isinstance(value, list) and value and all(isinstance(line, str) and " " in line for line in value):
        return value
    return None
