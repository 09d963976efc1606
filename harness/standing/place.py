"""Where clusters that stand are noted, and how a command asks the process that keeps one.

Guarantee: a cluster is noted once it serves, and its note goes with it. The note of a process that died counts as none.
Note and socket are for this user alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from multiprocessing.connection import Client, Connection
from pathlib import Path
from typing import Any

from kafka_chaos.contract.command.errors import EnvironmentFailure, ExitCode, KafkaChaosError, UsageFailure
from kafka_chaos.contract.command.journal import JournalFile, journal_folder, journaled_runs
from kafka_chaos.contract.events import Event
from kafka_chaos.harness.cluster.containers.labels import owner_is_alive

_KIND = "clusters"
SOCKET = "socket"
EVENT, DONE, FAILED = "event", "done", "failed"
"""The kinds of answers: an event on the way, the result, or a refusal with its exit code."""


@dataclass(frozen=True, kw_only=True)
class Standing:
    """A cluster that stands. `cluster`: its layout as an experiment's `cluster` has it. `ports` of the brokers, by id.

    `folder` holds the socket and `client_config`, a file of librdkafka's keys.
    """

    name: str
    described: str
    cluster: dict[str, Any]
    folder: str
    bootstrap_servers: str
    client_config: str
    ports: dict[str, int]
    labels: dict[str, str] = field(repr=False)

    def note(self) -> None:
        """Let others find it."""
        JournalFile(_KIND, self.name).begin(asdict(self))

    def forget(self) -> None:
        """It is no longer there."""
        JournalFile(_KIND, self.name).end()

    def ask(self, what: str, listener: Callable[[Event], None] = lambda _: None, **arguments: Any) -> Any:
        """Let the cluster's process do this, and pass on the events on the way; raises what it refuses with."""
        try:
            with Client(str(Path(self.folder, SOCKET)), "AF_UNIX") as connection:
                connection.send((what, arguments))
                return _answer(connection, listener)
        except (EOFError, OSError) as error:
            raise EnvironmentFailure(
                f"the process that keeps the cluster {self.name} has ended; its last words are in {log_of(self.name)}, "
                "and `kafka-chaos clean` removes what it left"
            ) from error


def _answer(connection: Connection[Any, Any], listener: Callable[[Event], None]) -> Any:
    while True:
        kind, value = connection.recv()
        if kind == EVENT:
            listener(value)
        elif kind == DONE:
            return value
        else:
            message, code = value
            failure = KafkaChaosError(message)
            failure.exit_code = ExitCode(code)
            raise failure


def run_id_of(name: str) -> str:
    """The label of everything that belongs to a cluster of this name."""
    return f"cluster-{name}"


def log_of(name: str) -> Path:
    """The log of the cluster's process."""
    return journal_folder(_KIND) / f"{name}.log"


def standing() -> list[Standing]:
    """All of this user's clusters that stand, by name."""
    found = [JournalFile(_KIND, name).lines() for name in journaled_runs(_KIND)]
    clusters = [Standing(**lines[0]) for lines in found if lines]
    return [one for one in clusters if owner_is_alive(one.labels)]


def find(name: str | None) -> Standing:
    """The cluster of this name, or without one the only one; raises `UsageFailure`."""
    known = standing()
    names = ", ".join(one.name for one in known) or "none: `kafka-chaos cluster up` starts one"
    if name is None and len(known) != 1:
        raise UsageFailure(f"--on: expected the name of a cluster; those that stand: {names}")
    for one in known:
        if name in (None, one.name):
            return one
    raise UsageFailure(f"{name}: no such cluster; those that stand: {names}")
