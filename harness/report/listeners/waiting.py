"""Shows a command's progress as a line on a terminal: its step, the part under way, the time passed and the time left.

Without a terminal, only the lines of `Waiting.say` are printed.
"""

import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Self

import click
from rich.console import Console
from rich.live import Live
from rich.text import Text

from kafka_chaos.contract.command.progress import reporting_to


@dataclass
class TimedStep:
    """A step that takes time. `seconds`: how long it takes, if that is known; `part`: its part that is under way."""

    text: str
    seconds: float | None = None
    began_ns: int = field(default_factory=time.monotonic_ns)
    done: int = 0
    total: int = 0
    part: str = ""

    def reach(self, done: int, total: int, part: str) -> None:
        """Note that `done` of `total` parts are complete, and that `part` is the next."""
        self.done, self.total, self.part = done, total, part

    def render(self) -> Text:
        """The line as it is now."""
        passed = (time.monotonic_ns() - self.began_ns) / 1e9
        part = f"{min(self.done + 1, self.total)} of {self.total}: {self.part} " if self.total else ""
        left = "" if self.seconds is None else f", {in_minutes(max(0.0, self.seconds - passed))} left"
        return Text.assemble(("▸ ", "cyan"), f"{self.text} ", (part, "cyan"), (f"({in_minutes(passed)}{left})", "dim"))


class Waiting:
    """A context manager that shows the step under way on standard error, if that is a terminal.

    `text`: the first step.
    """

    def __init__(self, text: str = "", *, console: Console | None = None) -> None:
        self._console = console or Console(stderr=True)
        self._step = TimedStep(text)
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        self._stack.enter_context(reporting_to(self._hear))
        if self._console.is_terminal:
            live = Live(get_renderable=self._render, console=self._console, refresh_per_second=4, transient=True)
            self._stack.enter_context(live)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def say(self, text: str) -> None:
        """Print a line on standard error, and begin the step that it names."""
        click.echo(f"kafka-chaos: {text}", err=True)
        self.begin(text)

    def begin(self, text: str) -> None:
        """Begin a step without printing a line."""
        self._step = TimedStep(text)

    def _hear(self, done: int, total: int, part: str) -> None:
        self._step.reach(done, total, part)

    def _render(self) -> Text:
        return self._step.render() if self._step.text else Text()


def in_minutes(seconds: float) -> str:
    """Seconds in words: 48 s, 3 min 20 s."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
