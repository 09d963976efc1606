"""One node of an attached cluster: what its commands do to it, and what can be seen of it from here."""

import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from kafka_chaos.contract.command.errors import ClusterFailure
from kafka_chaos.harness.attached.journal import BreakJournal, ShellCommand
from kafka_chaos.harness.attached.nodes_file import Command, NodeEntry
from kafka_chaos.harness.cluster.broker.client import BrokerClient
from kafka_chaos.harness.cluster.broker.login import BrokerUnreachable

RUNNING, FROZEN, DOWN = "running", "frozen", "down"
STATES = (RUNNING, FROZEN, DOWN)
HEALED_BY = {"kill": "start", "stop": "start", "pause": "thaw", "isolate": "mend", "cut": "mend"}
"""The command that undoes another."""
_ANSWER_TIMEOUT = 1.0


@dataclass(eq=False)
class AttachedNode:
    """Implements `kafka_chaos.faults.cluster.NodeControl` by commands.

    `client_address`: where clients reach it, if it is a broker; None for others, of which `state` alone tells.
    """

    name: str
    number: int
    entry: NodeEntry
    journal: BreakJournal
    client_address: str | None = None
    client_configs: Mapping[str, str] = field(default_factory=dict, repr=False)
    inside: None = None
    disk: None = None
    link: None = None
    clock: None = None
    _broken: dict[str, int] = field(default_factory=dict)
    """The faults in effect, by the command that heals each, with its number in the journal."""
    _lock: threading.RLock = field(default_factory=threading.RLock)

    @property
    def address(self) -> str:
        """Its address for the others, as the file has it."""
        return self.entry.address

    def state(self) -> dict[str, Any]:
        """Its `state` command's output, and whether it answers clients: `state`, `answers` (None: it is no broker)."""
        return {"state": self._told(), "answers": self._answers()}

    def is_running(self) -> bool:
        """Whether the process exists, frozen or not."""
        return self._told() != DOWN

    def kill(self) -> None:
        """End the process at once."""
        self._end("kill")

    def stop(self) -> None:
        """End the process in order."""
        self._end("stop")

    def _end(self, command: str) -> None:
        with self._lock:
            if self.is_running():
                self.break_by(command)
                # Who is down is not frozen any more.
                self._forget("thaw")

    def start(self) -> None:
        """Start the process; nothing where it runs."""
        with self._lock:
            if not self.is_running():
                self._run("start")
            self._forget("start")

    def pause(self) -> None:
        """Freeze the process."""
        with self._lock:
            if self._told() == RUNNING:
                self.break_by("pause")

    def unpause(self) -> None:
        """Thaw the process; nothing where it is not frozen."""
        with self._lock:
            if self._told() == FROZEN:
                self._run("thaw")
            self._forget("thaw")

    def break_by(self, command: str, *, peers: Sequence[str] = ()) -> None:
        """Break it by this command. What heals it is in the journal before."""
        with self._lock:
            heals = HEALED_BY[command]
            if heals not in self._broken:
                self._broken[heals] = self.journal.broken(self._command(heals, peers))
            self._run(command, peers=peers)

    def mend(self, peers: Sequence[str] = ()) -> None:
        """Undo cuts; nothing where none was made."""
        with self._lock:
            if "mend" in self._broken:
                self._run("mend", peers=peers)
                self._forget("mend")

    def stopped_packets(self) -> int:
        """How many packets its cut has stopped; raises `ClusterFailure` if the command prints no number."""
        said = self._run("stopped").rpartition("\n")[2].strip()
        if not said.isdigit():
            raise ClusterFailure(f"{self.name}: stopped: expected a number of packets as the last line, got {said!r}")
        return int(said)

    def _told(self) -> str:
        said = self._run("state").rpartition("\n")[2].strip()
        if said not in STATES:
            raise ClusterFailure(f"{self.name}: state: expected {', '.join(STATES)} as the last line, got {said!r}")
        return said

    def _answers(self) -> bool | None:
        """Whether the broker answers a request; None for a node that clients do not talk to."""
        if self.client_address is None:
            return None
        with suppress(BrokerUnreachable):
            # Whoever may log in or not: a broker that runs and is reached says which requests it knows.
            configs = self.client_configs
            with BrokerClient(self.client_address, timeout=_ANSWER_TIMEOUT, configs=configs, login=False) as client:
                return bool(client.metadata_mode())
        return False

    def _forget(self, healed_by: str) -> None:
        number = self._broken.pop(healed_by, None)
        if number is not None:
            self.journal.healed(number)

    def _run(self, command: str, *, peers: Sequence[str] = ()) -> str:
        return self._command(command, peers).run()

    def _command(self, key: str, peers: Sequence[str]) -> ShellCommand:
        command: Command | None = getattr(self.entry, key)
        if command is None:
            raise ClusterFailure(f"{self.name}: there is no command `{key}`")
        of_node = {"NODE": self.name, "NODE_ID": str(self.number), "NODE_ADDRESS": self.address}
        environment = {**of_node, "PEERS": " ".join(peers)}
        return ShellCommand(f"{self.name}: {key}", command.run, command.timeout, environment)
