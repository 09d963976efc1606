"""What a member of a group is told when it begins; one line of JSON on its standard input."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any

ORDER_FREEZE, ORDER_CRASH, ORDER_LEAVE = "freeze", "crash", "leave"
ORDERS = (ORDER_FREEZE, ORDER_CRASH, ORDER_LEAVE)
"""What a member can be told later, one word a line: stop polling for a while, die, or leave in order."""

REPLACE_ME = 3
"""The exit code of a member of which a client failed for good: another one takes its place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputSettings:
    """The output of a loop: the lane that it writes, and how.

    `offsets` as in `Loop`; `size` and `abort` as in `Transactional`. `configs` are the producer's, with transactions
    including its `transactional.id`.
    """

    lane: str
    topic: str
    partitions: int
    record_size: int
    producer_id: int
    configs: dict[str, Any]
    offsets: str
    size: int
    abort: float
    seed: str
    run_directory: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberSettings:
    """A member of `group`, which reads `lane`. `name` begins the names of its assignments.

    `commits` as in `Group`; in a loop, the `output` says when it commits. `freeze_seconds`: how long it does not poll
    when it is told to freeze.
    """

    group: str
    name: str
    lane: str
    topic: str
    configs: dict[str, Any]
    commits: str
    freeze_seconds: float
    output: OutputSettings | None = field(default=None)

    def to_line(self) -> str:
        """One line of JSON."""
        return json.dumps(asdict(self)) + "\n"

    @classmethod
    def from_line(cls, line: str) -> MemberSettings:
        """The settings from that line."""
        values = json.loads(line)
        output = values.pop("output")
        return cls(**values, output=None if output is None else OutputSettings(**output))
