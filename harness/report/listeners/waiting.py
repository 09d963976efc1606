"""The progress of a command as a line on a terminal: its step, how far it is, the time so far, and the time left.

Without a terminal only the lines of `Waiting.say` are printed.
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
class Activity:
    """Something that takes time. `seconds`: how long it takes, where that is known."""

    text: str
    seconds: float | None = None
    began_ns: int = field(default_factory=time.monotonic_ns)
    done: int = 0
    total: int = 0
    what: str = ""

    def reach(self, done: int, total: int, what: str) -> None:
        """Note that `done` of `total` parts are complete, and that the next is `what`."""
        self.done, self.total, self.what = done, total, what

    def render(self) -> Text:
        """The line as it is now."""
        passed = (time.monotonic_ns() - self.began_ns) / 1e9
        part = f"{min(self.done + 1, self.total)} of {self.total}: {self.what} " if self.total else ""
        left = "" if self.seconds is None else f", {duration(max(0.0, self.seconds - passed))} left"
        return Text.assemble(("▸ ", "cyan"), f"{self.text} ", (part, "cyan"), (f"({duration(passed)}{left})", "dim"))


class Waiting:
    """A context manager that shows the line on standard error, if that is a terminal. `text`: the first step."""

    def __init__(self, text: str = "", *, console: Console | None = None) -> None:
        self._console = console or Console(stderr=True)
        self._activity = Activity(text)
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
        self._activity = Activity(text)

    def _hear(self, done: int, total: int, what: str) -> None:
        self._activity.reach(done, total, what)

    def _render(self) -> Text:
        return self._activity.render() if self._activity.text else Text()


def duration(seconds: float) -> str:
    """Seconds as people read them: 48 s, 3 min 20 s."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
