"""One node of an attached cluster. Commands from the file of nodes break it, heal it, and tell its state."""

import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from kafka_chaos.contract.command.errors import ClusterFailure
from kafka_chaos.harness.attached.journal import BreakJournal, ShellCommand
from kafka_chaos.harness.attached.nodes_file import Command, NodeEntry
from kafka_chaos.harness.cluster.broker.client import BrokerClient, BrokerUnreachable

RUNNING, FROZEN, DOWN = "running", "frozen", "down"
STATES = (RUNNING, FROZEN, DOWN)
HEALED_BY = {"kill": "start", "stop": "start", "pause": "thaw", "isolate": "mend", "cut": "mend"}
"""The healing command of each breaking command."""
_ANSWER_TIMEOUT = 1.0  # seconds


@dataclass(eq=False)
class AttachedNode:
    """Implements `kafka_chaos.faults.cluster.NodeControl` by commands. What containers offer beyond these is None here.

    `client_address`: a broker's address for clients; None for other nodes, which only their `state` command describes.
    """

    name: str
    number: int
    entry: NodeEntry
    journal: BreakJournal
    client_address: str | None = None
    client_configs: Mapping[str, str] = field(default_factory=dict, repr=False)
    shell: None = None
    disk: None = None
    link: None = None
    clock: None = None
    _broken: dict[str, int] = field(default_factory=dict)
    """The journal's numbers of the faults in effect, by the command that heals each."""
    _lock: threading.RLock = field(default_factory=threading.RLock)

    @property
    def address(self) -> str:
        """The node's address for the other nodes, from the file of nodes."""
        return self.entry.address

    def state(self) -> dict[str, Any]:
        """The node's `state` as its command prints it, and whether it `answers` clients (None: not a broker)."""
        return {"state": self._printed_state(), "answers": self._answers()}

    def is_running(self) -> bool:
        """Whether the process exists, frozen or not."""
        return self._printed_state() != DOWN

    def kill(self) -> None:
        """End the process at once."""
        self._end("kill")

    def stop(self) -> None:
        """End the process by a controlled shutdown."""
        self._end("stop")

    def _end(self, command: str) -> None:
        with self._lock:
            if self.is_running():
                self.break_by(command)
                # If the process was frozen, it is gone now: nothing is left to thaw.
                self._forget("thaw")

    def start(self) -> None:
        """Start the process; do nothing if it runs."""
        with self._lock:
            if not self.is_running():
                self._run("start")
            self._forget("start")

    def pause(self) -> None:
        """Freeze the process."""
        with self._lock:
            if self._printed_state() == RUNNING:
                self.break_by("pause")

    def unpause(self) -> None:
        """Thaw the process; do nothing if it is not frozen."""
        with self._lock:
            if self._printed_state() == FROZEN:
                self._run("thaw")
            self._forget("thaw")

    def break_by(self, command: str, *, peers: Sequence[str] = ()) -> None:
        """Note the healing command in the journal, then run the command that breaks the node."""
        with self._lock:
            healing = HEALED_BY[command]
            if healing not in self._broken:
                self._broken[healing] = self.journal.note_broken(self._command(healing, peers))
            self._run(command, peers=peers)

    def mend(self, peers: Sequence[str] = ()) -> None:
        """Undo `isolate` and `cut`; do nothing if the node is not cut off."""
        with self._lock:
            if "mend" in self._broken:
                self._run("mend", peers=peers)
                self._forget("mend")

    def stopped_packets(self) -> int:
        """How many packets the command `cut` has stopped; raises `ClusterFailure` if the command prints no number."""
        last_line = self._run("stopped").rpartition("\n")[2].strip()
        if not last_line.isdigit():
            expected = "expected a number of packets as the last line"
            raise ClusterFailure(f"{self.name}: stopped: {expected}, got {last_line!r}")
        return int(last_line)

    def _printed_state(self) -> str:
        state = self._run("state").rpartition("\n")[2].strip()
        if state not in STATES:
            raise ClusterFailure(f"{self.name}: state: expected {', '.join(STATES)} as the last line, got {state!r}")
        return state

    def _answers(self) -> bool | None:
        """Whether the broker answers a request; None for a node that clients do not talk to."""
        if self.client_address is None:
            return None
        with suppress(BrokerUnreachable):
            # `metadata_mode` asks for ApiVersions, which every broker answers, with or without a login.
            configs = self.client_configs
            with BrokerClient(self.client_address, timeout=_ANSWER_TIMEOUT, configs=configs, login=False) as client:
                client.metadata_mode()
                return True
        return False

    def _forget(self, healed_by: str) -> None:
        """Note in the journal that nothing is left for this healing command to do."""
        number = self._broken.pop(healed_by, None)
        if number is not None:
            self.journal.note_healed(number)

    def _run(self, command: str, *, peers: Sequence[str] = ()) -> str:
        return self._command(command, peers).run()

    def _command(self, key: str, peers: Sequence[str]) -> ShellCommand:
        command: Command | None = getattr(self.entry, key)
        if command is None:
            raise ClusterFailure(f"{self.name}: there is no command `{key}`")
        node = {"NODE": self.name, "NODE_ID": str(self.number), "NODE_ADDRESS": self.address, "PEERS": " ".join(peers)}
        return ShellCommand(f"{self.name}: {key}", command.run, command.timeout, node)
