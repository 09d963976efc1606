"""Errors that end a command, each with its exit code and the one thing to do; the exit codes of all commands."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """What a command ends with. 1 means a violation and nothing else."""

    CONFORMS = 0
    VIOLATION = 1
    UNKNOWN = 2
    ENVIRONMENT = 3
    USAGE = 64
    BUG = 70
    INTERRUPTED = 130


MOST_QUOTED = 80
"""Characters of a value that a message shows."""


def quoted(value: object) -> str:
    """A value as a message quotes it: cut where it would hide what is said about it."""
    text = repr(value)
    return text if len(text) <= MOST_QUOTED else f"{text[: MOST_QUOTED - 1]}…"


def counted(number: int, thing: str) -> str:
    """A number of things in words: 1 run, 2 runs."""
    return f"{number:,} {thing}" if number == 1 else f"{number:,} {thing}s"


class KafkaChaosError(Exception):
    """An error whose message is meant for the user as it is; `exit_code` is what the command ends with."""

    exit_code = ExitCode.ENVIRONMENT


class EnvironmentFailure(KafkaChaosError):
    """The machine lacks something: no Docker, no Java, too little memory, an image that does not build."""


class Interrupted(KafkaChaosError):
    """A signal ended the command; the message says what became of what it had started."""

    exit_code = ExitCode.INTERRUPTED


class UsageFailure(KafkaChaosError):
    """Bad arguments, a bad experiment file or a bad run directory: refused before anything starts."""

    exit_code = ExitCode.USAGE
