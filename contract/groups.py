"""Consumer groups and loops of a lane: their settings, and the names of what may go wrong with them.

A lane with a `group` is read by the members of a consumer group, beside the consumers that read every lane. A lane
with a `loop` is the output of a consume-transform-produce loop: the members of a group read another lane, its `source`,
and each of them writes one record into this lane for every record that it reads.

Sources: KIP-62 (session and poll time-outs), KIP-345 (static members), KIP-429 (cooperative rebalances), KIP-447
(offsets in transactions), KIP-848 (the protocol `consumer`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from enum import StrEnum
from typing import Any

from kafka_chaos.contract.errors import LaneError, counted

RANGE, ROUND_ROBIN, COOPERATIVE = "range", "roundrobin", "cooperative-sticky"
ASSIGNORS = (RANGE, ROUND_ROBIN, COOPERATIVE)

CLASSIC, CONSUMER = "classic", "consumer"
PROTOCOLS = (CLASSIC, CONSUMER)

IN_TRANSACTION, AFTER, BEFORE, AUTO = "transaction", "after", "before", "auto"
COMMITS = (AFTER, BEFORE, AUTO)
"""When a member of a group commits: after it has processed a batch, before it does, or whenever its client does."""
OFFSETS = (IN_TRANSACTION, AFTER, BEFORE)
"""When a loop commits the offsets of its inputs: with the outputs in one transaction, after or before them."""

COMMIT_OUTCOMES = ("ok", "fail", "info")
"""What a member learned of a commit: acknowledged, refused, or neither."""


_WHEN = {AFTER: "commits after processing", BEFORE: "commits before processing", AUTO: "commits automatically"}


class GroupAnomaly(StrEnum):
    """A named deviation from what consumer groups and loops promise. docs/anomalies.md says what counts as one."""

    PROCESSED_TWICE = "processed_twice"
    NOT_PROCESSED = "not_processed"
    COMMIT_LOST = "commit_lost"
    COMMIT_REGRESSED = "commit_regressed"
    SKIPPED_AFTER_REBALANCE = "skipped_after_rebalance"
    OWNED_TWICE = "owned_twice"


OF_LOOPS = (GroupAnomaly.PROCESSED_TWICE, GroupAnomaly.NOT_PROCESSED)
"""These are looked for in the output of a loop."""
OF_GROUPS = tuple(anomaly for anomaly in GroupAnomaly if anomaly not in OF_LOOPS)
"""These are looked for in a lane that a group reads, and, of the group of its loop, in the output of a loop."""


def group_of(lane: str) -> str:
    """The id of the group that reads a lane with a `group`, in `assignments/`, `commits/` and `groups.json`."""
    return f"{lane}-group"


def loop_group_of(lane: str) -> str:
    """The id of the group that feeds a lane with a `loop`.

    In `assignments/` and `commits/`, its rows are rows of the lane that it reads: `lane` is the loop's source.
    """
    return f"{lane}-loop"


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A consumer group, and what its members do beside the faults.

    `members` read with this `assignor` (None with the protocol `consumer`, whose brokers assign). `static` ones have
    a `group.instance.id` each: one that comes back within its session takes over what it had, in the same generation.
    `commits` is one of `COMMITS`. `session_timeout_ms` and `max_poll_interval_ms` are Kafka's time-outs of a member
    that is not heard from, and of one that does not poll. Evenly over the load: `crashes` end a member without its
    leaving, and a new one takes its place; `freezes` keep one from polling longer than `max_poll_interval_ms`, then
    it processes what it had and tries to commit; `joins` add a member, `leaves` end one in order. Raises `LaneError`
    for any other value.
    """

    members: int = 3
    assignor: str | None = COOPERATIVE
    protocol: str = CLASSIC
    static: bool = False
    commits: str = AFTER
    session_timeout_ms: int = 6_000
    max_poll_interval_ms: int = 10_000
    crashes: int = 0
    freezes: int = 0
    joins: int = 0
    leaves: int = 0

    def __post_init__(self) -> None:
        least = {"members": 1, "session_timeout_ms": 1, "max_poll_interval_ms": 1}
        for key in (*least, "crashes", "freezes", "joins", "leaves"):
            value = getattr(self, key)
            if not isinstance(value, int) or isinstance(value, bool) or value < least.get(key, 0):
                raise LaneError(f"group.{key}", value, f"a whole number of at least {least.get(key, 0)}")
        for key, known in {"protocol": PROTOCOLS, "commits": COMMITS}.items():
            _one_of(f"group.{key}", getattr(self, key), known)
        if self.protocol == CLASSIC:
            _one_of("group.assignor", self.assignor, ASSIGNORS)
        elif self.assignor is not None:
            raise LaneError(
                "group.assignor", self.assignor, "none with the protocol consumer: brokers assign (KIP-848)"
            )
        is_static: object = self.static
        if not isinstance(is_static, bool):
            raise LaneError("group.static", is_static, "true or false")
        if self.max_poll_interval_ms < self.session_timeout_ms:
            expected = f"at least session_timeout_ms, {self.session_timeout_ms}"
            raise LaneError("group.max_poll_interval_ms", self.max_poll_interval_ms, expected)
        if self.leaves >= self.members + self.joins:
            expected = f"fewer than the members that there are, {self.members} and {self.joins} that join"
            raise LaneError("group.leaves", self.leaves, expected)

    @classmethod
    def from_json(cls, entry: object) -> Group:
        """The settings from `group` of a lane; unknown keys raise `LaneError`, too."""
        values = _entries("group", entry, cls)
        if values.get("protocol") == CONSUMER:
            values.setdefault("assignor", None)
        return cls(**values)

    @property
    def described(self) -> str:
        """The settings in words, for people."""
        texts = [
            counted(self.members, "static member" if self.static else "member"),
            f"assigned by {self.assignor}" if self.protocol == CLASSIC else "assigned by brokers (KIP-848)",
            _WHEN[self.commits],
            f"session time-out {self.session_timeout_ms / 1000:g} s",
            f"at most {self.max_poll_interval_ms / 1000:g} s between polls",
        ]
        texts += [counted(self.crashes, "crash", "crashes")] if self.crashes else []
        does = {"freeze": self.freezes, "join": self.joins, "leave": self.leaves}
        return ", ".join([*texts, *(counted(count, name) for name, count in does.items() if count)])

    def to_json(self) -> dict[str, Any]:
        """The form of `lanes.json`."""
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Loop:
    """What feeds the output of a consume-transform-produce loop.

    `source` is the lane that the loop reads, `offsets` one of `OFFSETS`, `group` the members that run it (their
    `commits` has no meaning here: `offsets` stands in its place). Every record of the output names the record of the
    source that it was made of, in `source_producer_id` and `source_seq` of `produced/`. A lane whose loop has the
    offsets `transaction` is `transactional`, too: its `size` is how many inputs a transaction takes at most, its
    `abort` the share of transactions that the loop itself aborts. Raises `LaneError` for any other value.
    """

    source: str
    offsets: str = IN_TRANSACTION
    group: Group = field(default_factory=Group)

    def __post_init__(self) -> None:
        source: object = self.source
        if not isinstance(source, str) or not source:
            raise LaneError("loop.source", source, "the name of the lane that the loop reads")
        _one_of("loop.offsets", self.offsets, OFFSETS)
        if self.group.commits != AFTER:
            raise LaneError("loop.group.commits", self.group.commits, "none: loop.offsets says when a loop commits")

    @classmethod
    def from_json(cls, entry: object) -> Loop:
        """The settings from `loop` of a lane; unknown keys raise `LaneError`, too."""
        values = _entries("loop", entry, cls)
        if "source" not in values:
            raise LaneError("loop.source", None, "the name of the lane that the loop reads")
        if "group" in values:
            try:
                values["group"] = Group.from_json(values["group"])
            except LaneError as error:
                raise LaneError(f"loop.{error.key}", error.value, error.expected) from error
        return cls(**values)

    @property
    def described(self) -> str:
        """The settings in words, for people."""
        how = {
            IN_TRANSACTION: "offsets in the transaction",
            AFTER: "offsets committed after the outputs",
            BEFORE: "offsets committed before the outputs",
        }
        return f"a loop over {self.source}, {how[self.offsets]}, {self.group.described}"

    def to_json(self) -> dict[str, Any]:
        """The form of `lanes.json`."""
        return asdict(self)


def _one_of(key: str, value: object, known: tuple[str, ...]) -> None:
    if value not in known:
        raise LaneError(key, value, f"one of {', '.join(known)}")


def _entries(key: str, entry: object, cls: type[Any]) -> dict[str, Any]:
    names = [field.name for field in fields(cls)]
    if not isinstance(entry, Mapping):
        raise LaneError(key, entry, f"a mapping of {', '.join(names)}")
    for name in entry:
        if name not in names:
            raise LaneError(f"{key}.{name}", entry[name], f"no such key; the keys are {', '.join(names)}")
    return dict(entry)
