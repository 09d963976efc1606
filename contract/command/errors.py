"""The exit codes of all commands, the errors that end a command with one of them, and the parts of their messages."""

import re
from collections.abc import Sequence
from enum import IntEnum

MOST_QUOTED = 80  # the most characters of a value that a message shows
_LONGEST_WORD, _LONGEST_LINE, _LONGEST_MESSAGE = 200, 500, 1900  # characters


class ExitCode(IntEnum):
    """Exit codes: 1 means a violation and nothing else; 64 and 70 mean what they mean in sysexits.h."""

    CONFORMS = 0
    VIOLATION = 1
    UNKNOWN = 2
    ENVIRONMENT = 3
    USAGE = 64
    BUG = 70
    INTERRUPTED = 130


def quoted(value: object) -> str:
    """A value as a message quotes it; the end of a long one is cut off, so that it does not hide the message."""
    text = repr(value)
    return text if len(text) <= MOST_QUOTED else f"{text[: MOST_QUOTED - 1]}…"


def shortened(message: str) -> str:
    """A message at a readable length: long words and lines lose their middle, and a long message its last lines.

    The middle is where a message quotes the user's text, which may have any length. The message's own words stand
    before and after it.
    """
    words = re.sub(rf"\S{{{_LONGEST_WORD + 1},}}", lambda word: _without_middle(word[0], MOST_QUOTED), message)
    lines = [_without_middle(line, _LONGEST_LINE) for line in words.split("\n")]
    shown = list(lines)
    while len(shown) > 1 and len("\n".join(shown)) > _LONGEST_MESSAGE:
        shown.pop()
    dropped = len(lines) - len(shown)
    return "\n".join((*shown, f"… and {counted(dropped, 'more line')}") if dropped else shown)


def _without_middle(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most * 2 // 3]}…{text[len(text) - most // 3 + 1 :]}"


def counted(number: int, thing: str, things: str | None = None) -> str:
    """A count with its noun: 1 run, 2 runs. `things`: the plural, if it takes more than an s."""
    return f"{number:,} {thing if number == 1 else things or thing + 's'}"


def first_line(source: str | BaseException) -> str:
    """The first line of a program's output or of an error's text; of an error without text, the name of its type."""
    line = str(source).strip().partition("\n")[0]
    return type(source).__name__ if isinstance(source, BaseException) and not line else line


def first_of(names: Sequence[str], most: int = 5) -> str:
    """The first `most` names of a list as one text, with "…" where there are more: a, b, …"""
    return ", ".join((*names[:most], "…") if len(names) > most else names)


class KafkaChaosError(Exception):
    """An error whose message is written for the user; the command ends with `exit_code`."""

    exit_code = ExitCode.ENVIRONMENT


class EnvironmentFailure(KafkaChaosError):
    """The machine lacks something: no Docker, no Java, too little memory, an image that does not build."""


class ClusterFailure(KafkaChaosError):
    """A part of a cluster failed or did not answer; a failed container's message has its status and last log lines."""


class WaitTimeout(ClusterFailure):
    """A condition did not come true in time; the message names the condition, and what was seen last."""


class Interrupted(KafkaChaosError):
    """A signal ended the command; the message says whether everything that it started was removed."""

    exit_code = ExitCode.INTERRUPTED


class UsageFailure(KafkaChaosError):
    """Bad arguments, a bad experiment file or a bad run directory: refused before anything starts."""

    exit_code = ExitCode.USAGE

    def __init__(self, message: object = "") -> None:
        super().__init__(shortened(str(message)))


class LaneError(UsageFailure, ValueError):  # pydantic takes a ValueError as a refusal
    """A `value` that the `key` of a lane can't have in any configuration; `expected` describes valid values."""

    def __init__(self, key: str, value: object, expected: str) -> None:
        self.key = key
        self.value = value
        self.expected = expected
        super().__init__(f"{key}: {self.shown} is not valid: expected {expected}")

    @property
    def shown(self) -> str:
        """The value, quoted; true and false as YAML and JSON write them."""
        return str(self.value).lower() if isinstance(self.value, bool) else quoted(self.value)
