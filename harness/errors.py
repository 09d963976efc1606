"""Errors that end a command, each with the exit code that the design gives it and the one thing to do."""

from __future__ import annotations

EXIT_ENVIRONMENT = 3
EXIT_USAGE = 64


class KafkaChaosError(Exception):
    """An error whose message is meant for the user as it stands; `exit_code` is what the command ends with."""

    exit_code = EXIT_ENVIRONMENT


class EnvironmentFailure(KafkaChaosError):
    """The machine lacks something: no Docker, no Java, too little memory, an image that does not build."""


class UsageFailure(KafkaChaosError):
    """Bad arguments or a bad experiment file: refused before anything starts."""

    exit_code = EXIT_USAGE


class ClusterFailure(KafkaChaosError):
    """A container did not do what it was told: the message carries its status and its last log lines."""


class WaitTimeout(ClusterFailure):
    """A named condition did not come true in time; the message says which, and what was seen last."""
