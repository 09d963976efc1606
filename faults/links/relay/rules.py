"""The rules of a link: which frames, which action, and how many so far.

A rule names frames by what they are and who sends them. Of those that it names it takes all, or the nth alone.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from kafka_chaos.faults.links.relay.contents import Contents
from kafka_chaos.faults.links.relay.frames import Header

HOLD, DELAY, RATE, DROP, CUT = "hold", "delay", "rate", "drop", "cut"
REQUEST, RESPONSE = "request", "response"
CLIENTS = "clients"
"""Everybody who is no node of the cluster."""

_TOLD = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """Frames to or from a node, and what happens to them.

    `sender`: host names of the nodes whose requests are meant, and `clients` for everybody else; empty: whoever sends.
    `client_id`: the sender's, as the request's header has it. `nth`: which of the frames that are named, counted from 1
    since the rule came; None: all. `seconds` belong to `delay`,
    `kbit_per_second` to `rate`. A response belongs to the request that it answers: the
    rule names it by that.
    """

    id: str
    node: str
    action: str
    side: str = REQUEST
    api: str | None = None
    sender: Sequence[str] = ()
    client_id: str | None = None
    topic: str | None = None
    partition: int | None = None
    transactional_id: str | None = None
    nth: int | None = None
    seconds: float = 0.0
    kbit_per_second: float = 0.0

    @property
    def reads_contents(self) -> bool:
        """Whether a header is not enough to decide."""
        return any(one is not None for one in (self.topic, self.partition, self.transactional_id))

    def may_name(self, node: str, header: Header, peer: str) -> bool:
        """Whether it may name an exchange that begins with this header, whatever its contents are."""
        if node != self.node or self.api not in (None, header.name) or self.client_id not in (None, header.client_id):
            return False
        return not self.sender or peer in self.sender or (CLIENTS in self.sender and peer == CLIENTS)

    def names(self, contents: Contents | None) -> bool:
        """Whether it names an exchange that it may name, by its contents (None: unknown)."""
        if not self.reads_contents:
            return True
        if contents is None:
            return False
        if self.transactional_id is not None and self.transactional_id not in contents.transactional_ids:
            return False
        if self.topic is None and self.partition is None:
            return True
        return any(
            self.topic in (None, topic) and self.partition in (None, partition)
            for topic, partition in contents.partitions
        )


@dataclass(slots=True)
class Tally:
    """A rule at work: how many frames it named and took; `told` describes the first of those taken."""

    rule: Rule
    named: int = 0
    taken: int = 0
    told: list[dict[str, Any]] = field(default_factory=list)
    _free_at: float = 0.0

    def seconds_of(self, size: int) -> float | None:
        """How long a frame of this size, in bytes, waits from now on; None: until somebody lets it go on."""
        if self.rule.action == DELAY:
            return self.rule.seconds
        if self.rule.action != RATE:
            return None
        now = time.monotonic()
        self._free_at = max(now, self._free_at) + size * 8 / (self.rule.kbit_per_second * 1000)
        return self._free_at - now

    def takes(self, header: Header, peer: str, contents: Contents | None) -> bool:
        """Count a frame that the rule names, and decide whether it is taken."""
        self.named += 1
        if self.rule.nth not in (None, self.named):
            return False
        self.taken += 1
        if len(self.told) < _TOLD:
            self.told.append(
                {
                    "api": header.name,
                    "version": header.version,
                    "correlation_id": header.correlation_id,
                    "client_id": header.client_id,
                    "sender": peer,
                    "detail": {} if contents is None else dict(contents.detail),
                }
            )
        return True

    def to_json(self) -> dict[str, Any]:
        """As a JSON object."""
        return {"named": self.named, "taken": self.taken, "told": self.told}
