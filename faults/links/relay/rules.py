"""The rules of a link: which frames a rule takes, what happens to them, and how many it has taken so far.

A rule matches frames by their contents and their sender. It takes all the frames that it matches, or only the nth.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from kafka_chaos.faults.cluster import HARNESS_CLIENT_ID
from kafka_chaos.faults.links.relay.contents import Contents
from kafka_chaos.faults.links.relay.frames import Header

HOLD, DELAY, RATE, DROP, CUT = "hold", "delay", "rate", "drop", "cut"
ANSWER, REPEAT, ALTER, STALE = "answer", "repeat", "alter", "stale"
REPLACING_ACTIONS = frozenset({ANSWER, REPEAT, ALTER, STALE})  # these replace a frame, and so need the whole frame
REQUEST, RESPONSE = "request", "response"
CLIENTS = "clients"  # the peer's name for every connection from outside of the cluster's nodes

_MOST_TOLD = 20  # the number of frames that a tally describes


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """Conditions on frames to or from a node, and the `action` on frames that match, such as `hold`.

    All conditions but `side` describe requests; a response matches if its request does. `sender`: the host names of
    nodes that send the request, or `clients` for all others; None: any. `client_id` is in the request's header. `nth`:
    the number of the only frame to take, counted from 1 since the rule was added; None: all. `seconds` is for `delay`,
    `kbit_per_second` for `rate`, `error` (its name) for `answer`, `byte` (counted from a batch's end) for `alter`.
    """

    id: str
    node: str
    action: str
    side: str = REQUEST
    api: str | None = None
    sender: Sequence[str] | None = None
    client_id: str | None = None
    topic: str | None = None
    partition: int | None = None
    transactional_id: str | None = None
    nth: int | None = None
    seconds: float = 0.0
    kbit_per_second: float = 0.0
    error: str = ""
    byte: int = 1

    @property
    def reads_contents(self) -> bool:
        """Whether the rule depends on a request's contents, and not only on its header."""
        return any(value is not None for value in (self.topic, self.partition, self.transactional_id))

    def may_match(self, node: str, header: Header, peer: str) -> bool:
        """Whether the rule may match a request with this header from `peer` to `node`, if its contents match."""
        if node != self.node or self.api not in (None, header.name) or self.client_id not in (None, header.client_id):
            return False
        # What the harness itself observes is evidence, and no client's request or response.
        return header.client_id != HARNESS_CLIENT_ID and (self.sender is None or peer in self.sender)

    def replaces(self, side: str) -> bool:
        """Whether other frames may pass in place of this side's frames."""
        return self.action in REPLACING_ACTIONS and self.side == side

    def matches(self, contents: Contents | None) -> bool:
        """Whether the rule matches a request for which `may_match` is true, by its contents (None: unknown)."""
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
    """A rule at work: how many frames it `matched` and how many of them it has `taken`; `told` describes some."""

    rule: Rule
    matched: int = 0
    taken: int = 0
    told: list[dict[str, Any]] = field(default_factory=list)
    _free_at: float = 0.0
    """When all frames that wait for a `rate` will have passed, by `time.monotonic()`."""

    def waiting_seconds(self, size: int) -> float | None:
        """How long a frame of `size` bytes waits from now on; None: until the rule ends. `rate` reserves the time."""
        if self.rule.action == DELAY:
            return self.rule.seconds
        if self.rule.action != RATE:
            return None
        now = time.monotonic()
        self._free_at = max(now, self._free_at) + size * 8 / (self.rule.kbit_per_second * 1000)
        return self._free_at - now

    def takes(self, header: Header, peer: str, contents: Contents | None) -> bool:
        """Count a frame that the rule matches, and return whether the rule takes it."""
        self.matched += 1
        if self.rule.nth not in (None, self.matched):
            return False
        self.taken += 1
        if len(self.told) < _MOST_TOLD:
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
