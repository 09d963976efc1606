"""The line that a terminal shows while a command waits, and what is printed without one."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from kafka_chaos.contract.progress import heard_by, progress
from kafka_chaos.harness.report.listeners.waiting import Waiting, duration


def test_a_terminal_shows_what_is_done_and_how_far_it_is() -> None:
    console = Console(file=io.StringIO(), width=100, force_terminal=True)
    with Waiting("building the image", console=console):
        progress(1, 9, "RUN train")
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "building the image " in text
    assert "2 of 9: RUN train" in text
    assert text.count("\x1b[?25l") == text.count("\x1b[?25h") == 1, "the cursor is hidden and shown again"


def test_without_a_terminal_only_what_is_said_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    with Waiting("nothing of this") as waiting:
        waiting.say("fetching")
        progress(1, 2, "nor of this")
    printed = capsys.readouterr()
    assert (printed.out, printed.err) == ("", "kafka-chaos: fetching\n")


def test_progress_is_heard_within_the_block_alone() -> None:
    heard: list[tuple[int, int, str]] = []
    progress(0, 1, "before")
    with heard_by(lambda *far: heard.append(far)):
        progress(0, 1, "within")
    progress(0, 1, "after")
    assert heard == [(0, 1, "within")]


@pytest.mark.parametrize(("seconds", "words"), [(0.4, "0 s"), (59, "59 s"), (60, "1 min 0 s"), (754, "12 min 34 s")])
def test_durations_as_people_read_them(seconds: float, words: str) -> None:
    assert duration(seconds) == words
