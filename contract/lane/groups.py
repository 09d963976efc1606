"""Consumer groups and loops of a lane: their settings, and the names of what may go wrong with them.

A lane with a `group` is read by the members of a consumer group, beside the consumers that read every lane. A lane
with a `loop` is the output of a consume-transform-produce loop: the members of a group read another lane, its `source`,
and each of them writes one record into this lane for every record that it reads.

Sources: KIP-62 (session and poll time-outs), KIP-345 (static members), KIP-429 (cooperative rebalances), KIP-447
(offsets in transactions), KIP-848 (the protocol `consumer`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from kafka_chaos.contract.anomalies import AnomalyName, Trait
from kafka_chaos.contract.command.errors import LaneError, counted
from kafka_chaos.contract.lane.settings import Settings, check, checked_object, key, setting

RANGE, ROUND_ROBIN, COOPERATIVE = "range", "roundrobin", "cooperative-sticky"
ASSIGNORS = (RANGE, ROUND_ROBIN, COOPERATIVE)

CLASSIC, CONSUMER = "classic", "consumer"
PROTOCOLS = (CLASSIC, CONSUMER)
EARLIEST, LATEST = "earliest", "latest"
RESETS = (EARLIEST, LATEST)
"""`none` is missing, because a group whose topic is new has committed nothing: no member could begin."""

IN_TRANSACTION, AFTER, BEFORE, AUTO = "transaction", "after", "before", "auto"
COMMITS = (AFTER, BEFORE, AUTO)
"""When a member of a group commits: after it has processed a batch, before it does, or whenever its client does."""
OFFSETS = (IN_TRANSACTION, AFTER, BEFORE)
"""When a loop commits the offsets of its inputs: with the outputs in one transaction, after or before them."""

COMMIT_OUTCOMES = ("ok", "fail", "info")
"""The outcomes of a commit for its member: acknowledged, refused, or neither."""

_IN_WORDS = {AFTER: "commits after processing", BEFORE: "commits before processing", AUTO: "commits automatically"}


class GroupAnomaly(AnomalyName):
    """A named deviation from what consumer groups and loops promise. docs/anomalies.md says what counts as a case."""

    PROCESSED_TWICE = "processed_twice", "an input record for which a loop wrote two or more outputs", Trait.BY_LOG
    NOT_PROCESSED = (
        "not_processed",
        "an input record for which a loop wrote no output, though its offset was committed",
        Trait.BY_LOG | Trait.BY_COMMITS,
    )
    COMMIT_LOST = "commit_lost", "a group resumed from a lower offset than an acknowledged commit", Trait.BY_COMMITS
    COMMIT_REGRESSED = "commit_regressed", "a committed offset lower than one before it", Trait.BY_COMMITS
    SKIPPED_AFTER_REBALANCE = (
        "skipped_after_rebalance",
        "a record that no member processed, though the group committed a later offset",
        Trait.BY_LOG | Trait.BY_COMMITS,
    )
    OWNED_TWICE = "owned_twice", "a partition with two owners in one generation"


LOOP_ANOMALIES = (GroupAnomaly.PROCESSED_TWICE, GroupAnomaly.NOT_PROCESSED)
"""The anomalies that are looked for in the output of a loop only."""
GROUP_ANOMALIES = tuple(anomaly for anomaly in GroupAnomaly if anomaly not in LOOP_ANOMALIES)
"""The anomalies of groups, looked for in the lane that a group reads; for a loop's group, in the loop's output."""


def group_of(lane: str) -> str:
    """The id of the group that reads a lane with a `group`, in `assignments/`, `commits/` and `groups.json`."""
    return f"{lane}-group"


def loop_group_of(lane: str) -> str:
    """The id of the group that feeds a lane with a `loop`.

    In `assignments/` and `commits/`, its rows are rows of the lane that it reads: `lane` is the loop's source.
    """
    return f"{lane}-loop"


JOINS = key("members that join during the first half of the load", least=0, le=50)
LEAVES = key("members that leave cleanly, by closing their consumers, in the second half of the load", least=0, le=50)
"""The keys `joins` and `leaves`, which consumer groups and share groups have."""


def check_leaves(group_key: str, members: int, joins: int, leaves: int) -> None:
    """Raise `LaneError` if all members of a group would leave: one member has to stay."""
    if leaves >= members + joins:
        expected = f"fewer than {members + joins}, the sum of the {members} members and the {joins} that join"
        raise LaneError(f"{group_key}.leaves", leaves, expected)


@dataclass(frozen=True, slots=True, kw_only=True)
class Group(Settings):
    """A consumer group, and how its members come, go and hang without any fault.

    A static member that comes back within its session keeps its partitions, in the same generation. Raises `LaneError`
    for values that no group could have.
    """

    KEY = "group"

    members: int = setting(3, "members of the group at the beginning", le=50)
    assignor: str | None = setting(
        COOPERATIVE,
        "`partition.assignment.strategy`: range, roundrobin or cooperative-sticky; none with the protocol "
        "`consumer`, since brokers assign then",
        choices=ASSIGNORS,
    )
    protocol: str = setting(
        CLASSIC,
        "`group.protocol`: `classic`, or `consumer` (KIP-848, Kafka 4.0 and later in KRaft mode)",
        choices=PROTOCOLS,
    )
    static: bool = setting(False, "whether each member has a `group.instance.id`")
    commits: str = setting(
        AFTER,
        "when a member commits: `after` processing a batch, `before` it, or `auto` (by its client, every second)",
        choices=COMMITS,
    )
    reset: str = setting(
        EARLIEST,
        "`auto.offset.reset`: where members begin without a committed offset, `earliest` or `latest`; with `latest` "
        "they skip what was written before they began, including the first records of a partition added later",
        choices=RESETS,
    )
    session_timeout_ms: int = setting(
        6_000, "`session.timeout.ms`: after this time without a heartbeat, a member is removed", ge=1_000
    )
    max_poll_interval_ms: int = setting(
        10_000, "`max.poll.interval.ms`: after this time without a poll, a member leaves"
    )
    crashes: int = setting(
        0,
        "how often, evenly over the load, a member is killed amid a batch; a new one takes its place",
        least=0,
        le=1_000,
    )
    freezes: int = setting(
        0,
        "how often, evenly over the load, a member does not poll for longer than `max_poll_interval_ms`; then it "
        "processes what it had and tries to commit",
        least=0,
        le=1_000,
    )
    joins: int = field(default=0, metadata=JOINS)
    leaves: int = field(default=0, metadata=LEAVES)

    def __post_init__(self) -> None:
        check(self, "group.")
        if self.protocol == CLASSIC and self.assignor is None:
            raise LaneError("group.assignor", self.assignor, f"one of {', '.join(ASSIGNORS)}")
        if self.protocol == CONSUMER and self.assignor is not None:
            raise LaneError(
                "group.assignor", self.assignor, "none with the protocol consumer: brokers assign (KIP-848)"
            )
        if self.max_poll_interval_ms < self.session_timeout_ms:
            expected = f"at least session_timeout_ms, {self.session_timeout_ms}"
            raise LaneError("group.max_poll_interval_ms", self.max_poll_interval_ms, expected)
        check_leaves("group", self.members, self.joins, self.leaves)

    @classmethod
    def from_json(cls, entry: object) -> Group:
        """The settings from `group` of a lane; unknown keys raise `LaneError`, too."""
        return cls(**with_default_assignor(checked_object(cls, entry, cls.KEY)))

    @property
    def described(self) -> str:
        """The settings in words, for people."""
        texts = [
            counted(self.members, "static member" if self.static else "member"),
            f"assigned by {self.assignor}" if self.protocol == CLASSIC else "assigned by brokers (KIP-848)",
            _IN_WORDS[self.commits],
            f"session time-out {self.session_timeout_ms / 1000:g} s",
            f"at most {self.max_poll_interval_ms / 1000:g} s between polls",
        ]
        texts += ["beginning at the end"] if self.reset == LATEST else []
        texts += [counted(self.crashes, "crash", "crashes")] if self.crashes else []
        counts = {"freeze": self.freezes, "join": self.joins, "leave": self.leaves}
        return ", ".join([*texts, *(counted(count, name) for name, count in counts.items() if count)])


@dataclass(frozen=True, slots=True, kw_only=True)
class Loop(Settings):
    """The input and the group of a consume-transform-produce loop, whose output is the lane.

    In `produced/`, every record of the output names the record of the source that it was made from: its
    `source_producer_id` and `source_seq`. With `offsets: transaction`, the lane is `transactional`, too. Then
    `size` limits the inputs of a transaction, and `abort` is the share of transactions that the loop itself aborts.
    Raises `LaneError` for values that no loop could have.
    """

    KEY = "loop"

    source: str = field(
        metadata=key(
            "the lane that the loop reads; it has no loop itself, and is in the same phase",
            expected="the name of the lane that the loop reads",
        )
    )
    offsets: str = setting(
        IN_TRANSACTION,
        "when the loop commits the offsets of its inputs: in the `transaction` of the outputs, `after` they are "
        "acknowledged, or `before` they are sent",
        choices=OFFSETS,
    )
    group: Group = field(default_factory=Group, metadata=key("the loop's members; `offsets` replaces `commits`"))

    def __post_init__(self) -> None:
        check(self, "loop.")
        if self.group.commits != AFTER:
            raise LaneError("loop.group.commits", self.group.commits, "none: loop.offsets says when a loop commits")

    @classmethod
    def from_json(cls, entry: object) -> Loop:
        """The settings from `loop` of a lane; unknown keys raise `LaneError`, too."""
        values = checked_object(cls, entry, cls.KEY)
        if "group" in values:
            try:
                values["group"] = Group.from_json(values["group"])
            except LaneError as error:
                raise LaneError(f"loop.{error.key}", error.value, error.expected) from error
        return cls(**values)

    @property
    def described(self) -> str:
        """The settings in words, for people."""
        when_committed = {
            IN_TRANSACTION: "offsets in the transaction",
            AFTER: "offsets committed after the outputs",
            BEFORE: "offsets committed before the outputs",
        }
        return f"a loop over {self.source}, {when_committed[self.offsets]}, {self.group.described}"


def with_default_assignor(group: dict[str, Any]) -> dict[str, Any]:
    """The keys of a group; if `assignor` is missing, it is None with the protocol `consumer`, since brokers assign."""
    return {"assignor": None, **group} if group.get("protocol") == CONSUMER else group
