"""The progress of a command as a line on a terminal: its step, the time so far, how far it is, and how long still.

Elsewhere nothing of it is printed, but the lines that commands say.
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
class Doing:
    """Something that takes time. `seconds`: how long in all, where that is known."""

    text: str
    seconds: float | None = None
    began_ns: int = field(default_factory=time.monotonic_ns)
    done: int = 0
    total: int = 0
    what: str = ""

    def reach(self, done: int, total: int, what: str) -> None:
        """Note how far it is: what comes now is one part of `total`."""
        self.done, self.total, self.what = done, total, what

    def render(self) -> Text:
        """The line as it is now."""
        passed = (time.monotonic_ns() - self.began_ns) / 1e9
        part = f"{min(self.done + 1, self.total)} of {self.total}: {self.what} " if self.total else ""
        left = "" if self.seconds is None else f", {duration(max(0.0, self.seconds - passed))} left"
        return Text.assemble(("▸ ", "cyan"), f"{self.text} ", (part, "cyan"), (f"({duration(passed)}{left})", "dim"))


class Waiting:
    """Shows the line on standard error, if that is a terminal, as a context manager; `text` is what begins with it."""

    def __init__(self, text: str = "", *, console: Console | None = None) -> None:
        self._console = console or Console(stderr=True)
        self._doing = Doing(text)
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
        """Print a line on standard error. What it says begins now."""
        click.echo(f"kafka-chaos: {text}", err=True)
        self.begin(text)

    def begin(self, text: str) -> None:
        """Show that this begins now, without a line of its own."""
        self._doing = Doing(text)

    def _hear(self, done: int, total: int, what: str) -> None:
        self._doing.reach(done, total, what)

    def _render(self) -> Text:
        return self._doing.render() if self._doing.text else Text()


def duration(seconds: float) -> str:
    """Seconds as people read them: 48 s, 3 min 20 s."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
