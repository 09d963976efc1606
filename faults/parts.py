"""Parts that a node may have besides its process, as Protocols: its inside, its own disk, a link, a clock that moves.

`NodeControl` in `faults/cluster.py` gives them to faults.
"""

from collections.abc import Mapping
from typing import Any, Protocol


class InsideControl(Protocol):
    """The inside of a container: commands that run there, and files."""

    def execute(self, *command: str, in_network: bool = False) -> tuple[int, str]:
        """Run a command inside: exit code and output. If the container is stopped or frozen, the exit code is not 0.

        `in_network`: the command needs no more than the network, and runs where it is frozen, too.
        """

    def must_execute(self, *command: str, in_network: bool = False) -> str:
        """Run a command inside, or only in its network, and return the output; the command has to succeed."""

    def suspend(self) -> None:
        """Let its process do nothing more (SIGSTOP), until it is killed. Unlike after `NodeControl.pause`, commands
        still run inside."""

    def write_file(self, path: str, data: str) -> None:
        """A file inside, running or not; its folder is there already."""

    def read_file(self, path: str) -> bytes:
        """The bytes of a file inside, running or not, as the engine sees it."""

    def file_size(self, path: str) -> int | None:
        """Bytes of a file inside, running or not, as the engine sees it; None where there is none."""

    def read_at(self, path: str, offset: int, length: int) -> bytes:
        """Bytes of a file inside, running or not, as the engine sees it; fewer at its end."""


class DiskControl(Protocol):
    """A disk of its own, which holds a broker's log directories. All actions are idempotent."""

    def freeze(self) -> None:
        """Let every write wait, once all that was written is on the disk."""

    def thaw(self) -> None:
        """Let writes go on."""

    def is_frozen(self) -> bool:
        """Whether writes wait, as the kernel tells."""

    def slow_down(self, pid: int, writes_per_second: int) -> None:
        """Let each write wait until it is on the disk, which takes so many a second of a process's container."""

    def speed_up(self) -> None:
        """Let writes be as fast as they were."""

    def cut_power(self) -> None:
        """Lose what was not flushed by now; nobody can read or write until `power_back`."""

    def power_back(self) -> None:
        """Let what is on the disk be read again. The container's process must be gone."""

    @property
    def loss(self) -> Mapping[str, int] | None:
        """The extent of the last loss of power: `lost_bytes` of segments, `shorter_files`, and `kept_bytes`.

        None if the container has been started since, or if power was never lost.
        """

    def fill(self) -> None:
        """Take all free blocks."""

    def is_filled(self) -> bool:
        """Whether the blocks that `fill` took are taken still."""

    def free_bytes(self) -> int:
        """Bytes that can still be written."""

    def refuse_appends(self, topic: str | None) -> None:
        """Refuse writes to the newest segment of each partition, of one topic or of all; others are taken still."""

    def refused(self) -> Mapping[str, bool]:
        """The segments to which writes were refused since the disk was whole, by name, and whether they are."""

    def fail(self) -> None:
        """Let the file system find an error of its disk: it becomes read-only, and what was not flushed is lost."""

    def refuses_writes(self) -> bool:
        """Whether a write is refused, since the file system is read-only."""


class LinkControl(Protocol):
    """The link that every connection to a node passes. Rules are known by their ids; all actions are idempotent."""

    def apply(self, rule_id: str, **frames: Any) -> None:
        """Let a rule begin: `action`, and which `frames` (see `faults/links/relay/rules.py`)."""

    def lift(self, rule_id: str, *, release: bool) -> None:
        """Let a rule end. What it holds goes on, or (without `release`) is lost with its connection."""

    def tally(self, rule_id: str) -> Mapping[str, Any] | None:
        """How many frames the rule `named` and has `taken` so far, and the first of these, `told`; None where it does
        not apply."""


class ClockControl(Protocol):
    """A wall clock that can be moved, by shifts with names. All actions are idempotent."""

    def shift(self, name: str, *, seconds: float = 0.0, per_second: float = 0.0) -> None:
        """Move the clock by so many seconds, and further with each second that passes."""

    def end(self, name: str) -> None:
        """Move the clock back."""

    def reading(self, name: str) -> Mapping[str, float] | None:
        """How many seconds the process's clock is `ahead` of the true time, as the process itself tells, what is
        `wanted` of it, and by how much of that this shift has `moved` it.

        None where the process is down, or nothing was shifted under this name. Raises where it does not answer.
        """
